//! The read-write lock: many readers, or one writer. Its two sides are two schemes on the same keys.

mod read;
mod write;

use std::sync::Arc;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};

pub(crate) use self::read::ReadScheme;
pub(crate) use self::write::WriteScheme;
use super::call::{Arg, Call, Form, Role, Script, Value, script};
use super::keys::{holder_details, prefixed, rw_channel, suffixed};
use super::lock::{self, millis};
use super::scheme::{BadReply, Bearer, Line, Rest, Seen, Subject};

static READ_ACQUIRE: Script = script!(
    "rw_lock/read_acquire",
    Acquire,
    "rw_lock/raise",
    "rw_lock/describe"
);
static READ_REENTER: Script = script!(
    "rw_lock/read_reenter",
    Reenter,
    "rw_lock/raise",
    "lock/set_count"
);
static READ_RELEASE: Script = script!(
    "rw_lock/read_release",
    Release,
    "rw_lock/raise",
    "lock/set_count",
    "rw_lock/longest_read"
);
static READ_RENEW: Script = script!("rw_lock/read_renew", Renew);
static READ_DELAY: Script = script!("rw_lock/read_delay", Delay, "rw_lock/raise");
static WRITE_ACQUIRE: Script = script!(
    "rw_lock/write_acquire",
    Acquire,
    "lock/take",
    "rw_lock/raise",
    "rw_lock/longest_read"
);
static WRITE_RELEASE: Script = script!(
    "rw_lock/write_release",
    Release,
    "lock/set_count",
    "rw_lock/longest_read",
    "rw_lock/after_write"
);
static WRITE_DELAY: Script = script!("rw_lock/write_delay", Delay, "rw_lock/raise");
static WRITE_ABANDON: Script = script!(
    "rw_lock/write_abandon",
    Release,
    "rw_lock/longest_read",
    "rw_lock/after_write"
);
static DOWNGRADE: Script = script!(
    "rw_lock/downgrade",
    Release,
    "rw_lock/describe",
    "rw_lock/longest_read",
    "rw_lock/after_write"
);
static FORCE_UNLOCK: Script = script!("rw_lock/force_unlock", Ask);
static INSPECT: Script = script!("rw_lock/inspect", Ask);

/// A write hold is one field that is kept and entered again as that of a plain lock. The names say whose it is.
static WRITE_REENTER: Script = Script::of_role(
    "rw_lock/write_reenter",
    Role::Reenter,
    concat!(
        include_str!("lock/set_count.lua"),
        "\n",
        include_str!("lock/reenter.lua")
    ),
);
static WRITE_RENEW: Script = Script::of_role(
    "rw_lock/write_renew",
    Role::Renew,
    include_str!("lock/renew.lua"),
);

/// Every script of this file: a connection makes them known to its server.
pub(crate) static SCRIPTS: [&Script; 14] = [
    &READ_ACQUIRE,
    &READ_REENTER,
    &READ_RELEASE,
    &READ_RENEW,
    &READ_DELAY,
    &WRITE_ACQUIRE,
    &WRITE_REENTER,
    &WRITE_RELEASE,
    &WRITE_RENEW,
    &WRITE_DELAY,
    &WRITE_ABANDON,
    &DOWNGRADE,
    &FORCE_UNLOCK,
    &INSPECT,
];

/// How the fields of writers end.
const WRITE: &str = ":write";

/// The keys of one name, for both sides.
#[derive(Clone, Debug)]
struct RwKeys {
    lock: Arc<str>,
    channel: Arc<str>,
    intent: Arc<str>,
    details: Arc<str>,
}

impl RwKeys {
    fn new(name: Arc<str>) -> Self {
        Self {
            channel: rw_channel(&name),
            intent: prefixed("ferrolock_rw_intent", &name),
            details: holder_details(&name),
            lock: name,
        }
    }

    fn subject(&self, line: Line) -> Subject {
        let name = self.lock.clone();
        Subject::new(name, line)
    }

