//! Who goes first between processes: a random pause of those who had the lock last.

use std::time::Duration;

use super::Driver;

/// The random pause of a process that should let another go first: two round trips, within these bounds; among many,
/// the longest.
const YIELD_MIN: Duration = Duration::from_micros(100);
const YIELD_MAX: Duration = Duration::from_millis(2);

/// What our own last release on this name told about the competition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OurRelease {
    /// None yet: nothing is known.
    None,
    /// Ours was the last; so many other processes heard of it.
    Last { others: u64 },
    /// Somebody else has held it since.
    Earlier { others: u64 },
}

impl<W> Driver<W> {
    /// How long to let other processes go first. Messages reach all of them in a fixed order, so without it the same
    /// process would win every time.
    ///
    /// Among many the pause does not follow the own round trip: whoever has the shortest would win most. The first of
    /// many comes early all the same.
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
