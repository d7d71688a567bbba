//! The keeper: renews, notices what is over, and finishes what nobody waits for.
//!
//! One OS thread per process with a small runtime of its own, so that a holder that computes for three leases without
//! an `await` keeps its lock, and a guard can be dropped anywhere. In a test's paused time it is a task of the test's
//! runtime. [`watch`] and [`debts`] decide; this file does.

mod alarms;
pub(crate) mod batch;
#[cfg(all(test, feature = "embedded"))]
mod batch_tests;
pub(crate) mod debts;
#[cfg(test)]
mod kept;
mod pay;
pub(crate) mod pending;
mod renewal;
#[cfg(all(test, feature = "embedded"))]
mod tests;
pub(crate) mod watch;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use crate::coordination::holding::hold::Hold;
use crate::coordination::keeper::alarms::Alarm;
pub(crate) use crate::coordination::keeper::alarms::AlarmKey;
use crate::coordination::keeper::batch::Grid;
use crate::coordination::keeper::debts::{Debts, Due as DebtDue};
#[cfg(test)]
pub(crate) use crate::coordination::keeper::kept::Kept;
use crate::coordination::keeper::pending::{Kind, PendingWork};
use crate::coordination::keeper::watch::{Due, Watch};
use crate::coordination::timer::Timer;
use crate::coordination::waiting::Request;
use crate::coordination::{Tenure, unpoisoned};
use crate::engine::{Clock, KEEPER_THREAD, Lane, Tick};
use crate::error::LostReason;
use crate::figures;
use crate::options::Terms;

/// An offer that is not taken for so long goes back.
const OFFER_MAX: Duration = Duration::from_secs(1);

/// So many holds are looked after before others may come to the keeper.
const DUE_MAX: usize = 1000;

/// What the process keeps.
#[derive(Debug)]
pub(crate) struct Keeper {
    state: Mutex<State>,
    news: Notify,
    clock: Clock,
}

#[derive(Debug)]
struct State {
    watch: Watch<Watched>,
    debts: Debts<Debt>,
    alarms: BTreeMap<AlarmKey, Alarm>,
    next_alarm: u64,
    jobs: Vec<Job>,
    /// When the keeper wakes by itself.
    asleep_until: Tick,
}

/// A hold under watch, and whom it was offered to, if it was.
#[derive(Clone, Debug)]
struct Watched {
    hold: Arc<Hold>,
    offered: Option<Arc<Request>>,
}

impl Watched {
    /// Takes the offer back if nobody has come for it.
    fn withdraw(&self) -> Option<Arc<Hold>> {
        self.offered.as_ref()?.slot.withdraw()
    }
}

/// A release that is owed, and the pending work that keeps the connections for it.
#[derive(Clone, Debug)]
struct Debt {
    what: Owed,
    pending: Arc<PendingWork>,
}

#[derive(Clone, Debug)]
enum Owed {
    /// The tenure knows what the server should have.
    Tenure(Arc<Tenure>),
    /// The field of an acquire whose outcome is unknown.
    Field(Arc<Tenure>),
}

#[derive(Debug)]
enum Job {
    Settle(Arc<Tenure>, PendingWork),
    /// The first hold of a client: its connection for renewals is made before it is needed.
    Connect(Arc<Tenure>),
}

/// What lies before the keeper at one moment.
struct Agenda {
    due: Vec<Due<Watched>>,
    debts: Vec<DebtDue<Debt>>,
    alarms: Vec<Alarm>,
    jobs: Vec<Job>,
    next: Tick,
}

impl Keeper {
    /// The process's keeper, or one of its own for a client in paused time, with that seed.
    pub(crate) fn of(clock: &Clock, seed: u64) -> Arc<Keeper> {
        match clock {
            Clock::Boot => {
                /// A forked child has the parent's memory but not its threads, so it needs its own.
                static KEEPER: Mutex<Option<(u32, Arc<Keeper>)>> = Mutex::new(None);
                let process = std::process::id();
                let mut known = unpoisoned(&KEEPER);
                if let Some((of, keeper)) = &*known
                    && *of == process
                {
                    return keeper.clone();
                }
                let keeper = Keeper::new(Clock::Boot, seed);
                let started = keeper.clone().start_thread();
                *known = Some((process, keeper.clone()));
                drop(known);
                if let Err(error) = started {
                    tracing::error!(%error, "the keeper has no thread: locks are not renewed");
                }
                keeper
            }
            Clock::Virtual(handle) => {
                let keeper = Keeper::new(clock.clone(), seed);
                handle.spawn(keeper.clone().keep());
                keeper
            }
        }
    }

