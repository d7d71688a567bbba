//! The fenced lock: the plain lock, whose grants have numbers that grow.

use std::sync::Arc;

use smallvec::smallvec;

use super::call::{Arg, Call, Form, Script, Value, script};
use super::keys::prefixed;
use super::lock::{self, PlainScheme};
use super::scheme::{Ask, AttemptReply, BadReply, Granted, Line, Scheme, Subject, Waiting};

static ACQUIRE: Script = script!("fenced_lock/acquire", Acquire, "lock/take");

/// Every script of this file: a connection makes them known to its server.
pub(super) static SCRIPTS: [&Script; 1] = [&ACQUIRE];

#[derive(Debug)]
pub(crate) struct FencedScheme {
    subject: Subject,
    plain: PlainScheme,
    last_fence: Arc<str>,
}

impl FencedScheme {
    pub(crate) fn new(name: Arc<str>) -> Self {
        let line = Line::Fenced;
        Self {
            plain: PlainScheme::new(name.clone()),
            last_fence: prefixed("redisson_lock_token", &name),
            subject: Subject { name, line },
        }
    }
}

impl Scheme for FencedScheme {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn plain(&self) -> &PlainScheme {
        &self.plain
    }

    fn waiting(&self) -> &Waiting {
        self.plain.waiting()
    }

    fn acquire(&self, ask: &Ask<'_>) -> Call {
        let keys = &self.plain.keys;
        let mut args = smallvec![
            Arg::from(ask.bearer.field.clone()),
            lock::millis(ask.lease),
            Arg::Int(i64::try_from(ask.fence_floor).unwrap_or(i64::MAX)),
        ];
        args.extend(ask.bearer.who.clone().map(Arg::from));
        let used = smallvec![keys.lock.clone(), self.last_fence.clone()];
        let form = Form::Hash;
        Call {
            form,
            ..keys.call(&ACQUIRE, used, ask.bearer, args)
        }
    }

    fn read_acquire(&self, reply: Value) -> Result<AttemptReply, BadReply> {
        let fence = match &reply {
            Value::Bytes(digits) => std::str::from_utf8(digits).ok(),
            _ => return lock::read_acquire(reply),
        };
        match fence.and_then(|digits| digits.parse().ok()) {
            Some(fence) => Ok(AttemptReply::Granted(Granted {
                fence: Some(fence),
                more: false,
            })),
            None => Err(BadReply("fenced acquire", reply)),
        }
    }
}
