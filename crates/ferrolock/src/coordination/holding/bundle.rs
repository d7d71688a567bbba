//! Several holds that count as one: good while enough of them are.
//!
//! The keeper knows single holds only. A hold that ends tells its bundle ([`Follower`]), which looks at all its parts
//! then: so it needs no task of its own, and no timer.
//!
//! Threads meet here as in [`hold`](super::hold): a part sets its status, passes a fence and looks for a follower; the
//! bundle makes itself known, or sets its token, passes a fence and looks at the parts. Of two parts that end at once, one
//! sees the other's end.

use std::future::{Future, poll_fn};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::coordination::holding::hold::{Follower, Hold, Status};
use crate::coordination::{Core, unpoisoned};
use crate::error::LostReason;
use crate::primitives::{AtomicBool, Mutex, Notify, OnceLock, Ordering, fence};

/// How many of the parts must be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enough {
    /// All of them.
    All(usize),
    /// More than half of that many, of which some may be missing from the start.
    MajorityOf(usize),
}

impl Enough {
    pub(crate) const fn need(self) -> usize {
        match self {
            Enough::All(count) => count,
            Enough::MajorityOf(count) => count / 2 + 1,
        }
    }
}

/// Several holds that count as one.
#[derive(Debug)]
pub(crate) struct Bundle {
    enough: Enough,
    parts: Mutex<Vec<Part>>,
    /// Set once: a bundle that is lost stays lost, also if another part joins it.
    lost: OnceLock<LostReason>,
    released: AtomicBool,
    over: Notify,
    token: OnceLock<CancellationToken>,
    follower: OnceLock<Weak<dyn Follower>>,
    /// Looks for parts in the place of those that are over.
    mender: OnceLock<Weak<dyn Follower>>,
}

/// What a bundle is made of.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Hold(Arc<Hold>),
    Bundle(Arc<Bundle>),
}

impl Part {
    fn status(&self) -> Status {
        match self {
            Part::Hold(hold) => hold.status(),
            Part::Bundle(bundle) => bundle.status(),
        }
    }

    /// Changes and wakes nothing, so it can be called while a lock is held.
    fn is_good(&self) -> bool {
        match self {
            Part::Hold(hold) => hold.is_good(hold.tenure.core.now()),
            Part::Bundle(_) => true,
        }
    }

    fn remaining(&self) -> Duration {
        match self {
            Part::Hold(hold) => hold.remaining(),
            Part::Bundle(bundle) => bundle.remaining(),
        }
    }

    /// Whether work under it may begin: it is held, and its client does not shut down.
    fn goes_on(&self) -> bool {
        match self {
            Part::Hold(hold) => {
                let is_good = matches!(hold.status(), Status::Held | Status::Uncertain);
                is_good && !hold.tenure.core.is_closing()
            }
            Part::Bundle(bundle) => bundle.goes_on(),
        }
    }

    fn followed_by(&self, follower: Weak<dyn Follower>) {
        match self {
            Part::Hold(hold) => hold.followed_by(follower),
            // A guard is a member of one bundle at most.
            Part::Bundle(bundle) => drop(bundle.follower.set(follower)),
        }
    }
}

impl Bundle {
    pub(crate) fn new(parts: Vec<Part>, enough: Enough) -> Arc<Self> {
        let bundle = Arc::new(Self {
            enough,
            // All of them before the first can say that it ends: a look at fewer would find too few.
            parts: Mutex::new(parts.clone()),
            lost: OnceLock::new(),
            released: AtomicBool::new(false),
            over: Notify::new(),
            token: OnceLock::new(),
            follower: OnceLock::new(),
            mender: OnceLock::new(),
        });
        parts.iter().for_each(|part| bundle.follow(part));
        bundle
    }

    /// One more part, which counts from now on.
    pub(crate) fn join(self: &Arc<Self>, part: Part) {
        // Before parts that are over are forgotten: if too few are good by the clock, it is lost, and stays lost.
        let _ = self.status();
        let mut parts = unpoisoned(&self.parts);
        // Those that are over never count again.
        parts.retain(Part::is_good);
        parts.push(part.clone());
        drop(parts);
        self.follow(&part);
    }

