//! The keeper: renews holds, notices deadlines, and finishes releases that no caller waits for.
//!
//! One OS thread per process with a small runtime of its own, so that a holder that computes for three leases without
//! an `await` keeps its lock, and a guard can be dropped anywhere. In a test's paused time it is a task of the test's
//! runtime. [`watch`] and [`debts`] decide; this file acts.

mod alarms;
pub(super) mod batch;
#[cfg(all(test, feature = "embedded"))]
mod batch_tests;
#[cfg(test)]
mod counts;
pub(super) mod debts;
pub(super) mod kept;
mod pay;
pub(crate) mod pending;
mod renewal;
#[cfg(all(test, feature = "embedded"))]
mod tests;
pub(super) mod watch;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use crate::coordination::keeper::alarms::Alarm;
pub(crate) use crate::coordination::keeper::alarms::{AlarmKey, Alarmed};
use crate::coordination::keeper::batch::Grid;
#[cfg(test)]
pub(crate) use crate::coordination::keeper::counts::KeptCounts;
use crate::coordination::keeper::debts::{DebtDue, Debts};
use crate::coordination::keeper::kept::{Kept, Offered, Owes};
use crate::coordination::keeper::pending::{PendingWork, WorkKind};
use crate::coordination::keeper::watch::{Due, Watch};
use crate::coordination::timer::Timer;
use crate::coordination::{Core, safely, unpoisoned};
use crate::engine::{Clock, KEEPER_THREAD, Lane, Tick};
use crate::error::LostReason;
use crate::figures;
use crate::options::Terms;
use crate::primitives::Ordering;

/// An offer that is not taken within this time goes back.
const OFFER_MAX: Duration = Duration::from_secs(1);

/// How many holds are handled at most before the keeper's lock is free for others again.
const DUE_MAX: usize = 1000;

/// The keeper of the process, or of one client in paused time.
#[derive(Debug)]
pub(crate) struct Keeper {
    state: Mutex<State>,
    news: Notify,
    clock: Clock,
}

#[derive(Debug)]
struct State {
    watch: Watch<Watched>,
    debts: Debts<OwedRelease>,
    alarms: BTreeMap<AlarmKey, Alarm>,
    next_alarm: u64,
    jobs: Vec<Job>,
    /// When the keeper wakes by itself.
    asleep_until: Tick,
}

/// A hold under watch, and the caller that it was offered to, if it was.
#[derive(Clone, Debug)]
struct Watched {
    hold: Arc<dyn Kept>,
    offered: Option<Arc<dyn Offered>>,
}

impl Watched {
    /// Takes the offer back. False: its caller has it, or it was never offered.
    fn withdraw(&self) -> bool {
        self.offered
            .as_ref()
            .is_some_and(|offered| offered.withdraw_offer())
    }
}

/// A release that is owed, and the pending work that keeps the connections for it.
#[derive(Clone, Debug)]
struct OwedRelease {
    what: Owed,
    pending: Arc<PendingWork>,
}

#[derive(Clone, Debug)]
enum Owed {
    /// A release of a tenure, which knows the count that the server should have.
    Tenure(Arc<dyn Owes>),
    /// The field of an acquire whose outcome is unknown.
    Field(Arc<dyn Owes>),
}

#[derive(Debug)]
enum Job {
    Settle(Arc<dyn Owes>, PendingWork),
    /// The first hold of a client: its connection for renewals is made before it is needed.
    Connect(Arc<Core>),
}

