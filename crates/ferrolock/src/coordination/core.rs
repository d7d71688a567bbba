//! What the handles of a client share.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};

use crate::coordination::keeper::Keeper;
use crate::coordination::keeper::pending::Pending;
use crate::coordination::names::Names;
use crate::coordination::process;
use crate::coordination::random::Random;
use crate::coordination::timer::Naps;
use crate::coordination::unpoisoned;
use crate::engine::{Clock, Engine, Failure, SHUT_DOWN, Tick};
use crate::error::{Error, LostReason, Result};
use crate::options::Settings;
use crate::owner::{Owner, OwnerId};
use crate::protocol::scheme::{OwnHold, Scheme, Subject};

/// How many attempts that no caller or release asks for are under way at once: after gaps, polls, ends of leases.
const REATTEMPTS_MAX: usize = 64;

/// How long debts are retried after the last handle of their client is dropped, or after its shutdown.
const LAST_DEBTS: Duration = Duration::from_secs(60);

/// Everything that the handles of one client share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) settings: Settings,
    /// The client's id: a version 8 uuid, so that scripts can distinguish ours from Redisson's.
    pub(crate) id: String,
    pub(crate) host: String,
    numbers: AtomicU64,
    /// The largest fence that this client was given, of any name.
    fence_floor: AtomicU64,
    pub(super) random: Random,
    pub(crate) names: Mutex<Names>,
    pub(super) reattempts: Arc<Semaphore>,
    naps: Naps,
    /// Names that are listened to.
    pub(super) listening: AtomicUsize,
    clock: OnceLock<Clock>,
    runtime: OnceLock<Handle>,
    keeper: OnceLock<Arc<Keeper>>,
    process: u32,
    closing: AtomicBool,
    keeper_connected: AtomicBool,
    /// Notified at each end or loss of a hold and each end of a release, for a shutdown that waits.
    pub(super) quieter: Notify,
    pub(crate) pending: Pending,
    /// Warnings that were logged already.
    pub(crate) told: Told,
}

/// What is logged once per client.
#[derive(Debug, Default)]
pub(crate) struct Told {
    blind: AtomicBool,
    pub(crate) unused_handle: AtomicBool,
    pub(super) waits_for_itself: AtomicBool,
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
            fence_floor: AtomicU64::new(0),
            random: Random::new(seed),
            names: Mutex::new(Names::default()),
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
            pending: Pending::default(),
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
    pub(super) fn is_forked(&self) -> bool {
        process::id() != self.process
    }

    /// Not after a fork. Guards may still ask the server, and be given back, after a shutdown has begun.
    pub(super) fn check_process(&self) -> Result<()> {
        if self.is_forked() {
            return Err(Error::closed(
                "the process was forked: connect a new client in the child",
            ));
        }
        Ok(())
    }

    /// Calls are refused from now on.
    pub(super) fn set_closing(&self) {
        self.closing.store(true, Ordering::Release);
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    pub(super) fn clock(&self) -> Clock {
        self.clock.get_or_init(|| self.engine.clock()).clone()
    }

    pub(crate) fn now(&self) -> Tick {
        self.clock.get_or_init(|| self.engine.clock()).now()
    }

    pub(super) async fn sleep_until(&self, until: Tick) {
        self.clock().sleep_until(until).await;
    }

    /// The same for a driver, whose pauses are shorter than the grain of the runtime's timers.
    pub(super) async fn nap_until(&self, until: Tick) {
        let is_fine = self.engine.is_shared_with_processes();
        self.naps.sleep_until(&self.clock(), is_fine, until).await;
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
    pub(super) fn claim_keeper_connection(&self) -> bool {
        !self.keeper_connected.load(Ordering::Relaxed)
            && !self.keeper_connected.swap(true, Ordering::Relaxed)
    }

    /// Logs once that waiting goes on without messages.
    pub(super) fn say_blind(&self, failure: &Failure) {
        if !self.told.blind.swap(true, Ordering::Relaxed) {
            tracing::warn!(%failure, "subscribing was refused: waiting falls back to polling");
        }
    }

    /// The field under which that owner holds the name here.
    pub(crate) fn owner_id(&self, subject: &Subject, owner: &Owner) -> Option<OwnerId> {
        unpoisoned(&self.names)
            .live_tenure(subject, owner)
            .map(|tenure| tenure.id.clone())
    }

    /// The field under which that owner holds the sibling line, if that lets it in.
    pub(super) fn held_beside(&self, scheme: &dyn Scheme, owner: &Owner) -> Option<Arc<str>> {
        let sibling = scheme.sibling()?;
        let lets_in = sibling.own_hold == OwnHold::LetsIn;
        let names = lets_in.then(|| unpoisoned(&self.names))?;
        let tenure = names.live_tenure(&sibling.subject, owner)?;
        Some(tenure.bearer.field.clone())
    }

    /// All holds here are lost: the data was removed. Grants whose answers are on their way are refused when they come.
    fn lose_what_is_removed(&self) {
        let tenures = unpoisoned(&self.names).tenures().into_iter();
        tenures.for_each(|tenure| tenure.not_ours(LostReason::Removed));
    }

    /// A hold or a release has ended. Only a shutdown waits for that, and it looks again after it has begun.
    pub(super) fn tell_who_shuts_down(&self) {
        if self.is_closing() {
            self.quieter.notify_waiters();
        }
    }

    /// Ready when no lock is held here and no release is under way.
    pub(crate) async fn quiet(&self) {
        loop {
            let mut quieter = std::pin::pin!(self.quieter.notified());
            quieter.as_mut().enable();
            let busy = unpoisoned(&self.names)
                .tenures()
                .iter()
                .any(|tenure| tenure.is_held_or_leaving());
            if !busy && self.pending.is_quiet() {
                return;
            }
            quieter.await;
        }
    }

    /// The connections end with the last pending work, and debts do not go on for long.
    pub(crate) fn close_when_quiet(self: &Arc<Self>) {
        if self.pending.abandon() {
            self.engine.close();
        } else {
            let (core, until) = (Arc::downgrade(self), self.now().after(LAST_DEBTS));
            self.keeper().alarm(self, until, move || {
                let core = core.upgrade();
                core.iter().for_each(|core| core.keeper().give_up(core));
            });
        }
    }

    /// The error for a caller that had no answer from the server; a refusal is an answer.
    pub(super) fn no_answer(&self, waited: Duration, failure: Option<Failure>) -> Error {
        let address = self.engine.address();
        match failure {
            Some(failure @ (Failure::Refused { .. } | Failure::Closed(_))) => failure.into(),
            Some(other) => Error::unreachable(format!(
                "{address} did not answer for {waited:.1?}: {other}"
            )),
            None => Error::unreachable(format!("{address} did not answer for {waited:.1?}")),
        }
    }

    /// Fences of this client are larger than this from now on, also if the server loses its data and its clock is set back.
    pub(super) fn fence_floor(&self) -> u64 {
        self.fence_floor.load(Ordering::Relaxed)
    }

    pub(super) fn saw_fence(&self, fence: u64) {
        self.fence_floor.fetch_max(fence, Ordering::Relaxed);
    }

    /// Pauses for a random time up to that.
    pub(crate) async fn pause(&self, most: Duration) {
        let pause = self.random.between(Duration::ZERO, most);
        self.nap_until(self.now().after(pause)).await;
    }

    /// A number that this client has never used.
    pub(super) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}
