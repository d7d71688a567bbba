//! What callers saw, compared with what was recorded.

use std::collections::BTreeSet;
use std::time::Duration;

use ferrolock::{ErrorKind, Unlocked};
use testkit::fixtures::{Content, Object, Outcome, Returned, Step, Word};

use crate::actor::{Seen, names, object};

/// Compares what the caller of `step` saw, in that step or later.
pub(super) fn check_outcome(
    at: &str,
    step: &Step,
    recorded: &Outcome,
    seen: &Seen,
    late: Duration,
) {
    let same = match (recorded, seen) {
        (Outcome::Pending, Seen::Pending) => true,
        (Outcome::Returns(Returned::Void), Seen::Void) => true,
        (Outcome::Returns(Returned::Void), Seen::Unlocked(unlocked)) => {
            *unlocked == unlocked_in_java(at, step)
        }
        (Outcome::Returns(Returned::Null), Seen::Null) => true,
        (Outcome::Returns(Returned::Flag(a)), Seen::Flag(b)) => a == b,
        (Outcome::Returns(Returned::Number(a)), Seen::Number(b)) => a == b,
        (Outcome::Returns(Returned::Millis(range)), Seen::Number(ms)) => {
            range.with_delay(late).admits(*ms)
        }
        // What Java's object does not support, ours has no method for.
        (Outcome::Throws { class, cause: None }, Seen::NoSuchCall) => {
            class == "UnsupportedOperationException"
        }
        (Outcome::Throws { class, cause: None }, Seen::Failed(kind)) => {
            *kind == counterpart(at, step, class)
        }
        _ => false,
    };
    assert!(same, "{at}: {seen:?}, not {recorded:?}");
}

/// The kind of error that corresponds to a Java exception.
fn counterpart(at: &str, step: &Step, class: &str) -> ErrorKind {
    match (class, step.call.method()) {
        ("IllegalMonitorStateException", "unlock") => ErrorKind::Lost,
        ("IllegalMonitorStateException", "lock" | "tryLock") => ErrorKind::WouldDeadlock,
        ("InterruptedException", "lockInterruptibly") => ErrorKind::Cancelled,
        ("IllegalArgumentException", "") => ErrorKind::Invalid,
        (class, method) => panic!("{at}: {class} of {method}"),
    }
}

/// The result of an unlock according to Redisson's latch, which says whether the lock is free now.
fn unlocked_in_java(at: &str, step: &Step) -> Unlocked {
    let text = |word: &Word| match word {
        Word::Text(text) => text.clone(),
        other => panic!("{at}: {other:?}"),
    };
    let latches = step.transient.iter().map(|state| match &state.value {
        Content::Text(word) => text(word),
        other => panic!("{at}: a latch of {other:?}"),
    });
    // That of a lock, or one of each member, with the same word.
    let latches: BTreeSet<String> = latches.collect();
    let [latch] = &Vec::from_iter(latches)[..] else {
        panic!("{at}: one latch, not {:?}", step.transient);
    };
    let Object { kind, .. } = object(step);
    let field = match kind.as_str() {
        "write lock" => format!("{}:write", step.owner),
        _ => step.owner.to_string(),
    };
    let count = step.keyspace.iter().find_map(|state| match &state.value {
        Content::Hash(fields) if names(step).contains(&state.key) => fields.get(&field).map(text),
        _ => None,
    });
    match (latch.as_str(), count) {
        // A reader that leaves others behind has not freed the lock.
        ("1", _) | ("0", None) => Unlocked::Released,
        ("0", Some(count)) => Unlocked::StillHeld(count.parse().unwrap()),
        (other, _) => panic!("{at}: a latch of {other}"),
    }
}
