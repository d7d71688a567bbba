//! The steps of the read-write lock that end differently.

use ferrolock::{ErrorKind, Unlocked};

use super::{AS_RECORDED, Difference, Instead, Left, LeftKey, Ours, lock, ms, no_guard, row};
use crate::actor::Seen;

const fn hold(name: &'static str, lease_ms: u64) -> LeftKey {
    LeftKey {
        name,
        holds: Left::Text("1"),
        lease: Some(ms(lease_ms)),
    }
}

const READER: &[(&str, &str)] = &[("mode", "read"), ("U:42", "1")];
const WRITER: &[(&str, &str)] = &[("mode", "write"), ("U:42:write", "1")];
const BOTH: &[(&str, &str)] = &[("mode", "write"), ("U:42", "1"), ("U:42:write", "1")];
const READERS: &[(&str, &str)] = &[("mode", "read"), ("U:42", "1"), ("V:42", "1")];
const HOLD_OF_U: &str = "{orders}:U:42:rwlock_timeout:1";
const HOLD_OF_V: &str = "{orders}:V:42:rwlock_timeout:1";

/// A writer that stops writing and goes on reading wakes all who wait.
const ANNOUNCED: Ours = Ours::Instead(&Instead {
    messages: Some(&["1"]),
    ..AS_RECORDED
});
/// A write by an owner that reads would wait for itself.
const WOULD_DEADLOCK: Ours = Ours::Instead(&Instead {
    seen: Some(Seen::Failed(ErrorKind::WouldDeadlock)),
    ..AS_RECORDED
});
const NO: Ours = Ours::Instead(&Instead {
    seen: Some(Seen::Flag(false)),
    ..AS_RECORDED
});
/// Whichever side is forced open, both are, and no hold key stays.
const FORCED: Ours = Ours::Instead(&Instead {
    seen: Some(Seen::Flag(true)),
    messages: Some(&["1"]),
    keys: Some(&[]),
    ..AS_RECORDED
});
/// It was forced open before.
const NOTHING_TO_FORCE: Ours = Ours::Instead(&Instead {
    seen: Some(Seen::Flag(false)),
    messages: Some(&[]),
    keys: Some(&[]),
    ..AS_RECORDED
});
/// The owner's guard does not know yet that its read hold was forced open.
const READS_AS_FAR_AS_IT_KNOWS: Ours = Ours::Instead(&Instead {
    seen: Some(Seen::Failed(ErrorKind::WouldDeadlock)),
    keys: Some(&[]),
    ..AS_RECORDED
});
/// Readers get in with a downgrade, and need not wait for the end of a lease.
const BOTH_READ: &[LeftKey] = &[
    lock(READERS, 4000),
    hold(HOLD_OF_U, 2500),
    hold(HOLD_OF_V, 4000),
];

const TWO_READS: &str = "write-and-two-reads-partial-read-unlock-shrinks-ttl";
const DIED: &str = "read-expired-hold-keeps-field-next-hold-gets-next-index";
const SILENT: &str = "rw-downgrade-does-not-wake-waiting-readers";
const NOBODY: &str = "rw-read-mode-without-readers";

