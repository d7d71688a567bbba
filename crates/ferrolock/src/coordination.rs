//! The machinery under every primitive: who waits, who holds, who is owed a release.
//!
//! | who | lives in | owns |
//! |---|---|---|
//! | the caller's future | the caller's task | a slot, and its first attempt while nobody else here wants the name |
//! | driver, one per contended name | the client's runtime | local queue, attempts, subscription, timers of waiting |
//! | tenures | the client | which owner holds which name how often; one count-changing command at a time |
//! | keeper, one per process | its own OS thread | offers, deadlines, renewals, dropped guards, debts |
//!
//! Driver, tenure, watch and debts are state machines without I/O and clock; the files beside them are their shells.
//! Locks are taken in this order: desk, tenure, a request's first attempt, the process's keeper, its state, slot, errands, leaver; random numbers last. While one is held, no
//! code of others runs: no waker of a caller, no log or metrics sink, no end of a connection.

pub(crate) mod acquire;
mod alive;
#[cfg(all(test, feature = "embedded"))]
mod backlog_tests;
#[cfg(test)]
pub(crate) mod census;
pub(crate) mod desk;
#[cfg(all(test, feature = "embedded"))]
mod ending_tests;
pub(crate) mod errands;
#[cfg(all(test, feature = "embedded"))]
mod giving_back_tests;
pub(crate) mod hold;
pub(crate) mod keeper;
#[cfg(all(test, feature = "embedded"))]
mod late_replies_tests;
pub(crate) mod leaver;
#[cfg(all(test, feature = "embedded"))]
mod leftovers_tests;
mod process;
mod random;
pub(crate) mod release;
#[cfg(all(test, feature = "embedded"))]
pub(crate) mod scenes;
#[cfg(all(test, feature = "embedded"))]
mod several_tests;
pub(crate) mod tenure;
mod timer;
mod wakes;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};

pub(crate) use self::alive::Alive;
pub(crate) use crate::engine::unpoisoned;
use crate::engine::{Clock, Engine, Failure, Lane, RUNTIME_ENDED, SHUT_DOWN, Tick};
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::options::Settings;
use crate::owner::{Owner, OwnerId};
use crate::protocol::key_type;
use crate::protocol::scheme::{Bearer, Scheme, Subject};
use crate::protocol::script::{Call, Value};
use acquire::Request;
use acquire::attempt::FirstAcquire;
use desk::Desk;
use errands::Errands;
use hold::Hold;
use keeper::Keeper;
use random::Random;
use tenure::{Count, Few, Phase};
use timer::Naps;

/// Attempts that nobody in particular waits for at this moment: gaps, polls, ends of leases.
const REATTEMPTS_MAX: usize = 64;

/// So long debts outlive the last handle of their client, or its shutdown.
const LAST_DEBTS: Duration = Duration::from_secs(60);

/// Everything that the handles of one client share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) settings: Settings,
    /// The client's id: a version 8 uuid, so that scripts can tell ours from Redisson's.
    pub(crate) id: String,
    pub(crate) host: String,
    numbers: AtomicU64,
    pub(crate) random: Random,
    pub(crate) desk: Mutex<Desk>,
    pub(crate) reattempts: Arc<Semaphore>,
    naps: Naps,
    /// Names that are listened to.
    pub(crate) listening: AtomicUsize,
    clock: OnceLock<Clock>,
    runtime: OnceLock<Handle>,
    keeper: OnceLock<Arc<Keeper>>,
    process: u32,
    closing: AtomicBool,
    keeper_connected: AtomicBool,
    /// Told at each end or loss of a hold and each end of a release, for whoever shuts down.
    pub(crate) quieter: Notify,
    pub(crate) errands: Errands,
    /// Mistakes of the program that were told once.
    pub(crate) told: Told,
}

/// What is said once per client in the log.
#[derive(Debug, Default)]
pub(crate) struct Told {
    blind: AtomicBool,
    pub(crate) unused_handle: AtomicBool,
    pub(crate) waits_for_itself: AtomicBool,
}

