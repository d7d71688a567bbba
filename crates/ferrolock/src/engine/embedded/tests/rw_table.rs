//! Both sides of a read-write lock on the memory engine, script by script.

use std::sync::Arc;
use std::time::Duration;

use super::rw_places::Place;
use super::*;
use crate::engine::{Listener, Signal};
use crate::protocol::lock;
use crate::protocol::renewal;
use crate::protocol::rw_lock::{ReadScheme, WriteScheme};
use crate::protocol::scheme::{
    Ask, AttemptReply, Bearer, Granted, Release, Rest, Scheme, Seen, Standing, read_force_unlock,
    read_release, read_standing,
};

/// Both sides of the lock `orders`.
pub(super) struct Table<P = Arc<MemoryEngine>> {
    pub(super) engine: P,
    pub(super) read: ReadScheme,
    pub(super) write: WriteScheme,
}

pub(super) const LEASE: Duration = Duration::from_secs(30);

pub(super) const GRANTED: AttemptReply = AttemptReply::Granted(Granted {
    fence: None,
    more: false,
});

pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn busy(rest: Duration) -> AttemptReply {
    AttemptReply::Busy(Rest::Left(rest).into())
}

pub(super) fn bearer(field: &str) -> Bearer {
    let field = field.into();
    Bearer { field, who: None }
}

pub(super) fn named(field: &str) -> Bearer {
    let who = Some(lock::write_details(42, "host", "the label"));
    let field = field.into();
    Bearer { field, who }
}

/// How long a key still lives; `None`: it is not there.
pub(super) fn left(engine: &MemoryEngine, key: &str) -> Option<i64> {
    static LEFT: Script = Script::new("left", "return redis.call('PTTL', ARGV[1])");
    match run(engine, of_script(&LEFT, key)) {
        Ok(Value::Int(-2)) => None,
        Ok(Value::Int(left)) => Some(left),
        other => panic!("{other:?}"),
    }
}

fn of_script(script: &'static Script, arg: &str) -> Call {
    Call {
        script,
        keys: smallvec::SmallVec::new(),
        args: smallvec::smallvec![Arg::Bytes(arg.as_bytes().into())],
        form: Form::default(),
    }
}

/// The key of a read hold.
pub(super) fn hold(field: &str) -> String {
    format!("{{orders}}:{field}:rwlock_timeout:1")
}

pub(super) const DETAILS: &str = "ferrolock_holder:{orders}";
pub(super) const INTENT: &str = "ferrolock_rw_intent:{orders}";

impl Table {
    pub(super) fn new() -> Self {
        Self::preferring(false)
    }

    pub(super) fn preferring(writers: bool) -> Self {
        Self {
            engine: MemoryEngine::open(None),
            read: ReadScheme::new("orders".into(), writers),
            write: WriteScheme::new("orders".into(), writers),
        }
    }

    pub(super) fn reenter(
        &self,
        scheme: &dyn Scheme,
        bearer: &Bearer,
        lease: Duration,
        n: u32,
    ) -> Standing {
        let reply = run(&self.engine, scheme.reenter(bearer, lease, n));
        read_standing(reply.unwrap()).unwrap()
    }

    pub(super) fn release(
        &self,
        scheme: &dyn Scheme,
        bearer: &Bearer,
        left: u32,
        need: Duration,
    ) -> Release {
        let reply = run(&self.engine, scheme.release(bearer, left, need));
        read_release(reply.unwrap(), left).unwrap()
    }

    pub(super) fn renew(&self, scheme: &dyn Scheme, bearer: &Bearer, lease: Duration) -> Standing {
        let call = scheme.renew(bearer, lease).call();
        renewal::read_one(run(&self.engine, call).unwrap()).unwrap()
    }

    pub(super) fn delay(&self, scheme: &dyn Scheme, bearer: &Bearer, stay: Duration) -> Standing {
        let reply = run(&self.engine, scheme.delay_release(bearer, stay));
        read_standing(reply.unwrap()).unwrap()
    }

    pub(super) fn force_unlock(&self) -> bool {
        let reply = run(&self.engine, self.write.force_unlock());
        read_force_unlock(reply.unwrap()).unwrap()
    }

    pub(super) fn inspect(&self, scheme: &dyn Scheme) -> (Option<Rest>, Vec<(String, u32)>) {
        let reply = run(&self.engine, scheme.inspect());
        let (rest, seen) = scheme.read_inspect(reply.unwrap()).unwrap();
        let seen = seen.into_iter();
        let mut seen: Vec<_> = seen
            .map(|Seen { field, count, .. }| (field, count))
            .collect();
        seen.sort();
        (rest, seen)
    }

