//! The plain lock: the calls of its scripts, and what their replies mean.

use std::sync::Arc;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};

use super::keys;
use super::renewal::Row;
use super::script::{Arg, Call, Form, Script, Value, script};

static ACQUIRE: Script = script!("lock/acquire");
static REENTER: Script = script!("lock/reenter");
static RELEASE: Script = script!("lock/release");
static RENEW: Script = script!("lock/renew");
static LINGER: Script = script!("lock/linger");
static FORCE_UNLOCK: Script = script!("lock/force_unlock");
static INSPECT: Script = script!("lock/inspect");
static KIND_OF: Script = script!("lock/kind_of");

/// Every script of this file: a connection makes them known to its server.
pub(crate) static SCRIPTS: [&Script; 8] = [
    &ACQUIRE,
    &REENTER,
    &RELEASE,
    &RENEW,
    &LINGER,
    &FORCE_UNLOCK,
    &INSPECT,
    &KIND_OF,
];

/// The keys of one name.
#[derive(Clone, Debug)]
pub(crate) struct LockKeys {
    pub(crate) lock: Arc<str>,
    pub(crate) channel: Arc<str>,
    details: Arc<str>,
}

impl LockKeys {
    pub(crate) fn new(name: Arc<str>) -> Self {
        Self {
            channel: keys::lock_channel(&name),
            details: keys::holder_details(&name),
            lock: name,
        }
    }
}

/// A tenure as scripts see it: its field, and whether it keeps details for people.
#[derive(Clone, Debug)]
pub(crate) struct Bearer {
    pub(crate) field: Arc<str>,
    /// `pid`, host and label, a line each; `None`: nothing is written.
    pub(crate) who: Option<Arc<str>>,
}

/// The reply to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    Granted,
    Busy(Rest),
}

/// What a holder's lease still has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    Left(Duration),
    NoExpiry,
}

/// The reply to a question about a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Ours,
    /// Nothing is there.
    Gone,
    /// Another field is there.
    Taken,
}

/// The reply to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// The name is free, and so many heard of it.
    Free { heard: u64 },
    /// Other holds of the tenure go on.
    Left,
    /// It was not ours: gone, or taken.
    Not(Standing),
}

/// A holder as the server shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) field: String,
    pub(crate) count: u32,
    pub(crate) details: Option<Details>,
}

/// What a holder of ours wrote about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Details {
    pub(crate) held_for: Duration,
    pub(crate) pid: Option<u32>,
    pub(crate) host: Option<String>,
    pub(crate) label: Option<String>,
}

/// A reply that is none of those a script gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadReply(pub(crate) &'static str, pub(crate) Value);

/// By hash alone: what runs after the server was found not to know it may run when its caller has gone.
pub(crate) fn acquire(keys: &LockKeys, bearer: &Bearer, lease: Duration) -> Call {
    let mut args: SmallVec<_> = smallvec![Arg::Text(bearer.field.clone()), millis(lease)];
    args.extend(bearer.who.clone().map(Arg::Text));
    let acquire = call(&ACQUIRE, smallvec![keys.lock.clone()], keys, bearer, args);
    let form = Form::Hash;
    Call { form, ..acquire }
}

pub(crate) fn reenter(keys: &LockKeys, bearer: &Bearer, lease: Duration, count: u32) -> Call {
    let args = smallvec![
        Arg::Text(bearer.field.clone()),
        millis(lease),
        Arg::Int(count.into()),
    ];
    call(&REENTER, smallvec![keys.lock.clone()], keys, bearer, args)
}

pub(crate) fn release(keys: &LockKeys, bearer: &Bearer, left: u32, need: Duration) -> Call {
    let args = smallvec![
        Arg::Text(bearer.field.clone()),
        Arg::Int(left.into()),
        millis(need),
    ];
    call(
        &RELEASE,
        smallvec![keys.lock.clone(), keys.channel.clone()],
        keys,
        bearer,
        args,
    )
}

