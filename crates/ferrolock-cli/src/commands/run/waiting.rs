//! Takes the lock, and shows who holds it while we wait.

use std::pin::pin;
use std::time::Duration;

use ferrolock::Holder;

use super::limit::{Limit, Wait};
use super::target::{Granted, Target};
use crate::address::Address;
use crate::exit::Failure;
use crate::report::{Event, Report};

/// Whether the lock was granted.
#[derive(Debug)]
pub(super) enum Obtained {
    Granted(Granted),
    /// With the holders of a moment ago, if the server or the store answered.
    Busy(Option<Vec<Holder>>),
}

/// After this time we print that we wait; most runs get the lock sooner.
const PATIENCE: Duration = Duration::from_millis(300);
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The limit of a question whose answer only decorates a message.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// The same, and the limit of clearing the status line, when the time for the lock itself is over.
const LAST_ANSWER_MAX: Duration = Duration::from_millis(100);

/// Waits for the lock within the limit.
pub(super) async fn obtain(
    lock: &Target,
    limit: &Limit,
    address: &Address,
    report: &mut Report,
) -> Result<Obtained, Failure> {
    let granted = {
        let mut acquiring = pin!(acquire(lock, limit, address));
        tokio::select! {
            biased;
            granted = &mut acquiring => granted,
            never = show_holders(lock, report) => match never {},
        }
    };
    let left = limit.left_and(LAST_ANSWER_MAX);
    report.clear_status(left).await;
    Ok(match granted? {
        Some(granted) => Obtained::Granted(granted),
        None if report.tells_holders() => {
            let left = limit.left_and(LAST_ANSWER_MAX).unwrap_or(ANSWER_MAX);
            Obtained::Busy(holders(lock, left.min(ANSWER_MAX)).await)
        }
        None => Obtained::Busy(None),
    })
}

/// `None`: it was busy until the end of the wait.
async fn acquire(
    lock: &Target,
    limit: &Limit,
    address: &Address,
) -> Result<Option<Granted>, Failure> {
    match limit.wait {
        Wait::Not => {
            let asked = async { lock.try_lock().await.map_err(Failure::from) };
            limit.keep(address, asked).await
        }
        // `try_lock_for` keeps the limit itself: it alone knows whether the lock was busy at the end, or the server did not
        // answer.
        Wait::AtMost(_) => {
            let left = limit.left().unwrap_or_default();
            Ok(lock.try_lock_for(left).await?)
        }
        Wait::Forever => Ok(Some(lock.lock().await?)),
    }
}

/// Prints the holders: for programs once, for people on a terminal every second.
async fn show_holders(lock: &Target, report: &mut Report) -> std::convert::Infallible {
    if !report.tells_holders() {
        return std::future::pending().await;
    }
    tokio::time::sleep(PATIENCE).await;
    let seen = holders(lock, ANSWER_MAX).await;
    let seen = seen.as_deref();
    report.tell(&Event::Waiting { holders: seen });
    report.show_status(seen);
    while report.shows_status() {
        tokio::time::sleep(LOOK_EVERY).await;
        report.show_status(holders(lock, ANSWER_MAX).await.as_deref());
    }
    std::future::pending().await
}

/// `None`: the server or the store does not answer in that time.
async fn holders(lock: &Target, limit: Duration) -> Option<Vec<Holder>> {
    tokio::time::timeout(limit, lock.in_the_way())
        .await
        .ok()?
        .ok()
}
