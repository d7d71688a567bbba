//! One hold, or several that are held as one, as a value.

pub(crate) mod gather;
pub(crate) mod members;
mod single;

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::coordination::holding::bundle::Part;
use crate::coordination::holding::hold::{Hold, Status};
use crate::coordination::holding::joint::Seat;
use crate::coordination::{Alive, Core, Tenure};
use crate::engine::Boxed;
use crate::error::{Error, LostReason, Result};
use crate::fence::Fence;
use crate::guard::members::Members;
use crate::guard::single::SingleHold;
use crate::kind::{Any, Kind, Lockable, Named, Plain};
use crate::options::check_time;
use crate::owner::{Owner, OwnerId};

/// The state of a hold, by the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldState {
    /// Confirmed by the server, and its local deadline is ahead.
    Held,
    /// A renewal failed or has no answer yet; the local deadline is ahead.
    Uncertain,
    /// Over, or possibly over, without our release.
    Lost(LostReason),
    /// Given back.
    Released,
}

/// What an unlock left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unlocked {
    /// The lock is free.
    Released,
    /// The same owner still holds it, this many times.
    StillHeld(u32),
}

/// One hold of a lock: given back when it is dropped, or by [`unlock`](Guard::unlock).
///
/// It protects a name, not a value; it has no lifetime, can be sent to another task and released from anywhere.
///
/// # Guarantees
/// While the process runs, [`lost`](Guard::lost) is visible before the server's lease can end (server down, hung,
/// network cut); removal and take-over within one renewal interval and a round trip; after a pause of the process, the
/// first check already says lost.
///
/// # Not promised
/// A pause between a check and the write it was made for cannot be seen by any lock. Nothing is given back by
/// `process::exit`, `panic = "abort"`, SIGKILL or `mem::forget`: the lease ends it then (with `mem::forget`: the end of
/// the process, or `max_hold`).
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> ferrolock::Result<()> {
/// use ferrolock::{Client, Unlocked};
///
/// let client = Client::memory();
/// let guard = client.lock("orders/42").lock().await?;
///
/// assert!(guard.is_held());
/// assert_eq!(guard.unlock().await?, Unlocked::Released);
/// # Ok(()) }
/// ```
#[must_use = "the lock is released as soon as the guard is dropped: bind it, as in `let _guard = …`"]
#[clippy::has_significant_drop]
pub struct Guard<K: Kind = Plain> {
    held: Holding,
    kind: PhantomData<fn() -> K>,
}

/// A hold of a lock of any kind.
pub type AnyGuard = Guard<Any>;

/// What a guard holds. Each gives back what it has when it is dropped.
enum Holding {
    One(SingleHold),
    Several(Members),
}

impl Holding {
    fn part(&self) -> Option<Part> {
        match self {
            Holding::One(one) => one.part(),
            Holding::Several(members) => Some(Part::Bundle(members.bundle.clone())),
        }
    }
}

impl<K: Kind> Guard<K> {
    pub(crate) fn new(hold: Arc<Hold>, alive: Arc<Alive>) -> Self {
        Self::of(Holding::One(SingleHold::new(hold, alive)))
    }

    pub(crate) fn of_members(members: Members) -> Self {
        Self::of(Holding::Several(members))
    }

    fn of(held: Holding) -> Self {
        let kind = PhantomData;
        Self { held, kind }
    }

    /// The lock's name, with the client's key prefix; for several locks their names, with commas in between.
    pub fn name(&self) -> &str {
        self.full_name()
    }

    /// The state of the hold now, by the clock; no I/O.
    pub fn state(&self) -> HoldState {
        let status = match &self.held {
            Holding::One(one) => one.status(),
            Holding::Several(members) => members.bundle.status(),
        };
        match status {
            Status::Held => HoldState::Held,
            Status::Uncertain => HoldState::Uncertain,
            Status::Lost(reason) => HoldState::Lost(reason),
            Status::Released => HoldState::Released,
        }
    }

    /// Whether the lock is held, by the clock; no I/O.
    ///
    /// # Guarantees
    /// False from the local deadline on, which lies before the end of the server's lease, even if the process was
    /// stopped in between.
    pub fn is_held(&self) -> bool {
        matches!(self.state(), HoldState::Held | HoldState::Uncertain)
    }

    /// The same for `?`, between two steps of work.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) with the reason.
    pub fn ensure_held(&self) -> Result<()> {
        match self.state() {
            HoldState::Held | HoldState::Uncertain => Ok(()),
            HoldState::Lost(reason) => Err(self.lost_error(reason)),
            HoldState::Released => Err(self.lost_error(LostReason::Removed)),
        }
    }

    /// Until the local deadline; zero when it is over.
    pub fn remaining(&self) -> Duration {
        match &self.held {
            Holding::One(one) => one.hold().map(|hold| hold.remaining()).unwrap_or_default(),
            Holding::Several(members) => members.bundle.remaining(),
        }
    }

    /// Ready when, and ever after, the hold is lost. Safe in `select!` loops.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> ferrolock::Result<()> {
    /// # use ferrolock::{Client, LostReason};
    /// let client = Client::memory();
    /// let guard = client.lock("x").lease(std::time::Duration::from_millis(200)).lock().await?;
    ///
    /// assert_eq!(guard.lost().await, LostReason::Expired);
    /// # Ok(()) }
    /// ```
    #[expect(clippy::manual_async_fn, reason = "the signature promises `Send`")]
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + '_ {
        async move {
            match &self.held {
                Holding::One(one) => match one.hold() {
                    Some(hold) => hold.lost().await,
                    None => std::future::pending().await,
                },
                Holding::Several(members) => members.bundle.lost().await,
            }
        }
    }

    /// A token that fires when the hold is over in any way, or the client shuts down.
    ///
    /// It is a signal, not a check: ask [`is_held`](Guard::is_held) before a write.
    pub fn cancellation_token(&self) -> CancellationToken {
        match &self.held {
            Holding::One(one) => match one.hold() {
                Some(hold) => hold.token(),
                None => {
                    let token = CancellationToken::new();
                    token.cancel();
                    token
                }
            },
            Holding::Several(members) => members.bundle.token(),
        }
    }

    /// Runs `work` while the lock is held; drops it when the lock is lost first. Still held after `Ok`.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) when the lock was lost before `work` was done.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> ferrolock::Result<()> {
    /// # let client = ferrolock::Client::memory();
    /// let guard = client.lock("report").lock().await?;
    /// let lines = guard.while_held(async { 42 }).await?;
    /// assert_eq!(lines, 42);
    /// # guard.unlock().await?; Ok(()) }
    /// ```
    pub async fn while_held<F: Future>(&self, work: F) -> Result<F::Output> {
        let mut work = pin!(work);
        let mut lost = pin!(self.lost());
        std::future::poll_fn(|cx| {
            // The clock comes first: after a pause no step of the work may run on a hold that is over.
            if let Poll::Ready(reason) = lost.as_mut().poll(cx) {
                return Poll::Ready(Err(self.lost_error(reason)));
            }
            // And last: a step that took longer than the lease was not done under the lock.
            let done = work.as_mut().poll(cx);
            done.map(|value| self.ensure_held().map(|()| value))
        })
        .await
    }

    /// Asks the server to keep the lock at least this long from now; for fixed leases.
    ///
    /// The safety margin is that of the lease asked for here.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) when it is no longer ours;
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a lease that is too short or too long.
    pub fn renew(&self, lease: Duration) -> impl Future<Output = Result<()>> + Send + use<K> {
        self.ask(Some(lease))
    }

    /// Asks the server now whether the lock is ours.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) when it is no longer ours.
    pub fn check(&self) -> impl Future<Output = Result<()>> + Send + use<K> {
        self.ask(None)
    }

    fn ask(&self, lease: Option<Duration>) -> Boxed<Result<()>> {
        match &self.held {
            Holding::One(one) => one.ask(lease),
            Holding::Several(members) => members.ask(lease),
        }
    }

    /// Its hold, if it is one.
    pub(crate) fn hold(&self) -> Option<&Arc<Hold>> {
        match &self.held {
            Holding::One(one) => one.hold(),
            Holding::Several(_) => None,
        }
    }

    /// Its hold, if it is one, which from now on is the caller's to give back.
    pub(crate) fn give_up_hold(self) -> Option<(Arc<Hold>, Arc<Alive>)> {
        match self.held {
            Holding::One(one) => one.give_up_hold(),
            Holding::Several(_) => None,
        }
    }

    /// The fence of its grant, if its kind has one.
    pub(crate) fn granted_fence(&self) -> Option<Fence> {
        match &self.held {
            Holding::One(one) => one.tenure.fence.get().copied().map(Fence::of),
            Holding::Several(members) => members.fence.map(Fence::of),
        }
    }

    /// Its tenure; of several, that of the first.
    pub(crate) fn tenure(&self) -> &Arc<Tenure> {
        match &self.held {
            Holding::One(one) => &one.tenure,
            Holding::Several(members) => &members.lead,
        }
    }

    /// Its members, if it is a bundle.
    pub(crate) fn bundled(&self) -> &[AnyGuard] {
        match &self.held {
            Holding::One(_) => &[],
            Holding::Several(members) => members.guards(),
        }
    }

    fn full_name(&self) -> &Arc<str> {
        match &self.held {
            Holding::One(one) => one.tenure.scheme.name(),
            Holding::Several(members) => &members.name,
        }
    }

    fn lost_error(&self, reason: LostReason) -> Error {
        Error::lost(reason).of(self.full_name())
    }
}

