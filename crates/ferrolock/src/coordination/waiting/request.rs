//! One call that wants a hold, and the answer that its caller gets.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::coordination::holding::entrant::Entrant;
use crate::coordination::holding::hold::Hold;
use crate::coordination::keeper::kept::Offered;
use crate::coordination::waiting::driver::{LAST_ANSWER, Stay};
use crate::coordination::waiting::first::First;
use crate::coordination::waiting::late::LateGrants;
use crate::coordination::waiting::server_place::ServerPlace;
use crate::coordination::waiting::slot::{Answer, Slot};
use crate::coordination::{Core, Tenure, unpoisoned};
use crate::engine::{Failure, Tick};
use crate::error::{Error, ErrorCause, LostReason, Result};
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
    pub(super) who: Option<Arc<str>>,
    pub(super) reentry: Reentry,
    pub(super) patience: Patience,
    /// When it was made.
    pub(super) begun: Tick,
    /// When it last began to wait; the time in which its future was not polled does not count against its limit.
    since: AtomicU64,
    /// When its time is up; `None`: it waits as long as the server answers.
    pub(super) deadline: Option<Tick>,
    pub(super) slot: Slot,
    /// Its first attempt, while the caller's own future polls it.
    pub(super) first: Mutex<Option<First>>,
    /// If set, the call wants one more hold of that tenure and nothing else.
    pub(super) into: Option<Arc<Tenure>>,
    /// Boxed, as the next: most calls have neither, and a call is written whole.
    late: Mutex<Option<Box<LateGrants>>>,
    /// Its place in a queue that the server keeps, if its kind has one.
    server_place: Mutex<Option<Box<ServerPlace>>>,
}

/// What a call does when the lock is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// One attempt.
    None,
    /// Waits at most this long; busy to the end is `None`.
    Asks(Duration),
    /// Waits at most this long, or without a limit; busy to the end is an error.
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
        Arc::new(Self::made(
            scheme, owner, terms, who, reentry, patience, begun,
        ))
    }

    fn made(
        scheme: Arc<dyn Scheme>,
        owner: Owner,
        terms: Terms,
        who: Option<Arc<str>>,
        reentry: Reentry,
        patience: Patience,
        begun: Tick,
    ) -> Self {
        Self {
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
        }
    }

    /// One more hold of a running tenure, and of no other.
    pub(crate) fn again(tenure: &Arc<Tenure>, terms: Terms) -> Arc<Self> {
        let (scheme, owner) = (tenure.scheme.clone(), tenure.owner.clone());
        let who = tenure.bearer.who.clone();
        let (reentry, patience) = (Reentry::Enters, Patience::Insists(None));
        let now = tenure.core.now();
        let into = Some(tenure.clone());
        Arc::new(Self {
            into,
            ..Self::made(scheme, owner, terms, who, reentry, patience, now)
        })
    }

    pub(super) fn begins_at(&self, now: Tick) {
        self.since.store(now.as_nanos(), Ordering::Release);
    }

    /// The latest time for the answer to a call that makes one attempt, with everything that belongs to it.
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
    pub(crate) fn check_time_left(&self, core: &Core, sent: Tick, failure: Failure) -> Result<()> {
        let now = core.now();
        let patience = core.settings.unreachable_after;
        let limit = match (self.patience, self.deadline) {
            (Patience::None, _) => Tick::ZERO,
            (_, Some(deadline)) => deadline,
            (_, None) => {
                let mut late = unpoisoned(&self.late);
                late.get_or_insert_default().another(sent, now, patience)
            }
        };
        if now < limit {
            return Ok(());
        }
        Err(Error::from(failure).of(self.scheme.name()))
    }

    pub(crate) fn fail(&self, error: Error) {
        self.slot
            .answer(Answer::Failed(error.of(self.scheme.name())));
    }

    /// As a tenure sees it: `holding` does not know requests.
    pub(super) fn as_entrant(self: &Arc<Self>) -> Arc<dyn Entrant> {
        self.clone()
    }

    pub(super) fn busy(&self, waited: Duration, rest: Option<Rest>) {
        let remaining = match rest {
            Some(Rest::Left(left)) => Some(left),
            Some(Rest::NoExpiry) | None => None,
        };
        match self.patience {
            Patience::Insists(_) => {
                self.fail(Error::new(ErrorCause::TimedOut { waited, remaining }))
            }
            Patience::None | Patience::Asks(_) => self.slot.answer(Answer::Busy),
        }
    }
}