/// What the keeper has to do at one moment.
struct Agenda {
    due: Vec<Due<Watched>>,
    debts: Vec<DebtDue<OwedRelease>>,
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
                // Unlocked before the log: a log sink is foreign code, and may connect a client, which locks this.
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
                    // Renewals go on after a panic.
                    safely(|| runtime.block_on(self.clone().keep()));
                },
                Err(error) => {
                    tracing::error!(%error, "the keeper has no runtime: locks are not renewed")
                }
            }
        });
        started.map(drop)
    }

    /// A grant is about to be offered to its caller, and is withdrawn if the caller does not take it. Returns the keeper's
    /// number for it.
    pub(super) fn offer(&self, hold: Arc<dyn Kept>, to: Arc<dyn Offered>) -> u64 {
        let until = self.clock.now().after(offer_time(&hold.terms()));
        let watched = Watched {
            hold: hold.clone(),
            offered: Some(to),
        };
        let mut state = unpoisoned(&self.state);
        let number = state
            .watch
            .offer(watched, hold.terms(), hold.deadline(), until);
        hold.number().store(number, Ordering::Release);
        self.connect_for(&*hold, &mut state);
        self.wake_for(&state);
        number
    }

    /// Whether the hold with that number is offered or kept.
    pub(super) fn is_kept(&self, number: u64) -> bool {
        unpoisoned(&self.state).watch.is_watched(number)
    }

    /// Its caller has taken it: from now on it is kept. `alarm`, for a caller that does not poll, is called off.
    pub(super) fn accept(&self, hold: Arc<dyn Kept>, alarm: Option<AlarmKey>) {
        let mut state = unpoisoned(&self.state);
        let called_off = alarm.and_then(|alarm| state.alarms.remove(&alarm));
        let (number, since) = (hold.number().load(Ordering::Acquire), hold.since());
        let watched = Watched {
            hold: hold.clone(),
            offered: None,
        };
        let offered = state.watch.accept(number, watched.clone(), since);
        if offered.is_none() {
            // Never offered: the caller's own future made the attempt. Or the offer ended when the caller was just taking it.
            let number = state
                .watch
                .keep(watched, hold.terms(), hold.deadline(), since);
            hold.number().store(number, Ordering::Release);
            self.connect_for(&*hold, &mut state);
        }
        self.wake_for(&state);
        // Unlocked before the drop: a request or a client may end with its alarm, and a request that ends may owe its place
        // in a queue, which locks the state again.
        drop(state);
        drop((called_off, offered));
    }

    /// With its first hold a client needs a connection for renewals.
    fn connect_for(&self, hold: &dyn Kept, state: &mut State) {
        if hold.core().claim_keeper_connection() {
            state.jobs.push(Job::Connect(hold.core().clone()));
            self.news.notify_one();
        }
    }

    /// It is given back or lost. True: a renewal of it is under way.
    pub(super) fn forget(&self, hold: &dyn Kept) -> bool {
        let number = hold.number().load(Ordering::Acquire);
        unpoisoned(&self.state).watch.forget(number)
    }

    /// Its deadline was moved by its guard.
    pub(crate) fn extended(&self, hold: &dyn Kept) {
        let number = hold.number().load(Ordering::Acquire);
        unpoisoned(&self.state)
            .watch
            .extended(number, hold.deadline());
    }

    /// Sets the tenure's count on the server to the number of holds here; no caller waits for it.
    pub(crate) fn settle(&self, tenure: Arc<dyn Owes>) {
        let pending = PendingWork::new(tenure.core(), WorkKind::Release);
        unpoisoned(&self.state)
            .jobs
            .push(Job::Settle(tenure, pending));
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
            watched.hold.core().settings.command_limit
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
        // Unlocked before the figures: a metrics sink is foreign code.
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
                Due::Over(watched) => over(&watched),
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
            safely(|| alarm.ring());
        }
        for job in agenda.jobs {
            safely(|| match job {
                Job::Settle(tenure, pending) => {
                    drop(tokio::spawn(self.clone().finish(tenure, pending)));
                }
                Job::Connect(core) => drop(tokio::spawn(core.engine.ready(Lane::Keeper))),
            });
        }
    }

    /// The shortest lease that is kept.
    pub(super) fn shortest_lease(&self) -> Option<Duration> {
        unpoisoned(&self.state).watch.shortest_lease()
    }

    /// The client shuts down and no longer waits: its holds are lost. Returns their names.
    pub(crate) fn lose_all(&self, core: &Core) -> Vec<Arc<str>> {
        let ours = |watched: &Watched| std::ptr::eq(&**watched.hold.core(), core);
        // Collected first, and lost without the lock: `lose` wakes callers and writes to the log.
        let held = unpoisoned(&self.state).watch.holds(ours);
        held.iter()
            .map(|watched| {
                self.forget(&*watched.hold);
                watched.hold.lose(LostReason::ShutDown);
                watched.hold.name().clone()
            })
            .collect()
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

/// How long a grant is offered to a caller that does not take it.
pub(crate) fn offer_time(terms: &Terms) -> Duration {
    (terms.lease / 3).min(OFFER_MAX)
}

fn over(watched: &Watched) {
    watched.hold.end_at_deadline();
    watched.withdraw();
}

/// Its caller did not take it in time.
fn offer_over(watched: &Watched) {
    if watched.withdraw() {
        figures::offer_withdrawn();
        tracing::debug!(lock = %watched.hold.name(), "offer withdrawn: its future was not polled");
    }
}
