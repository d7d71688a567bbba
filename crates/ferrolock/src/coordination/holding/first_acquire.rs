//! A tenure's first acquire, when the last handle of its client goes before the answer comes.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

/// The state of a tenure's first acquire, if the last handle of its client is dropped before the answer comes.
///
/// Two threads meet here: one hands the acquire over to the keeper, and one has the answer. Each sets its own mark first and
/// then looks for the other's, so at least one of them sees that the keeper has nothing to do.
#[derive(Debug, Default)]
pub(crate) struct FirstAcquire {
    marks: AtomicU8,
    /// The lease that was asked for, in nanoseconds.
    lease: AtomicU64,
}

impl FirstAcquire {
    const HANDED_OVER: u8 = 1;
    const ANSWERED: u8 = 2;

    /// An attempt is made, perhaps one more under the same field.
    pub(crate) fn asks_for(&self, lease: Duration) {
        self.marks.fetch_and(!Self::ANSWERED, Ordering::AcqRel);
        let nanos = u64::try_from(lease.as_nanos()).unwrap_or(u64::MAX);
        self.lease.store(nanos, Ordering::Release);
    }

    /// The lease that it asked for.
    pub(crate) fn lease(&self) -> Duration {
        Duration::from_nanos(self.lease.load(Ordering::Acquire))
    }

    pub(crate) fn hand_over(&self) {
        self.marks.fetch_or(Self::HANDED_OVER, Ordering::AcqRel);
    }

    /// The answer is known. True: the acquire was handed over to the keeper.
    pub(crate) fn answered(&self) -> bool {
        self.marks.fetch_or(Self::ANSWERED, Ordering::AcqRel) & Self::HANDED_OVER != 0
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.marks.load(Ordering::Acquire) & Self::ANSWERED != 0
    }
}
