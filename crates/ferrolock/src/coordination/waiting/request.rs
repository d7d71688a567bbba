//! One call that wants a hold, and what its caller is told.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::coordination::waiting::driver::Stay;
use crate::coordination::waiting::first::First;
use crate::coordination::waiting::late::LateGrants;
use crate::coordination::waiting::server_place::ServerPlace;
use crate::coordination::waiting::slot::{Answer, Slot};
use crate::coordination::{Core, Tenure, unpoisoned};
use crate::engine::{Failure, Tick};
use crate::error::{Cause, Error, LostReason, Result};
use crate::options::{Reentry, Terms};
use crate::owner::Owner;
use crate::protocol::scheme::{Rest, Scheme};

/// One call that wants a hold.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) scheme: Arc<dyn Scheme>,
    pub(crate) owner: Owner,
    pub(crate) terms: Terms,
    /// Details for people, if any are kept.
    pub(crate) who: Option<Arc<str>>,
    pub(crate) reentry: Reentry,
    pub(crate) patience: Patience,
    /// When it was made.
    pub(crate) begun: Tick,
    /// When it last took up waiting; a call that was left alone does not pay for that time.
    since: AtomicU64,
    /// When its time is up; `None`: it waits as long as the server answers.
    pub(crate) deadline: Option<Tick>,
    pub(crate) slot: Slot,
    /// Its first attempt, while that is in its caller's hands.
    pub(crate) first: Mutex<Option<First>>,
    /// Only one more hold of that tenure will do.
    pub(super) into: Option<Arc<Tenure>>,
    late: Mutex<LateGrants>,
    /// Where it stands in a queue that the server keeps, if its kind has one.
    server_place: Mutex<Option<ServerPlace>>,
}

/// What a call does when the lock is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// One attempt.
    None,
    /// Waits so long; busy to the end is `None`.
    Asks(Duration),
    /// Waits so long, or without end; busy to the end is an error.
    Insists(Option<Duration>),
}

impl Patience {
    pub(crate) fn wait(self) -> Option<Duration> {
        match self {
            Patience::None => None,
            Patience::Asks(wait) => Some(wait),
            Patience::Insists(wait) => wait,
        }
    }
}

impl Request {
    pub(crate) fn new(
        scheme: Arc<dyn Scheme>,
        owner: Owner,
        terms: Terms,
        who: Option<Arc<str>>,
        reentry: Reentry,
        patience: Patience,
        begun: Tick,
    ) -> Arc<Self> {
        Arc::new(Self {
            scheme,
            owner,
            terms,
            who,
            reentry,
            patience,
            begun,
            since: AtomicU64::new(begun.as_nanos()),
            deadline: patience.wait().map(|wait| begun.after(wait)),
            slot: Slot::new(),
            first: Mutex::new(None),
            into: None,
            late: Mutex::default(),
            server_place: Mutex::new(None),
        })
    }

    /// One more hold of a running tenure, and of no other.
    pub(crate) fn again(tenure: &Arc<Tenure>, terms: Terms) -> Arc<Self> {
        Arc::new(Self {
            scheme: tenure.scheme.clone(),
            owner: tenure.owner.clone(),
            terms,
            who: tenure.bearer.who.clone(),
            reentry: Reentry::Enters,
            patience: Patience::Insists(None),
            begun: tenure.core.now(),
            since: AtomicU64::new(tenure.core.now().as_nanos()),
            deadline: None,
            slot: Slot::new(),
            first: Mutex::new(None),
            into: Some(tenure.clone()),
            late: Mutex::default(),
            server_place: Mutex::new(None),
        })
    }

    pub(super) fn begins_at(&self, now: Tick) {
        self.since.store(now.as_nanos(), Ordering::Release);
    }

    /// Until when the server may take for a call that makes one attempt, and all that belongs to it.
    pub(crate) fn command_limit(&self, core: &Core) -> Tick {
        let since = Tick::from_nanos(self.since.load(Ordering::Acquire));
        since.after(core.settings.command_limit)
    }

    /// What it does when the lock is busy.
    pub(super) fn stay(&self, core: &Core) -> Stay {
        match self.patience {
            Patience::None => Stay::Tries(self.command_limit(core)),
            Patience::Asks(_) | Patience::Insists(_) => Stay::Waits,
        }
    }

    /// Whether there is time to go on waiting after a grant that was asked for at `sent` and came too late.
    pub(super) fn check_time_left(&self, core: &Core, sent: Tick, failure: Failure) -> Result<()> {
        let now = core.now();
        let patience = core.settings.unreachable_after;
        let limit = match (self.patience, self.deadline) {
            (Patience::None, _) => Tick::ZERO,
            (_, Some(deadline)) => deadline,
            (_, None) => unpoisoned(&self.late).another(sent, now, patience),
        };
        if now < limit {
            return Ok(());
        }
        Err(Error::from(failure).of(self.scheme.name()))
    }

    /// A grant came too late, and was given back: its caller waits on, if it has time.
    pub(crate) fn too_late(&self, core: &Core, sent: Tick, failure: Failure) {
        match self.check_time_left(core, sent, failure) {
            Ok(()) => self.slot.start_over(),
            Err(error) => self.slot.answer(Answer::Failed(error)),
        }
    }

    pub(crate) fn fail(&self, error: Error) {
        self.slot
            .answer(Answer::Failed(error.of(self.scheme.name())));
    }

    /// Its owner is not inside any more: it waits like anybody, unless only a re-entry would do.
    pub(crate) fn come_anew(&self) {
        match self.into {
            Some(_) => self.fail(Error::lost(LostReason::Removed)),
            None => self.slot.start_over(),
        }
    }

    pub(super) fn busy(&self, waited: Duration, rest: Option<Rest>) {
        let remaining = match rest {
            Some(Rest::Left(left)) => Some(left),
            Some(Rest::NoExpiry) | None => None,
        };
        match self.patience {
            Patience::Insists(_) => self.fail(Error::new(Cause::TimedOut { waited, remaining })),
            Patience::None | Patience::Asks(_) => self.slot.answer(Answer::Busy),
        }
    }
}

impl Request {
    /// Whether the server has, or may have, a place for it.
    fn has_place(&self) -> bool {
        self.scheme.waiting().has_places && self.patience != Patience::None
    }

    /// The tenure that stands in the server's queue for it.
    pub(super) fn placed(&self) -> Option<Arc<Tenure>> {
        let place = unpoisoned(&self.server_place);
        place.as_ref().map(|place| place.tenure().clone())
    }

    /// From now on its tenure may stand in the server's queue.
    pub(super) fn take_place(&self, tenure: &Arc<Tenure>, lease: Duration) {
        if self.has_place() {
            unpoisoned(&self.server_place)
                .get_or_insert_with(|| ServerPlace::new(tenure.clone(), lease));
        }
    }

    /// Its hold has the field from now on.
    pub(super) fn leave_place(&self) {
        let place = unpoisoned(&self.server_place).take();
        if let Some(place) = place {
            place.granted();
        }
    }

    /// An attempt under that tenure has no answer. True: its place knows, and gives back what it may have taken.
    pub(super) fn note_doubt_about(&self, tenure: &Arc<Tenure>) -> bool {
        let mut place = unpoisoned(&self.server_place);
        let place = place.as_mut().filter(|place| place.is_of(tenure));
        place.map(ServerPlace::doubt).is_some()
    }
}
