//! Takes the lock, and shows meanwhile who has it.

use std::pin::pin;
use std::time::Duration;

use ferrolock::{Guard, Holder, Lock, Result};

use crate::exit::Failure;
use crate::report::{Event, Report};

/// How long a busy lock is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Not,
    AtMost(Duration),
    Forever,
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Obtained {
    Granted(Guard),
    /// With those who had it a moment ago.
    Busy(Vec<Holder>),
}

/// Before it nobody is told that we wait: mostly we do not.
const PATIENCE: Duration = Duration::from_millis(300);
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// For a question whose answer only decorates a message.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// Waits for the lock as told.
pub(super) async fn obtain(
    lock: &Lock,
    wait: Wait,
    report: &mut Report,
) -> std::result::Result<Obtained, Failure> {
    let granted = {
        let mut acquiring = pin!(acquire(lock, wait));
        tokio::select! {
            biased;
            granted = &mut acquiring => granted,
            never = show_holders(lock, report) => match never {},
        }
    };
    report.clear_status();
    Ok(match granted? {
        Some(guard) => Obtained::Granted(guard),
        None if report.tells_holders() => Obtained::Busy(holders(lock).await),
        None => Obtained::Busy(Vec::new()),
    })
}

async fn acquire(lock: &Lock, wait: Wait) -> Result<Option<Guard>> {
    match wait {
        Wait::Not => lock.try_lock().await,
        Wait::AtMost(limit) => lock.try_lock_for(limit).await,
        Wait::Forever => lock.lock().await.map(Some),
    }
}

/// Tells programs once, and people on a terminal every second.
async fn show_holders(lock: &Lock, report: &mut Report) -> std::convert::Infallible {
    if !report.tells_holders() {
        return std::future::pending().await;
    }
    tokio::time::sleep(PATIENCE).await;
    let seen = holders(lock).await;
    report.tell(&Event::Waiting { holders: &seen });
    report.show_status(&seen);
    while report.shows_status() {
        tokio::time::sleep(LOOK_EVERY).await;
        report.show_status(&holders(lock).await);
    }
    std::future::pending().await
}

async fn holders(lock: &Lock) -> Vec<Holder> {
    match tokio::time::timeout(ANSWER_MAX, lock.holders()).await {
        Ok(Ok(holders)) => holders,
        _ => Vec::new(),
    }
}