    fn new(clock: Clock, seed: u64) -> Arc<Keeper> {
        let offset = fastrand::Rng::with_seed(seed).u64(..);
        let state = State {
            watch: Watch::new(Grid::new(clock.now(), offset)),
            debts: Debts::new(),
            alarms: BTreeMap::new(),
            next_alarm: 0,
            jobs: Vec::new(),
            asleep_until: Tick::ZERO,
        };
        Arc::new(Keeper {
            state: Mutex::new(state),
            news: Notify::new(),
            clock,
        })
    }

    fn start_thread(self: Arc<Keeper>) -> std::io::Result<()> {
        let thread = std::thread::Builder::new().name(KEEPER_THREAD.to_owned());
        let started = thread.spawn(move || {
            match tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
            {
                Ok(runtime) => loop {
                    // Renewal outlives whatever panics.
                    safely(|| runtime.block_on(self.clone().keep()));
                },
                Err(error) => {
                    tracing::error!(%error, "the keeper has no runtime: locks are not renewed")
                }
            }
        });
        started.map(drop)
    }

    /// A grant lies ready in the slot; it goes back if nobody comes for it.
    pub(crate) fn offer(&self, hold: Arc<Hold>, request: &Arc<Request>) {
        let until = self.clock.now().after(offer_time(&hold.terms));
        let watched = Watched {
            hold: hold.clone(),
            offered: Some(request.clone()),
        };
        let mut state = unpoisoned(&self.state);
        let id = state
            .watch
            .offer(watched, hold.terms, hold.deadline(), until);
        hold.kept_as.store(id, Ordering::Release);
        self.connect_for(&hold, &mut state);
        self.wake_for(&state);
        drop(state);
        if let Err(hold) = request.slot.offer(hold) {
            return hold.release_in_background();
        }
        // If this thread stood still in between, the offer may have ended before it began.
        if !unpoisoned(&self.state).watch.is_watched(id)
            && let Some(hold) = request.slot.withdraw()
        {
            hold.release_in_background();
        }
    }

    /// Its caller has it: from now on it is kept. `alarm` is what was to call the caller.
    pub(crate) fn accept(&self, hold: &Arc<Hold>, alarm: Option<AlarmKey>) {
        let mut state = unpoisoned(&self.state);
        let called_off = alarm.and_then(|alarm| state.alarms.remove(&alarm));
        let id = hold.kept_as.load(Ordering::Acquire);
        if !state.watch.accept(id, hold.since) {
            // Never offered: its caller asked itself. Or its offer ended when the caller was already at the slot.
            let watched = Watched {
                hold: hold.clone(),
                offered: None,
            };
            let (deadline, since) = (hold.deadline(), hold.since);
            let id = state.watch.keep(watched, hold.terms, deadline, since);
            hold.kept_as.store(id, Ordering::Release);
            self.connect_for(hold, &mut state);
        }
        self.wake_for(&state);
        drop(state);
        drop(called_off);
    }

    /// With its first hold a client needs a connection for renewals.
    fn connect_for(&self, hold: &Arc<Hold>, state: &mut State) {
        if hold.tenure.core.claim_keeper_connection() {
            state.jobs.push(Job::Connect(hold.tenure.clone()));
            self.news.notify_one();
        }
    }

    /// It is given back or lost. True: a renewal of it is under way.
    pub(crate) fn forget(&self, hold: &Hold) -> bool {
        unpoisoned(&self.state)
            .watch
            .forget(hold.kept_as.load(Ordering::Acquire))
    }

    /// Its deadline was moved by its guard.
    pub(crate) fn extended(&self, hold: &Hold) {
        let mut state = unpoisoned(&self.state);
        state
            .watch
            .extended(hold.kept_as.load(Ordering::Acquire), hold.deadline());
    }

    /// Brings the tenure's count on the server to what lives here; nobody waits for it.
    pub(crate) fn settle(&self, tenure: &Arc<Tenure>) {
        let pending = PendingWork::new(&tenure.core, Kind::Release);
        unpoisoned(&self.state)
            .jobs
            .push(Job::Settle(tenure.clone(), pending));
        self.news.notify_one();
    }

    fn wake_for(&self, state: &State) {
        if state.next() < state.asleep_until {
            self.news.notify_one();
        }
    }

