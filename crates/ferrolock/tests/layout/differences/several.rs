//! The steps of the multi lock and of the red lock that end differently.

use super::{AS_RECORDED, Difference, Instead, Ours, row};
use crate::actor::Seen;

/// All members are asked for in one call, which takes none if one of them is busy: there is nothing to give back.
const NOTHING_TAKEN: Ours = Ours::Instead(&Instead {
    messages: Some(&[]),
    ..AS_RECORDED
});

const BUSY: &str = "multi-trylock-one-busy-rolls-back";
const FAILED: &str = "multi-unlock-stops-at-first-failure";

pub(super) const DIFFERENCES: &[Difference] = &[
    row(BUSY, 2, "W20", NOTHING_TAKEN),
    row(BUSY, 3, "W20", NOTHING_TAKEN),
    row("multi-trylock-timeout", 2, "W20", NOTHING_TAKEN),
    // All members are given back, also if that fails for one of them.
    row(
        FAILED,
        3,
        "W20",
        Ours::Instead(&Instead {
            messages: Some(&["0"]),
            keys: Some(&[]),
            ..AS_RECORDED
        }),
    ),
    row(
        FAILED,
        4,
        "W20",
        Ours::Instead(&Instead {
            seen: Some(Seen::NoSuchCall),
            messages: Some(&[]),
            keys: Some(&[]),
            ..AS_RECORDED
        }),
    ),
    // All nodes are asked at once: one that grants is told that there was no majority.
    row(
        "red-lock-majority-busy",
        3,
        "W21",
        Ours::Instead(&Instead {
            messages: Some(&["0"]),
            passing: &["c"],
            ..AS_RECORDED
        }),
    ),
];
