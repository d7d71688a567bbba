//! Exclusion and fences on every engine: each story makes its nodes of the engine it is given one of.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ferrolock::{Client, ErrorKind, FenceGate, Quorum, Unlocked};
use tokio::time::sleep;

use crate::stage::{Stage, ms};

stories_of_one_kind!(
    a_second_owner_waits_until_the_first_releases,
    contenders_never_hold_at_once_and_their_fences_grow,
    a_node_that_lost_its_data_is_kept_out,
);

/// Four more engines like that one.
fn others(stage: &Stage) -> Vec<Stage> {
    (0..4).map(|_| stage.another()).collect()
}

/// A quorum of all of them, as on a machine of its own.
async fn quorum(stage: &Stage, others: &[Stage]) -> Quorum {
    let mut clients: Vec<Client> = vec![(*stage.client().await).clone()];
    for stage in others {
        clients.push((*stage.client().await).clone());
    }
    Quorum::new(clients).node_limit(ms(2000))
}

async fn nothing_left(stage: &Stage, others: &[Stage]) {
    stage.freed("x").await;
    for stage in others {
        stage.freed("x").await;
    }
}

async fn a_second_owner_waits_until_the_first_releases(stage: &Stage) {
    let others = others(stage);
    let (us, them) = (quorum(stage, &others).await, quorum(stage, &others).await);
    let guard = us.lock("x").lock().await.unwrap();
    assert!(them.lock("x").try_lock().await.unwrap().is_none());
    assert!(them.lock("x").is_locked().await.unwrap());
    let waiting = tokio::spawn(them.lock("x").lock());
    sleep(ms(50)).await;

    let fence = guard.fence();
    assert_eq!(guard.unlock().await.unwrap(), Unlocked::Released);

    let second = waiting.await.unwrap().unwrap();
    assert!(second.fence() > fence);
    drop(second);
    nothing_left(stage, &others).await;
}

async fn contenders_never_hold_at_once_and_their_fences_grow(stage: &Stage) {
    let others = others(stage);
    let (inside, gate) = (Arc::new(AtomicU32::new(0)), Arc::new(FenceGate::new()));
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let lock = quorum(stage, &others).await.lock("x");
        let (inside, gate) = (inside.clone(), gate.clone());
        let rounds = if stage.is_virtual() { 50 } else { 10 };
        tasks.push(tokio::spawn(async move {
            for _ in 0..rounds {
                let guard = lock.lock().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                assert!(gate.highest().is_none_or(|highest| highest < guard.fence()));
                gate.admit(guard.fence()).unwrap();
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.unlock().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    nothing_left(stage, &others).await;
}

async fn a_node_that_lost_its_data_is_kept_out(stage: &Stage) {
    let others = others(stage);
    let quorum = quorum(stage, &others).await.rejoin_after(ms(500));
    let refused = quorum.lock("x").lock().await.unwrap_err();
    assert_eq!(
        refused.nodes()[0].error().code(),
        Some("FRESH"),
        "{refused}"
    );

    quorum.initialise().await.unwrap();

    let guard = quorum.lock("x").lock().await.unwrap();
    guard.unlock().await.unwrap();
    nothing_left(stage, &others).await;
}

/// It was `NoQuorum`, which is transient: a caller that tries again as long as an error is, never ended.
#[tokio::test(start_paused = true)]
async fn a_quorum_most_of_whose_clients_were_shut_down_is_closed() {
    let clients = [Client::memory(), Client::memory(), Client::memory()];
    let lock = Quorum::new(clients.clone()).lock("x");
    clients[0].shutdown(ms(100)).await.unwrap();
    lock.lock().await.unwrap().unlock().await.unwrap();

    clients[1].shutdown(ms(100)).await.unwrap();

    for error in [
        lock.lock().await.unwrap_err(),
        lock.holders().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
        assert!(!error.is_transient());
        assert_eq!(error.nodes().len(), 2, "{error}");
    }
}
