//! One hold: what a guard shows of it, and what the keeper writes.
//!
//! | status | means | who sets it |
//! |---|---|---|
//! | `Held` | confirmed, deadline ahead | the grant, each renewal |
//! | `Uncertain` | a renewal failed or hangs, deadline ahead | the keeper |
//! | `Lost(reason)` | over, or may be; never anything else again | the keeper, or the first call that sees the deadline passed |
//! | `Released` | given back | the guard |
//!
//! The deadline is one number, compared with the clock at every look: a timer may be late after a pause of the
//! process, the clock is not.
//!
//! Threads meet here without a lock. A renewal writes the deadline first and then the status, with `Release`; readers load
//! the status first, with `Acquire`: a caller that sees the new status sees the new deadline too. The number of renewals is
//! written and read with the same orders. The models of it are in `orderings/`.

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::coordination::holding::unlock_answer::UnlockAnswer;
use crate::coordination::{Tenure, safely};
use crate::engine::{Clock, Lane, Tick};
use crate::error::LostReason;
use crate::options::Terms;
use crate::primitives::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU64, Notify, OnceLock, Ordering, fence,
};

/// Shared by a guard, its tenure and the keeper.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) tenure: Arc<Tenure>,
    pub(crate) terms: Terms,
    /// When `max_hold` ends it.
    pub(crate) cap: Option<Tick>,
    pub(crate) since: Tick,
    clock: Clock,
    deadline: AtomicU64,
    /// When the server ends it, if no other hold of its tenure asks for more.
    server_until: AtomicU64,
    status: AtomicU8,
    /// The keeper's number for it; zero: not kept.
    pub(crate) kept_as: AtomicU64,
    /// Where its unlock waits for the answer.
    pub(crate) unlock_answer: UnlockAnswer,
    /// The task that took it, if it was one.
    pub(crate) task: OnceLock<tokio::task::Id>,
    over: Notify,
    renewal: Notify,
    /// Renewals under way; below one: none that an unlock waits for.
    renewals: AtomicI64,
    token: OnceLock<CancellationToken>,
    /// The bundle that it is a part of, if any.
    follower: OnceLock<Weak<dyn Follower>>,
    /// A renewal waits for a connection: of the keeper's lane, of the spare one.
    waits: [AtomicBool; 2],
}

/// What a hold tells that it is over, or that its client shuts down.
pub(crate) trait Follower: fmt::Debug + Send + Sync {
    fn part_changed(&self);
}

/// A renewal that waits for a connection, until this is dropped.
pub(crate) struct Waits<'a>(&'a AtomicBool);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        // `Release`, with the `swap` in `wait_for_connection`: the next renewal that waits sees what this one has done.
        self.0.store(false, Ordering::Release);
    }
}

/// A hold's state as the clock shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Held,
    Uncertain,
    Lost(LostReason),
    Released,
}

impl Status {
    pub(crate) const fn lost(self) -> Option<LostReason> {
        match self {
            Status::Lost(reason) => Some(reason),
            _ => None,
        }
    }

    const fn code(self) -> u8 {
        match self {
            Status::Held => 0,
            Status::Uncertain => 1,
            Status::Released => 2,
            Status::Lost(LostReason::Expired) => 3,
            Status::Lost(LostReason::TakenOver) => 4,
            Status::Lost(LostReason::Removed) => 5,
            Status::Lost(LostReason::MaxHold) => 6,
            Status::Lost(LostReason::ShutDown) => 7,
        }
    }

    const fn of(code: u8) -> Status {
        match code {
            0 => Status::Held,
            1 => Status::Uncertain,
            2 => Status::Released,
            4 => Status::Lost(LostReason::TakenOver),
            5 => Status::Lost(LostReason::Removed),
            6 => Status::Lost(LostReason::MaxHold),
            7 => Status::Lost(LostReason::ShutDown),
            _ => Status::Lost(LostReason::Expired),
        }
    }
}

impl Hold {
    /// A hold that was asked for at `sent` and granted for `lease`.
    pub(crate) fn new(
        tenure: Arc<Tenure>,
        terms: Terms,
        cap: Option<Tick>,
        sent: Tick,
        lease: Duration,
    ) -> Arc<Self> {
        let deadline = terms.deadline(sent, lease).min(cap.unwrap_or(Tick::FAR));
        Arc::new(Self {
            clock: tenure.core.clock(),
            tenure,
            terms,
            cap,
            since: sent,
            deadline: AtomicU64::new(deadline.as_nanos()),
            server_until: AtomicU64::new(sent.after(lease).as_nanos()),
            status: AtomicU8::new(Status::Held.code()),
            kept_as: AtomicU64::new(0),
            unlock_answer: UnlockAnswer::default(),
            task: OnceLock::new(),
            over: Notify::new(),
            renewal: Notify::new(),
            renewals: AtomicI64::new(0),
            token: OnceLock::new(),
            follower: OnceLock::new(),
            waits: Default::default(),
        })
    }