impl Offered for Request {
    fn withdraw_offer(&self) -> bool {
        let withdrawn = self.slot.withdraw();
        let is_withdrawn = withdrawn.is_some();
        withdrawn.into_iter().for_each(Hold::release_in_background);
        is_withdrawn
    }
}

impl Entrant for Request {
    fn terms(&self) -> Terms {
        self.terms
    }

    fn reentry_limit(&self, core: &Core, now: Tick) -> Tick {
        match (self.deadline, self.patience) {
            (_, Patience::None) => self.command_limit(core),
            (Some(deadline), _) => deadline.max(now).after(LAST_ANSWER),
            (None, _) => now.after(core.settings.unreachable_after),
        }
    }

    fn is_waiting(&self) -> bool {
        self.slot.is_waiting()
    }

    fn served(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.slot.served())
    }

    fn offer(&self, hold: Arc<Hold>) -> std::result::Result<(), Arc<Hold>> {
        self.slot.offer(hold)
    }

    fn fail(&self, error: Error) {
        Request::fail(self, error);
    }

    fn come_anew(&self) {
        match self.into {
            Some(_) => Request::fail(self, Error::lost(LostReason::Removed)),
            None => self.slot.start_over(),
        }
    }

    fn too_late(&self, core: &Core, sent: Tick, failure: Failure) {
        match self.check_time_left(core, sent, failure) {
            Ok(()) => self.slot.start_over(),
            Err(error) => self.slot.answer(Answer::Failed(error)),
        }
    }
}

impl Request {
    /// Whether the server may have a place in its queue for it.
    pub(super) fn has_place(&self) -> bool {
        self.scheme.waiting().has_places && self.patience != Patience::None
    }

    /// The tenure that is in the server's queue for it.
    pub(super) fn placed(&self) -> Option<Arc<Tenure>> {
        let place = unpoisoned(&self.server_place);
        place.as_ref().map(|place| place.tenure().clone())
    }

    /// The number of the field that is in the server's queue for it.
    pub(crate) fn number(&self) -> Option<u64> {
        let place = unpoisoned(&self.server_place);
        place.as_ref().map(|place| place.tenure().id.number())
    }

    /// Where it is in the server's queue, as far as this is known.
    pub(super) fn place(&self) -> Option<u64> {
        unpoisoned(&self.server_place).as_ref()?.place()
    }

    /// The server said where it is in its queue.
    pub(super) fn note_place(&self, place: Option<u64>) {
        if let Some(known) = &mut *unpoisoned(&self.server_place) {
            known.note(place);
        }
    }

    /// It needs no place any more: it enters another way.
    pub(super) fn abandon_place(&self) {
        let place = unpoisoned(&self.server_place).take();
        drop(place);
    }

    /// From now on its tenure may be in the server's queue.
    pub(crate) fn take_place(&self, tenure: &Arc<Tenure>, lease: Duration) {
        if self.has_place() {
            unpoisoned(&self.server_place)
                .get_or_insert_with(|| Box::new(ServerPlace::new(tenure.clone(), lease)));
        }
    }

    /// It was granted: from now on the field belongs to its hold.
    pub(super) fn leave_place(&self) {
        let place = unpoisoned(&self.server_place).take();
        if let Some(place) = place {
            place.granted();
        }
    }

    /// An attempt under that tenure has no answer. True: the field is its place in the server's queue, which is owed when
    /// the request ends.
    pub(crate) fn note_doubt_about(&self, tenure: &Arc<Tenure>) -> bool {
        let mut place = unpoisoned(&self.server_place);
        let place = place.as_mut().filter(|place| place.is_of(tenure));
        place.map(|place| place.doubt()).is_some()
    }
}
