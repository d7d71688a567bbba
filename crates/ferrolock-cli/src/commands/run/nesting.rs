//! Runs inside runs: a command that waits for the lock that it runs under would wait for ever.

use super::target::Target;
use crate::exit::Failure;

/// An error: a run around this one has the lock.
pub(super) async fn refuse(lock: &Target) -> Result<(), Failure> {
    let innermost = std::env::var("FERROLOCK_OWNER").unwrap_or_default();
    let outer = outer_owners();
    let mut around = outer.split_whitespace().chain([innermost.as_str()]);
    if outer.is_empty() && innermost.is_empty() {
        return Ok(());
    }
    let holders = lock.holders().await.map_err(Failure::from)?;
    if !around.any(|owner| holders.iter().any(|holder| holder.owner.as_str() == owner)) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "lock {:?} is held by a ferrolock that runs this command: it would wait for itself; use another name inside",
        lock.name()
    )))
}

/// The owners of all runs around us, each with a space behind it.
pub(super) fn outer_owners() -> String {
    let outer = std::env::var("FERROLOCK_OWNERS").unwrap_or_default();
    outer
        .split_whitespace()
        .map(|owner| format!("{owner} "))
        .collect()
}
