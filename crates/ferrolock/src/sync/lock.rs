//! A handle to a name.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::coordination::Alive;
use crate::coordination::waiting::Patience;
use crate::engine::{Boxed, Failure};
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::guard::Guard;
use crate::guard::members::done_with;
use crate::inspect::{Holder, Remaining};
use crate::kind::{Lockable, Named, Plain};
use crate::name::LockName;
use crate::options::{Lease, LockOptions, Reentry};
use crate::owner::{Owner, OwnerId};
use crate::protocol::call::{Call, Value};
use crate::protocol::lock::PlainScheme;
use crate::protocol::scheme::{Rest, Scheme, Seen, read_force_unlock};
use crate::sync::any_lock::AnyLock;
use crate::sync::multi_lock::MultiLock;
use crate::sync::target::{OneName, Target};

/// A handle to a lock: cheap, cloneable, configured by methods that return it. It takes nothing until asked.
///
/// A bad name or duration shows at the first call that returns a result; nothing has been sent then.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> ferrolock::Result<()> {
/// use std::time::Duration;
/// use ferrolock::Client;
///
/// let client = Client::memory();
/// let lock = client.lock("orders/42").label("import").max_hold(Duration::from_secs(600));
///
/// let guard = lock.lock().await?;
/// assert!(lock.try_lock().await?.is_none()); // a new owner each time: busy
/// guard.unlock().await?;
/// # Ok(()) }
/// ```
#[must_use = "a lock does nothing until `lock`, `try_lock` or `run` is called"]
pub struct Lock<K: Lockable = Plain> {
    pub(super) target: Target,
    pub(super) options: LockOptions,
    used: AtomicBool,
    kind: PhantomData<fn() -> K>,
}

impl<K: Lockable> Lock<K> {
    /// A handle to that name, by the scheme of its kind.
    pub(crate) fn of_scheme(
        alive: Arc<Alive>,
        name: &str,
        scheme: impl FnOnce(Arc<str>) -> Result<Arc<dyn Scheme>>,
    ) -> Self {
        let prefix = &alive.core.settings.key_prefix;
        let name = if prefix.is_empty() {
            LockName::new(name)
        } else {
            LockName::new(format!("{prefix}{name}"))
        };
        let scheme = name.and_then(|name| scheme(name.as_arc().clone()));
        Self::of(Target::One(OneName { alive, scheme }))
    }

    pub(super) fn of(target: Target) -> Self {
        Self {
            target,
            options: LockOptions::default(),
            used: AtomicBool::new(false),
            kind: PhantomData,
        }
    }

    /// What a handle of one name leads to.
    pub(super) fn into_one_name(self) -> Option<OneName> {
        self.used.store(true, Ordering::Relaxed);
        match &self.target {
            Target::One(one) => Some(one.clone()),
            Target::Multi(_) | Target::Quorum(_) => None,
        }
    }

    /// The same handle with another scheme of its kind.
    pub(super) fn with_scheme(
        self,
        scheme: impl FnOnce(Arc<str>) -> Result<Arc<dyn Scheme>>,
    ) -> Self {
        let mut other = self.with_kind(scheme);
        *other.used.get_mut() = false;
        other
    }

    /// A handle of another kind to the same name, with the same options.
    pub(super) fn with_kind<L: Lockable>(
        &self,
        scheme: impl FnOnce(Arc<str>) -> Result<Arc<dyn Scheme>>,
    ) -> Lock<L> {
        self.used.store(true, Ordering::Relaxed);
        let mut target = self.target.clone();
        if let Target::One(one) = &mut target {
            one.scheme = one.scheme.clone().and_then(|old| {
                let name = old.name();
                scheme(name.clone()).map_err(|error| error.of(name))
            });
        }
        Lock {
            target,
            options: self.options.clone(),
            used: AtomicBool::new(true),
            kind: PhantomData,
        }
    }

