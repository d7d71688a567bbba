//! The library's pulse of a connection, and a clock that does not advance.

pub(crate) mod redis;

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tick(u64);

impl Tick {
    pub(crate) const FAR: Tick = Tick(u64::MAX);

    pub(crate) const fn from_nanos(nanos: u64) -> Tick {
        Tick(nanos)
    }

    pub(crate) const fn as_nanos(self) -> u64 {
        self.0
    }

    pub(crate) fn after(self, duration: Duration) -> Tick {
        Tick(self.0 + u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(crate) fn since(self, earlier: Tick) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Clock {
    Boot,
}

impl Clock {
    /// Always the same: models pass the time where it matters, as `now`.
    pub(crate) fn now(&self) -> Tick {
        Tick(0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Keeper,
    KeeperSpare,
}