impl<K: Lockable> Guard<K> {
    /// Gives the hold back and returns what is left.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, the release goes on in the background; only its answer is lost.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) when it was no longer ours;
    /// [`ErrorKind::Unreachable`](crate::ErrorKind::Unreachable) when there is no answer and
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused) when the server says no: it is tried again in the background
    /// until the lease is over.
    #[expect(clippy::manual_async_fn, reason = "the signature promises `Send`")]
    pub fn unlock(self) -> impl Future<Output = Result<Unlocked>> + Send + use<K> {
        async move {
            match self.held {
                Holding::One(one) => one.unlock(None).await,
                Holding::Several(members) => members.unlock().await,
            }
        }
    }

    /// The same in one call with others, if it has a seat there.
    pub(crate) fn unlock_with(self, seat: Option<Seat>) -> Boxed<Result<Unlocked>> {
        match self.held {
            Holding::One(one) => Box::pin(one.unlock(seat)),
            Holding::Several(members) => members.unlock(),
        }
    }

    /// The client with which it can be released in one call with others.
    pub(crate) fn releases_with(&self) -> Option<&Arc<Core>> {
        match &self.held {
            Holding::One(one) => {
                let tenure = &one.tenure;
                tenure
                    .scheme
                    .release_row(&tenure.bearer)
                    .map(|_| &tenure.core)
            }
            Holding::Several(_) => None,
        }
    }

    /// Gives up the hold, but the name stays taken for `delay`: the server ends it then.
    ///
    /// For "try, else skip" jobs on machines whose clocks differ: a machine that tries a little late finds it taken. Until
    /// then [`holders`](crate::Lock::holders) still shows who has left. If the same owner has other holds, this one
    /// is given back as by [`unlock`](Guard::unlock).
    ///
    /// # Cancel safety
    /// Dropped before it is ready, the lock is either left for `delay` or given back at once.
    ///
    /// # Errors
    /// As for [`unlock`](Guard::unlock); [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a delay of zero or of
    /// more than ten years. The guard is gone then too: the hold is given back at once, as by a drop.
    #[expect(clippy::manual_async_fn, reason = "the signature promises `Send`")]
    pub fn unlock_after(self, delay: Duration) -> impl Future<Output = Result<()>> + Send + use<K> {
        async move {
            check_time("a delay", delay, || "use unlock".to_owned())
                .map_err(|error| error.of(self.full_name()))?;
            self.ensure_held()?;
            match self.held {
                Holding::One(one) => one.unlock_after(delay).await,
                Holding::Several(members) => members.unlock_after(delay).await,
            }
        }
    }

    /// One more hold of the same owner.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) when this one is lost: nothing is revived.
    pub fn relock(&self) -> impl Future<Output = Result<Guard<K>>> + Send + use<K> {
        let held = self.ensure_held();
        let again = match &self.held {
            Holding::One(one) => one.relock(),
            Holding::Several(members) => members.relock(),
        };
        async move {
            held?;
            again.await.map(Guard::of)
        }
    }

    /// The same guard, with its kind forgotten: for guards of several kinds in one place.
    pub fn erase(self) -> AnyGuard {
        Guard::of(self.held)
    }
}

impl<K: Named> Guard<K> {
    /// Who acquired it.
    pub fn owner(&self) -> &Owner {
        &self.tenure().owner
    }

    /// What the server shows of the holder.
    pub fn owner_id(&self) -> &OwnerId {
        &self.tenure().id
    }

    /// How many holds the owner has on this name, as far as this client knows.
    pub fn hold_count(&self) -> u32 {
        self.tenure().holds()
    }
}

impl<K: Kind> fmt::Debug for Guard<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", &self.name())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
