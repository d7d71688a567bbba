//! Waiting for what must come true.
//!
//! The limit only ends a test that would hang: it is generous and never the thing tested.

use std::time::{Duration, Instant};

/// Long enough for a slow machine under load.
pub const LIMIT: Duration = Duration::from_secs(30);

pub(crate) const PAUSE: Duration = Duration::from_millis(5);

/// Blocks until `condition` is true.
///
/// Panics after `limit`, naming `what`.
#[track_caller]
pub fn eventually(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        check(start, limit, what);
        std::thread::sleep(PAUSE);
    }
}

/// Waits until `condition` is true; the runtime stays free meanwhile.
///
/// Panics after `limit` of real time, naming `what`. On a runtime with paused time each look lets the
/// virtual clock go on by some milliseconds.
pub async fn eventually_async(
    limit: Duration,
    what: &str,
    mut condition: impl AsyncFnMut() -> bool,
) {
    let start = Instant::now();
    while !condition().await {
        check(start, limit, what);
        tokio::time::sleep(PAUSE).await;
    }
}

#[track_caller]
fn check(start: Instant, limit: Duration, what: &str) {
    let passed = start.elapsed();
    assert!(passed < limit, "waited {passed:?} in vain: {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_condition_is_asked_until_it_holds() {
        let mut looks = 0;

        eventually(LIMIT, "three looks", || {
            looks += 1;
            looks == 3
        });

        assert_eq!(looks, 3);
    }

    #[test]
    #[should_panic(expected = "in vain: pigs fly")]
    fn a_vain_wait_names_what_it_waited_for() {
        eventually(Duration::ZERO, "pigs fly", || false);
    }

    #[tokio::test]
    async fn other_tasks_run_while_the_condition_is_waited_for() {
        let (done, mut is_done) = tokio::sync::oneshot::channel();
        tokio::spawn(async move { done.send(()).unwrap() });

        eventually_async(LIMIT, "the task's message", async || {
            is_done.try_recv().is_ok()
        })
        .await;
    }

    #[tokio::test]
    #[should_panic(expected = "in vain: pigs fly")]
    async fn a_vain_asynchronous_wait_names_what_it_waited_for() {
        eventually_async(Duration::ZERO, "pigs fly", async || false).await;
    }
}
