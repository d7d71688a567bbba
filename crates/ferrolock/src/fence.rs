//! Fences: numbers with which a resource refuses late writes.

use std::error::Error as StdError;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// The number of a grant: it grows from grant to grant of one lock.
///
/// Below 2⁵³, so it fits `bigint` columns, Java's `long` and JavaScript numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// Of no grant.
    pub(crate) const NONE: Fence = Fence(0);

    /// One more than the largest fence.
    const END: u64 = 1 << 53;

    pub(crate) const fn of(number: u64) -> Fence {
        Fence(number)
    }

    /// As a number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// As a number for columns and languages without unsigned ones: it is never negative.
    pub const fn as_i64(self) -> i64 {
        self.0.cast_signed()
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Fence {
    type Err = Error;

    /// For a fence that was stored or sent as text.
    fn from_str(text: &str) -> Result<Fence> {
        match text.parse() {
            Ok(number @ 1..Fence::END) => Ok(Fence(number)),
            _ => Err(Error::invalid(format!(
                "{text:?} is no fence: it must be a number from 1 to 2^53 - 1"
            ))),
        }
    }
}

impl From<Fence> for u64 {
    fn from(fence: Fence) -> u64 {
        fence.get()
    }
}

impl From<Fence> for i64 {
    fn from(fence: Fence) -> i64 {
        fence.as_i64()
    }
}

/// Admits writes by their fences, on the side of the resource: one gate per resource, where all its writers come by.
///
/// A gate in one process protects what that process alone writes. A resource with writers in several processes keeps the
/// largest fence itself: `docs/guarantees.md` has a statement for SQL and a script for Redis.
#[derive(Debug)]
pub struct FenceGate {
    highest: AtomicU64,
}

impl FenceGate {
    /// A gate that has seen no fence. It can be a `static`.
    pub const fn new() -> FenceGate {
        FenceGate::at(0)
    }

    /// A gate that goes on from a fence that was stored with the resource.
    pub const fn starting_at(fence: Fence) -> FenceGate {
        FenceGate::at(fence.0)
    }

    const fn at(highest: u64) -> FenceGate {
        FenceGate {
            highest: AtomicU64::new(highest),
        }
    }

    /// Admits a write under that fence: an equal one passes, because one holder writes often; a smaller one is refused.
    ///
    /// # Errors
    /// [`StaleFence`]: a later holder was here before.
    pub fn admit(&self, fence: Fence) -> std::result::Result<(), StaleFence> {
        let highest = self.highest.fetch_max(fence.0, Ordering::AcqRel);
        if fence.0 < highest {
            let highest = Fence(highest);
            return Err(StaleFence {
                presented: fence,
                highest,
            });
        }
        Ok(())
    }

    /// The largest fence so far, to be stored with the resource.
    pub fn highest(&self) -> Option<Fence> {
        match self.highest.load(Ordering::Acquire) {
            0 => None,
            highest => Some(Fence(highest)),
        }
    }
}

impl Default for FenceGate {
    fn default() -> Self {
        FenceGate::new()
    }
}

/// A write came too late: a later holder of the lock has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaleFence {
    presented: Fence,
    highest: Fence,
}

impl StaleFence {
    /// The fence of the write that was refused.
    pub fn presented(&self) -> Fence {
        self.presented
    }

    /// The largest fence that the gate has seen.
    pub fn highest(&self) -> Fence {
        self.highest
    }
}

impl fmt::Display for StaleFence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the fence {} is too old: a holder with {} was here since",
            self.presented, self.highest
        )
    }
}

impl StdError for StaleFence {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_admits_equal_and_larger_fences_and_refuses_smaller_ones() {
        let gate = FenceGate::new();
        assert_eq!(gate.highest(), None);

        assert!(gate.admit(Fence(5)).is_ok());
        assert!(gate.admit(Fence(5)).is_ok());
        assert!(gate.admit(Fence(7)).is_ok());
        let refused = gate.admit(Fence(6)).unwrap_err();

        assert_eq!(
            (refused.presented(), refused.highest()),
            (Fence(6), Fence(7))
        );
        assert_eq!(
            refused.to_string(),
            "the fence 6 is too old: a holder with 7 was here since"
        );
        assert_eq!(gate.highest(), Some(Fence(7)));
    }

    #[test]
    fn a_gate_goes_on_from_what_was_stored() {
        let stored: Fence = "41".parse().unwrap();
        let gate = FenceGate::starting_at(stored);

        assert!(gate.admit(Fence(40)).is_err());
        assert!(gate.admit(stored).is_ok());
    }

    #[test]
    fn a_fence_is_read_as_it_is_shown_and_nothing_else_is_a_fence() {
        let fence = Fence(1_795_000_000_000_123);

        assert_eq!(fence.to_string().parse::<Fence>().unwrap(), fence);
        assert_eq!(u64::from(fence), 1_795_000_000_000_123);
        assert_eq!(i64::from(fence), 1_795_000_000_000_123);
        for odd in ["", "0", "-1", "x", "1.5", "9007199254740992"] {
            assert!(odd.parse::<Fence>().is_err(), "{odd:?}");
        }
        assert!("9007199254740991".parse::<Fence>().is_ok());
    }
}
