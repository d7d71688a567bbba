//! The only table of intended differences from Redisson: in single steps, and in every step of a kind.
//!
//! W numbers are those of the list of differences in `docs/redisson.md`; `API` is a call that cannot be written with guards
//! and typed durations.

mod fair;
mod fenced;
mod read_write;
mod several;
mod spin;

use std::collections::BTreeSet;
use std::time::Duration;

use ferrolock::ErrorKind;
use testkit::fixtures::{Outcome, Primitive, Returned, Scenario, Step, Ttl, scenarios};

use crate::actor::Seen;
use crate::player::fresh;
use crate::replay::REPLAYED;

/// A step that ends differently than in Java.
pub(crate) struct Difference {
    pub(crate) scenario: &'static str,
    pub(crate) step: usize,
    /// The weakness that we do not copy.
    pub(crate) why: &'static str,
    pub(crate) ours: Ours,
}

/// What our library does instead; everything else is as recorded.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ours {
    /// A caller without a guard cannot unlock: there is no such call, and nothing changes.
    NoSuchCall,
    /// The call is refused, and the server stays empty.
    Refused(ErrorKind),
    /// The call before was refused: there is nothing to release, and the server stays empty.
    NothingToGiveBack,
    /// The lock is held as recorded, with this lease.
    Lease(Duration),
    /// The call of an earlier step has returned, and its owner holds the lock with this lease.
    Served { step: usize, lease: Duration },
    /// Several things are different.
    Instead(&'static Instead),
}

/// What a step leaves here, and what its caller sees; `None`: as recorded.
#[derive(Debug)]
pub(crate) struct Instead {
    /// Of a step that waits for the end of a call: what that call's caller sees.
    pub(crate) seen: Option<Seen>,
    /// What the messages of the step say.
    pub(crate) messages: Option<&'static [&'static str]>,
    pub(crate) keys: Option<&'static [LeftKey]>,
    /// Keys that come and go.
    pub(crate) passing: &'static [&'static str],
    /// The call of this earlier step has returned.
    pub(crate) served: Option<usize>,
}