    fn follow(self: &Arc<Self>, part: &Part) {
        let follower: Weak<Self> = Arc::downgrade(self);
        part.followed_by(follower);
        // Pairs with the fence of a part that ends: it sees its follower, or the next look here sees its end.
        fence(Ordering::SeqCst);
    }

    /// From now on that is told of each part that ends while enough of them are held.
    pub(crate) fn mended_by(&self, mender: Weak<dyn Follower>) {
        let _ = self.mender.set(mender);
    }

    /// Whether a part of that client is held.
    pub(crate) fn has_part_of(&self, core: &Arc<Core>) -> bool {
        self.parts().iter().any(|part| match part {
            Part::Hold(hold) => {
                matches!(hold.status(), Status::Held | Status::Uncertain)
                    && Arc::ptr_eq(&hold.tenure.core, core)
            }
            Part::Bundle(_) => false,
        })
    }

    pub(crate) const fn enough(&self) -> Enough {
        self.enough
    }

    /// A copy: a look at a part may end it, which wakes callers and comes back here.
    fn parts(&self) -> Vec<Part> {
        unpoisoned(&self.parts).clone()
    }

    /// The status now; notices a deadline that has passed.
    pub(crate) fn status(&self) -> Status {
        if self.released.load(Ordering::Acquire) {
            return Status::Released;
        }
        if let Some(reason) = self.lost.get() {
            return Status::Lost(*reason);
        }
        let statuses: Vec<Status> = self.parts().iter().map(Part::status).collect();
        let count = |wanted| statuses.iter().filter(|status| **status == wanted).count();
        let (held, uncertain) = (count(Status::Held), count(Status::Uncertain));
        if held >= self.enough.need() {
            return Status::Held;
        }
        if held + uncertain >= self.enough.need() {
            return Status::Uncertain;
        }
        let reason = statuses.iter().find_map(|status| status.lost());
        let reason = reason.unwrap_or(LostReason::Removed);
        Status::Lost(*self.lost.get_or_init(|| reason))
    }

    /// Until the deadline: the latest time at which enough parts are held, if none of them is renewed. Zero when it is over.
    pub(crate) fn remaining(&self) -> Duration {
        if !matches!(self.status(), Status::Held | Status::Uncertain) {
            return Duration::ZERO;
        }
        let mut times: Vec<Duration> = self.parts().iter().map(Part::remaining).collect();
        times.sort_unstable_by(|one, other| other.cmp(one));
        let last_needed = self.enough.need().saturating_sub(1);
        times.get(last_needed).copied().unwrap_or_default()
    }

    /// A bundle that was lost does not, also if another part has joined it since.
    fn goes_on(&self) -> bool {
        let is_over = self.released.load(Ordering::Acquire) || self.lost.get().is_some();
        let going = self.parts().iter().filter(|part| part.goes_on()).count();
        !is_over && going >= self.enough.need()
    }

    /// Its guard gives all parts back.
    pub(crate) fn release(&self) -> Status {
        let was = self.status();
        self.released.store(true, Ordering::Release);
        self.cancel_token();
        was
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

    /// Fires when it is over in any way, or so many clients shut down that too few parts are left.
    pub(crate) fn token(&self) -> CancellationToken {
        let token = self.token.get_or_init(CancellationToken::new).clone();
        // Pairs with the fence in `cancel_token`, and with that of a part that ends.
        fence(Ordering::SeqCst);
        if !self.goes_on() {
            token.cancel();
        }
        token
    }

    fn cancel_token(&self) {
        fence(Ordering::SeqCst);
        if let Some(token) = self.token.get() {
            token.cancel();
        }
    }
}

impl Follower for Bundle {
    fn part_changed(&self) {
        if matches!(self.status(), Status::Lost(_)) {
            self.over.notify_waiters();
        }
        if self.goes_on() {
            if let Some(mender) = self.mender.get().and_then(Weak::upgrade) {
                mender.part_changed();
            }
        } else {
            self.cancel_token();
            if let Some(follower) = self.follower.get().and_then(Weak::upgrade) {
                follower.part_changed();
            }
        }
    }
}