    pub(super) fn put(&self, source: &str) {
        eval(&self.engine, source, &[]).unwrap();
    }

    /// Counts as one that hears.
    #[must_use]
    pub(super) fn listen(&self) -> (crate::engine::Subscription, Arc<Heard>) {
        let heard = Arc::new(Heard::default());
        let channel = crate::protocol::keys::rw_channel("orders");
        let subscription = finish(self.engine.listen(channel, heard.clone())).unwrap();
        (subscription, heard)
    }
}

impl<P: Place> Table<P> {
    pub(super) fn at(place: P) -> Self {
        Self {
            engine: place,
            read: ReadScheme::new("orders".into(), false),
            write: WriteScheme::new("orders".into(), false),
        }
    }

    /// A time of the test's, as it is there.
    pub(super) fn time(&self, millis: u64) -> Duration {
        ms(millis * self.engine.factor())
    }

    /// A time from there, as one of the test's.
    fn shown(&self, millis: u64) -> u64 {
        millis.div_ceil(self.engine.factor())
    }

    pub(super) fn acquire(
        &self,
        scheme: &dyn Scheme,
        bearer: &Bearer,
        lease: Duration,
    ) -> AttemptReply {
        self.ask(scheme, &Ask::once(bearer, lease))
    }

    pub(super) fn ask(&self, scheme: &dyn Scheme, ask: &Ask<'_>) -> AttemptReply {
        let reply = scheme.read_acquire(self.engine.run(scheme.acquire(ask)));
        match reply.unwrap() {
            AttemptReply::Busy(found) => match found.rest {
                Rest::Left(left) => busy(ms(self.shown(left.as_millis().try_into().unwrap()))),
                Rest::NoExpiry => AttemptReply::Busy(found),
            },
            granted => granted,
        }
    }

    pub(super) fn reads(&self, bearer: &Bearer, lease: Duration) -> AttemptReply {
        self.acquire(&self.read, bearer, lease)
    }

    pub(super) fn writes(&self, bearer: &Bearer, lease: Duration) -> AttemptReply {
        self.acquire(&self.write, bearer, lease)
    }

    /// A read by the owner of that write hold.
    pub(super) fn reads_beside(
        &self,
        bearer: &Bearer,
        write: &str,
        lease: Duration,
    ) -> AttemptReply {
        let beside = Some(&write.into());
        let ask = Ask {
            beside,
            ..Ask::once(bearer, lease)
        };
        self.ask(&self.read, &ask)
    }

    pub(super) fn left(&self, key: &str) -> Option<i64> {
        self.lefts(&[key.to_owned()])[0]
    }

    /// How long each key still lives; `None`: it is not there.
    pub(super) fn lefts(&self, keys: &[String]) -> Vec<Option<i64>> {
        static LEFTS: Script = Script::new(
            "lefts",
            "local lefts = {} for i, key in ipairs(ARGV) do lefts[i] = redis.call('PTTL', key) end return lefts",
        );
        let args = keys.iter().map(|key| Arg::Bytes(key.as_bytes().into()));
        let call = Call {
            args: args.collect(),
            ..of_script(&LEFTS, "")
        };
        let Value::List(lefts) = self.engine.run(call) else {
            panic!("no list");
        };
        let left = |left: Value| match left {
            Value::Int(-2) => None,
            Value::Int(left @ 0..) => Some(self.shown(left.unsigned_abs()).cast_signed()),
            Value::Int(none) => Some(none),
            other => panic!("{other:?}"),
        };
        lefts.into_iter().map(left).collect()
    }

    /// A field of the lock.
    pub(super) fn field(&self, field: &str) -> Option<String> {
        static FIELD: Script = Script::new("field", "return redis.call('HGET', 'orders', ARGV[1])");
        match self.engine.run(of_script(&FIELD, field)) {
            Value::Bytes(value) => Some(String::from_utf8(value).unwrap()),
            Value::Nil => None,
            other => panic!("{other:?}"),
        }
    }
}

/// What came over the channel.
#[derive(Default)]
pub(super) struct Heard(std::sync::Mutex<Vec<String>>);

impl Heard {
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Listener for Heard {
    fn hear(&self, signal: Signal) {
        if let Signal::Message(payload) = signal {
            let text = String::from_utf8_lossy(&payload).into_owned();
            self.0.lock().unwrap().push(text);
        }
    }
}

pub(super) const FREE: Release = Release::Free { heard: 0 };
