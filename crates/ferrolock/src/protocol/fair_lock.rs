//! The fair lock: a queue on the server, first come, first served, across clients, processes and Redisson.
//!
//! Lock, queue and deadlines look as Redisson expects them. Which waiters of ours live is kept in keys of our own: a client
//! that is not heard for a while is dead, and so are its waiters.

use std::sync::Arc;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};

use super::call::{Arg, Call, Form, Script, Value, script};
use super::keys::{lock_channel, prefixed};
use super::lock::{self, PlainScheme};
use super::pace::Pace;
use super::scheme::{
    Ask, AttemptReply, BadReply, Bearer, Busy, Line, Mode, Rest, Scheme, Subject, Waiting, Wake,
    client_of,
};

static ACQUIRE: Script = script!(
    "fair_lock/acquire",
    Acquire,
    "lock/set_count",
    "lock/take",
    "fair_lock/line",
    "fair_lock/skip",
    "fair_lock/wake",
    "fair_lock/join",
    "fair_lock/keep",
    "fair_lock/stand"
);
static RELEASE: Script = script!(
    "fair_lock/release",
    Release,
    "lock/set_count",
    "fair_lock/line",
    "fair_lock/skip",
    "fair_lock/wake"
);
static LEAVE: Script = script!(
    "fair_lock/leave",
    Release,
    "fair_lock/line",
    "fair_lock/skip",
    "fair_lock/wake"
);
static FORCE_UNLOCK: Script = script!(
    "fair_lock/force_unlock",
    Ask,
    "fair_lock/line",
    "fair_lock/skip",
    "fair_lock/wake"
);

/// Every script of this file: a connection makes them known to its server.
pub(crate) static SCRIPTS: [&Script; 4] = [&ACQUIRE, &RELEASE, &LEAVE, &FORCE_UNLOCK];

/// What a waiter's deadline has besides Redisson's waits: a waiter of ours that is dead costs Redisson this much when no
/// process of ours is left that skips it.
pub(crate) const RESERVE: Duration = Duration::from_secs(300);

/// How soon a free lock is looked for again behind a waiter of Redisson, which may have gone without a word.
const FOREIGN_LOOK: Duration = Duration::from_millis(500);

/// The times of a fair lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FairTimes {
    /// A client that was not heard for this long is dead.
    pub(crate) dead: Duration,
    /// The longest wait of Redisson's callers.
    pub(crate) java_wait: Duration,
}

impl Default for FairTimes {
    fn default() -> Self {
        Self {
            dead: Duration::from_secs(5),
            java_wait: Duration::from_secs(300),
        }
    }
}

#[derive(Debug)]
pub(crate) struct FairScheme {
    subject: Subject,
    waiting: Waiting,
    plain: PlainScheme,
    times: FairTimes,
    client: Arc<str>,
    /// In front of each waiter's own channel, and of each client's inbox.
    channel: Arc<str>,
    inbox: Arc<str>,
    /// Queue, deadlines, clients, waiters, amnesty.
    queue: [Arc<str>; 5],
}

impl FairScheme {
    /// For the client with that uuid.
    pub(crate) fn new(name: Arc<str>, client: &str, times: FairTimes) -> Self {
        let inbox = prefixed("ferrolock_fair_inbox", &name);
        let beat = times.dead / 4;
        Self {
            plain: PlainScheme::new(name.clone()),
            waiting: Waiting {
                channel: Some(format!("{inbox}:{client}").into()),
                pace: Pace::Doubled {
                    first: beat,
                    most: beat,
                },
                has_places: true,
                place_lasts: Some(RESERVE * 4 / 5),
                is_shared: false,
                is_courteous: false,
            },
            times,
            client: client.into(),
            channel: lock_channel(&name),
            inbox,
            queue: [
                "redisson_lock_queue",
                "redisson_lock_timeout",
                "ferrolock_fair_clients",
                "ferrolock_fair_waiters",
                "ferrolock_fair_amnesty",
            ]
            .map(|prefix| prefixed(prefix, &name)),
            subject: Subject::new(name, Line::Fair),
        }
    }

    /// As the caller of that call had it, whose field is the first argument.
    pub(super) fn of_call(name: Arc<str>, call: &Call) -> Self {
        let field = match call.args.first() {
            Some(Arg::Bytes(field)) => std::str::from_utf8(field).ok(),
            _ => None,
        };
        let client = field.and_then(client_of).unwrap_or_default();
        Self::new(name, client, FairTimes::default())
    }

    /// A call of all keys, with the details key behind them if the tenure keeps details.
    fn call(&self, script: &'static Script, bearer: &Bearer, args: SmallVec<[Arg; 3]>) -> Call {
        self.plain.keys.call(script, self.keys(), bearer, args)
    }

