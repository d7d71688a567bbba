//! The plain lock: the calls of its scripts, and what their replies mean.

use std::sync::Arc;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};

use super::call::{Arg, Call, Form, Script, Value, script};
use super::keys;
use super::multi_lock::{GroupRow, ReleaseRow};
use super::pace::Pace;
use super::renewal::Row;
use super::scheme::{
    Ask, AttemptReply, BadReply, Bearer, Busy, Details, Granted, Line, Rest, Scheme, Seen, Subject,
    Waiting,
};

static ACQUIRE: Script = script!("lock/acquire", Acquire, "lock/take");
static REENTER: Script = script!("lock/reenter", Reenter, "lock/set_count");
static RELEASE: Script = script!("lock/release", Release, "lock/set_count");
static RENEW: Script = script!("lock/renew", Renew);
static DELAY_RELEASE: Script = script!("lock/delay_release", Delay);
static FORCE_UNLOCK: Script = script!("lock/force_unlock", Ask);
static INSPECT: Script = script!("lock/inspect", Ask);

/// Every script of this file: a connection makes them known to its server.
pub(crate) static SCRIPTS: [&Script; 7] = [
    &ACQUIRE,
    &REENTER,
    &RELEASE,
    &RENEW,
    &DELAY_RELEASE,
    &FORCE_UNLOCK,
    &INSPECT,
];

/// The scheme of the plain lock on one name.
#[derive(Debug)]
pub(crate) struct PlainScheme {
    subject: Subject,
    waiting: Waiting,
    pub(super) keys: LockKeys,
}

/// The first safety poll after an event, and the longest pause between two: a message may never come.
const PACE: Pace = Pace::Doubled {
    first: Duration::from_secs(1),
    most: Duration::from_secs(10),
};

impl PlainScheme {
    pub(crate) fn new(name: Arc<str>) -> Self {
        let keys = LockKeys::new(name.clone());
        let line = Line::Lock;
        Self {
            subject: Subject::new(name, line),
            waiting: Waiting {
                channel: Some(keys.channel.clone()),
                pace: PACE,
                has_places: false,
                place_lasts: None,
                is_courteous: true,
                is_shared: false,
            },
            keys,
        }
    }
}

impl Scheme for PlainScheme {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn plain(&self) -> &PlainScheme {
        self
    }

    fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// By hash alone. If the server does not know the hash, the attempt asks whether its caller still waits before it sends
    /// the text.
    fn acquire(&self, ask: &Ask<'_>) -> Call {
        let mut args = smallvec![Arg::from(ask.bearer.field.clone()), millis(ask.lease)];
        args.extend(ask.bearer.who.clone().map(Arg::from));
        let used = smallvec![self.keys.lock.clone()];
        let form = Form::Hash;
        Call {
            form,
            ..self.keys.call(&ACQUIRE, used, ask.bearer, args)
        }
    }

    fn group_row(&self, bearer: &Bearer, lease: Duration) -> Option<GroupRow> {
        Some(self.keys.group_row(bearer, lease, None))
    }

    fn release_row(&self, bearer: &Bearer) -> Option<ReleaseRow> {
        Some(self.keys.release_row(bearer))
    }

    fn read_acquire(&self, reply: Value) -> Result<AttemptReply, BadReply> {
        read_acquire(reply)
    }

    fn reenter(&self, bearer: &Bearer, lease: Duration, count: u32) -> Call {
        let args = smallvec![
            Arg::from(bearer.field.clone()),
            millis(lease),
            Arg::Int(count.into()),
        ];
        let used = smallvec![self.keys.lock.clone()];
        self.keys.call(&REENTER, used, bearer, args)
    }

    fn release(&self, bearer: &Bearer, left: u32, need: Duration) -> Call {
        let used = smallvec![self.keys.lock.clone(), self.keys.channel.clone()];
        self.keys.release(&RELEASE, used, bearer, left, need)
    }