/// `lease` zero only asks.
pub(crate) fn renew(keys: &LockKeys, bearer: &Bearer, lease: Duration) -> Row {
    let mut used: SmallVec<_> = smallvec![keys.lock.clone()];
    used.extend(bearer.who.as_ref().map(|_| keys.details.clone()));
    Row {
        script: &RENEW,
        keys: used,
        field: bearer.field.clone(),
        lease,
    }
}

pub(crate) fn linger(keys: &LockKeys, bearer: &Bearer, stay: Duration) -> Call {
    let args = smallvec![Arg::Text(bearer.field.clone()), millis(stay)];
    call(&LINGER, smallvec![keys.lock.clone()], keys, bearer, args)
}

pub(crate) fn force_unlock(keys: &LockKeys) -> Call {
    let keys = smallvec![
        keys.lock.clone(),
        keys.channel.clone(),
        keys.details.clone(),
    ];
    Call {
        script: &FORCE_UNLOCK,
        keys,
        args: SmallVec::new(),
        form: Form::default(),
    }
}

pub(crate) fn inspect(keys: &LockKeys) -> Call {
    let keys = smallvec![keys.lock.clone(), keys.details.clone()];
    Call {
        script: &INSPECT,
        keys,
        args: SmallVec::new(),
        form: Form::default(),
    }
}

pub(crate) fn kind_of(keys: &LockKeys) -> Call {
    Call {
        script: &KIND_OF,
        keys: smallvec![keys.lock.clone()],
        args: SmallVec::new(),
        form: Form::default(),
    }
}

/// The lock that a call is about, if it is one of this file.
pub(crate) fn name_of(call: &Call) -> Option<&Arc<str>> {
    let ours = call.script.name.starts_with("lock/");
    call.keys.first().filter(|_| ours)
}

/// Whether a call takes a lock that its owner did not have.
pub(crate) fn is_acquire(call: &Call) -> bool {
    std::ptr::eq(call.script, &ACQUIRE)
}

/// The client in a field.
pub(crate) fn client_of(field: &str) -> Option<&str> {
    let (client, number) = field.rsplit_once(':')?;
    number.parse::<u64>().ok().map(|_| client)
}

/// Gives back whatever that field holds, for a holder whose process has ended.
pub(crate) fn release_of_dead(keys: &LockKeys, field: Arc<str>) -> Call {
    // There may be details, of which only the key is needed.
    let who = Some(Arc::from(""));
    release(keys, &Bearer { field, who }, 0, Duration::ZERO)
}

/// The field and the time in ms for which a call leaves the name taken, also when its process ends.
pub(crate) fn stays(call: &Call) -> Option<(&Arc<str>, i64)> {
    match call.args.as_slice() {
        [Arg::Text(field), Arg::Int(stay)] if std::ptr::eq(call.script, &LINGER) => {
            Some((field, *stay))
        }
        _ => None,
    }
}

/// What to say of a key that is no lock, from the reply of [`kind_of`].
pub(crate) fn wrong_type(keys: &LockKeys, kind: Option<Value>) -> String {
    let found = match &kind {
        Some(Value::Bytes(kind)) => text(kind),
        _ => "value of another type".to_owned(),
    };
    format!(
        "the key {:?} holds a {found}, not a lock: use another name or a key prefix",
        keys.lock
    )
}

/// A call for a tenure; with the details key behind the others if it keeps details.
fn call(
    script: &'static Script,
    mut used: SmallVec<[Arc<str>; 3]>,
    keys: &LockKeys,
    bearer: &Bearer,
    args: SmallVec<[Arg; 3]>,
) -> Call {
    if bearer.who.is_some() {
        used.push(keys.details.clone());
    }
    Call {
        script,
        keys: used,
        args,
        form: Form::default(),
    }
}

/// Whole milliseconds, rounded up: the server's grain.
pub(super) fn millis(duration: Duration) -> Arg {
    Arg::Int(i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX))
}