    /// The key that lives as long as a read hold.
    fn hold(&self, bearer: &Bearer) -> Arc<str> {
        let hold = format!("{}:rwlock_timeout:1", bearer.field);
        suffixed(&self.lock, &hold)
    }

    /// A call for a tenure; with the details key behind the others if it keeps details.
    fn call(
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

    /// A call with the arguments of a re-entry, a release or a delayed release.
    fn call_with(
        &self,
        script: &'static Script,
        keys: SmallVec<[Arc<str>; 3]>,
        bearer: &Bearer,
        args: impl IntoIterator<Item = Arg>,
    ) -> Call {
        let field = Arg::from(bearer.field.clone());
        let args = [field].into_iter().chain(args);
        self.call(script, keys, bearer, args.collect())
    }

    fn release_read(&self, bearer: &Bearer, left: u32, need: Duration) -> Call {
        let used = smallvec![self.lock.clone(), self.channel.clone(), self.hold(bearer)];
        let args = [Arg::Int(left.into()), millis(need)];
        self.call_with(&READ_RELEASE, used, bearer, args)
    }

    /// By its field: the store in a directory frees entries of both sides with one scheme.
    fn abandon(&self, bearer: &Bearer) -> Call {
        if !bearer.field.ends_with(WRITE) {
            return self.release_read(bearer, 0, Duration::ZERO);
        }
        let used = smallvec![self.lock.clone(), self.channel.clone(), self.intent.clone()];
        self.call_with(&WRITE_ABANDON, used, bearer, [])
    }

    /// Makes the read hold `to` of the write hold `from`.
    fn downgrade(&self, from: &Bearer, to: &Bearer, lease: Duration) -> Call {
        let used = smallvec![self.lock.clone(), self.channel.clone(), self.hold(to)];
        let mut args = smallvec![
            Arg::from(from.field.clone()),
            Arg::from(to.field.clone()),
            millis(lease),
        ];
        args.extend(to.who.clone().map(Arg::from));
        Call {
            form: Form::Hash,
            ..self.call(&DOWNGRADE, used, to, args)
        }
    }

    fn inspect(&self) -> Call {
        Call::of(&INSPECT, smallvec![self.lock.clone(), self.details.clone()])
    }

    fn force_unlock(&self) -> Call {
        let keys = [&self.lock, &self.channel, &self.intent, &self.details];
        Call::of(&FORCE_UNLOCK, keys.into_iter().cloned().collect())
    }
}

/// A holder as the server shows it, and what its hold key still has.
type SeenHold = (Seen, u64);

/// The mode, the rest of the lease and the holders of both sides.
fn read_inspect(reply: Value) -> Result<(Option<Rest>, Vec<SeenHold>), BadReply> {
    let bad = || BadReply("inspect", reply.clone());
    let Value::List(parts) = &reply else {
        return Err(bad());
    };
    let [plain @ .., Value::List(holds)] = parts.as_slice() else {
        return Err(bad());
    };
    let Some(Value::List(fields)) = plain.get(2) else {
        return Err(bad());
    };
    // The lists have the same order; what is no holder is left out of the holders.
    let names = fields.iter().step_by(2);
    let rests: Vec<(&Value, u64)> = names
        .zip(holds.iter().map(|hold| match hold {
            Value::Int(ms) => u64::try_from(*ms).unwrap_or(0),
            _ => 0,
        }))
        .collect();
    let (rest, seen) = lock::read_inspect(Value::List(plain.to_vec()))?;
    let with_rest = |seen: Seen| {
        let is_its =
            |name: &Value| matches!(name, Value::Bytes(bytes) if *bytes == *seen.field.as_bytes());
        let rest = rests.iter().find(|(name, _)| is_its(name));
        let rest = rest.map_or(0, |(_, rest)| *rest);
        (seen, rest)
    };
    Ok((rest, seen.into_iter().map(with_rest).collect()))
}
