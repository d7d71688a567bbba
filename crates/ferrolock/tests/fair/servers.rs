//! What only a server shows: it stands still, it is full, and its queue can be read.

use std::time::Duration;

use ferrolock::Client;
use testkit::{Kind, Reply, Server};
use tokio::time::Instant;

use crate::stage::{ms, unique};
use crate::support::queues;

on_each_server!(
    a_server_that_stood_still_keeps_the_queue,
    a_full_server_takes_releases_and_leaves,
    the_rights_that_the_manual_lists_for_fair_locks_are_enough,
    behind_a_head_of_redisson_a_free_lock_is_asked_for_no_more_than_three_times_a_second,
);

fn queue(server: &Server, name: &str) -> Reply {
    let key = format!("redisson_lock_queue:{{{name}}}");
    server.command(&["LRANGE", &key, "0", "-1"])
}

async fn a_server_that_stood_still_keeps_the_queue(kind: Kind) {
    let (server, name) = (Server::start(kind), unique("a"));
    let us = Client::connect(server.url()).await.unwrap();
    let them = Client::connect(server.url()).await.unwrap();
    let held = us
        .fair_lock(&name)
        .watchdog_lease(Duration::from_secs(60))
        .lock()
        .await
        .unwrap();
    let mut waiters = Vec::new();
    for client in [&them, &us, &them, &us] {
        waiters.push(queues(client, &name).await);
    }
    let before = queue(&server, &name);

    server.stop_signal();
    tokio::time::sleep(Duration::from_secs(8)).await;
    server.cont_signal();
    tokio::time::sleep(Duration::from_secs(2)).await;

    assert_eq!(queue(&server, &name), before);
    let begun = Instant::now();
    held.unlock().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap().unlock().await.unwrap();
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
}

/// What gives memory back is never refused, nor what a waiter needs that has its place already.
async fn a_full_server_takes_releases_and_leaves(kind: Kind) {
    let server = Server::builder(kind)
        .config("maxmemory-policy noeviction")
        .start();
    let name = unique("a");
    let us = Client::connect(server.url()).await.unwrap();
    let them = Client::connect(server.url()).await.unwrap();
    let held = us.fair_lock(&name).lock().await.unwrap();
    let gone = queues(&them, &name).await;
    let stays = queues(&them, &name).await;
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);

    gone.abort();
    let has_left = async || queue(&server, &name).texts().len() == 1;
    testkit::eventually_async(testkit::LIMIT, "the one that goes has left", has_left).await;
    // The other one beats, and keeps its place.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(!stays.is_finished());
    held.unlock().await.unwrap();

    stays.await.unwrap().unlock().await.unwrap();
    let error = us.fair_lock(&name).lock().await.unwrap_err();
    assert_eq!(error.code(), Some("OOM"), "a new one is refused");
}

/// The second user in docs/operations.md.
async fn the_rights_that_the_manual_lists_for_fair_locks_are_enough(kind: Kind) {
    let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    let user = manual.lines().find(|line| line.starts_with("user fair "));
    let user = user.and_then(|line| line.strip_prefix("user ")).unwrap();
    let server = Server::builder(kind).acl(user).start();
    let url = format!("redis://fair:secret@127.0.0.1:{}", server.port());
    let builder = Client::builder().url(url).name("worker");
    let us = builder.connect().await.unwrap();
    // Another library waits too: each side is told on its own channel, and every branch of the scripts is taken.
    let name = "orders/42";
    let queue = "redisson_lock_queue:{orders/42}";
    let java = "cccccccc-cccc-4ccc-cccc-cccccccccccc:1";
    let held = us.fair_lock(name).lock().await.unwrap();
    let waiters = [queues(&us, name).await, queues(&us, name).await];
    server.command(&["RPUSH", queue, java]);
    let gone = queues(&us, name).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    gone.abort();
    assert_eq!(us.fair_lock(name).holders().await.unwrap().len(), 1);
    assert!(us.fair_lock(name).try_lock().await.unwrap().is_none());
    held.unlock().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap().unlock().await.unwrap();
    }
    server.command(&["DEL", queue]);
    let last = us.fair_lock(name).lock().await.unwrap();
    assert!(us.fair_lock(name).force_unlock().await.unwrap());
    drop(last);
}

/// As a waiter of Redisson that died: its waiters spin behind such a head.
async fn behind_a_head_of_redisson_a_free_lock_is_asked_for_no_more_than_three_times_a_second(
    kind: Kind,
) {
    let (server, name) = (Server::start(kind), unique("a"));
    let us = Client::connect(server.url()).await.unwrap();
    let java = "cccccccc-cccc-4ccc-cccc-cccccccccccc:1";
    let key = format!("redisson_lock_queue:{{{name}}}");
    server.command(&["RPUSH", &key, java]);
    let waiters = [queues(&us, &name).await, queues(&us, &name).await];
    let before = crate::stage::attempts(&server);

    tokio::time::sleep(Duration::from_secs(5)).await;

    let asked = crate::stage::attempts(&server) - before;
    assert!((4..=15).contains(&asked), "{asked}");
    let begun = Instant::now();
    server.command(&["DEL", &key]);
    for waiter in waiters {
        waiter.await.unwrap().unlock().await.unwrap();
    }
    assert!(begun.elapsed() < ms(10_000), "{:?}", begun.elapsed());
}
