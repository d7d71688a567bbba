//! Our library in the role of a recorded client.
//!
//! A thread `U:42` is client `U` and an [`Owner`] of it, with the stack of guards it has on each name; `unlock` releases the
//! youngest. The player uses only the methods here: any other client with the same methods, such as one of another library,
//! could play `U` or `V` too.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::time::Duration;

use ferrolock::kind::Named;
use ferrolock::{
    CancellationToken, Client, ErrorKind, Guard, Lock, Owner, OwnerId, Remaining, Unlocked,
};
use testkit::fixtures::{Caller, Object, Outcome, Step};
use testkit::{LIMIT, Server};
use tokio::task::JoinHandle;

use crate::differences::Habit;

type Taken = ferrolock::Result<Option<Box<dyn Held>>>;

/// A guard of any kind.
trait Held: Send {
    fn is_held(&self) -> bool;
    fn owner_id(&self) -> &OwnerId;
    fn unlock(self: Box<Self>)
    -> Pin<Box<dyn Future<Output = ferrolock::Result<Unlocked>> + Send>>;
}

impl<K: Named> Held for Guard<K> {
    fn is_held(&self) -> bool {
        Guard::is_held(self)
    }

    fn owner_id(&self) -> &OwnerId {
        Guard::owner_id(self)
    }

    fn unlock(
        self: Box<Self>,
    ) -> Pin<Box<dyn Future<Output = ferrolock::Result<Unlocked>> + Send>> {
        Box::pin(Guard::unlock(*self))
    }
}

pub(crate) struct Actor {
    client: Client,
    owners: BTreeMap<Caller, Owner>,
    guards: BTreeMap<(Caller, String), Vec<Box<dyn Held>>>,
    pending: BTreeMap<usize, Pending>,
    /// Fields on the server, and their owners.
    fields: BTreeMap<String, Caller>,
    habits: BTreeSet<Habit>,
}

struct Pending {
    step: Step,
    stop: CancellationToken,
    call: JoinHandle<Taken>,
}

/// What our caller saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    Void,
    Flag(bool),
    Number(i64),
    Unlocked(Unlocked),
    Failed(ErrorKind),
    Pending,
}

impl Actor {
    pub(crate) async fn connect(server: &Server) -> Self {
        Self {
            client: Client::connect(server.url()).await.unwrap(),
            owners: BTreeMap::new(),
            guards: BTreeMap::new(),
            pending: BTreeMap::new(),
            fields: BTreeMap::new(),
            habits: BTreeSet::new(),
        }
    }

    /// Makes the call of a step; if the call waited in Java, returns while it waits.
    pub(crate) async fn call(&mut self, step: &Step) -> Seen {
        let Object { kind, name, .. } = object(step);
        let (lock, rw) = (self.client.lock(name), self.client.rw_lock(name));
        match kind.as_str() {
            "lock" => self.call_on(step, lock).await,
            "non-reentrant lock" => self.call_on(step, lock.non_reentrant()).await,
            "read lock" => self.call_on(step, rw.read_lock()).await,
            "write lock" => self.call_on(step, rw.write_lock()).await,
            other => panic!("no such object: {other}"),
        }
    }

    async fn call_on<K: Named>(&mut self, step: &Step, handle: Lock<K>) -> Seen {
        let handle = self.configured(step, handle);
        let me = self.owner(step.owner);
        match step.call.method() {
            "lock" | "lockInterruptibly" | "tryLock" => self.take(step, handle).await,
            "unlock" => {
                let guards = self.guards.get_mut(&place(step)).unwrap();
                seen(guards.pop().unwrap().unlock().await.map(Seen::Unlocked))
            }
            "forceUnlock" | "delete" => seen(handle.force_unlock().await.map(Seen::Flag)),
            "isLocked" | "isLockedAsync" => seen(handle.is_locked().await.map(Seen::Flag)),
            "isHeldByCurrentThread" => seen(handle.is_held_by(&me).await.map(Seen::Flag)),
            "getHoldCount" => seen(handle.hold_count(&me).await.map(|n| Seen::Number(n.into()))),
            "remainTimeToLive" => seen(handle.remaining().await.map(|rest| match rest {
                Remaining::Free => Seen::Number(-2),
                Remaining::NoExpiry => Seen::Number(-1),
                Remaining::Left(left) => Seen::Number(i64::try_from(left.as_millis()).unwrap()),
                other => panic!("{other:?}"),
            })),
            other => panic!("no such method: {other}"),
        }
    }

    /// How many guards the caller of a step has for its object: it can call `unlock` as often.
    pub(crate) fn guards(&self, step: &Step) -> usize {
        self.guards.get(&place(step)).map_or(0, Vec::len)
    }