impl Core {
    pub(crate) fn new(
        engine: Arc<dyn Engine>,
        settings: Settings,
        runtime: Option<Handle>,
    ) -> Arc<Self> {
        let seed = engine.seed();
        let id = process::new_client_id(seed);
        engine.introduce(&id);
        let core = Self {
            engine,
            settings,
            id,
            host: process::host_name(),
            numbers: AtomicU64::new(1),
            random: Random::new(seed),
            desk: Mutex::new(Desk::default()),
            reattempts: Arc::new(Semaphore::new(REATTEMPTS_MAX)),
            naps: Naps::default(),
            listening: AtomicUsize::new(0),
            clock: OnceLock::new(),
            runtime: OnceLock::new(),
            keeper: OnceLock::new(),
            process: process::id(),
            closing: AtomicBool::new(false),
            keeper_connected: AtomicBool::new(false),
            quieter: Notify::new(),
            errands: Errands::default(),
            told: Told::default(),
        };
        if let Some(runtime) = runtime {
            let _ = core.runtime.set(runtime);
        }
        let core = Arc::new(core);
        let kept = Arc::downgrade(&core);
        core.engine.hurried_by(Box::new(move || {
            kept.upgrade()?.keeper.get()?.shortest_lease()
        }));
        let held = Arc::downgrade(&core);
        core.engine.when_removed(Box::new(move || {
            let core = held.upgrade();
            core.iter().for_each(|core| core.lose_what_is_removed());
        }));
        core
    }

