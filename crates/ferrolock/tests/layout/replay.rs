//! Repeats with our library, on real servers, everything that was recorded of the real Redisson for the primitives that we
//! have.
//!
//! After every step keys, types, values, times to live, messages and outcome are the same, except for the differences in the
//! table in `differences.rs`, which must be exactly as the table says.

use std::collections::BTreeSet;

use testkit::fixtures::{
    Content, KeyState, Outcome, Primitive, Returned, Step, Ttl, Word, scenarios, scenarios_of,
};
use testkit::servers;

use crate::actor::names;
use crate::differences::habits_of;
use crate::journal::talkative;
use crate::player::{Player, prefixed};
use crate::runtime;

/// A test for each primitive that we have.
macro_rules! replayed {
    ($($test:ident: $primitive:ident,)*) => {
        pub(crate) const REPLAYED: &[Primitive] = &[$(Primitive::$primitive),*];

        $(#[test]
        fn $test() {
            replay(Primitive::$primitive);
        })*
    };
}

replayed! {
    after_each_step_of_a_plain_lock_the_server_is_as_redisson_leaves_it: Lock,
    after_each_step_of_a_non_reentrant_lock_the_server_is_as_redisson_leaves_it: NonReentrantLock,
    after_each_step_of_a_read_write_lock_the_server_is_as_redisson_leaves_it: ReadWriteLock,
    after_each_step_of_a_fenced_lock_the_server_is_as_redisson_leaves_it: FencedLock,
    after_each_step_of_a_spin_lock_the_server_is_as_redisson_leaves_it: SpinLock,
    after_each_step_of_a_fair_lock_the_server_is_as_redisson_leaves_it: FairLock,
    after_each_step_of_a_non_reentrant_fair_lock_the_server_is_as_redisson_leaves_it: NonReentrantFairLock,
    after_each_step_of_a_multi_lock_the_server_is_as_redisson_leaves_it: MultiLock,
    after_each_step_of_a_red_lock_on_one_server_it_is_as_redisson_leaves_it: RedLock,
}

/// Recorded, and not built. When one is built, it moves to the list above, and its methods are added to `actor.rs`.
const NOT_BUILT: &[Primitive] = &[
    // Names its members by a hash of what Java's codec makes of them, and has the times of the clients' clocks on the server.
    Primitive::GroupMultiLock,
    Primitive::Semaphore,
    Primitive::PermitSemaphore,
    Primitive::CountDownLatch,
];

fn replay(primitive: Primitive) {
    let scenarios = scenarios_of(primitive);
    assert!(!scenarios.is_empty());
    for kind in servers() {
        let server = talkative(kind);
        let mut habits = BTreeSet::new();
        for scenario in &scenarios {
            habits.append(&mut runtime().block_on(Player::play(&server, scenario)));
        }
        assert_eq!(
            habits,
            habits_of(primitive),
            "{primitive:?}: the table of habits"
        );
        eprintln!("{}: {} scenarios", kind.name(), scenarios.len());
    }
}

#[test]
fn every_recorded_primitive_is_replayed_or_known_to_be_missing() {
    let recorded: BTreeSet<_> = scenarios().iter().map(|one| one.primitive).collect();
    let known: Vec<_> = REPLAYED.iter().chain(NOT_BUILT).copied().collect();

    assert_eq!(recorded, known.iter().copied().collect());
    assert_eq!(
        recorded.len(),
        known.len(),
        "none stands in both lists, or twice"
    );
}

#[test]
fn the_unlock_latch_is_the_only_key_that_comes_and_goes_within_a_step() {
    for scenario in scenarios() {
        for step in &scenario.steps {
            let at = format!("{}, step {}", scenario.name, step.step);
            assert!(step.transient.iter().all(is_latch), "{at}");
            if REPLAYED.contains(&scenario.primitive) {
                let latches: Vec<_> = step.transient.iter().map(|state| &*state.key).collect();
                assert_eq!(latches, latches_of(step), "{at}");
            }
        }
    }
}

/// Whether the key is a latch: a text of `0` or `1` under a latch's name, with the latch's time to live.
fn is_latch(state: &KeyState) -> bool {
    let answers = ["0", "1"].map(|answer| Content::Text(Word::Text(answer.to_owned())));
    let name = state.key.strip_prefix("redisson_unlock_latch:");
    name.is_some_and(|name| name.contains('{') && name.ends_with(":<hex32>"))
        && answers.contains(&state.value)
        && matches!(state.ttl, Ttl::Within { max, .. } if max.as_secs() == 20)
}

/// The latches of an unlock that found its lock, or that told waiters that there was none. Of several locks, those that were
/// given back: an unlock of all, and a call that got only some of them.
fn latches_of(step: &Step) -> Vec<String> {
    let is_unlock = step.call.method() == "unlock";
    let is_void = step.reply == Some(Outcome::Returns(Returned::Void));
    let channels = step.messages.iter().map(|message| &message.channel);
    let is_of_several = step.on.as_ref().is_some_and(|on| !on.members.is_empty());
    let names = match (is_of_several, is_unlock) {
        (true, _) if !step.messages.is_empty() => {
            let name = |channel: &String| channel.split(['{', '}']).nth(1).unwrap().to_owned();
            channels.map(name).collect()
        }
        (_, true) if is_void || !step.messages.is_empty() => names(step).to_vec(),
        _ => Vec::new(),
    };
    let latch = |name: &String| format!("{}:<hex32>", prefixed("redisson_unlock_latch", name));
    names.iter().map(latch).collect()
}
