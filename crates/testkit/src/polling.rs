//! Futures polled by hand, to drop them at every point at which they can wait.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

/// How [`drop_after_polls`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropOutcome<T> {
    /// The future was ready within its polls.
    Finished(T),
    /// The future was still pending after its last poll and was dropped.
    Dropped,
}

impl<T> DropOutcome<T> {
    /// The future's output, if it finished.
    pub fn finished(self) -> Option<T> {
        match self {
            Self::Finished(output) => Some(output),
            Self::Dropped => None,
        }
    }
}

/// Polls `future` at most `polls` times, each time after it was woken, then drops it.
///
/// The first poll comes at once, every other one after a wake-up, as from an executor: polls that
/// the surrounding task gets for other reasons do not reach the future and do not count. With `polls`
/// counted up from 0 until the future finishes, it is dropped at every point at which it waits.
pub async fn drop_after_polls<F: Future>(polls: usize, future: F) -> DropOutcome<F::Output> {
    if polls == 0 {
        return DropOutcome::Dropped;
    }
    let alarm = Arc::new(Alarm {
        rung: AtomicBool::new(true),
        sleeper: Mutex::new(Waker::noop().clone()),
    });
    let waker = Waker::from(Arc::clone(&alarm));
    // Dropped with this frame: after the last poll was pending, and before the caller goes on.
    let mut future = pin!(future);
    let mut polls_left = polls;
    std::future::poll_fn(|outer| {
        alarm.sleep_with(outer.waker());
        while alarm.rung.swap(false, Ordering::AcqRel) {
            polls_left -= 1;
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(output) => return Poll::Ready(DropOutcome::Finished(output)),
                Poll::Pending if polls_left == 0 => return Poll::Ready(DropOutcome::Dropped),
                Poll::Pending => {}
            }
        }
        Poll::Pending
    })
    .await
}

/// Polls `future` once; no task is woken when it could go on.
pub fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Remembers that the future was woken, and wakes the task around it.
struct Alarm {
    rung: AtomicBool,
    sleeper: Mutex<Waker>,
}

impl Alarm {
    fn sleep_with(&self, waker: &Waker) {
        self.sleeper.lock().unwrap().clone_from(waker);
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        let sleeper = self.sleeper.lock().unwrap().clone();
        sleeper.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use tokio::sync::oneshot;

    struct DropFlag<'a>(&'a Cell<bool>);

    impl Drop for DropFlag<'_> {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }

    async fn yields(times: usize) -> usize {
        for _ in 0..times {
            tokio::task::yield_now().await;
        }
        times
    }

    #[tokio::test]
    async fn a_future_is_dropped_after_its_last_poll_and_before_the_caller_goes_on() {
        for polls in 0..4 {
            let dropped = Cell::new(false);
            let flag = DropFlag(&dropped);

            let outcome = drop_after_polls(polls, async move {
                let _flag = flag;
                yields(4).await
            })
            .await;

            assert_eq!(outcome, DropOutcome::Dropped, "after {polls} polls");
            assert!(dropped.get(), "after {polls} polls");
        }
    }

    #[tokio::test]
    async fn a_future_with_enough_polls_finishes() {
        let outcome = drop_after_polls(5, yields(4)).await;

        assert_eq!(outcome.finished(), Some(4));
    }

    #[tokio::test]
    async fn polls_the_future_did_not_ask_for_do_not_count() {
        let (send, receive) = oneshot::channel();
        let mut dropping = pin!(drop_after_polls(2, receive));

        for _ in 0..10 {
            assert!(poll_once(dropping.as_mut()).is_pending());
        }
        send.send(7).unwrap();

        assert_eq!(dropping.await, DropOutcome::Finished(Ok(7)));
    }

    #[test]
    fn a_future_polled_once_says_whether_it_is_ready() {
        let (send, receive) = oneshot::channel();
        let mut receive = pin!(receive);

        assert!(poll_once(receive.as_mut()).is_pending());
        send.send(7).unwrap();
        assert_eq!(poll_once(receive.as_mut()), Poll::Ready(Ok(7)));
    }
}
