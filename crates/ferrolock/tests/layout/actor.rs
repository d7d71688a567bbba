//! Our library in the role of a recorded client.
//!
//! A thread `U:42` is client `U` and an [`Owner`] of it, with the stack of guards it has on each name; `unlock` releases the
//! youngest. The player uses only the methods here: any other client with the same methods, such as one of another library,
//! could play `U` or `V` too.

mod held;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ferrolock::kind::{Lockable, Named};
use ferrolock::{
    AnyLock, CancellationToken, Client, ErrorKind, Lock, MultiLock, Owner, Quorum, Remaining,
    Unlocked,
};
use testkit::fixtures::{Call, Caller, Object, Primitive, Step};
use testkit::{LIMIT, Server};
use tokio::task::JoinHandle;

use crate::differences::Habit;
use held::{Held, Played};

type Taken = ferrolock::Result<Option<Box<dyn Held>>>;

/// Redisson's red lock has a name for each member, ours has one on each node: here the nodes' clients have the members'
/// names for prefixes, and this is behind them.
pub(crate) const NODE_NAME: &str = "/red";

pub(crate) struct Actor {
    client: Client,
    /// Of the nodes of a quorum, which are all on one server here.
    nodes: Vec<Client>,
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
    Null,
    Unlocked(Unlocked),
    Failed(ErrorKind),
    Pending,
    /// There is no such method, or none without a guard.
    NoSuchCall,
}

impl Actor {
    pub(crate) async fn connect(server: &Server, primitive: Primitive) -> Self {
        let mut nodes = Vec::new();
        if primitive == Primitive::RedLock {
            for member in ["a/", "b/", "c/"] {
                let node = Client::builder().url(server.url()).key_prefix(member);
                nodes.push(node.connect().await.unwrap());
            }
        }
        Self {
            client: Client::connect(server.url()).await.unwrap(),
            nodes,
            owners: BTreeMap::new(),
            guards: BTreeMap::new(),
            pending: BTreeMap::new(),
            fields: BTreeMap::new(),
            habits: BTreeSet::new(),
        }
    }

    /// Makes the call of a step; if it `waits`, returns meanwhile.
    pub(crate) async fn call(&mut self, step: &Step, waits: bool) -> Seen {
        let Object { kind, name, .. } = object(step);
        let name = match self.nodes.is_empty() {
            true => name.clone(),
            false => format!("{name}{NODE_NAME}"),
        };
        let (lock, rw) = (self.client.lock(&name), self.client.rw_lock(&name));
        let (fair, spin) = (self.client.fair_lock(&name), self.client.spin_lock(&name));
        match kind.as_str() {
            "lock" => self.call_on(step, waits, lock).await,
            "non-reentrant lock" => self.call_on(step, waits, lock.non_reentrant()).await,
            "read lock" => self.call_on(step, waits, rw.read_lock()).await,
            "write lock" => self.call_on(step, waits, rw.write_lock()).await,
            "fenced lock" => {
                let fenced = self.client.fenced_lock(&name);
                self.call_on(step, waits, fenced).await
            }
            "spin lock" => self.call_on(step, waits, spin).await,
            "fair lock" => self.call_on(step, waits, fair).await,
            "non-reentrant fair lock" => self.call_on(step, waits, fair.non_reentrant()).await,
            "multi lock" => {
                let members = object(step).members.iter();
                let members: Vec<AnyLock> =
                    members.map(|name| self.client.lock(name).erase()).collect();
                self.call_on_several(step, waits, MultiLock::new(members))
                    .await
            }
            "red lock" => {
                // A loaded machine is no reason for a member to be missing.
                let quorum = Quorum::new(self.nodes.clone()).node_limit(LIMIT);
                let lock = quorum.lock(&NODE_NAME[1..]);
                self.call_on_several(step, waits, lock).await
            }
            other => panic!("no such object: {other}"),
        }
    }

    async fn call_on<K: Played + Named>(
        &mut self,
        step: &Step,
        waits: bool,
        handle: Lock<K>,
    ) -> Seen {
        let handle = self.configured(step, handle);
        let me = self.owner(step.owner);
        match step.call.method() {
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
            // That of a hold: there is none of the moment.
            "getToken" => match self.guards.get(&place(step)).and_then(|all| all.last()) {
                Some(guard) => Seen::Number(guard.fence().unwrap().as_i64()),
                None => Seen::NoSuchCall,
            },
            _ => self.take_or_leave(step, waits, handle).await,
        }
    }

    /// On a lock that has no name of its own, and so no questions.
    async fn call_on_several<K: Played>(
        &mut self,
        step: &Step,
        waits: bool,
        handle: Lock<K>,
    ) -> Seen {
        if step.call == Call::Create {
            return seen(handle.try_lock().await.map(|_| Seen::Void));
        }
        let handle = self.configured(step, handle);
        match step.call.method() {
            "isHeldByCurrentThread" => {
                let guards = self.guards.get(&place(step));
                Seen::Flag(guards.is_some_and(|all| all.iter().any(|guard| guard.is_held())))
            }
            "isLocked" | "forceUnlock" | "getHoldCount" | "remainTimeToLive" => Seen::NoSuchCall,
            _ => self.take_or_leave(step, waits, handle).await,
        }
    }

