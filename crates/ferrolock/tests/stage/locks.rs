//! A lock and a guard of any kind: with them a story is written, and compiled, once.
//!
//! Their methods are those of [`Lock`] and [`Guard`], each with the same await points.

use std::future::Future;
use std::time::Duration;

use ferrolock::{
    AnyGuard, AnyLock, CancellationToken, FairLock, FencedLock, Guard, HoldState, Holder, Lock,
    LostReason, MultiLock, Owner, OwnerId, QuorumLock, ReadLock, Remaining, Result, SpinLock,
    Unlocked, WriteLock, kind,
};

use super::kinds::LockKind;

/// A lock of each kind. Behind a lock that has no name of its own stand those that are asked in its place.
#[derive(Clone, Debug)]
pub(crate) enum TestLock {
    Plain(Lock),
    Fair(FairLock),
    Fenced(FencedLock),
    Spin(SpinLock),
    Read(ReadLock),
    Write(WriteLock),
    Multi(MultiLock, Vec<TestLock>),
    Quorum(QuorumLock),
    Any(AnyLock, Lock),
}

#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub(crate) enum TestGuard {
    Plain(Guard),
    Fair(Guard<kind::Fair>),
    Fenced(Guard<kind::Fenced>),
    Spin(Guard<kind::Spin>),
    Read(Guard<kind::Read>),
    Write(Guard<kind::Write>),
    Multi(Guard<kind::Multi>),
    Quorum(Guard<kind::Quorum>),
    Any(AnyGuard),
}

/// The same with a lock or a guard of every kind.
macro_rules! each {
    ($of:expr, $it:ident => $act:expr) => {
        match $of {
            Self::Plain($it) => $act,
            Self::Fair($it) => $act,
            Self::Fenced($it) => $act,
            Self::Spin($it) => $act,
            Self::Read($it) => $act,
            Self::Write($it) => $act,
            Self::Multi($it, ..) => $act,
            Self::Quorum($it) => $act,
            Self::Any($it, ..) => $act,
        }
    };
}

/// A lock with one thing changed, of the same kind.
macro_rules! changed {
    ($of:expr, $it:ident => $act:expr) => {
        match $of {
            Self::Plain($it) => Self::Plain($act),
            Self::Fair($it) => Self::Fair($act),
            Self::Fenced($it) => Self::Fenced($act),
            Self::Spin($it) => Self::Spin($act),
            Self::Read($it) => Self::Read($act),
            Self::Write($it) => Self::Write($act),
            Self::Multi($it, asked) => Self::Multi($act, asked),
            Self::Quorum($it) => Self::Quorum($act),
            Self::Any($it, asked) => Self::Any($act, asked),
        }
    };
}

/// A question to a lock's name; of several locks, to each of them, and what is made of the answers.
macro_rules! asked {
    ($of:expr, $it:ident => $act:expr, $answers:ident => $all:expr) => {
        match $of {
            Self::Plain($it) => $act,
            Self::Fair($it) => $act,
            Self::Fenced($it) => $act,
            Self::Spin($it) => $act,
            Self::Read($it) => $act,
            Self::Write($it) => $act,
            Self::Multi(_, parts) => {
                let mut $answers = Vec::new();
                for $it in parts {
                    $answers.push(Box::pin(async { $act }).await?);
                }
                Ok($all)
            }
            Self::Quorum($it) => $act,
            Self::Any(_, $it) => $act,
        }
    };
}

/// What a guard of one name knows; `None` for other guards.
macro_rules! of_one_name {
    ($of:expr, $it:ident => $act:expr) => {
        match $of {
            Self::Plain($it) => Some($act),
            Self::Fair($it) => Some($act),
            Self::Fenced($it) => Some($act),
            Self::Spin($it) => Some($act),
            Self::Read($it) => Some($act),
            Self::Write($it) => Some($act),
            Self::Quorum($it) => Some($act),
            Self::Multi(_) | Self::Any(_) => None,
        }
    };
}

