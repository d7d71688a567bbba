//! Several locks held as one.

mod taking;
#[cfg(all(test, feature = "embedded"))]
mod tests;

use std::cmp::Ordering;
use std::sync::Arc;

use crate::coordination::waiting::Patience;
use crate::engine::Boxed;
use crate::error::{Error, Result};
use crate::guard::members::Members;
use crate::guard::{AnyGuard, Guard};
use crate::kind::{Lockable, Multi};
use crate::options::LockOptions;
use crate::sync::any_lock::AnyLock;
use crate::sync::lock::Lock;
use crate::sync::multi_lock::taking::Taking;
use crate::sync::target::Target;

/// Several locks, of any kinds, clients and engines, held as one: all or none. Made by [`and`](Lock::and),
/// `MultiLock::new` or `collect()`.
///
/// # Guarantees
/// All members are taken in one fixed order, whatever order they were given in, so two multi locks never wait for each other
/// in a circle. A lock that was given twice counts once. The time limit is one for all of them; a fixed lease counts from when
/// the last of them was taken. Its guard is lost as soon as one of them is. All are given back, also if that fails for
/// one of them.
///
/// In a round it waits for the member that was busy, and holds none meanwhile; when it has that one it tries the others without
/// waiting, and gives back what it has if one of them is busy. After eight rounds, or a second, in which it did not get all of
/// them, it takes one after the other in the fixed order and holds what it has while it waits, so that a large set is not starved
/// by small ones. When it has waited for four seconds while it holds others, it gives them back and plays rounds again; the next
/// time it waits twice as long, up to 64 s.
///
/// The options of this handle are those of all members; what is not set here stays as a member has it. `max_wait` is the
/// shortest of those that the members had, or what is set here. An owner's scope enters single members of it again.
///
/// # Cancel safety
/// As for [`lock`](Lock::lock): a dropped future gives back what it has. One that is kept and not polled keeps it: it tries the
/// other members, and gives back, only while it is polled, and until then what it has is renewed, or with a fixed lease held to
/// its end. So poll it until it is ready, drop it, or spawn it.
///
/// # Not promised
/// A server that is called by two addresses is two servers: a lock that is a member by each of them waits for itself.
///
/// # Errors
/// As for one lock; [`Invalid`](crate::ErrorKind::Invalid) for an empty set, and for two kinds of lock on one name. The error
/// of a member names that member; [`nodes`](Error::nodes) lists all members that failed.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> ferrolock::Result<()> {
/// use ferrolock::{Client, MultiLock};
///
/// let client = Client::memory();
/// let both = client.lock("account/1").and(client.lock("account/2"));
/// let guard = both.lock().await?;
/// assert_eq!(guard.members().len(), 2);
/// guard.unlock().await?;
///
/// let rows: MultiLock = [3, 1, 2].iter().map(|id| client.lock(format!("row/{id}"))).collect();
/// let Some(_guard) = rows.try_lock().await? else {
///     return Ok(()); // one of them is taken
/// };
/// # Ok(()) }
/// ```
pub type MultiLock = Lock<Multi>;

impl Lock<Multi> {
    /// All of these as one. A multi lock among them counts as its members.
    pub fn new<L: Into<AnyLock>>(locks: impl IntoIterator<Item = L>) -> MultiLock {
        let mut members = Vec::new();
        for lock in locks {
            let lock: AnyLock = lock.into();
            let several = match &lock.target {
                Target::Multi(several) => several.clone(),
                Target::One(_) | Target::Quorum(_) => {
                    members.push(lock);
                    continue;
                }
            };
            for member in &several.locks {
                let mut member = member.clone();
                member.options = member.options.under(&lock.options);
                members.push(member);
            }
        }
        let max_wait = members.iter().filter_map(|lock| lock.options.max_wait);
        let max_wait = max_wait.min();
        let mut lock = Lock::of(Target::Multi(Arc::new(SeveralLocks::new(members))));
        lock.options.max_wait = max_wait;
        lock
    }

    /// The locks, in the order in which they are taken.
    pub fn members(&self) -> &[AnyLock] {
        match &self.target {
            Target::Multi(several) => &several.locks,
            Target::One(_) | Target::Quorum(_) => &[],
        }
    }
}

impl<K: Lockable> FromIterator<Lock<K>> for MultiLock {
    fn from_iter<I: IntoIterator<Item = Lock<K>>>(locks: I) -> MultiLock {
        MultiLock::new(locks.into_iter().map(Lock::erase))
    }
}

impl Guard<Multi> {
    /// The guards of the members, in the order of [`MultiLock::members`].
    pub fn members(&self) -> &[AnyGuard] {
        self.bundled()
    }
}

/// The members of a multi lock: sorted, and each once.
pub(super) struct SeveralLocks {
    pub(super) locks: Vec<AnyLock>,
    pub(super) name: Arc<str>,
    /// Two kinds of lock on one name.
    conflict: Option<Error>,
}

impl SeveralLocks {
    fn new(mut locks: Vec<AnyLock>) -> Self {
        locks.sort_by(|one, other| place(one).cmp(&place(other)));
        locks.dedup_by(|other, one| is_same(one, other));
        let conflict = locks
            .windows(2)
            .find_map(|two| match two {
                [one, other] if place(one).cmp(&place(other)) == Ordering::Equal => Some(one),
                _ => None,
            })
            .map(|lock| {
                Error::invalid(format!(
                    "lock {:?} is a member by two kinds, which exclude each other: leave one out",
                    lock.target.name()
                ))
            });
        let names: Vec<&str> = locks.iter().map(|lock| lock.target.name()).collect();
        let name = names.join(", ").into();
        Self {
            locks,
            name,
            conflict,
        }
    }

    /// Takes all of them, or none. `None`: one was busy, for a call that returns that and no error.
    pub(super) fn acquire(
        self: &Arc<Self>,
        options: &LockOptions,
        patience: Patience,
    ) -> Boxed<Result<Option<Members>>> {
        let (several, options) = (self.clone(), options.clone());
        Box::pin(async move {
            if let Some(conflict) = &several.conflict {
                return Err(conflict.clone());
            }
            Taking::new(&several, &options, patience)?.take().await
        })
    }
}

/// Where a lock is in the fixed order: by its name, then by its server.
fn place(lock: &AnyLock) -> (&str, &str, &str) {
    match &lock.target {
        Target::One(one) => {
            let (name, (address, space)) = (lock.target.name(), one.space());
            (name, address, space)
        }
        Target::Multi(_) => (lock.target.name(), "", ""),
        Target::Quorum(nodes) => (lock.target.name(), &nodes.addresses, &nodes.spaces),
    }
}

fn is_same(one: &AnyLock, other: &AnyLock) -> bool {
    let line = |lock: &AnyLock| match &lock.target {
        Target::One(one) => one.scheme.as_ref().ok().map(|scheme| scheme.subject().line),
        Target::Multi(_) | Target::Quorum(_) => None,
    };
    let is_quorum = |lock: &AnyLock| matches!(lock.target, Target::Quorum(_));
    let is_one_kind = match (line(one), line(other)) {
        (Some(one), Some(other)) => one == other,
        (None, None) => is_quorum(one) && is_quorum(other),
        _ => false,
    };
    place(one) == place(other) && is_one_kind
}