    async fn keep(self: Arc<Keeper>) {
        let mut timer = Timer::new(&self.clock);
        loop {
            let agenda = self.agenda();
            let next = agenda.next;
            self.work_off(agenda);
            tokio::select! {
                biased;
                () = self.news.notified() => {}
                () = timer.sleep_until(next) => {}
            }
        }
    }

    fn agenda(&self) -> Agenda {
        let now = self.clock.now();
        let mut state = unpoisoned(&self.state);
        let planned = state.next();
        let due = state.watch.due(now, DUE_MAX, |watched| {
            watched.hold.tenure.core.settings.command_limit
        });
        let debts = state.debts.due(now);
        let later = state
            .alarms
            .split_off(&(now.after(Duration::from_nanos(1)), 0));
        let alarms = std::mem::replace(&mut state.alarms, later)
            .into_values()
            .collect();
        let jobs = std::mem::take(&mut state.jobs);
        let next = state.next();
        state.asleep_until = next;
        let open = state.debts.len();
        drop(state);
        if !debts.is_empty() {
            figures::debts_open(open);
        }
        if !due.is_empty() && planned <= now {
            figures::keeper_late(now.since(planned));
        }
        Agenda {
            due,
            debts,
            alarms,
            jobs,
            next,
        }
    }

    fn work_off(self: &Arc<Self>, agenda: Agenda) {
        let mut renewals = Vec::new();
        for due in agenda.due {
            safely(|| match due {
                Due::Renew(renewal) => renewals.push(renewal),
                Due::Over(watched) => self.over(&watched),
                Due::OfferOver(watched) => offer_over(&watched),
            });
        }
        safely(|| self.renew_all(renewals));
        for due in agenda.debts {
            safely(|| match due {
                DebtDue::Try(id, debt) => self.try_to_pay(id, debt),
                DebtDue::Over(debt) => self.not_owed(debt),
            });
        }
        for alarm in agenda.alarms {
            safely(|| self.rung(alarm));
        }
        for job in agenda.jobs {
            safely(|| match job {
                Job::Settle(tenure, pending) => {
                    drop(tokio::spawn(self.clone().finish(tenure, pending)));
                }
                Job::Connect(tenure) => drop(tokio::spawn(tenure.core.engine.ready(Lane::Keeper))),
            });
        }
    }

    fn over(&self, watched: &Watched) {
        let reason = watched.hold.reason_at_deadline();
        watched.hold.lose(reason);
        if let Some(hold) = watched.withdraw() {
            hold.release_in_background();
        }
    }

    /// The shortest lease that is kept.
    pub(crate) fn shortest_lease(&self) -> Option<Duration> {
        unpoisoned(&self.state).watch.shortest_lease()
    }

    /// The client shuts down and will not wait any longer.
    pub(crate) fn lose_all(&self, of: impl Fn(&Hold) -> bool) -> Vec<Arc<Hold>> {
        let held = unpoisoned(&self.state)
            .watch
            .holds(|watched| of(&watched.hold));
        held.into_iter()
            .map(|watched| watched.hold)
            .inspect(|hold| {
                self.forget(hold);
                hold.lose(LostReason::ShutDown);
            })
            .collect()
    }

    /// Every hold that is watched and for which `of` says so.
    pub(crate) fn holds(&self, of: impl Fn(&Hold) -> bool) -> Vec<Arc<Hold>> {
        let held = unpoisoned(&self.state)
            .watch
            .holds(|watched| of(&watched.hold));
        held.into_iter().map(|watched| watched.hold).collect()
    }
}

impl State {
    fn next(&self) -> Tick {
        let alarm = self.alarms.first_key_value().map(|((at, _), _)| *at);
        self.watch
            .next()
            .into_iter()
            .chain(self.debts.next())
            .chain(alarm)
            .min()
            .unwrap_or(Tick::FAR)
    }
}

/// How long a grant lies ready for a caller who does not come for it.
pub(crate) fn offer_time(terms: &Terms) -> Duration {
    (terms.lease / 3).min(OFFER_MAX)
}

/// Nobody came for it in time.
fn offer_over(watched: &Watched) {
    if let Some(hold) = watched.withdraw() {
        let name = hold.tenure.scheme.name().clone();
        hold.release_in_background();
        figures::offer_withdrawn();
        tracing::debug!(lock = %name, "offer withdrawn: its future was not polled");
    }
}

/// Wakers and log sinks are other people's code: what panics in one must not cost the rest of the agenda.
fn safely(work: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        let told = || tracing::error!("the keeper was interrupted by a panic and goes on");
        let _ = catch_unwind(told);
    }
}