    /// Whether a call may be made: not after a fork, not after the end.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.check_process()?;
        if self.is_closing() {
            return Err(Error::closed(SHUT_DOWN));
        }
        Ok(())
    }

    /// Whether this is a forked child: it has a copy of everything, but not the threads, and not the connections.
    pub(crate) fn is_forked(&self) -> bool {
        process::id() != self.process
    }

    /// Guards that outlive the beginning of a shutdown may still ask, and be given back.
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.is_forked() {
            return Err(Error::closed(
                "the process was forked: connect a new client in the child",
            ));
        }
        Ok(())
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock.get_or_init(|| self.engine.clock()).clone()
    }

    pub(crate) fn now(&self) -> Tick {
        self.clock.get_or_init(|| self.engine.clock()).now()
    }

    pub(crate) async fn sleep_until(&self, until: Tick) {
        self.clock().sleep_until(until).await;
    }

    /// The same for a driver, whose pauses are shorter than the grain of the runtime's timers.
    pub(crate) async fn nap_until(&self, until: Tick) {
        self.naps.sleep_until(&self.clock(), until).await;
    }

    /// The runtime that waiting runs in: the one given, else the one current at the first call.
    pub(crate) fn runtime(&self) -> Result<&Handle> {
        if let Some(runtime) = self.runtime.get() {
            return Ok(runtime);
        }
        let current = Handle::try_current().map_err(|_| {
            Error::closed(
                "there is no tokio runtime here: connect in one, or give one to the builder",
            )
        })?;
        Ok(self.runtime.get_or_init(|| current))
    }

    pub(crate) fn keeper(&self) -> &Arc<Keeper> {
        self.keeper
            .get_or_init(|| Keeper::of(&self.clock(), self.random.seed()))
    }

    /// True once: the keeper's connection should be made.
    pub(crate) fn keeper_connects(&self) -> bool {
        !self.keeper_connected.load(Ordering::Relaxed)
            && !self.keeper_connected.swap(true, Ordering::Relaxed)
    }

    /// Says once that waiting goes on without messages.
    pub(crate) fn say_blind(&self, failure: &Failure) {
        if !self.told.blind.swap(true, Ordering::Relaxed) {
            tracing::warn!(%failure, "subscribing was refused: waiting falls back to polling");
        }
    }

    /// Asks the server something that changes no count, with the limit of a command.
    pub(crate) async fn ask(self: &Arc<Self>, lane: Lane, call: Call) -> Result<Value> {
        self.check_process()?;
        let core = self.clone();
        let asked = self.runtime()?.spawn(async move {
            let limit = core.now().after(core.settings.command_limit);
            let work = async {
                loop {
                    match core.engine.call(lane, call.clone()).await {
                        Err(Failure::NotSent(_)) => core.engine.ready(lane).await,
                        reply => return reply,
                    }
                }
            };
            tokio::select! {
                biased;
                reply = work => reply.map_err(Error::from),
                () = core.sleep_until(limit) => Err(core.no_answer(core.settings.command_limit, core.engine.trouble())),
            }
        });
        match asked.await {
            Ok(reply) => reply,
            Err(_) => Err(Error::closed(RUNTIME_ENDED)),
        }
    }

    /// The same about a name: a key of another type is named.
    pub(crate) async fn ask_about(
        self: &Arc<Self>,
        lane: Lane,
        scheme: &dyn Scheme,
        call: Call,
    ) -> Result<Value> {
        match self.ask(lane, call).await {
            Err(error) if error.code() == Some("WRONGTYPE") => {
                let kind = self.ask(lane, key_type::ask(scheme.name())).await.ok();
                let (code, message) = (
                    "WRONGTYPE".to_owned(),
                    key_type::wrong_type(scheme.subject(), kind),
                );
                Err(Failure::Refused { code, message }.into())
            }
            reply => reply,
        }
    }

    /// The field under which that owner holds the name here.
    pub(crate) fn owner_id(&self, subject: &Subject, owner: &Owner) -> Option<OwnerId> {
        unpoisoned(&self.desk)
            .live_tenure(subject, owner)
            .map(|tenure| tenure.id.clone())
    }

    /// What was granted here holds no longer. Grants whose answers are on their way are turned down as they come in.
    fn lose_what_is_removed(&self) {
        let tenures = unpoisoned(&self.desk).tenures().into_iter();
        tenures.for_each(|tenure| tenure.not_ours(LostReason::Removed));
    }

    /// A hold or a release has ended. Only whoever shuts down wants to know, and looks after it began to.
    pub(crate) fn tell_who_shuts_down(&self) {
        if self.is_closing() {
            self.quieter.notify_waiters();
        }
    }

    /// Ready when nobody holds anything here and no release is on its way.
    pub(crate) async fn quiet(&self) {
        loop {
            let mut quieter = std::pin::pin!(self.quieter.notified());
            quieter.as_mut().enable();
            let busy = unpoisoned(&self.desk)
                .tenures()
                .iter()
                .any(|tenure| tenure.is_held_or_leaving());
            if !busy && self.errands.is_quiet() {
                return;
            }
            quieter.await;
        }
    }

    /// The connections end with the last errand, and debts do not go on for long.
    pub(crate) fn close_when_quiet(self: &Arc<Self>) {
        if self.errands.abandon() {
            self.engine.close();
        } else {
            let until = self.now().after(LAST_DEBTS);
            self.keeper().alarm_close(self, until);
        }
    }

    /// What a caller is told to whom the server gave no answer; a refusal is an answer.
    pub(crate) fn no_answer(&self, waited: Duration, failure: Option<Failure>) -> Error {
        let address = self.engine.address();
        match failure {
            Some(failure @ (Failure::Refused { .. } | Failure::Closed(_))) => failure.into(),
            Some(other) => Error::unreachable(format!(
                "{address} did not answer for {waited:.1?}: {other}"
            )),
            None => Error::unreachable(format!("{address} did not answer for {waited:.1?}")),
        }
    }

    /// A tenure with a number that this client has never used.
    pub(crate) fn new_tenure(self: &Arc<Self>, request: &Request) -> Arc<Tenure> {
        let id = OwnerId::new(&self.id, self.numbers.fetch_add(1, Ordering::Relaxed));
        let bearer = Bearer {
            field: id.as_arc().clone(),
            who: request.who.clone(),
        };
        Arc::new(Tenure {
            core: self.clone(),
            scheme: request.scheme.clone(),
            bearer,
            id,
            owner: request.owner.clone(),
            server_until: AtomicU64::new(0),
            first: FirstAcquire::default(),
            fence: OnceLock::new(),
            state: Mutex::new(TenureState {
                count: Count::entering(),
                members: Few::new(),
                gate_closed: false,
                sender: Lane::Commands,
                trouble: None,
            }),
        })
    }
}

