//! The keys that a step should leave, from the recorded ones.

use std::time::Duration;

use testkit::fixtures::{Content, KeyState, Step, Ttl, Word};

use crate::actor::object;
use crate::differences::{Left, LeftKey};

/// In the name of every hold key of a reader.
pub(super) const HOLD_KEY: &str = ":rwlock_timeout:";

/// What the channel of an object's releases is called.
pub(super) fn channel_of(step: &Step) -> &'static str {
    match object(step).kind.as_str() {
        "read lock" | "write lock" => "redisson_rwlock",
        _ => "redisson_lock__channel",
    }
}

pub(super) fn left_key(key: &LeftKey) -> KeyState {
    let word = |text: &str| Word::Text(text.to_owned());
    let (kind, value) = match key.holds {
        Left::Text(text) => ("string", Content::Text(word(text))),
        Left::Fields(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(field, value)| ((*field).to_owned(), word(value)));
            ("hash", Content::Hash(fields.collect()))
        }
    };
    KeyState {
        key: key.name.to_owned(),
        kind: kind.to_owned(),
        value,
        ttl: key.lease.map_or(Ttl::Unlimited, fresh),
    }
}

/// The keys with another lease of the lock.
pub(super) fn with_lease(at: &str, keys: &[KeyState], lease: Duration) -> Vec<KeyState> {
    let mut keys = keys.to_vec();
    let mut locks = keys.iter_mut().filter(|state| state.kind == "hash");
    let (lock, other) = (locks.next(), locks.next());
    assert_eq!(other, None, "{at}: one lock");
    lock.unwrap_or_else(|| panic!("{at}: a lock")).ttl = fresh(lease);
    keys
}

/// The keys with one hold key for each thread, which lives as long as the longest of those that were recorded.
pub(super) fn with_one_hold_key(recorded: &[KeyState]) -> Vec<KeyState> {
    let mut left: Vec<KeyState> = Vec::new();
    for state in recorded {
        let mut state = state.clone();
        if let Some((front, _)) = state.key.split_once(HOLD_KEY) {
            state.key = format!("{front}{HOLD_KEY}1");
        }
        match left.last_mut().filter(|last| last.key == state.key) {
            Some(last) if most(last.ttl) >= most(state.ttl) => {}
            Some(last) => *last = state,
            None => left.push(state),
        }
    }
    left
}

fn most(ttl: Ttl) -> Duration {
    match ttl {
        Ttl::Unlimited => Duration::MAX,
        Ttl::Within { max, .. } => max,
    }
}

/// The name of something that belongs to an object, in the object's slot.
pub(crate) fn prefixed(prefix: &str, name: &str) -> String {
    match name.contains('{') {
        true => format!("{prefix}:{name}"),
        false => format!("{prefix}:{{{name}}}"),
    }
}

/// The time to live of a lease that began in this step.
pub(crate) fn fresh(lease: Duration) -> Ttl {
    Ttl::Within {
        min: lease.saturating_sub(Duration::from_millis(1200)),
        max: lease,
    }
}
