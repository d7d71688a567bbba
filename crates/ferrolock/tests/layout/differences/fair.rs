//! The steps of the fair locks that end differently.

use ferrolock::ErrorKind;

use super::{AS_RECORDED, Difference, Instead, LeftKey, Ours, lock, ms, no_guard, row};
use crate::actor::Seen;

const LEASES: &str = "fair-reentry-and-partial-unlock";
const ASYNC: &str = "fair-async-waiter-times-out-followers-lose-300-s";
const INTERRUPTED: &str = "fair-interrupted-waiter-stays-queued";
const DELETED: &str = "fair-delete-removes-queue-silently";
const EXPIRED: &str = "fair-unlock-of-expired-lock-is-no-error";
const EXPIRED_AND_FORCED: &str = "non-reentrant-fair-expired-and-force";

const HELD_BY_HOLDER: &[LeftKey] = &[lock(&[("U:42", "1")], 30_000)];
const HELD_BY_FOLLOWER: &[LeftKey] = &[lock(&[("V:43", "1")], 30_000)];
const HELD_BY_WAITER: &[LeftKey] = &[lock(&[("U:43", "1")], 30_000)];
const HELD_BY_OTHER: &[LeftKey] = &[lock(&[("V:42", "1")], 30_000)];

/// A holder learns that its lease is over.
const LOST: Ours = Ours::Instead(&Instead {
    seen: Some(Seen::Failed(ErrorKind::Lost)),
    ..AS_RECORDED
});

pub(super) const DIFFERENCES: &[Difference] = &[
    no_guard(LEASES, 7),
    no_guard(EXPIRED, 4),
    no_guard("fair-unlock-by-non-owner", 2),
    no_guard("fair-unlock-by-non-owner", 3),
    // Each hold has its own lease, and the lock that of the longest.
    row(LEASES, 2, "W15", Ours::Lease(ms(20_000))),
    row(LEASES, 3, "W15", Ours::Lease(ms(30_000))),
    row(LEASES, 4, "W15", Ours::Lease(ms(30_000))),
    row(LEASES, 5, "W15", Ours::Lease(ms(30_000))),
    row(
        "fair-lease-expires-head-takes-it",
        3,
        "W15",
        Ours::Lease(ms(30_000)),
    ),
    row(EXPIRED, 3, "W7", LOST),
    row(EXPIRED_AND_FORCED, 3, "W7", LOST),
    // A waiter that gives up takes nothing from those behind it.
    row(
        ASYNC,
        5,
        "W13",
        Ours::Instead(&Instead {
            messages: Some(&["0"]),
            keys: Some(HELD_BY_FOLLOWER),
            served: Some(3),
            ..AS_RECORDED
        }),
    ),
    row(
        ASYNC,
        6,
        "W13",
        Ours::Instead(&Instead {
            seen: Some(Seen::Flag(true)),
            keys: Some(HELD_BY_FOLLOWER),
            ..AS_RECORDED
        }),
    ),
    // A waiter that is stopped leaves the queue.
    row(
        INTERRUPTED,
        3,
        "W12",
        Ours::Instead(&Instead {
            keys: Some(HELD_BY_HOLDER),
            ..AS_RECORDED
        }),
    ),
    row(
        INTERRUPTED,
        4,
        "W12",
        Ours::Instead(&Instead {
            messages: Some(&[]),
            keys: Some(&[]),
            ..AS_RECORDED
        }),
    ),
    row(
        INTERRUPTED,
        5,
        "W12",
        Ours::Instead(&Instead {
            seen: Some(Seen::Flag(true)),
            keys: Some(HELD_BY_OTHER),
            ..AS_RECORDED
        }),
    ),
    row(
        INTERRUPTED,
        6,
        "W12",
        Ours::Instead(&Instead {
            keys: Some(HELD_BY_OTHER),
            ..AS_RECORDED
        }),
    ),
    // Nothing removes a queue: the first waiter is told that the lock is free.
    row(
        DELETED,
        3,
        "W12",
        Ours::Instead(&Instead {
            messages: Some(&["0"]),
            keys: Some(HELD_BY_WAITER),
            served: Some(2),
            ..AS_RECORDED
        }),
    ),
    row(
        DELETED,
        4,
        "W12",
        Ours::Instead(&Instead {
            seen: Some(Seen::Flag(true)),
            keys: Some(HELD_BY_WAITER),
            ..AS_RECORDED
        }),
    ),
];