    /// A fixed lease: never renewed, over at its end.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = Lease::Fixed(lease);
        self
    }

    /// Renewed, but this long each time instead of the client's setting; short for quick take-over after a crash.
    pub fn watchdog_lease(mut self, lease: Duration) -> Self {
        self.options.lease = Lease::Watchdog(lease);
        self
    }

    /// The longest time a hold may last: renewal stops there, with [`LostReason::MaxHold`].
    pub fn max_hold(mut self, limit: Duration) -> Self {
        self.options.max_hold = Some(limit);
        self
    }

    /// `lock` and `run` give up after this time, with [`ErrorKind::TimedOut`](crate::ErrorKind::TimedOut). `try_lock`
    /// and `try_lock_for` do not look at it.
    pub fn max_wait(mut self, limit: Duration) -> Self {
        self.options.max_wait = Some(limit);
        self
    }

    /// Waiting ends with [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) when the token fires.
    pub fn cancelled_by(mut self, token: &CancellationToken) -> Self {
        self.options.cancelled_by = Some(token.clone());
        self
    }

    /// The owner that acquires; else that of the task's [scope](Owner::scope), else a new owner each time.
    pub fn owned_by(mut self, owner: &Owner) -> Self {
        self.options.owner = Some(owner.clone());
        self
    }

    /// Shown by [`holders`](Lock::holders), with host, process and time. A re-entry keeps the label of the first entry.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.options.label = Some(label.into());
        self
    }

    /// Waits until the lock is free and takes it.
    ///
    /// Waits for a holder as long as it takes (or `max_wait`), but not for a server: after the client's
    /// `unreachable_after` without one answer it gives up.
    ///
    /// # Cancel safety
    /// Dropping the future before it is ready loses the place in the local queue and leaves no hold behind: a grant
    /// that arrives later is released at once.
    ///
    /// # Errors
    /// `TimedOut`, `Cancelled`, `WouldDeadlock`, `Unreachable`, `Refused`, `Closed`, `Invalid`; `Lost` if the owner
    /// was inside and the lock vanished under it; `NoQuorum` for a lock on a [`Quorum`](crate::Quorum), alone or as a member.
    pub fn lock(&self) -> impl Future<Output = Result<Guard<K>>> + Send + use<K> {
        let lock = self.clone();
        async move {
            let max_wait = lock.options.max_wait;
            match lock.acquire(Patience::Insists(max_wait)).await? {
                Some(guard) => Ok(guard),
                None => Err(Error::lost(LostReason::Removed)),
            }
        }
    }

    /// Takes the lock if it is free now. `None`: busy.
    ///
    /// Waits for no holder, and for a server at most the client's
    /// [`command_limit`](crate::ClientBuilder::command_limit): then it is `Unreachable`.
    ///
    /// # Cancel safety
    /// As for [`lock`](Lock::lock).
    ///
    /// # Errors
    /// As for [`lock`](Lock::lock), except `TimedOut`.
    pub fn try_lock(&self) -> impl Future<Output = Result<Option<Guard<K>>>> + Send + use<K> {
        let lock = self.clone();
        async move { lock.acquire(Patience::None).await }
    }

    /// Waits at most this long for the lock. `None`: busy all the while.
    ///
    /// The time counts for a server that does not answer too: `Unreachable` then, or earlier if the client's
    /// `unreachable_after` is shorter.
    ///
    /// # Cancel safety
    /// As for [`lock`](Lock::lock).
    ///
    /// # Errors
    /// As for [`lock`](Lock::lock), except `TimedOut`.
    pub fn try_lock_for(
        &self,
        wait: Duration,
    ) -> impl Future<Output = Result<Option<Guard<K>>>> + Send + use<K> {
        let lock = self.clone();
        async move { lock.acquire(Patience::Asks(wait)).await }
    }

    /// Takes the lock, runs `body` under it, and gives it back. The body is dropped when the lock is lost.
    ///
    /// Write the body as an async closure, `async |guard| …`. The older form `|_| async { … }` does not compile
    /// here ("not general enough"): put `async` in front of the bars.
    ///
    /// # Cancel safety
    /// Dropping the future drops the body and gives the lock back.
    ///
    /// # Errors
    /// As for [`lock`](Lock::lock); [`ErrorKind::Lost`](crate::ErrorKind::Lost) when the lock was lost before the
    /// body was done, or was found gone when it was given back.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> ferrolock::Result<()> {
    /// # let client = ferrolock::Client::memory();
    /// let rows = client.lock("migration").run(async |_guard| 42).await?;
    /// assert_eq!(rows, 42);
    /// # Ok(()) }
    /// ```
    pub async fn run<T>(&self, body: impl AsyncFnOnce(&Guard<K>) -> T) -> Result<T> {
        let guard = self.lock().await?;
        let value = guard.while_held(body(&guard)).await?;
        match guard.unlock().await {
            // The hold was good to the end of the body; the release goes on in the background.
            Err(error) if release_goes_on(&error) => Ok(value),
            Err(error) => Err(error),
            Ok(_) => Ok(value),
        }
    }

    /// This lock and the other one as one: both or none. See [`MultiLock`].
    pub fn and<L: Lockable>(self, other: Lock<L>) -> MultiLock {
        MultiLock::new([self.erase(), other.erase()])
    }

    /// The same lock, with its kind forgotten: for locks of several kinds in one place.
    pub fn erase(self) -> AnyLock {
        let used = self.used.swap(true, Ordering::Relaxed);
        Lock {
            target: self.target.clone(),
            options: self.options.clone(),
            used: AtomicBool::new(used),
            kind: PhantomData,
        }
    }

    pub(super) async fn acquire(self, patience: Patience) -> Result<Option<Guard<K>>> {
        match &self.target {
            Target::One(one) => one.acquire(&self.options, patience).await,
            Target::Multi(several) => {
                let members = several.acquire(&self.options, patience).await?;
                Ok(members.map(Guard::of_members))
            }
            Target::Quorum(nodes) => {
                let members = nodes.acquire(&self.options, patience).await?;
                Ok(members.map(Guard::of_members))
            }
        }
    }
}

