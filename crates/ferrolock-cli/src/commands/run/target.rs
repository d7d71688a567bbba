//! The lock that a run takes: its kind, the questions about it, and what is known of a grant.

use std::time::Duration;

use clap::ValueEnum;
use ferrolock::kind::{Multi, Named};
use ferrolock::{
    AnyGuard, AnyLock, Client, FairLock, FencedLock, Guard, Holder, Lock, MultiLock, ReadLock,
    Result, RwLock, SpinLock, WriteLock,
};

/// The kinds of locks that a run can take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum LockKind {
    /// One holder at a time
    #[default]
    Lock,
    /// One holder at a time, first come, first served
    Fair,
    /// Any number of holders at a time, but none beside a writer
    Read,
    /// One holder at a time, and no reader beside it
    Write,
    /// One holder at a time, and each grant has a number, in FERROLOCK_FENCE, with which a resource can refuse late writes
    Fenced,
    /// One holder at a time, for servers and proxies without pub/sub: those who wait ask again and again
    Spin,
}

/// The limit of the question, after several names were granted, under which owners they are held: the command waits for it.
const OWNERS_MAX: Duration = Duration::from_secs(1);

/// The lock of a run.
#[derive(Debug)]
pub(super) enum Target {
    One(OneName),
    /// Several names that are held as one, in the order in which they were given.
    Several {
        client: Client,
        lock: MultiLock,
        names: Vec<OneName>,
    },
}

/// The lock of one name.
#[derive(Debug)]
pub(super) enum OneName {
    Lock(Lock),
    Fair(FairLock),
    Read(ReadLock, RwLock),
    Write(WriteLock, RwLock),
    Fenced(FencedLock),
    Spin(SpinLock),
}

/// A grant, and what the command is told of it.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) guard: AnyGuard,
    /// As the server shows them, one for each name.
    pub(super) owners: Vec<String>,
    /// One for each name, if the kind has fences.
    pub(super) fences: Vec<String>,
}

/// Does the same with a lock of any kind.
macro_rules! of_each_kind {
    ($target:expr, $lock:ident => $call:expr) => {
        match $target {
            OneName::Lock($lock) => $call,
            OneName::Fair($lock) => $call,
            OneName::Read($lock, _) => $call,
            OneName::Write($lock, _) => $call,
            OneName::Fenced($lock) => $call,
            OneName::Spin($lock) => $call,
        }
    };
}

/// Makes a lock of the same kind of it.
macro_rules! changed {
    ($target:expr, $lock:ident => $call:expr) => {
        match $target {
            OneName::Lock($lock) => OneName::Lock($call),
            OneName::Fair($lock) => OneName::Fair($call),
            OneName::Read($lock, both) => OneName::Read($call, both),
            OneName::Write($lock, both) => OneName::Write($call, both),
            OneName::Fenced($lock) => OneName::Fenced($call),
            OneName::Spin($lock) => OneName::Spin($call),
        }
    };
}

impl OneName {
    fn new(client: &Client, kind: LockKind, name: &str) -> Self {
        let both = || client.rw_lock(name);
        match kind {
            LockKind::Lock => OneName::Lock(client.lock(name)),
            LockKind::Fair => OneName::Fair(client.fair_lock(name)),
            LockKind::Read => OneName::Read(both().read_lock(), both()),
            LockKind::Write => OneName::Write(both().write_lock(), both()),
            LockKind::Fenced => OneName::Fenced(client.fenced_lock(name)),
            LockKind::Spin => OneName::Spin(client.spin_lock(name)),
        }
    }

    fn name(&self) -> &str {
        of_each_kind!(self, lock => lock.name())
    }

    async fn holders(&self) -> Result<Vec<Holder>> {
        of_each_kind!(self, lock => lock.holders().await)
    }

    /// Who keeps us from holding it: for a reader that is the writer, for a writer that is everybody.
    async fn in_the_way(&self) -> Result<Vec<Holder>> {
        match self {
            OneName::Read(_, both) => both.write_lock().holders().await,
            OneName::Write(writes, both) => {
                let readers = both.read_lock().holders().await?;
                Ok([writes.holders().await?, readers].concat())
            }
            OneName::Lock(_) | OneName::Fair(_) | OneName::Fenced(_) | OneName::Spin(_) => {
                self.holders().await
            }
        }
    }

    fn erased(&self) -> AnyLock {
        of_each_kind!(self, lock => lock.clone().erase())
    }
}