pub(super) const DIFFERENCES: &[Difference] = &[
    no_guard("read-reentry", 6),
    no_guard("write-reentry-adds-up-ttl", 8),
    no_guard("writer-excludes-writer", 4),
    no_guard("reader-cannot-upgrade", 4),
    no_guard("read-unlock-by-non-owner", 2),
    no_guard("read-unlock-by-non-owner", 3),
    no_guard("read-unlock-while-write-held-by-other", 2),
    no_guard("read-unlock-while-write-held-by-other", 3),
    no_guard("read-unlock-of-missing-lock-publishes", 1),
    no_guard("write-unlock-of-missing-lock-publishes", 1),
    // Leases are neither added up nor cut.
    row(
        "write-reentry-adds-up-ttl",
        2,
        "W17",
        Ours::Lease(ms(30_000)),
    ),
    row(
        "write-reentry-adds-up-ttl",
        3,
        "W17",
        Ours::Lease(ms(30_000)),
    ),
    row(
        "write-reentry-adds-up-ttl",
        4,
        "W17",
        Ours::Lease(ms(30_000)),
    ),
    row(
        "write-reentry-adds-up-ttl",
        5,
        "W17",
        Ours::Lease(ms(30_000)),
    ),
    row(
        "write-reentry-adds-up-ttl",
        6,
        "W17",
        Ours::Lease(ms(30_000)),
    ),
    row("write-lease", 2, "W17", Ours::Lease(ms(60_000))),
    row(
        "read-reentry-longer-second-lease",
        3,
        "W17",
        Ours::Instead(&Instead {
            keys: Some(&[lock(READER, 60_000), hold(HOLD_OF_U, 60_000)]),
            ..AS_RECORDED
        }),
    ),
    row(
        TWO_READS,
        4,
        "W17",
        Ours::Instead(&Instead {
            keys: Some(&[lock(BOTH, 600_000), hold(HOLD_OF_U, 2000)]),
            ..AS_RECORDED
        }),
    ),
    row(
        TWO_READS,
        5,
        "W17",
        Ours::Instead(&Instead {
            messages: Some(&["1"]),
            keys: Some(&[lock(READER, 2000), hold(HOLD_OF_U, 2000)]),
            ..AS_RECORDED
        }),
    ),
    row("downgrade-write-released-first", 3, "W17", ANNOUNCED),
    row("rw-queries", 13, "W17", ANNOUNCED),
    row("rw-name-with-tag", 7, "W17", ANNOUNCED),
    row(
        SILENT,
        4,
        "W17",
        Ours::Instead(&Instead {
            messages: Some(&["1"]),
            keys: Some(BOTH_READ),
            served: Some(2),
            ..AS_RECORDED
        }),
    ),
    row(
        SILENT,
        5,
        "W17",
        Ours::Instead(&Instead {
            keys: Some(BOTH_READ),
            ..AS_RECORDED
        }),
    ),
    row(
        SILENT,
        6,
        "W17",
        Ours::Instead(&Instead {
            keys: Some(BOTH_READ),
            ..AS_RECORDED
        }),
    ),
    row(
        SILENT,
        7,
        "W17",
        Ours::Instead(&Instead {
            keys: Some(&[lock(READER, 2500), hold(HOLD_OF_U, 2500)]),
            ..AS_RECORDED
        }),
    ),
    row("reader-cannot-upgrade", 2, "API", WOULD_DEADLOCK),
    row("reader-cannot-upgrade", 3, "API", WOULD_DEADLOCK),
    // A reader that died holds nothing, and its next hold is another one.
    row(
        "read-hold-expires-zombie-removed-by-other-unlock",
        4,
        "W18",
        NO,
    ),
    row(
        DIED,
        5,
        "W18",
        Ours::Instead(&Instead {
            seen: Some(Seen::Unlocked(Unlocked::Released)),
            ..AS_RECORDED
        }),
    ),
    row(
        DIED,
        7,
        "W26",
        Ours::Instead(&Instead {
            messages: Some(&[]),
            ..AS_RECORDED
        }),
    ),
    // Each side answers for itself.
    row("rw-queries", 5, "API", NO),
    row("rw-queries", 15, "API", NO),
    row("rw-force-unlock", 2, "API", FORCED),
    row("rw-force-unlock", 3, "API", NOTHING_TO_FORCE),
    row("rw-force-unlock", 4, "API", READS_AS_FAR_AS_IT_KNOWS),
    row("rw-force-unlock", 5, "API", NOTHING_TO_FORCE),
    row("rw-force-unlock", 6, "API", NOTHING_TO_FORCE),
    row("rw-force-unlock", 7, "API", NOTHING_TO_FORCE),
    row("rw-delete", 2, "API", FORCED),
    row("rw-delete", 3, "API", READS_AS_FAR_AS_IT_KNOWS),
    row("rw-delete", 4, "API", NOTHING_TO_FORCE),
    // A lock with dead readers, or none, is free.
    row(
        NOBODY,
        3,
        "W18",
        Ours::Instead(&Instead {
            seen: Some(Seen::Flag(true)),
            keys: Some(&[lock(WRITER, 30_000)]),
            ..AS_RECORDED
        }),
    ),
    row(
        NOBODY,
        4,
        "W18",
        Ours::Instead(&Instead {
            keys: Some(&[lock(BOTH, 30_000), hold(HOLD_OF_U, 5000)]),
            ..AS_RECORDED
        }),
    ),
    row(
        NOBODY,
        5,
        "W18",
        Ours::Instead(&Instead {
            messages: Some(&[]),
            keys: Some(&[lock(WRITER, 30_000)]),
            ..AS_RECORDED
        }),
    ),
];