pub(crate) fn read_acquire(reply: Value) -> Result<Attempt, BadReply> {
    match reply {
        Value::Nil => Ok(Attempt::Granted),
        Value::Int(-1) => Ok(Attempt::Busy(Rest::NoExpiry)),
        Value::Int(ms @ 0..) => Ok(Attempt::Busy(Rest::Left(Duration::from_millis(
            ms.unsigned_abs(),
        )))),
        other => Err(BadReply("acquire", other)),
    }
}

/// For re-entry and linger, and for each row of a renewal.
pub(crate) fn read_standing(reply: Value) -> Result<Standing, BadReply> {
    match reply {
        Value::Int(1) => Ok(Standing::Ours),
        Value::Int(0) => Ok(Standing::Gone),
        Value::Int(-1) => Ok(Standing::Taken),
        other => Err(BadReply("standing", other)),
    }
}

pub(crate) fn read_release(reply: Value, left: u32) -> Result<Release, BadReply> {
    match reply {
        Value::Int(-1) => Ok(Release::Not(Standing::Gone)),
        Value::Int(-2) => Ok(Release::Not(Standing::Taken)),
        Value::Int(heard @ 0..) if left == 0 => Ok(Release::Free {
            heard: heard.unsigned_abs(),
        }),
        Value::Int(0) => Ok(Release::Left),
        other => Err(BadReply("release", other)),
    }
}

pub(crate) fn read_force_unlock(reply: Value) -> Result<bool, BadReply> {
    match reply {
        Value::Int(freed @ (0 | 1)) => Ok(freed == 1),
        other => Err(BadReply("force unlock", other)),
    }
}

/// The rest of the lease (`None`: free) and the holders.
pub(crate) fn read_inspect(reply: Value) -> Result<(Option<Rest>, Vec<Seen>), BadReply> {
    let bad = |reply: &Value| BadReply("inspect", reply.clone());
    let Value::List(parts) = &reply else {
        return Err(bad(&reply));
    };
    let [
        Value::Int(left),
        Value::Bytes(now),
        Value::List(fields),
        Value::List(details),
    ] = parts.as_slice()
    else {
        return Err(bad(&reply));
    };
    let rest = match *left {
        -2 => None,
        -1 => Some(Rest::NoExpiry),
        ms => Some(Rest::Left(Duration::from_millis(ms.unsigned_abs()))),
    };
    let now: u64 = text(now).parse().map_err(|_| bad(&reply))?;
    let details: Vec<(String, String)> = pairs(details);
    let mut holders = Vec::new();
    for (field, count) in pairs(fields) {
        // A read-write lock of the same name has fields that are no holders.
        let Ok(count) = count.parse() else { continue };
        let details = details
            .iter()
            .find(|(of, _)| *of == field)
            .map(|(_, line)| read_details(line, now));
        holders.push(Seen {
            field,
            count,
            details,
        });
    }
    Ok((rest, holders))
}

/// Time in ms, pid, host, label: a line each.
fn read_details(text: &str, now: u64) -> Details {
    let mut lines = text.splitn(4, '\n');
    let since: u64 = lines
        .next()
        .and_then(|line| line.parse().ok())
        .unwrap_or(now);
    let pid = lines.next().and_then(|line| line.parse().ok());
    let mut rest = || {
        lines
            .next()
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
    };
    Details {
        held_for: Duration::from_millis(now.saturating_sub(since)),
        pid,
        host: rest(),
        label: rest(),
    }
}

/// What [`read_details`] reads, without the time, which the script writes.
pub(crate) fn write_details(pid: u32, host: &str, label: &str) -> Arc<str> {
    format!("{pid}\n{host}\n{label}").into()
}

fn pairs(values: &[Value]) -> Vec<(String, String)> {
    values
        .chunks_exact(2)
        .filter_map(|pair| match pair {
            [Value::Bytes(key), Value::Bytes(value)] => Some((text(key), text(value))),
            _ => None,
        })
        .collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
#[path = "lock_tests.rs"]
mod tests;