macro_rules! guards {
    ($($kind:ident),+) => {
        impl TestGuard {
            pub(crate) fn kind(&self) -> LockKind {
                match self {
                    $(Self::$kind(_) => LockKind::$kind),+
                }
            }
        }

        $(
            impl From<Guard<kind::$kind>> for TestGuard {
                fn from(guard: Guard<kind::$kind>) -> Self {
                    Self::$kind(guard)
                }
            }
        )+
    };
}
guards!(Plain, Fair, Fenced, Spin, Read, Write, Multi, Quorum, Any);

/// How it is configured.
impl TestLock {
    pub(crate) fn lease(self, lease: Duration) -> Self {
        changed!(self, lock => lock.lease(lease))
    }

    pub(crate) fn watchdog_lease(self, lease: Duration) -> Self {
        changed!(self, lock => lock.watchdog_lease(lease))
    }

    pub(crate) fn max_hold(self, limit: Duration) -> Self {
        changed!(self, lock => lock.max_hold(limit))
    }

    pub(crate) fn max_wait(self, limit: Duration) -> Self {
        changed!(self, lock => lock.max_wait(limit))
    }

    pub(crate) fn cancelled_by(self, token: &CancellationToken) -> Self {
        changed!(self, lock => lock.cancelled_by(token))
    }

    pub(crate) fn owned_by(self, owner: &Owner) -> Self {
        changed!(self, lock => lock.owned_by(owner))
    }

    pub(crate) fn label(self, label: &str) -> Self {
        changed!(self, lock => lock.label(label))
    }

    pub(crate) fn non_reentrant(self) -> Self {
        match self {
            Self::Plain(lock) => Self::Plain(lock.non_reentrant()),
            Self::Fair(lock) => Self::Fair(lock.non_reentrant()),
            other => panic!("it has no such form: {other:?}"),
        }
    }

    pub(super) fn erase(self) -> AnyLock {
        each!(self, lock => lock.erase())
    }
}

/// How it is taken.
impl TestLock {
    pub(crate) fn lock(&self) -> impl Future<Output = Result<TestGuard>> + Send + use<> {
        let lock = self.clone();
        async move { each!(lock, lock => lock.lock().await.map(TestGuard::from)) }
    }

    pub(crate) fn try_lock(
        &self,
    ) -> impl Future<Output = Result<Option<TestGuard>>> + Send + use<> {
        let lock = self.clone();
        async move { each!(lock, lock => Ok(lock.try_lock().await?.map(TestGuard::from))) }
    }

    pub(crate) fn try_lock_for(
        &self,
        wait: Duration,
    ) -> impl Future<Output = Result<Option<TestGuard>>> + Send + use<> {
        let lock = self.clone();
        async move { each!(lock, lock => Ok(lock.try_lock_for(wait).await?.map(TestGuard::from))) }
    }

    pub(crate) async fn run<T>(&self, body: impl AsyncFnOnce(&AnyGuard) -> T) -> Result<T> {
        self.clone().erase().run(body).await
    }
}

/// What it is asked.
impl TestLock {
    /// Of several locks, that of the first.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Plain(lock) => lock.name(),
            Self::Fair(lock) => lock.name(),
            Self::Fenced(lock) => lock.name(),
            Self::Spin(lock) => lock.name(),
            Self::Read(lock) => lock.name(),
            Self::Write(lock) => lock.name(),
            Self::Multi(_, parts) => parts.first().expect("a part").name(),
            Self::Quorum(lock) => lock.name(),
            Self::Any(_, lock) => lock.name(),
        }
    }

    pub(crate) async fn is_locked(&self) -> Result<bool> {
        asked!(self, lock => lock.is_locked().await, each => each.contains(&true))
    }

    pub(crate) async fn is_held_by(&self, owner: &Owner) -> Result<bool> {
        asked!(self, lock => lock.is_held_by(owner).await, each => each.contains(&true))
    }

    pub(crate) async fn hold_count(&self, owner: &Owner) -> Result<u32> {
        asked!(self, lock => lock.hold_count(owner).await, each => same(each))
    }

    pub(crate) async fn remaining(&self) -> Result<Remaining> {
        asked!(self, lock => lock.remaining().await, each => each.swap_remove(0))
    }

    /// Of several locks, those of the first.
    pub(crate) async fn holders(&self) -> Result<Vec<Holder>> {
        asked!(self, lock => lock.holders().await, each => each.swap_remove(0))
    }

    pub(crate) async fn force_unlock(&self) -> Result<bool> {
        asked!(self, lock => lock.force_unlock().await, each => each.contains(&true))
    }
}

