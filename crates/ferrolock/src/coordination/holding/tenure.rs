//! One unbroken time of an owner on a name: its field, its holds, and what the server was asked for.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::coordination::holding::count::{Count, Few, Phase};
use crate::coordination::holding::entrant::Entrant;
use crate::coordination::holding::first_acquire::FirstAcquire;
use crate::coordination::holding::hold::Hold;
use crate::coordination::{Core, unpoisoned};
use crate::engine::{Lane, Tick};
use crate::error::{Error, ErrorKind, LostReason};
use crate::owner::{Owner, OwnerId};
use crate::protocol::scheme::{Bearer, Lines, Scheme};

/// One unbroken time of an owner on a name.
#[derive(Debug)]
pub(crate) struct Tenure {
    pub(crate) core: Arc<Core>,
    pub(crate) scheme: Arc<dyn Scheme>,
    pub(crate) bearer: Bearer,
    pub(crate) id: OwnerId,
    pub(crate) owner: Owner,
    /// The end of the longest lease that the server was asked for, by any hold of it, whether it was answered or not.
    server_until: AtomicU64,
    pub(crate) first: FirstAcquire,
    /// An attempt under its field had no answer before the one that was granted, and may still run.
    is_in_doubt: AtomicBool,
    /// A number that grows with each grant, if the kind has one.
    pub(crate) fence: OnceLock<u64>,
    /// The fence that the nodes of a quorum agreed on, if it is a part of a hold there.
    pub(crate) quorum_fence: OnceLock<u64>,
    pub(super) state: Mutex<TenureState>,
}

#[derive(Debug)]
pub(super) struct TenureState {
    pub(super) count: Count<Arc<dyn Entrant>, Arc<Hold>>,
    pub(super) members: Few<Arc<Hold>>,
    /// Lines of this client whose attempts wait for the release of this tenure.
    pub(super) barring: Lines,
    /// Over which lane the command under way was sent.
    pub(super) sender: Lane,
    /// How the last command failed, if it did.
    pub(super) trouble: Option<Error>,
}

impl TenureState {
    /// Whether the server has nothing of it, as far as we know, and will not have.
    pub(super) fn is_over(&self) -> bool {
        match self.count.phase() {
            Phase::Over(_) => true,
            Phase::Closed => self.count.is_settled(),
            Phase::Entering | Phase::Live => false,
        }
    }
}

impl Tenure {
    /// The first acquire was granted. True: others here wait for the name.
    pub(crate) fn tenure_began(self: &Arc<Self>, hold: &Arc<Hold>) -> bool {
        let mut names = unpoisoned(&self.core.names);
        let is_awaited = names.tenure_began(self);
        let mut state = unpoisoned(&self.state);
        state.count.entered();
        state.members.push(hold.clone());
        is_awaited
    }

    #[cfg(all(test, feature = "embedded"))]
    pub(crate) fn first_hold(&self) -> Option<Arc<Hold>> {
        unpoisoned(&self.state).members.first().cloned()
    }

    /// The keeper brings the count on the server to what lives here.
    pub(crate) fn settle_in_background(self: &Arc<Self>) {
        self.core.keeper().settle(self.clone());
    }

    /// The client shuts down: the tokens of its holds fire, and their work may finish.
    pub(crate) fn warn(&self) {
        let members = unpoisoned(&self.state).members.clone();
        members.iter().for_each(|hold| hold.warn());
    }

    pub(crate) fn holds(&self) -> u32 {
        unpoisoned(&self.state).count.holds()
    }

    /// Whether its owner holds it, by a hold that is good by the clock, or is about to enter again: another call of the
    /// owner that did not enter too would wait for that one.
    pub(crate) fn is_enterable(&self) -> bool {
        let state = unpoisoned(&self.state);
        let now = self.core.now();
        let is_inside = |hold: &Arc<Hold>| hold.is_good(now) || hold.is_leaving(now);
        let inside = state.members.iter().any(is_inside) || state.count.is_awaited();
        state.count.phase() == Phase::Live && inside
    }