/// One unbroken time of an owner on a name.
#[derive(Debug)]
pub(crate) struct Tenure {
    pub(crate) core: Arc<Core>,
    pub(crate) scheme: Arc<dyn Scheme>,
    pub(crate) bearer: Bearer,
    pub(crate) id: OwnerId,
    pub(crate) owner: Owner,
    /// The end of the longest lease that the server was asked for, by whomever, whether it was answered or not.
    server_until: AtomicU64,
    pub(crate) first: FirstAcquire,
    /// The number that grows from grant to grant, where the kind has one.
    pub(crate) fence: OnceLock<u64>,
    state: Mutex<TenureState>,
}

#[derive(Debug)]
struct TenureState {
    count: Count<Arc<Request>, Arc<Hold>>,
    members: Few<Arc<Hold>>,
    /// Attempts of this client on the name wait for our release.
    gate_closed: bool,
    /// Over which lane the command under way was sent.
    sender: Lane,
    /// How the last command failed, if it did.
    trouble: Option<Error>,
}

impl TenureState {
    /// Whether there is nothing of it on the server, as far as we know, nor will be.
    fn is_over(&self) -> bool {
        match self.count.phase() {
            Phase::Over(_) => true,
            Phase::Closed => self.count.is_settled(),
            Phase::Entering | Phase::Live => false,
        }
    }
}

impl Tenure {
    pub(crate) fn holds(&self) -> u32 {
        unpoisoned(&self.state).count.holds()
    }

    /// Whether its owner is inside, by a hold that is good by the clock, or just comes in again: whoever stayed
    /// outside then would wait for the one who comes.
    pub(crate) fn is_enterable(&self) -> bool {
        let state = unpoisoned(&self.state);
        let now = self.core.now();
        let is_inside = |hold: &Arc<Hold>| hold.is_good(now) || hold.is_leaving(now);
        let inside = state.members.iter().any(is_inside) || state.count.is_awaited();
        state.count.phase() == Phase::Live && inside
    }

    /// Whether somebody works under it, or its release is on the way or about to be: what a shutdown waits for.
    fn is_held_or_leaving(&self) -> bool {
        let (now, state) = (self.core.now(), unpoisoned(&self.state));
        let at_work = |hold: &Arc<Hold>| hold.is_good(now) || hold.is_released();
        match state.count.phase() {
            Phase::Live => state.members.iter().any(at_work) || !state.count.is_settled(),
            Phase::Closed => !state.count.is_settled(),
            Phase::Entering | Phase::Over(_) => false,
        }
    }

    /// Whether that task has a hold of it.
    fn is_held_in(&self, task: tokio::task::Id) -> bool {
        let state = unpoisoned(&self.state);
        state
            .members
            .iter()
            .any(|hold| hold.task.get() == Some(&task))
    }

    /// The server was, or is about to be, asked at `sent` to keep it for so long.
    pub(crate) fn asks_for(&self, sent: Tick, lease: Duration) {
        let until = sent.after(lease).as_nanos();
        self.server_until.fetch_max(until, Ordering::AcqRel);
    }

    /// The longest that the server may keep it.
    pub(crate) fn server_until(&self) -> Tick {
        Tick::from_nanos(self.server_until.load(Ordering::Acquire))
    }

    /// What to tell whoever waited for its release in vain.
    fn not_released(&self) -> Error {
        let trouble = unpoisoned(&self.state).trouble.clone();
        let core = &self.core;
        match trouble.filter(|error| error.kind() == ErrorKind::Refused) {
            Some(refused) => refused,
            None => core.no_answer(core.settings.command_limit, core.engine.trouble()),
        }
    }

    /// Our release is not answered: attempts do not wait for it any longer.
    pub(crate) fn open_gate(&self) {
        let mut desk = unpoisoned(&self.core.desk);
        if std::mem::take(&mut unpoisoned(&self.state).gate_closed) {
            self.lift_barrier(&mut desk, None);
        }
    }

    /// Nothing is owed for it any more.
    pub(crate) fn is_left_to_its_lease(self: &Arc<Self>) {
        self.open_gate();
        let after = unpoisoned(&self.state).count.left_to_its_lease();
        self.follow(after, None);
    }

    /// The server said that the field is not there.
    pub(crate) fn not_ours(self: &Arc<Self>, reason: LostReason) {
        let after = unpoisoned(&self.state).count.not_ours(reason);
        self.follow(after, None);
    }
}