    async fn take_or_leave<K: Played>(
        &mut self,
        step: &Step,
        waits: bool,
        handle: Lock<K>,
    ) -> Seen {
        match step.call.method() {
            "lock" | "lockInterruptibly" | "tryLock" | "tryLockAsync" | "lockAndGetToken"
            | "tryLockAndGetToken" => self.take(step, waits, handle).await,
            "unlock" => match self.guards.get_mut(&place(step)).and_then(Vec::pop) {
                Some(guard) => seen(guard.unlock().await.map(Seen::Unlocked)),
                None => Seen::NoSuchCall,
            },
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

    /// Whether one of its clients has this id.
    pub(crate) fn has_id(&self, id: &str) -> bool {
        let mut clients = self.nodes.iter().chain([&self.client]);
        clients.any(|client| client.id() == id)
    }

    /// The call of this caller waits, with this field.
    pub(crate) fn waits_as(&mut self, field: String, caller: Caller) {
        assert!(self.has_id(field.rsplit_once(':').unwrap().0), "{field}");
        let before = self.fields.insert(field, caller);
        assert_eq!(before, None, "a place is new");
    }

    /// A field that is on the server after a call of this caller.
    pub(crate) fn may_have_taken(&mut self, field: String, caller: Caller) {
        let id = field.rsplit_once(':').map_or("", |(id, _)| id);
        if self.has_id(id) && !self.fields.contains_key(&field) {
            self.fields.insert(field, caller);
            self.habits.insert(Habit::Tenures);
        }
    }

    /// Releases what is still held, and returns the habits in which it differed from Redisson.
    pub(crate) async fn leave(mut self) -> BTreeSet<Habit> {
        self.guards.clear();
        for client in self.nodes.iter().chain([&self.client]) {
            client.shutdown(LIMIT).await.unwrap();
        }
        self.habits
    }

    async fn take<K: Played>(&mut self, step: &Step, waits: bool, handle: Lock<K>) -> Seen {
        let stop = CancellationToken::new();
        let handle = handle.cancelled_by(&stop);
        let wait = self.millis(step, "wait");
        let tries = step.call.method().starts_with("tryLock");
        let call = tokio::spawn(async move {
            let guard = match wait {
                Some(wait) => handle.try_lock_for(wait).await?,
                None if tries => handle.try_lock().await?,
                None => Some(handle.lock().await?),
            };
            Ok(guard.map(|guard| Box::new(guard) as Box<dyn Held>))
        });
        if waits {
            let step = step.clone();
            let pending = Pending { step, stop, call };
            self.pending.insert(pending.step.step, pending);
            return Seen::Pending;
        }
        let taken = tokio::time::timeout(LIMIT, call).await.unwrap().unwrap();
        self.taken(step, taken)
    }

    fn taken(&mut self, step: &Step, taken: Taken) -> Seen {
        let method = step.call.method();
        match taken {
            Ok(Some(guard)) => {
                let fence = guard.fence();
                self.enter(step, guard);
                match fence {
                    Some(fence) if method.ends_with("Token") => Seen::Number(fence.as_i64()),
                    _ if method.starts_with("tryLock") => Seen::Flag(true),
                    _ => Seen::Void,
                }
            }
            Ok(None) if method.ends_with("Token") => Seen::Null,
            Ok(None) => Seen::Flag(false),
            Err(error) => Seen::Failed(error.kind()),
        }
    }

    /// Re-entry keeps the field; a new acquisition has a field that was never used before, but in its place in a queue.
    fn enter(&mut self, step: &Step, guard: Box<dyn Held>) {
        let guards = self.guards.entry(place(step)).or_default();
        // Of several locks the fields are seen on the server.
        if let Some(id) = guard.owner_id() {
            let field = id.to_string();
            assert_eq!(field, format!("{}:{}", self.client.id(), id.number()));
            let had_place = object(step).kind.contains("fair");
            let before = self.fields.insert(field, step.owner);
            match guards.iter().find(|guard| guard.is_held()) {
                Some(outer) => {
                    assert_eq!(outer.owner_id(), Some(id), "re-entry is the same tenure");
                    assert_eq!(before, Some(step.owner), "whose field");
                }
                None => {
                    let is_own_place = had_place && before == Some(step.owner);
                    assert!(before.is_none() || is_own_place, "whose field");
                    self.habits.insert(Habit::Tenures);
                }
            }
        }
        guards.push(guard);
    }

    /// A handle as the caller of a step would make it: everything that Java's object remembers is set again.
    fn configured<K: Lockable>(&mut self, step: &Step, lock: Lock<K>) -> Lock<K> {
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

/// The names of the locks that it consists of.
pub(crate) fn names(step: &Step) -> &[String] {
    let object = object(step);
    match &object.members[..] {
        [] => std::slice::from_ref(&object.name),
        members => members,
    }
}

fn place(step: &Step) -> (Caller, String) {
    let Object { kind, .. } = object(step);
    (step.owner, format!("{kind} {}", names(step).join(", ")))
}

fn seen(result: ferrolock::Result<Seen>) -> Seen {
    result.unwrap_or_else(|error| Seen::Failed(error.kind()))
}
