//! The lock that a run takes: its kind, the questions about it, and what is known of a grant.

use std::time::Duration;

use clap::ValueEnum;
use ferrolock::kind::Named;
use ferrolock::{AnyGuard, Client, FencedLock, Guard, Holder, Lock, Result, SpinLock};

/// The kinds of locks that a run can take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum LockKind {
    /// One holder at a time
    #[default]
    Lock,
    /// The same, and each grant has a number, in FERROLOCK_FENCE, with which a resource can refuse late writes
    Fenced,
    /// One holder at a time, for servers and proxies without pub/sub: those who wait ask again and again
    Spin,
}

/// The lock of a run.
#[derive(Debug)]
pub(super) enum Target {
    Plain(Lock),
    Fenced(FencedLock),
    Spin(SpinLock),
}

/// A grant, and what the command is told of it.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) guard: AnyGuard,
    /// As the server shows it.
    pub(super) owner: String,
    pub(super) fence: Option<String>,
}

/// Calls the same method of a lock of any kind.
macro_rules! of_each_kind {
    ($target:expr, $lock:ident => $call:expr) => {
        match $target {
            Target::Plain($lock) => $call,
            Target::Fenced($lock) => $call,
            Target::Spin($lock) => $call,
        }
    };
}

impl Target {
    pub(super) fn new(client: &Client, kind: LockKind, name: &str) -> Self {
        match kind {
            LockKind::Lock => Target::Plain(client.lock(name)),
            LockKind::Fenced => Target::Fenced(client.fenced_lock(name)),
            LockKind::Spin => Target::Spin(client.spin_lock(name)),
        }
    }

    pub(super) fn label(self, label: &str) -> Self {
        match self {
            Target::Plain(lock) => Target::Plain(lock.label(label)),
            Target::Fenced(lock) => Target::Fenced(lock.label(label)),
            Target::Spin(lock) => Target::Spin(lock.label(label)),
        }
    }

    pub(super) fn max_hold(self, limit: Duration) -> Self {
        match self {
            Target::Plain(lock) => Target::Plain(lock.max_hold(limit)),
            Target::Fenced(lock) => Target::Fenced(lock.max_hold(limit)),
            Target::Spin(lock) => Target::Spin(lock.max_hold(limit)),
        }
    }

    pub(super) fn name(&self) -> &str {
        of_each_kind!(self, lock => lock.name())
    }

    pub(super) async fn holders(&self) -> Result<Vec<Holder>> {
        of_each_kind!(self, lock => lock.holders().await)
    }

    pub(super) async fn lock(&self) -> Result<Granted> {
        of_each_kind!(self, lock => lock.lock().await.map(granted))
    }

    pub(super) async fn try_lock(&self) -> Result<Option<Granted>> {
        of_each_kind!(self, lock => Ok(lock.try_lock().await?.map(granted)))
    }

    pub(super) async fn try_lock_for(&self, wait: Duration) -> Result<Option<Granted>> {
        of_each_kind!(self, lock => Ok(lock.try_lock_for(wait).await?.map(granted)))
    }
}

fn granted<K: Named>(guard: Guard<K>) -> Granted {
    let owner = guard.owner_id().to_string();
    let guard = guard.erase();
    let fence = guard.fence().map(|fence| fence.to_string());
    Granted {
        guard,
        owner,
        fence,
    }
}
