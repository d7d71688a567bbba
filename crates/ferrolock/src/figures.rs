//! What is counted, through the `metrics` crate when that feature is on; nothing otherwise.

#![cfg_attr(
    not(feature = "metrics"),
    expect(unused_variables, reason = "nothing is counted without the feature")
)]

use std::time::Duration;

use crate::error::LostReason;

/// Holds that ended without our release, by reason.
pub(crate) fn lost(reason: LostReason) {
    #[cfg(feature = "metrics")]
    metrics::counter!("ferrolock_lost_total", "reason" => match reason {
        LostReason::Expired => "expired",
        LostReason::TakenOver => "taken_over",
        LostReason::Removed => "removed",
        LostReason::MaxHold => "max_hold",
        LostReason::ShutDown => "shut_down",
    })
    .increment(1);
}

/// A grant, by what led to its attempt, and how long its caller had waited.
pub(crate) fn granted(cause: &'static str, waited: impl FnOnce() -> Duration) {
    #[cfg(feature = "metrics")]
    {
        metrics::counter!("ferrolock_grants_total", "cause" => cause).increment(1);
        metrics::histogram!("ferrolock_wait_seconds").record(waited().as_secs_f64());
    }
}

/// A hold that was given back, after so long.
pub(crate) fn released(held: Duration) {
    #[cfg(feature = "metrics")]
    metrics::histogram!("ferrolock_hold_seconds").record(held.as_secs_f64());
}

/// Offers that nobody came for.
pub(crate) fn offer_withdrawn() {
    #[cfg(feature = "metrics")]
    metrics::counter!("ferrolock_offers_withdrawn_total").increment(1);
}

/// Releases that are owed.
pub(crate) fn debts_open(count: usize) {
    #[cfg(feature = "metrics")]
    metrics::gauge!("ferrolock_debts_open").set(u32::try_from(count).unwrap_or(u32::MAX));
}

/// A hold became uncertain (`true`), or certain or over again.
pub(crate) fn uncertain(more: bool) {
    #[cfg(feature = "metrics")]
    {
        let gauge = metrics::gauge!("ferrolock_holds_uncertain");
        if more {
            gauge.increment(1)
        } else {
            gauge.decrement(1)
        }
    }
}

/// How much later than planned the keeper did what was due.
pub(crate) fn keeper_late(by: Duration) {
    #[cfg(feature = "metrics")]
    metrics::histogram!("ferrolock_keeper_late_seconds").record(by.as_secs_f64());
}

/// A connection stands.
#[cfg(feature = "redis")]
pub(crate) fn connected() {
    #[cfg(feature = "metrics")]
    metrics::counter!("ferrolock_connections_total").increment(1);
}

/// A connection broke or could not be made, by class.
#[cfg(feature = "redis")]
pub(crate) fn connection_failed(class: &'static str) {
    #[cfg(feature = "metrics")]
    metrics::counter!("ferrolock_connection_failures_total", "class" => class).increment(1);
}