impl<K: Named> Lock<K> {
    /// The name, with the client's key prefix; empty if it is no name.
    pub fn name(&self) -> &str {
        self.target.name()
    }

    /// Whether it is held, by any owner of any client.
    ///
    /// This and the questions below ask the server. A guard that was dropped a moment ago may still show: its release
    /// is on its way. After an `unlock` was awaited it does not.
    ///
    /// # Errors
    /// `Unreachable`, `Refused`, `Closed`, `Invalid`, on a [`Quorum`](crate::Quorum) `NoQuorum`; so for all questions below.
    pub fn is_locked(&self) -> impl Future<Output = Result<bool>> + Send + use<K> {
        let seen = self.look();
        async move { Ok(seen.await?.0.is_some()) }
    }

    /// Whether that owner holds it, by an acquisition of this client.
    pub fn is_held_by(&self, owner: &Owner) -> impl Future<Output = Result<bool>> + Send + use<K> {
        let count = self.hold_count(owner);
        async move { Ok(count.await? > 0) }
    }

    /// How often that owner has entered it, by acquisitions of this client, as the server has it.
    pub fn hold_count(&self, owner: &Owner) -> impl Future<Output = Result<u32>> + Send + use<K> {
        let seen = self.look();
        let names = self.target.names().map(|(names, _)| names);
        let ids: Vec<OwnerId> = names
            .into_iter()
            .flatten()
            .filter_map(|one| one.owner_id(owner))
            .collect();
        async move {
            let (_, holders) = seen.await?;
            let held = holders
                .iter()
                .filter(|seen| ids.iter().any(|id| id.as_str() == seen.field));
            Ok(held.map(|seen| seen.count).max().unwrap_or_default())
        }
    }

    /// How long it stays taken if nothing happens, for any holder.
    pub fn remaining(&self) -> impl Future<Output = Result<Remaining>> + Send + use<K> {
        let seen = self.look();
        async move { Ok(Remaining::of(seen.await?.0)) }
    }

    /// Who holds it; after an [`unlock_after`](Guard::unlock_after) who has left, until the delay is over.
    pub fn holders(&self) -> impl Future<Output = Result<Vec<Holder>>> + Send + use<K> {
        let seen = self.look();
        async move {
            let (rest, holders) = seen.await?;
            let remaining = Remaining::of(rest);
            Ok(holders
                .into_iter()
                .filter_map(|seen| Holder::of(seen, remaining))
                .collect())
        }
    }

