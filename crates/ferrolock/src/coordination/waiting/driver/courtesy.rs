//! Releases of this client, and which process goes first after them: the process that had the lock last makes a random pause.

use std::time::Duration;

use crate::coordination::holding::count::ReleaseEnd;
use crate::coordination::waiting::driver::{Cause, Driver, Listening};
use crate::engine::Tick;

/// The random pause of a process that should let another go first: two round trips, within these bounds; among many,
/// the longest.
const YIELD_MIN: Duration = Duration::from_micros(100);
const YIELD_MAX: Duration = Duration::from_millis(2);

/// What our own last release on this name showed about other processes that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OurRelease {
    /// None yet: nothing is known.
    None,
    /// Ours was the last; `others`: how many other clients got its message.
    Last { others: u64 },
    /// Another client has held it since.
    Earlier { others: u64 },
}

impl<W> Driver<W> {
    /// A release of ours on this name is about to be sent.
    pub(crate) fn release_begins(&mut self, now: Tick) {
        self.releases += 1;
        self.silent_since.get_or_insert(now);
        if let OurRelease::Earlier { others } = self.ours {
            self.ours = OurRelease::Last { others };
        }
    }

    /// A release of ours ended.
    pub(crate) fn release_ended(&mut self, now: Tick, end: ReleaseEnd, round_trip: Duration) {
        self.releases = self.releases.saturating_sub(1);
        if end != ReleaseEnd::GivenUp && self.releases == 0 && self.attempt.is_none() {
            self.silent_since = None;
        }
        let ReleaseEnd::Freed { heard } = end else {
            return;
        };
        let us = u64::from(self.listening == Listening::Yes);
        self.ours = OurRelease::Last {
            others: heard.saturating_sub(us),
        };
        let pause = self.courtesy(round_trip);
        if self.is_told_of_its_turn(heard) {
            return;
        }
        if self.attempt.is_none() && !self.line.is_empty() {
            self.try_after(now, pause, Cause::OwnRelease);
        }
    }

    /// How long to let other processes go first. Messages reach all of them in a fixed order, so without a pause the same
    /// process would win every time.
    ///
    /// Among many processes the pause does not depend on the own round trip: the process with the shortest would win most
    /// often. With many, one of them draws a short pause all the same.
    pub(super) fn courtesy(&mut self, round_trip: Duration) -> Duration {
        if !self.is_courteous {
            return Duration::ZERO;
        }
        let near = (round_trip * 2).clamp(YIELD_MIN, YIELD_MAX);
        let most = match self.ours {
            OurRelease::Last { others: 0 } | OurRelease::Earlier { others: 0 | 1 } => {
                return Duration::ZERO;
            }
            OurRelease::None | OurRelease::Last { others: 1 } => near,
            OurRelease::Last { .. } | OurRelease::Earlier { .. } => YIELD_MAX,
        };
        most.mul_f64(self.random.f64())
    }
}

#[cfg(test)]
#[path = "courtesy_tests.rs"]
mod tests;
