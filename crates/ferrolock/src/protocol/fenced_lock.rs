//! The fenced lock: the plain lock, whose grants have numbers that grow.

use std::sync::Arc;
use std::time::Duration;

use smallvec::smallvec;

use super::call::{Arg, Call, Form, Script, Value, script};
use super::keys::prefixed;
use super::lock::{self, PlainScheme};
use super::multi_lock::{GroupRow, ReleaseRow};
use super::scheme::{Ask, AttemptReply, BadReply, Bearer, Granted, Line, Scheme, Subject, Waiting};

static ACQUIRE: Script = script!(
    "fenced_lock/acquire",
    Acquire,
    "lock/take",
    "fenced_lock/grant"
);
static ACQUIRE_ON_NODE: Script = script!(
    "fenced_lock/acquire_on_node",
    Acquire,
    "lock/take",
    "fenced_lock/grant"
);
static RAISE: Script = script!("fenced_lock/raise", Ask);
static INITIALISE: Script = script!("quorum_node/initialise", Ask);

/// Every script of this file: a connection makes them known to its server.
pub(super) static SCRIPTS: [&Script; 4] = [&ACQUIRE, &ACQUIRE_ON_NODE, &RAISE, &INITIALISE];

/// Makes the last fence of a lock at least that, while the bearer has the lock.
pub(crate) fn raise(name: &Arc<str>, bearer: &Bearer, fence: u64) -> Call {
    let keys = smallvec![name.clone(), last_fence(name)];
    let fence = Arg::Int(i64::try_from(fence).unwrap_or(i64::MAX));
    Call {
        args: smallvec![Arg::from(bearer.field.clone()), fence],
        ..Call::of(&RAISE, keys)
    }
}

/// Makes a server, whose data may be new, a node of a quorum at once.
pub(crate) fn initialise(prefix: &str) -> Call {
    Call::of(&INITIALISE, smallvec![node(prefix)])
}

fn last_fence(name: &str) -> Arc<str> {
    prefixed("redisson_lock_token", name)
}

/// The key that tells since when a node of a quorum has its data.
fn node(prefix: &str) -> Arc<str> {
    format!("{prefix}ferrolock_node").into()
}

#[derive(Debug)]
pub(crate) struct FencedScheme {
    subject: Subject,
    plain: PlainScheme,
    last_fence: Arc<str>,
    /// On a node of a quorum whose data must have that age.
    node: Option<(Arc<str>, Duration)>,
}

impl FencedScheme {
    pub(crate) fn new(name: Arc<str>) -> Self {
        let line = Line::Fenced;
        Self {
            plain: PlainScheme::new(name.clone()),
            last_fence: last_fence(&name),
            node: None,
            subject: Subject::new(name, line),
        }
    }

    /// The same on a node of a quorum: refused (`FRESH`) until the node has its data for that long.
    pub(crate) fn on_node(name: Arc<str>, prefix: &str, age: Duration) -> Self {
        Self {
            node: Some((node(prefix), age)),
            ..Self::new(name)
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
        let mut used = smallvec![keys.lock.clone(), self.last_fence.clone()];
        let script = match &self.node {
            Some((node, age)) => {
                used.push(node.clone());
                args.push(lock::millis(*age));
                &ACQUIRE_ON_NODE
            }
            None => &ACQUIRE,
        };
        args.extend(ask.bearer.who.clone().map(Arg::from));
        let form = Form::Hash;
        Call {
            form,
            ..keys.call(script, used, ask.bearer, args)
        }
    }

    fn group_row(&self, bearer: &Bearer, lease: Duration) -> Option<GroupRow> {
        // A node of a quorum is asked by a script of its own.
        let last_fence = self.node.is_none().then(|| self.last_fence.clone())?;
        Some(self.plain.keys.group_row(bearer, lease, Some(last_fence)))
    }

    fn release_row(&self, bearer: &Bearer) -> Option<ReleaseRow> {
        Some(self.plain.keys.release_row(bearer))
    }

    fn read_acquire(&self, reply: Value) -> Result<AttemptReply, BadReply> {
        let fence = match &reply {
            Value::Bytes(digits) => std::str::from_utf8(digits).ok(),
            Value::Int(_) => return lock::read_acquire(reply),
            _ => None,
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