    /// Stops the call of an earlier step.
    pub(crate) fn interrupt(&self, step: usize) {
        self.pending[&step].stop.cancel();
    }

    /// The end of the call of an earlier step, which must have waited until now.
    pub(crate) async fn finish(&mut self, step: usize) -> Seen {
        let pending = self.pending.remove(&step).expect("a call that waits");
        let taken = tokio::time::timeout(LIMIT, pending.call).await;
        let taken = taken.unwrap_or_else(|_| panic!("the call of step {step} still waits"));
        self.taken(&pending.step, taken.unwrap())
    }

    /// The steps whose calls wait, and whether they have returned meanwhile.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (usize, bool)> {
        let steps = self.pending.iter();
        steps.map(|(step, pending)| (*step, pending.call.is_finished()))
    }

    /// The owner of that field.
    pub(crate) fn owner_of(&self, field: &str) -> Option<Caller> {
        self.fields.get(field).copied()
    }

    /// Releases what is still held, and returns the habits in which it differed from Redisson.
    pub(crate) async fn leave(mut self) -> BTreeSet<Habit> {
        self.guards.clear();
        self.client.shutdown(LIMIT).await.unwrap();
        self.habits
    }

    async fn take<K: Named>(&mut self, step: &Step, handle: Lock<K>) -> Seen {
        let stop = CancellationToken::new();
        let handle = handle.cancelled_by(&stop);
        let wait = self.millis(step, "wait");
        let tries = step.call.method() == "tryLock";
        let call = tokio::spawn(async move {
            let guard = match wait {
                Some(wait) => handle.try_lock_for(wait).await?,
                None if tries => handle.try_lock().await?,
                None => Some(handle.lock().await?),
            };
            Ok(guard.map(|guard| Box::new(guard) as Box<dyn Held>))
        });
        if step.reply == Some(Outcome::Pending) {
            let step = step.clone();
            let pending = Pending { step, stop, call };
            self.pending.insert(pending.step.step, pending);
            return Seen::Pending;
        }
        let taken = tokio::time::timeout(LIMIT, call).await.unwrap().unwrap();
        self.taken(step, taken)
    }

    fn taken(&mut self, step: &Step, taken: Taken) -> Seen {
        match taken {
            Ok(Some(guard)) => {
                self.enter(step, guard);
                match step.call.method() {
                    "tryLock" => Seen::Flag(true),
                    _ => Seen::Void,
                }
            }
            Ok(None) => Seen::Flag(false),
            Err(error) => Seen::Failed(error.kind()),
        }
    }

    /// Re-entry keeps the field; a new acquisition has a field that was never used before.
    fn enter(&mut self, step: &Step, guard: Box<dyn Held>) {
        let id = guard.owner_id();
        let field = id.to_string();
        assert_eq!(field, format!("{}:{}", self.client.id(), id.number()));
        let guards = self.guards.entry(place(step)).or_default();
        let before = match guards.iter().find(|guard| guard.is_held()) {
            Some(outer) => {
                assert_eq!(outer.owner_id(), id, "re-entry is the same tenure");
                Some(step.owner)
            }
            None => {
                self.habits.insert(Habit::Tenures);
                None
            }
        };
        assert_eq!(self.fields.insert(field, step.owner), before, "whose field");
        guards.push(guard);
    }

    /// A handle as the caller of a step would make it: everything that Java's object remembers is set again.
    fn configured<K: Named>(&mut self, step: &Step, lock: Lock<K>) -> Lock<K> {
        let lock = lock.owned_by(&self.owner(step.owner));
        let known = ["wait", "lease"].map(|name| step.call.millis(name));
        let arguments = step.call.arguments();
        assert_eq!(known.iter().flatten().count(), arguments.len(), "{step:?}");
        match self.millis(step, "lease") {
            Some(lease) => lock.lease(lease),
            None => lock,
        }
    }

    /// A time among the arguments; one below zero is left out.
    fn millis(&mut self, step: &Step, name: &str) -> Option<Duration> {
        let millis = u64::try_from(step.call.millis(name)?);
        if millis.is_err() {
            self.habits.insert(Habit::NoNegativeTimes);
        }
        millis.ok().map(Duration::from_millis)
    }

    fn owner(&mut self, caller: Caller) -> Owner {
        self.owners.entry(caller).or_insert_with(Owner::new).clone()
    }
}

/// What the call of a step is about.
pub(crate) fn object(step: &Step) -> &Object {
    step.on.as_ref().unwrap()
}

fn place(step: &Step) -> (Caller, String) {
    let Object { kind, name, .. } = object(step);
    (step.owner, format!("{kind} {name}"))
}

fn seen(result: ferrolock::Result<Seen>) -> Seen {
    result.unwrap_or_else(|error| Seen::Failed(error.kind()))
}