    /// The status now; notices a deadline that has passed.
    pub(crate) fn status(&self) -> Status {
        self.status_at(self.clock.now())
    }

    fn status_at(&self, now: Tick) -> Status {
        // The status before the deadline: a status that a renewal has set brings the new deadline along.
        let status = Status::of(self.status.load(Ordering::Acquire));
        if matches!(status, Status::Held | Status::Uncertain) && now >= self.deadline() {
            self.lose(self.reason_at_deadline());
            return Status::of(self.status.load(Ordering::Acquire));
        }
        status
    }

    /// Whether it is held at `now`. Changes and wakes nothing, so it can be called while locks are held.
    pub(crate) fn is_good(&self, now: Tick) -> bool {
        let status = Status::of(self.status.load(Ordering::Acquire));
        matches!(status, Status::Held | Status::Uncertain) && now < self.deadline()
    }

    pub(crate) fn is_released(&self) -> bool {
        Status::of(self.status.load(Ordering::Acquire)) == Status::Released
    }

    /// Whether its guard has given it back in time: its tenure may not know of it yet.
    pub(crate) fn is_leaving(&self, now: Tick) -> bool {
        self.is_released() && now < self.deadline()
    }

    pub(crate) fn deadline(&self) -> Tick {
        Tick::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    /// Until the deadline; zero when it is over.
    pub(crate) fn remaining(&self) -> Duration {
        match self.status() {
            Status::Held | Status::Uncertain => self.deadline().since(self.clock.now()),
            Status::Lost(_) | Status::Released => Duration::ZERO,
        }
    }

    pub(crate) fn reason_at_deadline(&self) -> LostReason {
        if self.cap.is_some_and(|cap| self.deadline() >= cap) {
            LostReason::MaxHold
        } else {
            LostReason::Expired
        }
    }

    /// The lease to ask for now.
    pub(crate) fn wanted_lease(&self, now: Tick) -> Duration {
        self.terms.lease_at(now, self.cap)
    }

    /// How long the server must still keep it for this hold alone.
    pub(crate) fn need(&self, now: Tick) -> Duration {
        match self.terms.renew_every {
            _ if !self.is_good(now) => Duration::ZERO,
            Some(_) => self.wanted_lease(now),
            None => Tick::from_nanos(self.server_until.load(Ordering::Acquire)).since(now),
        }
    }

    /// A renewal that was sent at `sent` for `lease` is confirmed. Too late if the deadline has passed meanwhile.
    pub(crate) fn renewed(&self, terms: &Terms, sent: Tick, lease: Duration) -> Tick {
        if matches!(self.status(), Status::Held | Status::Uncertain) {
            let (deadline, until) = (terms.deadline(sent, lease), sent.after(lease));
            let deadline = deadline.min(self.cap.unwrap_or(Tick::FAR));
            self.server_until
                .fetch_max(until.as_nanos(), Ordering::AcqRel);
            self.deadline
                .fetch_max(deadline.as_nanos(), Ordering::AcqRel);
            // Last, with `Release`: a thread that sees this status sees the deadline that was written before it.
            self.change(Status::Uncertain, Status::Held);
        }
        self.deadline()
    }

    /// A renewal failed or hangs. True: it was certain until now.
    pub(crate) fn doubt(&self) -> bool {
        self.change(Status::Held, Status::Uncertain)
    }

    /// `None`: another renewal of this hold waits for that lane already.
    pub(crate) fn wait_for_connection(&self, lane: Lane) -> Option<Waits<'_>> {
        let [keeper, spare] = &self.waits;
        let waits = if lane == Lane::KeeperSpare {
            spare
        } else {
            keeper
        };
        (!waits.swap(true, Ordering::AcqRel)).then_some(Waits(waits))
    }

    /// A renewal is sent.
    pub(crate) fn renewal_begins(&self) {
        self.renewals.fetch_add(1, Ordering::AcqRel);
    }

    /// A renewal ended, whatever it brought.
    pub(crate) fn renewal_ends(&self) {
        // `Release`, with the load in `renewal_ended`: an unlock that finds no renewal under way sees what was written
        // before this call.
        self.renewals.fetch_sub(1, Ordering::AcqRel);
        self.renewal.notify_waiters();
    }

