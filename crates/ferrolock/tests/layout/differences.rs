//! The one table of what we do otherwise than Redisson on purpose, and the test that plays everything it did.
//!
//! W numbers are those of the list of Redisson's weaknesses in the protocol notes; `API` is a call that guards and
//! typed durations leave no words for.

use std::time::Duration;

use ferrolock::ErrorKind;
use testkit::fixtures::{Scenario, scenarios};
use testkit::{Server, servers};

use crate::player::Player;
use crate::runtime;

/// A step that ends otherwise than it did in Java.
pub(crate) struct Difference {
    pub(crate) scenario: &'static str,
    pub(crate) step: usize,
    /// The weakness that we do not copy.
    pub(crate) why: &'static str,
    pub(crate) ours: Ours,
}

/// What ours does instead; what is not named is as recorded.
#[derive(Clone, Copy)]
pub(crate) enum Ours {
    /// Nobody without a guard can unlock: there is no such call, and nothing changes.
    NoSuchCall,
    /// The call is refused, and the server stays empty.
    Refused(ErrorKind),
    /// The call before was refused: there is nothing to give back, and the server stays empty.
    NothingToGiveBack,
    /// The lock is held as recorded, with this lease.
    Lease(Duration),
    /// The call of an earlier step has returned, and its owner holds the lock with this lease.
    Served { step: usize, lease: Duration },
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// All of it.
pub(crate) const DIFFERENCES: &[Difference] = &[
    // A lease of zero is a mistake of the caller: told, not taken for "renew for ever".
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
    // A short re-entry does not shorten what the outer hold has.
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
    // A partial unlock does not touch a longer lease, whichever handle it comes through.
    Difference {
        scenario: "lock-partial-unlock-through-other-object-sets-watchdog-ttl",
        step: 3,
        why: "W15",
        ours: Ours::Lease(ms(600_000)),
    },
    // Each hold has its own lease: a renewed one is not cut to a fixed one's.
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
    // A lease that ran out has nothing to say about the next hold.
    Difference {
        scenario: "lock-expired-lease-stays-in-the-object",
        step: 3,
        why: "W15",
        ours: Ours::Lease(ms(30_000)),
    },
    // Threads are no owners: without a guard there is nothing to call `unlock` on.
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
    // No wait hangs on a message that may never come: a free lock is found by looking.
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

/// The difference of this step, if it is one.
pub(crate) fn difference(scenario: &str, step: usize) -> Option<&'static Difference> {
    DIFFERENCES
        .iter()
        .find(|difference| difference.scenario == scenario && difference.step == step)
}

#[test]
fn every_difference_is_of_a_recorded_step_and_has_a_reason() {
    let scenarios = scenarios();
    for difference in DIFFERENCES {
        let scenario = scenarios
            .iter()
            .find(|scenario| scenario.name == difference.scenario)
            .unwrap_or_else(|| panic!("no scenario {}", difference.scenario));
        assert!(difference.step >= 1 && difference.step <= scenario.steps.len());
        assert!(difference.why == "API" || difference.why.starts_with('W'));
    }
}

#[test]
fn after_each_step_of_a_plain_lock_the_server_is_as_redisson_leaves_it() {
    play_all("lock");
}

#[test]
fn after_each_step_of_a_non_reentrant_lock_the_server_is_as_redisson_leaves_it() {
    play_all("non-reentrant lock");
}

fn play_all(primitive: &str) {
    let scenarios: Vec<Scenario> = scenarios()
        .into_iter()
        .filter(|scenario| scenario.primitive == primitive)
        .collect();
    assert!(!scenarios.is_empty());
    for kind in servers() {
        let server = Server::start(kind);
        for scenario in &scenarios {
            server.command(&["FLUSHALL"]);
            runtime().block_on(async {
                let mut player = Player::new(&server, scenario).await;
                for step in &scenario.steps {
                    player.play(step).await;
                }
            });
        }
        eprintln!("{}: {} scenarios", kind.name(), scenarios.len());
    }
}
