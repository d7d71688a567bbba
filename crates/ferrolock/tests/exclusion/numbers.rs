//! A field number is never used again after its release.

use std::collections::HashSet;
use std::time::Duration;

use ferrolock::{Client, Owner};
use testkit::{LIMIT, Server};

use crate::stage::{Party, Stage};

stories!(no_number_is_used_for_two_tenures);
server_stories!(no_field_is_written_after_it_was_removed);

/// Takes and releases the lock in a way that depends on the round; returns the number of this tenure.
async fn tenure(client: &Party, owner: &Owner, round: usize) -> u64 {
    let lock = client.lock("x").owned_by(owner);
    let guard = lock.lock().await.unwrap();
    let number = guard.owner_id().unwrap().number();
    match round % 6 {
        0 => drop(guard),
        1 => {
            let inner = guard.relock().await.unwrap();
            assert_eq!(inner.owner_id(), guard.owner_id());
            drop(guard);
            inner.unlock().await.unwrap();
        }
        2 => {
            client.lock("x").force_unlock().await.unwrap();
            guard.unlock().await.unwrap_err();
        }
        3 => guard.unlock_after(Duration::from_millis(5)).await.unwrap(),
        4 => {
            assert!(client.lock("x").try_lock().await.unwrap().is_none());
            guard.unlock().await.unwrap();
        }
        _ => drop(guard.unlock().await.unwrap()),
    }
    number
}

async fn no_number_is_used_for_two_tenures(stage: &Stage) {
    let client = stage.client().await;
    let owners = [Owner::new(), Owner::new()];
    let mut seen = HashSet::new();

    for round in 0..300 {
        let number = tenure(&client, &owners[round % 2], round).await;
        assert!(seen.insert(number), "{number} came back in round {round}");
    }
}

/// According to the server's own record, with four tasks of two owners at once.
async fn no_field_is_written_after_it_was_removed(server: &Server) {
    let client = Client::connect(server.url()).await.unwrap();
    let monitor = server.monitor();
    let owners = [Owner::new(), Owner::new()];
    let tasks: Vec<_> = (0..4)
        .map(|task| {
            let (client, owner) = (client.clone(), owners[task % 2].clone());
            tokio::spawn(async move {
                for round in 0..50 {
                    let lock = client.lock("x").owned_by(&owner);
                    let guard = lock.lock().await.unwrap();
                    if (round + task) % 3 == 0 {
                        drop(guard);
                    } else {
                        guard.unlock().await.unwrap();
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    client.shutdown(LIMIT).await.unwrap();
    server.command(&["PUBLISH", "the end", "of it"]);
    monitor.wait_for(|line| line.contains("the end"), LIMIT);

    let (mut removed, mut written) = (HashSet::new(), 0);
    for line in monitor.lines() {
        let words: Vec<_> = line.split('"').skip(1).step_by(2).collect();
        match words.as_slice() {
            ["HSET", "x", field, _count] => {
                written += 1;
                assert!(!removed.contains(*field), "{field} came back: {line}");
            }
            ["HDEL", "x", field] => drop(removed.insert((*field).to_owned())),
            _ => {}
        }
    }
    eprintln!("{} tenures, {written} writes of a count", removed.len());
    assert!(removed.len() > 1 && written >= 200 - removed.len());
    assert_eq!(server.keys(), Vec::<String>::new());
}