/// The count that all of them have; if they differ, one that no owner has.
fn same(counts: Vec<u32>) -> u32 {
    match counts.iter().all(|count| *count == counts[0]) {
        true => counts[0],
        false => u32::MAX,
    }
}

impl TestGuard {
    /// Of several locks, that of the first.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Multi(guard) => guard.members().first().expect("a member").name(),
            one => each!(one, guard => guard.name()),
        }
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        match self {
            Self::Multi(guard) => guard.members().iter().map(|member| member.name()).collect(),
            one => vec![one.name()],
        }
    }

    pub(crate) fn state(&self) -> HoldState {
        each!(self, guard => guard.state())
    }

    pub(crate) fn is_held(&self) -> bool {
        each!(self, guard => guard.is_held())
    }

    pub(crate) fn ensure_held(&self) -> Result<()> {
        each!(self, guard => guard.ensure_held())
    }

    pub(crate) fn remaining(&self) -> Duration {
        each!(self, guard => guard.remaining())
    }

    pub(crate) async fn lost(&self) -> LostReason {
        each!(self, guard => guard.lost().await)
    }

    pub(crate) fn cancellation_token(&self) -> CancellationToken {
        each!(self, guard => guard.cancellation_token())
    }

    pub(crate) async fn while_held<F: Future>(&self, work: F) -> Result<F::Output> {
        each!(self, guard => guard.while_held(work).await)
    }

    pub(crate) async fn renew(&self, lease: Duration) -> Result<()> {
        each!(self, guard => guard.renew(lease).await)
    }

    pub(crate) async fn check(&self) -> Result<()> {
        each!(self, guard => guard.check().await)
    }

    pub(crate) async fn relock(&self) -> Result<TestGuard> {
        each!(self, guard => guard.relock().await.map(TestGuard::from))
    }

    pub(crate) async fn unlock(self) -> Result<Unlocked> {
        each!(self, guard => guard.unlock().await)
    }

    pub(crate) async fn unlock_after(self, delay: Duration) -> Result<()> {
        each!(self, guard => guard.unlock_after(delay).await)
    }

    pub(crate) fn owner(&self) -> Option<&Owner> {
        of_one_name!(self, guard => guard.owner())
    }

    pub(crate) fn owner_id(&self) -> Option<&OwnerId> {
        of_one_name!(self, guard => guard.owner_id())
    }

    /// Asserts that both have one owner, if they say whose they are. A guard of a quorum shows what the first node that answered
    /// shows of its owner.
    #[track_caller]
    pub(crate) fn assert_same_owner(&self, other: &Self) {
        assert_eq!(self.owner(), other.owner());
        if !matches!(self, Self::Quorum(_)) {
            assert_eq!(self.owner_id(), other.owner_id());
        }
    }

    /// Asserts that its owner has that many holds, if the guard says. A node of a quorum that answered last may have fewer.
    #[track_caller]
    pub(crate) fn assert_holds(&self, count: u32) {
        let holds = of_one_name!(self, guard => guard.hold_count()).unwrap_or(count);
        let is_right = match self {
            Self::Quorum(_) => (1..=count).contains(&holds),
            _ => holds == count,
        };
        assert!(is_right, "{holds} of {count}: {self:?}");
    }
}
