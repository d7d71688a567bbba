//! Several names of one client in one call: acquired, all of them or none; and released, each by itself.

use std::sync::Arc;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};

use super::call::{Arg, Call, Form, Script, Value, script};
use super::lock::millis;
use super::renewal::RowError;
use super::scheme::BadReply;

static ACQUIRE: Script = script!(
    "multi_lock/acquire",
    Acquire,
    "lock/take",
    "fenced_lock/grant"
);

static RELEASE: Script = script!("multi_lock/release", Release);

/// Every script of this file: a connection makes them known to its server.
pub(super) static SCRIPTS: [&Script; 2] = [&ACQUIRE, &RELEASE];

/// One name of an acquire.
#[derive(Debug)]
pub(crate) struct GroupRow {
    pub(super) lock: Arc<str>,
    /// Of a kind with fences.
    pub(super) last_fence: Option<Arc<str>>,
    pub(super) field: Arc<str>,
    pub(super) lease: Duration,
    /// Their key, and what they say.
    pub(super) details: Option<(Arc<str>, Arc<str>)>,
}

/// One name of a release that leaves nothing.
#[derive(Debug)]
pub(crate) struct ReleaseRow {
    /// Lock, channel, and holder details if the tenure keeps them.
    pub(super) keys: SmallVec<[Arc<str>; 3]>,
    pub(super) field: Arc<str>,
}

impl ReleaseRow {
    /// Whether both can go out in one call.
    pub(crate) fn fits(&self, other: &Self) -> bool {
        self.keys.len() == other.keys.len()
    }
}

/// What an acquire brought.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum GroupReply {
    /// The reply for each name, as its scheme reads it.
    Granted(Vec<Value>),
    /// Which of them was busy, and its reply. Nothing has changed.
    Busy(usize, Value),
}

/// Acquires all of these names, or none. `fence_floor`: the largest fence that the client has seen.
pub(crate) fn acquire(rows: &[GroupRow], fence_floor: u64, form: Form) -> Call {
    let mut keys: SmallVec<[Arc<str>; 3]> = rows.iter().map(|row| row.lock.clone()).collect();
    let floor = i64::try_from(fence_floor).unwrap_or(i64::MAX);
    let mut args: SmallVec<[Arg; 3]> = smallvec![Arg::Int(floor)];
    for row in rows {
        keys.extend(row.last_fence.clone());
        keys.extend(row.details.as_ref().map(|(key, _)| key.clone()));
        let who = row.details.as_ref().map(|(_, who)| who.clone());
        args.push(Arg::from(row.field.clone()));
        args.push(millis(row.lease));
        args.push(Arg::Int(i64::from(row.last_fence.is_some())));
        args.push(Arg::from(who.unwrap_or_else(|| Arc::from(""))));
    }
    Call {
        args,
        form,
        ..Call::of(&ACQUIRE, keys)
    }
}

/// The reply to an acquire of that many names.
pub(crate) fn read_acquire(reply: Value, names: usize) -> Result<GroupReply, BadReply> {
    let bad = |reply| BadReply("multi acquire", reply);
    let Value::List(mut values) = reply else {
        return Err(bad(reply));
    };
    match values.as_slice() {
        [Value::Int(0), granted @ ..] if granted.len() == names => {
            values.remove(0);
            let reply = |value| match value {
                Value::Bytes(text) if text.is_empty() => Value::Nil,
                fence => fence,
            };
            Ok(GroupReply::Granted(values.into_iter().map(reply).collect()))
        }
        [Value::Int(row @ 1..), left @ Value::Int(_)] => {
            let row = usize::try_from(*row).ok().filter(|row| *row <= names);
            match row {
                Some(row) => Ok(GroupReply::Busy(row - 1, left.clone())),
                None => Err(bad(Value::List(values))),
            }
        }
        _ => Err(bad(Value::List(values))),
    }
}

/// Releases all of these, which [fit](ReleaseRow::fits) each other.
pub(crate) fn release(rows: &[ReleaseRow]) -> Call {
    let keys = rows.iter().flat_map(|row| row.keys.iter().cloned());
    let fields = rows.iter().map(|row| Arg::from(row.field.clone()));
    Call {
        args: fields.collect(),
        ..Call::of(&RELEASE, keys.collect())
    }
}

/// The answer to each row of a release of that many names: the reply that its own release would have had.
pub(crate) fn read_release(
    reply: Value,
    rows: usize,
) -> Result<Vec<Result<Value, RowError>>, BadReply> {
    match reply {
        Value::List(answers) if answers.len() == rows => {
            let answer = |answer| match answer {
                Value::Bytes(text) => Err(RowError::of(&text)),
                reply => Ok(reply),
            };
            Ok(answers.into_iter().map(answer).collect())
        }
        other => Err(BadReply("multi release", other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_that_make_no_sense_are_refused() {
        let list = |values: &[i64]| Value::List(values.iter().map(|n| Value::Int(*n)).collect());

        assert_eq!(
            read_acquire(list(&[2, 40]), 2),
            Ok(GroupReply::Busy(1, Value::Int(40)))
        );
        for bad in [list(&[3, 40]), list(&[0]), list(&[-1, 1]), Value::Nil] {
            assert!(read_acquire(bad, 2).is_err());
        }
        let granted = [
            Value::Int(0),
            Value::Bytes(vec![]),
            Value::Bytes(b"7".to_vec()),
        ];
        assert_eq!(
            read_acquire(Value::List(granted.to_vec()), 2),
            Ok(GroupReply::Granted(vec![
                Value::Nil,
                Value::Bytes(b"7".to_vec())
            ]))
        );
    }
}
