//! Runs inside runs: a command that waits for the lock that it runs under would wait for ever.

use super::target::Target;
use crate::exit::Failure;

/// An error: a run around this one has the lock.
pub(super) async fn refuse(lock: &Target) -> Result<(), Failure> {
    let innermost = std::env::var("FERROLOCK_OWNER").unwrap_or_default();
    let outer = outer_owners();
    let around: Vec<&str> = outer
        .split_whitespace()
        .chain(innermost.split_whitespace())
        .collect();
    if around.is_empty() {
        return Ok(());
    }
    match lock.name_kept_by(&around).await? {
        None => Ok(()),
        Some(name) => Err(Failure::usage(format!(
            "lock {name:?} is held by a ferrolock that runs this command: it would wait for itself; use another name inside"
        ))),
    }
}

/// The owners of all runs around us, each with a space behind it.
pub(super) fn outer_owners() -> String {
    let outer = std::env::var("FERROLOCK_OWNERS").unwrap_or_default();
    outer
        .split_whitespace()
        .map(|owner| format!("{owner} "))
        .collect()
}
