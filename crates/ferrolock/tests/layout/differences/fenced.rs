//! The steps of the fenced lock that end differently.

use super::{AS_RECORDED, Difference, Instead, Left, LeftKey, Ours, lock, ms, no_guard, row};
use crate::actor::Seen;

/// The number of the last grant; among a scenario's fences it is the first.
const FIRST_FENCE: LeftKey = LeftKey {
    name: "redisson_lock_token:{orders}",
    holds: Left::Text("1"),
    lease: None,
};

const FREE: Instead = Instead {
    keys: Some(&[FIRST_FENCE]),
    ..AS_RECORDED
};
const HELD: Instead = Instead {
    keys: Some(&[lock(&[("U:42", "1")], 30_000), FIRST_FENCE]),
    ..AS_RECORDED
};
const HELD_TWICE: Instead = Instead {
    keys: Some(&[lock(&[("U:42", "2")], 30_000), FIRST_FENCE]),
    ..AS_RECORDED
};
const NO_CALL: Instead = Instead {
    seen: Some(Seen::NoSuchCall),
    ..AS_RECORDED
};

const REENTRY: &str = "fenced-reentry-raises-token";
const TOKENS: &str = "fenced-get-token";
const UNTIMED: &str = "fenced-untimed-try-token-waits";

const fn instead(scenario: &'static str, step: usize, ours: &'static Instead) -> Difference {
    row(scenario, step, "W16", Ours::Instead(ours))
}

pub(super) const DIFFERENCES: &[Difference] = &[
    no_guard("fenced-busy-does-not-raise-token", 3),
    // A re-entry has the fence of the first entry.
    instead(REENTRY, 2, &HELD_TWICE),
    instead(REENTRY, 3, &HELD),
    instead(REENTRY, 4, &FREE),
    row(
        REENTRY,
        5,
        "W8, W16",
        Ours::Instead(&Instead {
            seen: Some(Seen::NoSuchCall),
            ..FREE
        }),
    ),
    instead(
        TOKENS,
        4,
        &Instead {
            seen: Some(Seen::Number(1)),
            ..HELD_TWICE
        },
    ),
    instead(TOKENS, 5, &HELD),
    instead(TOKENS, 6, &FREE),
    // A fence is that of a hold: there is none to ask for without a guard.
    row(TOKENS, 1, "API", Ours::Instead(&NO_CALL)),
    row(
        TOKENS,
        7,
        "API",
        Ours::Instead(&Instead {
            seen: Some(Seen::NoSuchCall),
            ..FREE
        }),
    ),
    // A lease counts, with a fence too.
    row(
        "fenced-lock-and-get-token-with-lease",
        1,
        "W16",
        Ours::Lease(ms(5000)),
    ),
    // A try does not wait.
    instead(
        UNTIMED,
        2,
        &Instead {
            seen: Some(Seen::Null),
            ..AS_RECORDED
        },
    ),
    instead(UNTIMED, 4, &FREE),
    instead(
        UNTIMED,
        5,
        &Instead {
            seen: Some(Seen::NoSuchCall),
            messages: Some(&[]),
            ..FREE
        },
    ),
    // What the next holder's fence must be larger than stays, and waiters are told.
    instead(
        "fenced-delete-removes-token",
        2,
        &Instead {
            messages: Some(&["0"]),
            ..FREE
        },
    ),
];