    /// No unlock waits for a renewal from now on.
    pub(crate) fn renewal_given_up(&self) {
        self.renewals.store(0, Ordering::Release);
        self.renewal.notify_waiters();
    }

    /// Waits for the renewals under way, at most for `limit`.
    pub(crate) async fn renewal_ended(self: &Arc<Self>, limit: Duration) {
        let (core, hold) = (&self.tenure.core, self.clone());
        let until = self.clock.now().after(limit);
        let keeper = core.keeper();
        let alarm = keeper.alarm(core, until, move || hold.renewal_given_up());
        loop {
            let mut ended = std::pin::pin!(self.renewal.notified());
            // Registered before the load: an end after it notifies this wait.
            ended.as_mut().enable();
            if self.renewals.load(Ordering::Acquire) <= 0 {
                return keeper.cancel(alarm);
            }
            ended.await;
        }
    }

    /// The hold is over without a release. True: this call ended it.
    pub(crate) fn lose(&self, reason: LostReason) -> bool {
        if !self.leave_for(Status::Lost(reason)) {
            return false;
        }
        safely(|| {
            crate::figures::lost(reason);
            tracing::warn!(lock = %self.tenure.scheme.name(), owner = %self.tenure.id, %reason, "lock lost");
        });
        self.end();
        true
    }

    /// The guard gives it back. Returns the status until then.
    pub(crate) fn release(&self, now: Tick) -> Status {
        let before = self.status_at(now);
        if self.leave_for(Status::Released) {
            self.end();
            return before;
        }
        self.status_at(now)
    }

    /// It is given back before any caller had it.
    pub(crate) fn release_unseen(&self) {
        if self.leave_for(Status::Released) {
            self.end();
        }
    }

    /// From held or uncertain. A loop, because a renewal may change one into the other meanwhile.
    fn leave_for(&self, end: Status) -> bool {
        loop {
            let now = Status::of(self.status.load(Ordering::Acquire));
            if !matches!(now, Status::Held | Status::Uncertain) {
                return false;
            }
            if self.change(now, end) {
                return true;
            }
        }
    }

    fn change(&self, from: Status, to: Status) -> bool {
        // `Release` publishes the deadline with the status, `Acquire` takes over what the last change published; also if
        // this one fails, since `leave_for` goes on with the status that it finds.
        let orders = (Ordering::AcqRel, Ordering::Acquire);
        let changed = self
            .status
            .compare_exchange(from.code(), to.code(), orders.0, orders.1)
            .is_ok();
        match (changed, from, to) {
            (true, _, Status::Uncertain) => crate::figures::uncertain(true),
            (true, Status::Uncertain, _) => crate::figures::uncertain(false),
            _ => {}
        }
        changed
    }

    fn end(&self) {
        self.over.notify_waiters();
        self.tenure.core.tell_who_shuts_down();
        self.tell_it_is_over();
    }

    /// After the status, or the end of the client, was set.
    fn tell_it_is_over(&self) {
        // Pairs with the fence in `token`. One thread sets the status and looks for a token, the other sets the token and
        // looks at the status. Without the fences both could look too early, and the token would never fire.
        fence(Ordering::SeqCst);
        if let Some(token) = self.token.get() {
            token.cancel();
        }
        if let Some(follower) = self.follower.get().and_then(Weak::upgrade) {
            follower.part_changed();
        }
    }

    /// It is a part of that bundle from now on, and of no other.
    pub(crate) fn followed_by(&self, follower: Weak<dyn Follower>) {
        let _ = self.follower.set(follower);
    }

    /// Ready when it is lost; never if it is released. Every poll looks at the clock first.
    pub(crate) async fn lost(&self) -> LostReason {
        let mut over = std::pin::pin!(self.over.notified());
        poll_fn(|cx| {
            loop {
                if let Status::Lost(reason) = self.status() {
                    return Poll::Ready(reason);
                }
                match over.as_mut().poll(cx) {
                    Poll::Ready(()) => over.set(self.over.notified()),
                    // Registered now; one more look at the status sees an end that came in between.
                    Poll::Pending if matches!(self.status(), Status::Lost(_)) => {}
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await
    }

    /// Fires when the hold is over in any way.
    pub(crate) fn token(&self) -> CancellationToken {
        let token = self.token.get_or_init(CancellationToken::new).clone();
        // Pairs with the fence in `tell_it_is_over`.
        fence(Ordering::SeqCst);
        if matches!(self.status(), Status::Lost(_) | Status::Released)
            || self.tenure.core.is_closing()
        {
            token.cancel();
        }
        token
    }

    /// The client shuts down: the token of the hold fires, and the work under it may finish.
    pub(crate) fn warn(&self) {
        self.tell_it_is_over();
    }
}
