//! The read side: holders share it, and each has a hold key of its own.

use std::sync::Arc;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};

use super::super::call::{Arg, Call, Form, Value};
use super::super::lock::{self, PlainScheme, millis};
use super::super::pace::Pace;
use super::super::renewal::Row;
use super::super::scheme::{
    Ask, AttemptReply, BadReply, Bearer, Granted, Line, Lines, OwnHold, Rest, Scheme, Seen,
    Sibling, Subject, Waiting, Wake,
};
use super::{READ_ACQUIRE, READ_DELAY, READ_REENTER, READ_RENEW, RwKeys, WRITE, read_inspect};

#[derive(Debug)]
pub(crate) struct ReadScheme {
    subject: Subject,
    sibling: Sibling,
    waiting: Waiting,
    plain: PlainScheme,
    keys: RwKeys,
    /// Writers that wait go first.
    prefers_writers: bool,
    /// The write hold that an acquire gives up for what it takes.
    instead_of: Option<Bearer>,
}

/// Redisson's own downgrade sends no message: so no pause is long.
const PACE: Pace = Pace::Doubled {
    first: Duration::from_secs(1),
    most: Duration::from_secs(1),
};

/// A renewal by a reader of Redisson cuts the lock to its `lockWatchdogTimeout`, 30 s, each 10 s, whatever other readers
/// have. If that reader dies then, the lock is gone 30 s later.
const RENEWED_WITHIN: Duration = Duration::from_secs(10);

impl ReadScheme {
    pub(crate) fn new(name: Arc<str>, prefers_writers: bool) -> Self {
        let keys = RwKeys::new(name.clone());
        Self {
            subject: keys.subject(Line::Read),
            sibling: Sibling {
                subject: keys.subject(Line::Write),
                own_hold: OwnHold::LetsIn,
            },
            waiting: Waiting {
                channel: Some(keys.channel.clone()),
                pace: PACE,
                has_places: false,
                place_lasts: None,
                is_courteous: false,
                is_shared: true,
            },
            plain: PlainScheme::new(name),
            keys,
            prefers_writers,
            instead_of: None,
        }
    }

    /// A scheme whose acquire makes a read hold of that write hold.
    pub(crate) fn instead_of(name: Arc<str>, write: Bearer) -> Self {
        Self {
            instead_of: Some(write),
            ..Self::new(name, false)
        }
    }
}

impl Scheme for ReadScheme {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn plain(&self) -> &PlainScheme {
        &self.plain
    }

    fn yields(&self) -> bool {
        self.prefers_writers
    }

    fn sibling(&self) -> Option<&Sibling> {
        Some(&self.sibling)
    }

    /// Readers do not find each other in the way.
    fn barred(&self) -> Lines {
        Lines::SIBLING
    }

    fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// `1`: a writer has gone. `0`: the last reader has gone, which no reader waits for; one that lets writers go first may
    /// wait for a writer that Redisson's clients do not see.
    fn hears(&self, payload: &[u8]) -> Wake {
        match payload {
            b"0" if !self.prefers_writers => Wake::Nobody,
            _ => Wake::Front,
        }
    }

    fn acquire(&self, ask: &Ask<'_>) -> Call {
        if let Some(write) = &self.instead_of {
            return self.keys.downgrade(write, ask.bearer, ask.lease);
        }
        let mut used = smallvec![self.keys.lock.clone(), self.keys.hold(ask.bearer)];
        used.extend(self.prefers_writers.then(|| self.keys.intent.clone()));
        let own_write = ask.beside.cloned().unwrap_or_default();
        let mut args = smallvec![
            Arg::from(ask.bearer.field.clone()),
            millis(ask.lease),
            Arg::from(own_write),
            Arg::Int(self.prefers_writers.into()),
        ];
        args.extend(ask.bearer.who.clone().map(Arg::from));
        let form = Form::Hash;
        Call {
            form,
            ..self.keys.call(&READ_ACQUIRE, used, ask.bearer, args)
        }
    }

    /// A downgrade is answered like a release: what it did not find is as good as busy.
    fn read_acquire(&self, reply: Value) -> Result<AttemptReply, BadReply> {
        match (reply, &self.instead_of) {
            (reply, None) => lock::read_acquire(reply),
            (Value::Int(0..), Some(_)) => Ok(AttemptReply::Granted(Granted::default())),
            (Value::Int(-1 | -2), Some(_)) => Ok(AttemptReply::Busy(Rest::NoExpiry.into())),
            (other, Some(_)) => Err(BadReply("downgrade", other)),
        }
    }

    fn reenter(&self, bearer: &Bearer, lease: Duration, count: u32) -> Call {
        let used = smallvec![self.keys.lock.clone(), self.keys.hold(bearer)];
        let args = [millis(lease), Arg::Int(count.into())];
        self.keys.call_with(&READ_REENTER, used, bearer, args)
    }

    fn release(&self, bearer: &Bearer, left: u32, need: Duration) -> Call {
        self.keys.release_read(bearer, left, need)
    }

    fn renewed_within(&self) -> Option<Duration> {
        Some(RENEWED_WITHIN)
    }

    fn renew(&self, bearer: &Bearer, lease: Duration) -> Row {
        let mut keys: SmallVec<_> = smallvec![self.keys.lock.clone(), self.keys.hold(bearer)];
        keys.extend(bearer.who.as_ref().map(|_| self.keys.details.clone()));
        Row {
            script: &READ_RENEW,
            keys,
            field: bearer.field.clone(),
            lease,
        }
    }

    fn delay_release(&self, bearer: &Bearer, stay: Duration) -> Call {
        let used = smallvec![self.keys.lock.clone(), self.keys.hold(bearer)];
        self.keys
            .call_with(&READ_DELAY, used, bearer, [millis(stay)])
    }

    fn abandon(&self, bearer: &Bearer) -> Call {
        self.keys.abandon(bearer)
    }

    fn inspect(&self) -> Call {
        self.keys.inspect()
    }

    /// The readers that live, and the longest of their holds.
    fn read_inspect(&self, reply: Value) -> Result<(Option<Rest>, Vec<Seen>), BadReply> {
        let (_, holders) = read_inspect(reply)?;
        let readers = holders.into_iter();
        let readers: Vec<_> = readers
            .filter(|(seen, rest)| *rest > 0 && !seen.field.ends_with(WRITE))
            .collect();
        let longest = readers.iter().map(|(_, rest)| *rest).max();
        let rest = longest.map(|ms| Rest::Left(Duration::from_millis(ms)));
        Ok((rest, readers.into_iter().map(|(seen, _)| seen).collect()))
    }

    fn force_unlock(&self) -> Call {
        self.keys.force_unlock()
    }
}