impl Target {
    /// The locks of these names; there is one at least.
    pub(super) fn new(
        client: &Client,
        kind: LockKind,
        names: &[String],
        label: &str,
        max_hold: Option<Duration>,
    ) -> Self {
        let mut names: Vec<OneName> = names
            .iter()
            .map(|name| OneName::new(client, kind, name))
            .map(|lock| changed!(lock, lock => lock.label(label)))
            .map(|lock| match max_hold {
                Some(limit) => changed!(lock, lock => lock.max_hold(limit)),
                None => lock,
            })
            .collect();
        match (names.len(), names.pop()) {
            (1, Some(only)) => Target::One(only),
            (_, last) => {
                names.extend(last);
                Target::Several {
                    client: client.clone(),
                    lock: MultiLock::new(names.iter().map(OneName::erased)),
                    names,
                }
            }
        }
    }

    fn names(&self) -> &[OneName] {
        match self {
            Target::One(one) => std::slice::from_ref(one),
            Target::Several { names, .. } => names,
        }
    }

    /// Who keeps us from holding the names, one name after the other.
    pub(super) async fn in_the_way(&self) -> Result<Vec<Holder>> {
        let mut all = Vec::new();
        for name in self.names() {
            all.extend(name.in_the_way().await?);
        }
        Ok(all)
    }

    /// The first name that one of these owners keeps us from holding.
    pub(super) async fn name_kept_by(&self, owners: &[&str]) -> Result<Option<&str>> {
        for name in self.names() {
            let holders = name.in_the_way().await?;
            if holders
                .iter()
                .any(|holder| owners.contains(&holder.owner.as_str()))
            {
                return Ok(Some(name.name()));
            }
        }
        Ok(None)
    }

    pub(super) async fn lock(&self) -> Result<Granted> {
        match self {
            Target::One(one) => of_each_kind!(one, lock => lock.lock().await.map(granted)),
            Target::Several { client, lock, .. } => {
                let guard = lock.lock().await?;
                Ok(self.granted_together(client, guard).await)
            }
        }
    }

    pub(super) async fn try_lock(&self) -> Result<Option<Granted>> {
        match self {
            Target::One(one) => {
                of_each_kind!(one, lock => Ok(lock.try_lock().await?.map(granted)))
            }
            Target::Several { client, lock, .. } => match lock.try_lock().await? {
                Some(guard) => Ok(Some(self.granted_together(client, guard).await)),
                None => Ok(None),
            },
        }
    }

    pub(super) async fn try_lock_for(&self, wait: Duration) -> Result<Option<Granted>> {
        match self {
            Target::One(one) => {
                of_each_kind!(one, lock => Ok(lock.try_lock_for(wait).await?.map(granted)))
            }
            Target::Several { client, lock, .. } => match lock.try_lock_for(wait).await? {
                Some(guard) => Ok(Some(self.granted_together(client, guard).await)),
                None => Ok(None),
            },
        }
    }

    async fn granted_together(&self, client: &Client, guard: Guard<Multi>) -> Granted {
        let fence = |name: &OneName| {
            let mut members = guard.members().iter();
            let member = members.find(|member| member.name() == name.name());
            member.and_then(|member| Some(member.fence()?.to_string()))
        };
        let fences = self.names().iter().filter_map(fence).collect();
        // A server that does not answer in time leaves them out: they only keep a run inside from waiting for itself.
        let owners = tokio::time::timeout(OWNERS_MAX, self.owners_of(client)).await;
        Granted {
            guard: guard.erase(),
            owners: owners.unwrap_or_default(),
            fences,
        }
    }

    /// Under which owner that client holds each name.
    async fn owners_of(&self, client: &Client) -> Vec<String> {
        let mut owners = Vec::new();
        for name in self.names() {
            let holders = name.holders().await.unwrap_or_default();
            let mut ours = holders
                .iter()
                .filter(|holder| holder.owner.client() == client.id());
            owners.extend(ours.next().map(|holder| holder.owner.to_string()));
        }
        owners
    }
}

fn granted<K: Named>(guard: Guard<K>) -> Granted {
    let owners = vec![guard.owner_id().to_string()];
    let guard = guard.erase();
    let fences = guard.fence().map(|fence| fence.to_string());
    Granted {
        guard,
        owners,
        fences: fences.into_iter().collect(),
    }
}
