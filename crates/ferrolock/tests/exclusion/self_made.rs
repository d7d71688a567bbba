//! A client never finds a lock busy that it has released itself.

use ferrolock::{Owner, Unlocked};
use testkit::drop_after_polls;

use crate::stage::Stage;

stories!(
    try_lock_after_a_drop_is_never_busy,
    try_lock_after_drops_of_all_holds_is_never_busy,
    try_lock_after_an_unlock_is_never_busy,
    try_lock_after_an_unlock_that_was_given_up_is_never_busy,
    two_tries_of_one_owner_at_once_both_get_in,
);

const ROUNDS: usize = 200;

async fn try_lock_after_a_drop_is_never_busy(stage: &Stage) {
    let lock = stage.client().await.lock("x");

    for round in 0..ROUNDS {
        let guard = lock.try_lock().await.unwrap();
        drop(guard.unwrap_or_else(|| panic!("busy in round {round}")));
    }
}

async fn try_lock_after_an_unlock_is_never_busy(stage: &Stage) {
    let lock = stage.client().await.lock("x");

    for round in 0..ROUNDS {
        let guard = lock.try_lock().await.unwrap();
        let guard = guard.unwrap_or_else(|| panic!("busy in round {round}"));
        assert_eq!(guard.unlock().await.unwrap(), Unlocked::Released);
    }
}

async fn try_lock_after_an_unlock_that_was_given_up_is_never_busy(stage: &Stage) {
    let lock = stage.client().await.lock("x");

    for round in 0..ROUNDS {
        let guard = lock.try_lock().await.unwrap();
        let guard = guard.unwrap_or_else(|| panic!("busy in round {round}"));
        drop_after_polls(round % 4, guard.unlock()).await;
    }
}

async fn two_tries_of_one_owner_at_once_both_get_in(stage: &Stage) {
    let lock = stage.client().await.lock("x").owned_by(&Owner::new());

    for round in 0..ROUNDS {
        let tries = [tokio::spawn(lock.try_lock()), tokio::spawn(lock.try_lock())];
        let mut guards = Vec::new();
        for attempt in tries {
            let guard = attempt.await.unwrap().unwrap();
            guards.push(guard.unwrap_or_else(|| panic!("busy in round {round}")));
        }
        assert_eq!(stage.counts("x").await, [2]);
        drop(guards);
    }
}

async fn try_lock_after_drops_of_all_holds_is_never_busy(stage: &Stage) {
    let lock = stage.client().await.lock("x");

    for round in 0..ROUNDS {
        let guard = lock.try_lock().await.unwrap();
        let outer = guard.unwrap_or_else(|| panic!("busy in round {round}"));
        let inner = outer.relock().await.unwrap();
        let third = inner.relock().await.unwrap();
        drop((outer, inner, third));
    }
}