    /// Whether a guard holds it, or its release is under way or about to be sent: what a shutdown waits for.
    pub(crate) fn is_held_or_leaving(&self) -> bool {
        let (now, state) = (self.core.now(), unpoisoned(&self.state));
        let at_work = |hold: &Arc<Hold>| hold.is_good(now) || hold.is_released();
        match state.count.phase() {
            Phase::Live => state.members.iter().any(at_work) || !state.count.is_settled(),
            Phase::Closed => !state.count.is_settled(),
            Phase::Entering | Phase::Over(_) => false,
        }
    }

    /// Whether that task has a hold of it.
    pub(crate) fn is_held_in(&self, task: tokio::task::Id) -> bool {
        let state = unpoisoned(&self.state);
        state
            .members
            .iter()
            .any(|hold| hold.task.get() == Some(&task))
    }

    /// The server was, or is about to be, asked at `sent` to keep it for `lease`.
    pub(crate) fn asks_for(&self, sent: Tick, lease: Duration) {
        let until = sent.after(lease).as_nanos();
        self.server_until.fetch_max(until, Ordering::AcqRel);
    }

    /// The latest time until which the server may keep it.
    pub(super) fn server_until(&self) -> Tick {
        Tick::from_nanos(self.server_until.load(Ordering::Acquire))
    }

    /// Another attempt under its field may still run.
    pub(crate) fn was_granted_in_doubt(&self) {
        self.is_in_doubt.store(true, Ordering::Release);
    }

    /// It has ended: what an attempt that runs late takes or leaves in a queue is given back.
    pub(super) fn owe_late_attempts(self: &Arc<Self>) {
        if self.is_in_doubt.swap(false, Ordering::AcqRel) {
            let lease = self.first.lease();
            self.core.keeper().owe_place(self.clone(), lease, true);
        }
    }

    /// The error of an unlock whose release has no answer.
    pub(super) fn not_released(&self) -> Error {
        let trouble = unpoisoned(&self.state).trouble.clone();
        let core = &self.core;
        match trouble.filter(|error| error.kind() == ErrorKind::Refused) {
            Some(refused) => refused,
            None => core.no_answer(core.settings.command_limit, core.engine.trouble()),
        }
    }

    /// No command is sent for it from now on: the server ends its lease.
    pub(super) fn leave_to_lease(self: &Arc<Self>) {
        self.give_barrier_up();
        let after = unpoisoned(&self.state).count.left_to_its_lease();
        self.apply(after, None);
    }

    /// The server said that the field is not there.
    pub(crate) fn not_ours(self: &Arc<Self>, reason: LostReason) {
        let after = unpoisoned(&self.state).count.not_ours(reason);
        self.apply(after, None);
    }
}

impl Core {
    /// A tenure with a number that this client has never used.
    pub(crate) fn new_tenure(
        self: &Arc<Self>,
        scheme: Arc<dyn Scheme>,
        owner: Owner,
        who: Option<Arc<str>>,
    ) -> Arc<Tenure> {
        self.tenure_of(scheme, owner, who, self.next_number())
    }

    /// A tenure with that number.
    pub(crate) fn tenure_of(
        self: &Arc<Self>,
        scheme: Arc<dyn Scheme>,
        owner: Owner,
        who: Option<Arc<str>>,
        number: u64,
    ) -> Arc<Tenure> {
        let id = OwnerId::new(&self.id, number);
        let bearer = Bearer {
            field: scheme.field(id.as_arc()),
            who,
        };
        Arc::new(Tenure {
            core: self.clone(),
            scheme,
            bearer,
            id,
            owner,
            server_until: AtomicU64::new(0),
            first: FirstAcquire::default(),
            is_in_doubt: AtomicBool::new(false),
            fence: OnceLock::new(),
            quorum_fence: OnceLock::new(),
            state: Mutex::new(TenureState {
                count: Count::entering(),
                members: Few::new(),
                barring: Lines::NONE,
                sender: Lane::Commands,
                trouble: None,
            }),
        })
    }
}
