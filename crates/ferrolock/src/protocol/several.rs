//! A lock with room for two and a queue on the server: a kind for tests alone, which shows what the machinery takes as data.
//!
//! No details, no counts above one. It takes everything from the plain lock that is the same for every hash with fields.

use std::sync::Arc;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};

use super::call::{Arg, Call, Form, Script, Value, script};
use super::keys::{lock_channel, prefixed};
use super::lock::PlainScheme;
use super::pace::Pace;
use super::scheme::{
    Ask, AttemptReply, BadReply, Bearer, Busy, Granted, Line, Mode, Rest, Scheme, Subject, Waiting,
    Wake,
};

static ACQUIRE: Script = script!("several/acquire", Acquire);
static RELEASE: Script = script!("several/release", Release);

#[derive(Debug)]
pub(crate) struct Several {
    subject: Subject,
    waiting: Waiting,
    plain: PlainScheme,
    channel: Arc<str>,
    queue: Arc<str>,
}

impl Several {
    pub(crate) fn new(name: Arc<str>) -> Self {
        // The channel of the plain lock, so that two kinds of one client listen to it.
        let channel = lock_channel(&name);
        let line = Line::Several;
        Self {
            plain: PlainScheme::new(name.clone()),
            queue: prefixed("several_queue", &name),
            waiting: Waiting {
                channel: Some(channel.clone()),
                pace: Pace::Doubled {
                    first: Duration::from_secs(100),
                    most: Duration::from_secs(100),
                },
                has_places: true,
                place_lasts: None,
                is_courteous: false,
                is_shared: false,
            },
            subject: Subject::new(name, line),
            channel,
        }
    }
}

impl Scheme for Several {
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
        let number = str::from_utf8(payload)
            .ok()
            .and_then(|text| text.parse().ok());
        // Zero: the queue is empty.
        let number = number.filter(|number| *number > 0);
        number.map_or(Wake::Nobody, Wake::Named)
    }

    fn searched(&self) -> SmallVec<[Arc<str>; 1]> {
        smallvec![self.subject.name.clone(), self.queue.clone()]
    }

    fn acquire(&self, ask: &Ask<'_>) -> Call {
        let lease = i64::try_from(ask.lease.as_millis()).unwrap_or(i64::MAX);
        Call {
            script: &ACQUIRE,
            keys: smallvec![self.subject.name.clone(), self.queue.clone()],
            args: smallvec![
                Arg::from(ask.bearer.field.clone()),
                Arg::Int(lease),
                Arg::Int((ask.mode != Mode::Once).into()),
            ],
            form: Form::Hash,
        }
    }

    fn read_acquire(&self, reply: Value) -> Result<AttemptReply, BadReply> {
        let Value::List(parts) = &reply else {
            return Err(BadReply("several", reply));
        };
        match parts.as_slice() {
            [Value::Int(1), Value::Int(fence), Value::Int(more)] => {
                let fence = u64::try_from(*fence).ok();
                let more = *more == 1;
                Ok(AttemptReply::Granted(Granted { fence, more }))
            }
            [Value::Int(0), Value::Int(rest), Value::Int(place)] => {
                let rest = Rest::Left(Duration::from_millis(rest.unsigned_abs()));
                let place = u64::try_from(*place).ok();
                Ok(AttemptReply::Busy(Busy {
                    place,
                    ..rest.into()
                }))
            }
            _ => Err(BadReply("several", reply)),
        }
    }

    fn release(&self, bearer: &Bearer, _left: u32, _need: Duration) -> Call {
        Call {
            script: &RELEASE,
            keys: smallvec![
                self.subject.name.clone(),
                self.channel.clone(),
                self.queue.clone()
            ],
            args: smallvec![Arg::from(bearer.field.clone())],
            form: Form::default(),
        }
    }
}

/// How many waiters are in the queue of that name.
pub(crate) fn queue_length(name: Arc<str>) -> Call {
    static LENGTH: Script = Script::new("several_queue", "return redis.call('ZCARD', KEYS[1])");
    Call {
        script: &LENGTH,
        keys: smallvec![prefixed("several_queue", &name)],
        args: SmallVec::new(),
        form: Form::default(),
    }
}
