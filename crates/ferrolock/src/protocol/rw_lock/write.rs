//! The write side: one holder, whose field says so.

use std::sync::Arc;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};

use super::super::call::{Arg, Call, Form, Value};
use super::super::lock::{PlainScheme, millis};
use super::super::pace::Pace;
use super::super::renewal::Row;
use super::super::scheme::{
    Ask, BadReply, Bearer, Line, Lines, Mode, OwnHold, Rest, Scheme, Seen, Sibling, Subject,
    Waiting,
};
use super::{
    RwKeys, WRITE, WRITE_ACQUIRE, WRITE_DELAY, WRITE_REENTER, WRITE_RELEASE, WRITE_RENEW,
    read_inspect,
};

#[derive(Debug)]
pub(crate) struct WriteScheme {
    subject: Subject,
    sibling: Sibling,
    waiting: Waiting,
    plain: PlainScheme,
    keys: RwKeys,
    /// While it waits, new readers wait behind it.
    is_preferred: bool,
}

/// How long an intent lasts without another attempt of its writer.
const INTENT: Duration = Duration::from_secs(2);

/// As for the plain lock; a writer with an intent looks again before that ends.
const PACE_FIRST: Duration = Duration::from_secs(1);
const PACE_MOST: Duration = Duration::from_secs(10);

impl WriteScheme {
    pub(crate) fn new(name: Arc<str>, is_preferred: bool) -> Self {
        let keys = RwKeys::new(name.clone());
        let most = match is_preferred {
            true => PACE_FIRST,
            false => PACE_MOST,
        };
        Self {
            subject: keys.subject(Line::Write),
            sibling: Sibling {
                subject: keys.subject(Line::Read),
                own_hold: OwnHold::Blocks,
            },
            waiting: Waiting {
                channel: Some(keys.channel.clone()),
                pace: Pace::Doubled {
                    first: PACE_FIRST,
                    most,
                },
                has_places: is_preferred,
                place_lasts: is_preferred.then_some(PACE_FIRST),
                is_courteous: false,
                is_shared: false,
            },
            plain: PlainScheme::new(name),
            keys,
            is_preferred,
        }
    }
}

impl Scheme for WriteScheme {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn plain(&self) -> &PlainScheme {
        &self.plain
    }

    fn field(&self, tenure: &Arc<str>) -> Arc<str> {
        format!("{tenure}{WRITE}").into()
    }

    fn sibling(&self) -> Option<&Sibling> {
        Some(&self.sibling)
    }

    fn barred(&self) -> Lines {
        Lines::BOTH
    }

    fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    fn acquire(&self, ask: &Ask<'_>) -> Call {
        let keeps_out = self.is_preferred && ask.mode != Mode::Once;
        let lasts = if keeps_out { INTENT } else { Duration::ZERO };
        let mut used = smallvec![self.keys.lock.clone()];
        used.extend(keeps_out.then(|| self.keys.intent.clone()));
        let mut args = smallvec![
            Arg::from(ask.bearer.field.clone()),
            millis(ask.lease),
            millis(lasts),
        ];
        args.extend(ask.bearer.who.clone().map(Arg::from));
        let form = Form::Hash;
        Call {
            form,
            ..self.keys.call(&WRITE_ACQUIRE, used, ask.bearer, args)
        }
    }

    fn reenter(&self, bearer: &Bearer, lease: Duration, count: u32) -> Call {
        let used = smallvec![self.keys.lock.clone()];
        let args = [millis(lease), Arg::Int(count.into())];
        self.keys.call_with(&WRITE_REENTER, used, bearer, args)
    }

    fn release(&self, bearer: &Bearer, left: u32, need: Duration) -> Call {
        let used = smallvec![self.keys.lock.clone(), self.keys.channel.clone()];
        let args = [Arg::Int(left.into()), millis(need)];
        self.keys.call_with(&WRITE_RELEASE, used, bearer, args)
    }

    fn renew(&self, bearer: &Bearer, lease: Duration) -> Row {
        let mut keys: SmallVec<_> = smallvec![self.keys.lock.clone()];
        keys.extend(bearer.who.as_ref().map(|_| self.keys.details.clone()));
        Row {
            script: &WRITE_RENEW,
            keys,
            field: bearer.field.clone(),
            lease,
        }
    }

    fn delay_release(&self, bearer: &Bearer, stay: Duration) -> Call {
        let used = smallvec![self.keys.lock.clone()];
        self.keys
            .call_with(&WRITE_DELAY, used, bearer, [millis(stay)])
    }

    /// Without an intent there is nothing to give up but a hold.
    fn abandon(&self, bearer: &Bearer) -> Call {
        match self.is_preferred {
            true => self.keys.abandon(bearer),
            false => self.release(bearer, 0, Duration::ZERO),
        }
    }

    fn inspect(&self) -> Call {
        self.keys.inspect()
    }

    /// The writer, under the id of its tenure.
    fn read_inspect(&self, reply: Value) -> Result<(Option<Rest>, Vec<Seen>), BadReply> {
        let (rest, holders) = read_inspect(reply)?;
        let writers = holders.into_iter().filter_map(|(seen, _)| {
            let field = seen.field.strip_suffix(WRITE)?.to_owned();
            Some(Seen { field, ..seen })
        });
        let writers: Vec<_> = writers.collect();
        Ok((rest.filter(|_| !writers.is_empty()), writers))
    }

    fn force_unlock(&self) -> Call {
        self.keys.force_unlock()
    }
}