    fn keys(&self) -> SmallVec<[Arc<str>; 3]> {
        let name = std::iter::once(&self.subject.name);
        name.chain(&self.queue).cloned().collect()
    }

    /// The arguments with which a script finds and tells the first living waiter.
    fn whom_to_tell(&self) -> [Arg; 4] {
        [
            lock::millis(self.times.dead),
            lock::millis(self.times.java_wait),
            Arg::from(self.channel.clone()),
            Arg::from(self.inbox.clone()),
        ]
    }

    /// The number of a waiter of this client.
    fn number_of(&self, owner: &str) -> Option<u64> {
        let (client, number) = owner.split_once(':')?;
        number.parse().ok().filter(|_| *client == *self.client)
    }

    fn busy(&self, parts: &[Value]) -> Option<Busy> {
        let [
            Value::Int(left),
            Value::Int(ticket),
            Value::Bytes(head),
            Value::Int(is_next),
            Value::Int(is_mixed),
            Value::Int(returned),
        ] = parts
        else {
            return None;
        };
        let head = std::str::from_utf8(head).ok()?;
        let rest = match *left {
            -2 => Rest::Left(Duration::ZERO),
            -1 => Rest::NoExpiry,
            ms => Rest::Left(Duration::from_millis(ms.unsigned_abs())),
        };
        Some(Busy {
            rest,
            place: u64::try_from(*ticket).ok().filter(|ticket| *ticket > 0),
            is_next: *is_next == 1,
            look_in: (!head.is_empty() && !is_ours(head)).then_some(FOREIGN_LOOK),
            head: self.number_of(head),
            is_mixed: *is_mixed == 1,
            is_shaken: *returned == 1,
        })
    }
}

/// Whether a field is of this library: our clients have uuids of version 8.
fn is_ours(field: &str) -> bool {
    field.as_bytes().get(14) == Some(&b'8')
}

impl Scheme for FairScheme {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn plain(&self) -> &PlainScheme {
        &self.plain
    }

    fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    fn hears(&self, payload: &[u8]) -> Wake {
        let number = std::str::from_utf8(payload)
            .ok()
            .and_then(|text| text.parse().ok());
        number.map_or(Wake::Nobody, Wake::Named)
    }

    fn own_channel(&self, bearer: &Bearer) -> Option<Arc<str>> {
        Some(format!("{}:{}", self.channel, bearer.field).into())
    }

    fn searched(&self) -> SmallVec<[Arc<str>; 1]> {
        let [queue, ..] = &self.queue;
        smallvec![self.subject.name.clone(), queue.clone()]
    }

    fn acquire(&self, ask: &Ask<'_>) -> Call {
        let mode = match ask.mode {
            Mode::Once => "try",
            Mode::Waits => "wait",
            Mode::Looks => "beat",
        };
        let place = ask.place.unwrap_or_default();
        let [dead, java_wait, channel, inbox] = self.whom_to_tell();
        let mut args = smallvec![
            Arg::from(ask.bearer.field.clone()),
            lock::millis(ask.lease),
            Arg::Bytes(mode.as_bytes().into()),
            Arg::Int(i64::try_from(place).unwrap_or(i64::MAX)),
            Arg::Int(ask.is_front.into()),
            dead,
            java_wait,
            lock::millis(RESERVE),
            channel,
            inbox,
        ];
        args.extend(ask.bearer.who.clone().map(Arg::from));
        Call {
            form: Form::Hash,
            ..self.call(&ACQUIRE, ask.bearer, args)
        }
    }

    fn read_acquire(&self, reply: Value) -> Result<AttemptReply, BadReply> {
        let busy = match &reply {
            Value::List(parts) => self.busy(parts),
            _ => return lock::read_acquire(reply),
        };
        match busy {
            Some(busy) => Ok(AttemptReply::Busy(busy)),
            None => Err(BadReply("fair acquire", reply)),
        }
    }

    fn release(&self, bearer: &Bearer, left: u32, need: Duration) -> Call {
        let mut args = smallvec![
            Arg::from(bearer.field.clone()),
            Arg::Int(left.into()),
            lock::millis(need),
        ];
        args.extend(self.whom_to_tell());
        self.call(&RELEASE, bearer, args)
    }

    fn abandon(&self, bearer: &Bearer) -> Call {
        let mut args = smallvec![Arg::from(bearer.field.clone())];
        args.extend(self.whom_to_tell());
        self.call(&LEAVE, bearer, args)
    }

    fn force_unlock(&self) -> Call {
        let mut keys = self.keys();
        keys.push(self.plain.keys.details.clone());
        Call {
            args: self.whom_to_tell().into_iter().collect(),
            ..Call::of(&FORCE_UNLOCK, keys)
        }
    }
}

#[cfg(test)]
#[path = "fair_lock_tests.rs"]
mod tests;