    fn renew(&self, bearer: &Bearer, lease: Duration) -> Row {
        let mut keys: SmallVec<_> = smallvec![self.keys.lock.clone()];
        keys.extend(bearer.who.as_ref().map(|_| self.keys.details.clone()));
        Row {
            script: &RENEW,
            keys,
            field: bearer.field.clone(),
            lease,
        }
    }

    fn delay_release(&self, bearer: &Bearer, stay: Duration) -> Call {
        let args = smallvec![Arg::from(bearer.field.clone()), millis(stay)];
        let used = smallvec![self.keys.lock.clone()];
        self.keys.call(&DELAY_RELEASE, used, bearer, args)
    }

    fn inspect(&self) -> Call {
        let keys = smallvec![self.keys.lock.clone(), self.keys.details.clone()];
        Call::of(&INSPECT, keys)
    }

    fn read_inspect(&self, reply: Value) -> Result<(Option<Rest>, Vec<Seen>), BadReply> {
        read_inspect(reply)
    }

    fn force_unlock(&self) -> Call {
        let LockKeys {
            lock,
            channel,
            details,
        } = self.keys.clone();
        Call::of(&FORCE_UNLOCK, smallvec![lock, channel, details])
    }
}

/// The keys of one name.
#[derive(Clone, Debug)]
pub(super) struct LockKeys {
    pub(super) lock: Arc<str>,
    channel: Arc<str>,
    pub(super) details: Arc<str>,
}

impl LockKeys {
    fn new(name: Arc<str>) -> Self {
        Self {
            channel: keys::lock_channel(&name),
            details: keys::holder_details(&name),
            lock: name,
        }
    }

    /// A row of an acquire of several names, with the key of the last fence if its kind has one.
    pub(super) fn group_row(
        &self,
        bearer: &Bearer,
        lease: Duration,
        last_fence: Option<Arc<str>>,
    ) -> GroupRow {
        let who = bearer.who.clone();
        GroupRow {
            lock: self.lock.clone(),
            last_fence,
            field: bearer.field.clone(),
            lease,
            details: who.map(|who| (self.details.clone(), who)),
        }
    }

    /// A row of a release of several names.
    pub(super) fn release_row(&self, bearer: &Bearer) -> ReleaseRow {
        let mut keys: SmallVec<_> = smallvec![self.lock.clone(), self.channel.clone()];
        keys.extend(bearer.who.as_ref().map(|_| self.details.clone()));
        let field = bearer.field.clone();
        ReleaseRow { keys, field }
    }

    /// A call for a tenure; with the details key behind the others if it keeps details.
    pub(super) fn call(
        &self,
        script: &'static Script,
        mut keys: SmallVec<[Arc<str>; 3]>,
        bearer: &Bearer,
        args: SmallVec<[Arg; 3]>,
    ) -> Call {
        keys.extend(bearer.who.as_ref().map(|_| self.details.clone()));
        Call {
            args,
            ..Call::of(script, keys)
        }
    }

    pub(super) fn release(
        &self,
        script: &'static Script,
        keys: SmallVec<[Arc<str>; 3]>,
        bearer: &Bearer,
        left: u32,
        need: Duration,
    ) -> Call {
        let args = smallvec![
            Arg::from(bearer.field.clone()),
            Arg::Int(left.into()),
            millis(need),
        ];
        self.call(script, keys, bearer, args)
    }
}

/// Whole milliseconds, rounded up: the server's grain.
pub(super) fn millis(duration: Duration) -> Arg {
    Arg::Int(i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX))
}

pub(crate) fn read_acquire(reply: Value) -> Result<AttemptReply, BadReply> {
    match reply {
        Value::Nil => Ok(AttemptReply::Granted(Granted::default())),
        Value::Int(-1) => Ok(AttemptReply::Busy(Busy::from(Rest::NoExpiry))),
        Value::Int(ms @ 0..) => {
            let rest = Rest::Left(Duration::from_millis(ms.unsigned_abs()));
            Ok(AttemptReply::Busy(Busy::from(rest)))
        }
        other => Err(BadReply("acquire", other)),
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
