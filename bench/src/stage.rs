//! The server that a run uses, and how much time it takes.

use crate::report::Must;
use std::time::Duration;
use testkit::Server;

/// What a quick run says about itself.
pub(crate) const QUICK: &str = "A quick run, only to see that it works: these figures say nothing.";

/// How long a run may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    Full,
    /// Only to see that it works: its figures mean nothing.
    Quick,
}

/// The server that both sides use, and the pace.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) server: Server,
    pub(crate) pace: Pace,
}

impl Stage {
    /// How many rounds; in a full run an odd number wherever a median is taken.
    pub(crate) fn rounds(&self, full: usize) -> usize {
        self.scaled(full, 2)
    }

    pub(crate) fn round(&self, full: Duration) -> Duration {
        self.scaled(full, Duration::from_millis(200))
    }

    pub(crate) fn count(&self, full: u64) -> u64 {
        self.scaled(full, full / 10)
    }

    /// What a row must be; in a quick run it may be anything.
    pub(crate) fn must(&self, must: Must) -> Must {
        self.scaled(must, Must::Stated)
    }

    pub(crate) fn scaled<T>(&self, full: T, quick: T) -> T {
        match self.pace {
            Pace::Full => full,
            Pace::Quick => quick,
        }
    }
}
