//! Random numbers of a client: for pauses, and for seeds. Not for secrets.

use std::sync::Mutex;
use std::time::Duration;

use crate::coordination::unpoisoned;

/// Numbers of one client, from a seed if its engine gives one: then a run can be repeated.
#[derive(Debug)]
pub(super) struct Random(Mutex<fastrand::Rng>);

impl Random {
    pub(super) fn new(seed: Option<u64>) -> Self {
        let numbers = seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        Self(Mutex::new(numbers))
    }

    /// A seed for a generator of its own.
    pub(super) fn seed(&self) -> u64 {
        unpoisoned(&self.0).u64(..)
    }

    /// A time between two others.
    pub(super) fn between(&self, least: Duration, most: Duration) -> Duration {
        let part = unpoisoned(&self.0).f64();
        least + most.saturating_sub(least).mul_f64(part)
    }
}
