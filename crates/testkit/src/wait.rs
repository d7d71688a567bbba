//! Waiting until a condition is true.
//!
//! The limit only ends a test that would hang: it is generous, and tests do not depend on it.

use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
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
        thread::sleep(PAUSE);
    }
}

/// Waits until `condition` is true; the runtime stays free meanwhile.
///
/// Panics after `limit` of real time, naming `what`. On a runtime with paused time each check advances the
/// virtual clock by some milliseconds.
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

/// Does `work` in a thread of its own, and panics when that takes longer than `limit`, whatever it does meanwhile.
///
/// A timeout inside a runtime ends only futures that return to the runtime: not a call that blocks, not a loop that never
/// waits. After the panic such work goes on until the end of the process.
#[track_caller]
pub fn within<T: Send + 'static>(
    limit: Duration,
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (done, is_done) = channel::<()>();
    // Has the name of the test, for code that takes the test's name from its thread.
    let name = thread::current().name().unwrap_or("work").to_owned();
    let working = thread::Builder::new().name(name).spawn(move || {
        // Dropped when the work is over, also by a panic.
        let _done = done;
        work()
    });
    let working = working.expect("a thread");
    if is_done.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
        panic!("not done within {limit:?}: {what}");
    }
    working.join().unwrap_or_else(|panic| resume_unwind(panic))
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
    fn a_wait_that_fails_names_what_it_waited_for() {
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

    #[test]
    fn work_that_is_done_in_time_gives_its_result() {
        assert_eq!(within(LIMIT, "a sum", || 1 + 1), 2);
    }

    #[test]
    #[should_panic(expected = "out of luck")]
    fn work_that_panics_panics_here() {
        within(LIMIT, "luck", || panic!("out of luck"));
    }

    #[test]
    #[should_panic(expected = "not done within 0ns: a thread that never goes on")]
    fn work_that_never_ends_is_given_up() {
        within(Duration::ZERO, "a thread that never goes on", || {
            loop {
                thread::park();
            }
        });
    }

    #[tokio::test]
    #[should_panic(expected = "in vain: pigs fly")]
    async fn an_asynchronous_wait_that_fails_names_what_it_waited_for() {
        eventually_async(Duration::ZERO, "pigs fly", async || false).await;
    }
}