/// A key that a step leaves.
#[derive(Debug)]
pub(crate) struct LeftKey {
    pub(crate) name: &'static str,
    pub(crate) holds: Left,
    /// `None`: it stays.
    pub(crate) lease: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Left {
    Text(&'static str),
    /// Of a lock: who holds it, and how often.
    Fields(&'static [(&'static str, &'static str)]),
}

const AS_RECORDED: Instead = Instead {
    seen: None,
    messages: None,
    keys: None,
    passing: &[],
    served: None,
};

/// A step of a scenario, for the reason `why`.
const fn row(scenario: &'static str, step: usize, why: &'static str, ours: Ours) -> Difference {
    Difference {
        scenario,
        step,
        why,
        ours,
    }
}

/// Threads are not owners: without a guard there is nothing to call `unlock` on.
const fn no_guard(scenario: &'static str, step: usize) -> Difference {
    row(scenario, step, "W8", Ours::NoSuchCall)
}

const fn lock(fields: &'static [(&'static str, &'static str)], lease_ms: u64) -> LeftKey {
    LeftKey {
        name: "orders",
        holds: Left::Fields(fields),
        lease: Some(ms(lease_ms)),
    }
}

/// What differs in every step of a kind.
pub(crate) struct Everywhere {
    pub(crate) habit: Habit,
    /// The weakness that we do not copy.
    pub(crate) why: &'static str,
    /// The primitives that show it: in at least one step; no other primitive shows it.
    pub(crate) seen_in: &'static [Primitive],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Habit {
    /// Redisson's unlock writes its answer to a key of its own and deletes it. Ours writes only keys that are in the recorded
    /// keyspace before or after the step, and returns the same answer to its caller.
    NoLatch,
    /// In Java the number behind a client's uuid is that of a thread, the same each time. Here it is that of a tenure: re-entry
    /// keeps it, and a new acquisition has a number that was never used before.
    Tenures,
    /// In Java each hold of a reader has a key of its own, by its number. Here a reader has one, whatever its count, with the
    /// longest of these leases.
    OneHoldKey,
    /// In Java the first fence is 1, and each acquire has the next number. Here a fence is no less than the server's time in
    /// microseconds: compared is which of a scenario's fences it is.
    FencesFromTime,
    /// A waiter of ours in a queue has a deadline of 300 s that no grant of others moves, a sign of life of its client beside it,
    /// and its place ends an hour after the last of these.
    OwnPlaces,
    /// Java tells a waiter in a queue on a channel of its own. Here its client is told which of its waiters it is.
    Inbox,
    /// Each member of a quorum is a fenced lock: the number of the last grant stays.
    FencedNodes,
    /// Where Java passes a time below zero (no wait, no fixed lease), our caller passes none.
    NoNegativeTimes,
}

/// All habits.
pub(crate) const EVERYWHERE: &[Everywhere] = &[
    Everywhere {
        habit: Habit::NoLatch,
        why: "W26",
        seen_in: &[
            Primitive::Lock,
            Primitive::NonReentrantLock,
            Primitive::ReadWriteLock,
            Primitive::FencedLock,
            Primitive::SpinLock,
            Primitive::MultiLock,
            Primitive::RedLock,
            Primitive::FairLock,
            Primitive::NonReentrantFairLock,
        ],
    },
    Everywhere {
        habit: Habit::Tenures,
        why: "W3, W8",
        seen_in: &[
            Primitive::Lock,
            Primitive::NonReentrantLock,
            Primitive::ReadWriteLock,
            Primitive::FencedLock,
            Primitive::SpinLock,
            Primitive::MultiLock,
            Primitive::RedLock,
            Primitive::FairLock,
            Primitive::NonReentrantFairLock,
        ],
    },
    Everywhere {
        habit: Habit::OneHoldKey,
        why: "W18",
        seen_in: &[Primitive::ReadWriteLock],
    },
    Everywhere {
        habit: Habit::FencesFromTime,
        why: "W16",
        seen_in: &[Primitive::FencedLock],
    },
    Everywhere {
        habit: Habit::OwnPlaces,
        why: "W11, W13, W14",
        seen_in: &[Primitive::FairLock, Primitive::NonReentrantFairLock],
    },
    Everywhere {
        habit: Habit::Inbox,
        why: "W9",
        seen_in: &[Primitive::FairLock, Primitive::NonReentrantFairLock],
    },
    Everywhere {
        habit: Habit::FencedNodes,
        why: "W21",
        seen_in: &[Primitive::RedLock],
    },
    Everywhere {
        habit: Habit::NoNegativeTimes,
        why: "API",
        seen_in: &[Primitive::Lock],
    },
];

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// All steps.
pub(crate) const DIFFERENCES: &[Difference] = &[
    // A lease of zero is a mistake of the caller: an error, and not "renew for ever".
    Difference {
        scenario: "lock-zero-and-negative-lease-mean-watchdog",
        step: 3,
        why: "API",
        ours: Ours::Refused(ErrorKind::Invalid),
    },
    Difference {
        scenario: "lock-zero-and-negative-lease-mean-watchdog",
        step: 4,
        why: "API",
        ours: Ours::NothingToGiveBack,
    },
    // A re-entry with a short lease does not shorten the lease of the outer hold.
    Difference {
        scenario: "lock-reentry-shorter-lease-shortens",
        step: 2,
        why: "W15",
        ours: Ours::Lease(ms(30_000)),
    },
    Difference {
        scenario: "lock-reentry-shorter-lease-shortens",
        step: 3,
        why: "W15",
        ours: Ours::Lease(ms(30_000)),
    },
    // A partial unlock does not change a longer lease, whichever handle is used.
    Difference {
        scenario: "lock-partial-unlock-through-other-object-sets-watchdog-ttl",
        step: 3,
        why: "W15",
        ours: Ours::Lease(ms(600_000)),
    },
    // Each hold has its own lease: a renewed lease is not cut to the length of a fixed one.
    Difference {
        scenario: "lock-watchdog-reentry-inherits-lease-of-the-object",
        step: 2,
        why: "W15",
        ours: Ours::Lease(ms(30_000)),
    },
    Difference {
        scenario: "lock-watchdog-reentry-inherits-lease-of-the-object",
        step: 3,
        why: "W15",
        ours: Ours::Lease(ms(30_000)),
    },
    // A lease that ran out has no effect on the next hold.
    Difference {
        scenario: "lock-expired-lease-stays-in-the-object",
        step: 3,
        why: "W15",
        ours: Ours::Lease(ms(30_000)),
    },
    // Threads are not owners: without a guard there is nothing to call `unlock` on.
    Difference {
        scenario: "lock-unlock-by-other-thread",
        step: 2,
        why: "W8",
        ours: Ours::NoSuchCall,
    },
    Difference {
        scenario: "lock-unlock-by-other-client-same-thread-number",
        step: 2,
        why: "W8",
        ours: Ours::NoSuchCall,
    },
    Difference {
        scenario: "lock-unlock-not-locked",
        step: 1,
        why: "W8",
        ours: Ours::NoSuchCall,
    },
    Difference {
        scenario: "non-reentrant-reacquire-is-an-error",
        step: 7,
        why: "W8",
        ours: Ours::NoSuchCall,
    },
    Difference {
        scenario: "non-reentrant-force-unlock-and-tag",
        step: 2,
        why: "W8",
        ours: Ours::NoSuchCall,
    },
    // A name whose braces do not match would work on one server and fail on a cluster.
    Difference {
        scenario: "lock-name-with-unclosed-brace",
        step: 1,
        why: "API",
        ours: Ours::Refused(ErrorKind::Invalid),
    },
    Difference {
        scenario: "lock-name-with-unclosed-brace",
        step: 2,
        why: "API",
        ours: Ours::NothingToGiveBack,
    },
    Difference {
        scenario: "lock-name-with-unclosed-brace",
        step: 3,
        why: "API",
        ours: Ours::Refused(ErrorKind::Invalid),
    },
    Difference {
        scenario: "lock-name-with-unclosed-brace",
        step: 4,
        why: "API",
        ours: Ours::NothingToGiveBack,
    },
    // No wait depends on a message that may never come: a poll finds the lock free.
    Difference {
        scenario: "lock-hash-of-peer-without-ttl-blocks",
        step: 4,
        why: "W1",
        ours: Ours::Served {
            step: 2,
            lease: ms(30_000),
        },
    },
    Difference {
        scenario: "lock-hash-of-peer-without-ttl-blocks",
        step: 5,
        why: "W1",
        ours: Ours::Served {
            step: 2,
            lease: ms(30_000),
        },
    },
];

fn all() -> impl Iterator<Item = &'static Difference> {
    let of_kinds = [
        DIFFERENCES,
        read_write::DIFFERENCES,
        fenced::DIFFERENCES,
        spin::DIFFERENCES,
        several::DIFFERENCES,
        fair::DIFFERENCES,
    ];
    of_kinds.into_iter().flatten()
}

/// The difference of this step, if there is one.
pub(crate) fn difference(scenario: &str, step: usize) -> Option<&'static Difference> {
    all().find(|difference| difference.scenario == scenario && difference.step == step)
}

/// The habits that a primitive shows.
pub(crate) fn habits_of(primitive: Primitive) -> BTreeSet<Habit> {
    let seen = EVERYWHERE.iter();
    let seen = seen.filter(|everywhere| everywhere.seen_in.contains(&primitive));
    seen.map(|everywhere| everywhere.habit).collect()
}

#[test]
fn every_difference_has_a_reason_and_belongs_to_a_replayed_step() {
    let scenarios = scenarios();
    let mut steps = BTreeSet::new();
    for Difference {
        scenario: name,
        step,
        why,
        ours,
    } in all()
    {
        let scenario = scenarios.iter().find(|scenario| scenario.name == *name);
        let scenario = scenario.unwrap_or_else(|| panic!("no scenario {name}"));

        assert!(REPLAYED.contains(&scenario.primitive), "{name}");
        assert!(
            *step >= 1 && *step <= scenario.steps.len(),
            "{name}, {step}"
        );
        assert!(steps.insert((name, step)), "twice: {name}, {step}");
        assert!(is_reason(why), "{name}, {step}: {why}");
        assert!(is_on_the_page(&format!("Ours::{ours:?}")), "{ours:?}");
        assert!(
            differs(scenario, *step, *ours),
            "as recorded: {name}, {step}"
        );
    }
}

#[test]
fn every_habit_has_a_reason_and_belongs_to_replayed_primitives() {
    let habits: BTreeSet<_> = EVERYWHERE
        .iter()
        .map(|everywhere| everywhere.habit)
        .collect();

    assert_eq!(habits.len(), EVERYWHERE.len(), "no habit twice");
    for everywhere in EVERYWHERE {
        let habit = everywhere.habit;
        assert!(is_reason(everywhere.why), "{habit:?}");
        assert!(is_on_the_page(&format!("Habit::{habit:?}")), "{habit:?}");
        assert!(!everywhere.seen_in.is_empty(), "{habit:?}");
        let replayed = everywhere.seen_in.iter().all(|one| REPLAYED.contains(one));
        assert!(replayed, "{habit:?}");
    }
}

/// The page of the documentation that has the same reasons and names the rows of this table.
const PAGE: &str = include_str!("../../../../docs/redisson.md");

#[test]
fn the_test_files_that_the_page_names_exist() {
    let tests = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let named = |word: &&str| word.ends_with(".rs") && !word.starts_with("crates/");
    let names: Vec<&str> = PAGE.split('`').filter(named).collect();

    assert!(names.len() > 20, "{names:?}");
    for name in names {
        let file = name.rsplit_once('/').map(|_| tests.join(name));
        assert!(file.is_none_or(|file| file.is_file()), "{name}");
    }
}

/// Numbers of the page's list of weaknesses, or `API`.
fn is_reason(why: &str) -> bool {
    let listed = |weakness: &str| {
        let mut rows = PAGE.lines().filter(|line| line.starts_with("| W"));
        rows.any(|row| row.split(['|', ',']).any(|cell| cell.trim() == weakness))
    };
    why == "API" || why.split(", ").all(listed)
}

/// Whether the page names a row of this table, by its kind.
fn is_on_the_page(row: &str) -> bool {
    let kind = row.split(|c: char| !c.is_alphanumeric() && c != ':').next();
    PAGE.contains(&format!("`{}`", kind.unwrap()))
}

/// Whether `ours` differs from the recording, and can be the difference of such a step.
fn differs(scenario: &Scenario, step: usize, ours: Ours) -> bool {
    let recorded: &Step = &scenario.steps[step - 1];
    let returns = matches!(recorded.reply, Some(Outcome::Returns(_)));
    match ours {
        Ours::NoSuchCall => {
            let throws = matches!(&recorded.reply, Some(Outcome::Throws { class, .. })
                if class == "IllegalMonitorStateException");
            // A fair lock that is free can be unlocked by any caller.
            let nothing = returns && recorded.keyspace.is_empty();
            recorded.call.method() == "unlock" && (throws || nothing)
        }
        Ours::Refused(_) => returns,
        Ours::Instead(instead) => {
            let payloads = recorded.messages.iter().map(|message| &*message.payload);
            let is_other = |said: &[&str]| !payloads.eq(said.iter().copied());
            let tells_other = instead.messages.is_some_and(is_other);
            tells_other || instead.seen.is_some() || instead.keys.is_some()
        }
        Ours::NothingToGiveBack => {
            let refused = difference(&scenario.name, step - 1);
            let refused = refused.is_some_and(|before| matches!(before.ours, Ours::Refused(_)));
            let void = recorded.reply == Some(Outcome::Returns(Returned::Void));
            recorded.call.method() == "unlock" && refused && void
        }
        Ours::Lease(lease) => {
            let mut locks = recorded.keyspace.iter();
            let lock = locks.find(|state| state.kind == "hash");
            match (lock.unwrap().ttl, fresh(lease)) {
                (Ttl::Within { min: a, max: b }, Ttl::Within { min: c, max: d }) => b < c || d < a,
                _ => true,
            }
        }
        Ours::Served { step: earlier, .. } => {
            let pending = scenario.steps[earlier - 1].reply == Some(Outcome::Pending);
            let later = &scenario.steps[step..];
            let completes = |step: &Step| step.completes.iter().any(|one| one.step == earlier);
            pending && recorded.keyspace.is_empty() && later.iter().any(completes)
        }
    }
}