    /// Frees it from any holder, and wakes waiters. `true`: there was something to free.
    ///
    /// A holder whose lease is renewed learns of it within one renewal interval; one with a fixed lease when it asks
    /// ([`check`](Guard::check), [`unlock`](Guard::unlock)), or at its deadline.
    pub fn force_unlock(&self) -> impl Future<Output = Result<bool>> + Send + use<K> {
        let freed = self.ask(|scheme| scheme.force_unlock());
        async move {
            let mut is_any_freed = false;
            for (scheme, reply) in freed.await? {
                is_any_freed |= read_force_unlock(reply)
                    .map_err(|bad| Error::from(Failure::from(bad)).of(scheme.name()))?;
            }
            Ok(is_any_freed)
        }
    }

    /// When it may be free, and all holders. On a majority of servers: when a majority of them may be free.
    fn look(&self) -> impl Future<Output = Result<(Option<Rest>, Vec<Seen>)>> + Send + use<K> {
        let seen = self.ask(|scheme| scheme.inspect());
        async move {
            let (mut rests, mut all) = (Vec::new(), Vec::new());
            for (scheme, reply) in seen.await? {
                let seen = scheme.read_inspect(reply);
                let (rest, holders) =
                    seen.map_err(|bad| Error::from(Failure::from(bad)).of(scheme.name()))?;
                rests.push(rest);
                all.extend(holders);
            }
            // As many answered as are needed.
            rests.sort_unstable_by_key(|rest| match rest {
                None => (0, Duration::ZERO),
                Some(Rest::Left(left)) => (1, *left),
                Some(Rest::NoExpiry) => (2, Duration::ZERO),
            });
            Ok((rests.pop().flatten(), all))
        }
    }

    /// Asks its servers; returns as many answers as are needed.
    fn ask(
        &self,
        call: fn(&dyn Scheme) -> Call,
    ) -> impl Future<Output = Result<Vec<(Arc<dyn Scheme>, Value)>>> + Send + use<K> {
        self.used.store(true, Ordering::Relaxed);
        let names = self.target.names();
        async move {
            let (names, enough) = names?;
            if let [one] = names.as_slice() {
                return Ok(vec![one.ask(call).await?]);
            }
            let errands = names.into_iter().map(|one| {
                let asked = one.ask(call);
                (one.alive.core.clone(), Box::pin(asked) as Boxed<_>)
            });
            done_with(errands.collect(), enough).await
        }
    }
}

impl Lock<Plain> {
    pub(crate) fn new(alive: Arc<Alive>, name: &str) -> Self {
        Self::of_scheme(alive, name, |name| Ok(Arc::new(PlainScheme::new(name))))
    }

    /// The same owner's second acquisition is [`ErrorKind::WouldDeadlock`](crate::ErrorKind::WouldDeadlock) instead of
    /// a re-entry.
    pub fn non_reentrant(mut self) -> Self {
        self.options.reentry = Reentry::IsAnError;
        self
    }
}

/// Whether an unlock that failed found the lock in place.
fn release_goes_on(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Unreachable => true,
        // Another type under the name: the lock is no longer there.
        ErrorKind::Refused => error.code() != Some("WRONGTYPE"),
        _ => false,
    }
}

impl<K: Lockable> Clone for Lock<K> {
    fn clone(&self) -> Self {
        self.used.store(true, Ordering::Relaxed);
        Self {
            target: self.target.clone(),
            options: self.options.clone(),
            used: AtomicBool::new(true),
            kind: PhantomData,
        }
    }
}

impl<K: Lockable> Drop for Lock<K> {
    /// `let _guard = client.lock("x");` compiles and locks nothing: this warning is the only sign of it.
    fn drop(&mut self) {
        let Some(told) = self.target.told() else {
            return;
        };
        if !*self.used.get_mut() && !told.unused_handle.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                lock = self.target.name(),
                "a lock handle was dropped unused: write `client.lock(…).lock().await?`"
            );
        }
    }
}

impl<K: Lockable> fmt::Debug for Lock<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("name", &self.target.name())
            .finish_non_exhaustive()
    }
}
