//! The lock that is first come, first served.

use std::sync::Arc;
use std::time::Duration;

use crate::coordination::Alive;
use crate::error::{Error, Result};
use crate::kind::Fair;
use crate::options::{Reentry, check_time};
use crate::protocol::fair_lock::{FairScheme, FairTimes};
use crate::protocol::scheme::Scheme;
use crate::sync::lock::Lock;

/// A lock that is granted in the order in which its waiters came to the server, across tasks, processes and Redisson's fair
/// lock of the same name.
///
/// Each waiter has a place in a queue on the server. A waiter whose process no longer runs is skipped, see
/// [`skip_dead_after`](Lock::skip_dead_after); on `file:` at once. [`try_lock`](Lock::try_lock) takes no place and overtakes no waiter.
///
/// # Cancel safety
/// A future of [`lock`](Lock::lock) or [`try_lock_for`](Lock::try_lock_for) has its place as long as it lives, polled or not.
/// Dropping it gives the place up, and the next waiter is told; a second call begins at the end of the queue. So does one whose
/// turn came and that was not polled for a second (or a third of its lease): it had its turn.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> ferrolock::Result<()> {
/// use ferrolock::Client;
///
/// let client = Client::memory();
/// let printer = client.fair_lock("printer");
///
/// let first = printer.lock().await?;
/// let second = tokio::spawn(printer.lock());
/// # tokio::task::yield_now().await;
/// first.unlock().await?;
/// second.await.expect("the task runs to its end")?.unlock().await?;
/// # Ok(()) }
/// ```
pub type FairLock = Lock<Fair>;

/// The least time after which a client that is not heard counts as dead: four signs of life have to fit into it.
const DEAD_MIN: Duration = Duration::from_secs(1);

impl Lock<Fair> {
    pub(crate) fn new(alive: Arc<Alive>, name: &str) -> Self {
        let client = alive.core.id.clone();
        Self::of_scheme(alive, name, |name| {
            Ok(Arc::new(FairScheme::new(
                name,
                &client,
                FairTimes::default(),
            )))
        })
    }

    /// The same owner's second acquisition is [`ErrorKind::WouldDeadlock`](crate::ErrorKind::WouldDeadlock) instead of
    /// a re-entry.
    pub fn non_reentrant(mut self) -> Self {
        self.options.reentry = Reentry::IsAnError;
        self
    }

    /// How long the waiters of a process keep their places without a sign of life; 5 s, at least 1 s.
    ///
    /// A process gives four such signs in this time while it waits. Give every process the same time: a waiter is skipped by
    /// the first one that thinks it dead. A server that stood still makes no waiter dead.
    pub fn skip_dead_after(self, limit: Duration) -> Self {
        let times = FairTimes {
            dead: limit,
            ..self.options.fair
        };
        self.with_times(times)
    }

    /// The longest wait that Java callers of this lock use; 300 s, Redisson's `fairLockWaitTimeout`.
    ///
    /// Redisson moves the deadlines of all waiters when one of its own gets the lock or gives up. With the right time here
    /// no waiter of ours loses its place by that.
    pub fn java_wait(self, longest: Duration) -> Self {
        let times = FairTimes {
            java_wait: longest,
            ..self.options.fair
        };
        self.with_times(times)
    }

    fn with_times(mut self, times: FairTimes) -> Self {
        self.options.fair = times;
        let client = self.target.core().map(|core| core.id.clone());
        self.with_scheme(|name| scheme(name, &client.unwrap_or_default(), times))
    }
}

fn scheme(name: Arc<str>, client: &str, times: FairTimes) -> Result<Arc<dyn Scheme>> {
    let FairTimes { dead, java_wait } = times;
    if dead < DEAD_MIN {
        return Err(Error::invalid(format!(
            "a skip_dead_after of {dead:?} is too short: the least is {DEAD_MIN:?}"
        )));
    }
    check_time("a skip_dead_after", dead, String::new)?;
    check_time("a java_wait", java_wait, || {
        "300 s is what Redisson uses without a setting".to_owned()
    })?;
    Ok(Arc::new(FairScheme::new(name, client, times)))
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use super::*;
    use crate::{Client, ErrorKind};

    #[tokio::test]
    async fn times_that_make_no_sense_show_at_the_first_use() {
        let lock = |dead, wait| {
            let fair = Client::memory().fair_lock("a");
            fair.skip_dead_after(Duration::from_millis(dead))
                .java_wait(Duration::from_millis(wait))
        };
        for (dead, wait) in [(999, 300), (u64::MAX, 300), (1000, 0), (1000, u64::MAX)] {
            let error = lock(dead, wait).lock().await.unwrap_err();

            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        }
        lock(1000, 1).lock().await.unwrap().unlock().await.unwrap();
    }
}
