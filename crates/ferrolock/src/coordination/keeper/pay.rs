//! Releases that nobody waits for: sent, and sent again while they are owed.

use std::sync::Arc;
use std::time::Duration;

use crate::coordination::holding::release::{Settled, settle};
use crate::coordination::keeper::debts::{Found, Owing};
use crate::coordination::keeper::pending::{Kind, PendingWork};
use crate::coordination::keeper::{Debt, Keeper, Owed};
use crate::coordination::{Core, Tenure, unpoisoned};
use crate::engine::{Failure, Lane, Tick};
use crate::figures;
use crate::protocol::scheme::{Release, read_release};

impl Keeper {
    /// The outcome of this tenure's first acquire is unknown.
    pub(crate) fn owe_field(&self, tenure: &Arc<Tenure>, lease: Duration) {
        self.owe(Owed::Field(tenure.clone()), Owing::LateAcquire { lease });
    }

    /// A waiter has gone from the server's queue without a grant; `is_doubtful`: an attempt of it may still run.
    pub(crate) fn owe_place(&self, tenure: &Arc<Tenure>, lease: Duration, is_doubtful: bool) {
        let until = self.clock.now().after(lease);
        let kind = match is_doubtful {
            true => Owing::LateAcquire { lease },
            false => Owing::Release { until },
        };
        self.owe(Owed::Field(tenure.clone()), kind);
    }

    /// The tenure's release has no answer: owed until the server has ended the last lease it was asked for. A command
    /// that is under way may have that much more time to get there.
    fn owe_release(&self, tenure: &Arc<Tenure>) {
        let until = tenure
            .server_until()
            .after(tenure.core.settings.command_limit);
        self.owe(Owed::Tenure(tenure.clone()), Owing::Release { until });
    }

    fn owe(&self, what: Owed, kind: Owing) {
        if what.tenure().core.pending.is_closed() {
            return what.leave_to_lease();
        }
        let kind_of_work = match what {
            Owed::Tenure(_) => Kind::ReleaseDebt,
            Owed::Field(_) => Kind::LateAcquire,
        };
        let pending = Arc::new(PendingWork::new(&what.tenure().core, kind_of_work));
        let mut state = unpoisoned(&self.state);
        state
            .debts
            .owe(self.clock.now(), Debt { what, pending }, kind);
        self.wake_for(&state);
        let open = state.debts.len();
        drop(state);
        figures::debts_open(open);
    }

    /// The process is about to end while this tenure's first acquire has no answer, and nobody may be left to read
    /// one: the field is released again and again until a release has found it, quickly until `brisk_until`.
    pub(crate) fn owe_field_briskly(&self, tenure: &Arc<Tenure>, brisk_until: Tick) {
        let lease = tenure.first.lease();
        let debt = Debt {
            what: Owed::Field(tenure.clone()),
            pending: Arc::new(PendingWork::new(&tenure.core, Kind::Release)),
        };
        let kind = Owing::LateAcquire { lease };
        let mut state = unpoisoned(&self.state);
        state
            .debts
            .owe_briskly(self.clock.now(), debt, kind, brisk_until);
        self.wake_for(&state);
        let open = state.debts.len();
        drop(state);
        figures::debts_open(open);
    }

    /// The process is about to end: fields that a client owes already are released quickly too until then, and its last
    /// handle waits for them.
    pub(crate) fn hurry_fields_of(&self, core: &Arc<Core>, brisk_until: Tick) {
        let is_field = |debt: &Debt| matches!(debt.what, Owed::Field(_)) && debt.is_of(core);
        let mut state = unpoisoned(&self.state);
        let now = self.clock.now();
        let hurried = state.debts.be_brisk(now, brisk_until, is_field);
        self.wake_for(&state);
        drop(state);
        for debt in hurried {
            debt.pending.becomes_release();
        }
    }

    /// The first acquire was answered after all.
    pub(crate) fn field_is_known(&self, tenure: &Arc<Tenure>) {
        let of =
            |debt: &Debt| matches!(&debt.what, Owed::Field(other) if Arc::ptr_eq(other, tenure));
        let mut state = unpoisoned(&self.state);
        let settled = state.debts.take(of);
        let open = state.debts.len();
        drop(state);
        drop(settled);
        figures::debts_open(open);
    }

    pub(super) fn try_to_pay(self: &Arc<Self>, id: u64, debt: Debt) {
        let core = &debt.what.tenure().core;
        if core.pending.start_minding_connections() {
            tokio::spawn(self.clone().mind_connections(core.clone()));
        }
        tokio::spawn(self.clone().pay(id, debt.what));
    }

    /// While a client owes something, each new connection of it brings the next tries forward.
    async fn mind_connections(self: Arc<Self>, core: Arc<Core>) {
        loop {
            tokio::select! {
                biased;
                () = core.engine.reconnected(Lane::Commands) => {}
                () = core.engine.reconnected(Lane::Keeper) => {}
                () = core.pending.paid() => return,
            }
            let mut state = unpoisoned(&self.state);
            state
                .debts
                .hurry(self.clock.now(), |debt| debt.is_of(&core));
            self.wake_for(&state);
        }
    }

    /// A client that is closed has had its time: what it still owes is left to the leases.
    pub(super) fn give_up(&self, core: &Arc<Core>) {
        core.pending.close();
        let mut state = unpoisoned(&self.state);
        let unpaid = state.debts.take(|debt| debt.is_of(core));
        let open = state.debts.len();
        drop(state);
        figures::debts_open(open);
        for debt in unpaid {
            debt.what.leave_to_lease();
        }
    }

    /// The time of a debt is over: what it was about, the server has ended.
    pub(super) fn not_owed(&self, debt: Debt) {
        match &debt.what {
            // Renewed meanwhile, for holds that go on.
            Owed::Tenure(tenure) if tenure.server_until() > self.clock.now() => {
                self.owe_release(tenure);
            }
            what => what.leave_to_lease(),
        }
    }

    /// Tries what is owed once more.
    async fn pay(self: Arc<Self>, id: u64, owed: Owed) {
        let core = owed.tenure().core.clone();
        let mut trying = Trying {
            keeper: &self,
            id,
            answer: None,
        };
        let until = unpoisoned(&self.state)
            .debts
            .until(id)
            .unwrap_or(Tick::ZERO);
        // However long the server is away: the release goes out as soon as there is a connection.
        tokio::select! {
            biased;
            () = core.engine.ready(Lane::Keeper) => {}
            () = self.clock.sleep_until(until) => {}
        }
        let work = async {
            match &owed {
                Owed::Tenure(tenure) => match settle(tenure, Lane::Keeper).await {
                    Settled::Quiet => Some(Found::Field),
                    Settled::Again => None,
                },
                Owed::Field(tenure) => release_field(tenure).await.ok(),
            }
        };
        let Ok(_turn) = core.pending.sends.acquire().await else {
            return;
        };
        let limit = self.clock.now().after(core.settings.command_limit);
        trying.answer = tokio::select! {
            biased;
            answer = work => answer,
            () = self.clock.sleep_until(limit) => None,
        };
    }

    /// Finishes a tenure that nobody waits for; what is not answered in time becomes a debt.
    pub(super) async fn finish(self: Arc<Self>, tenure: Arc<Tenure>, pending: PendingWork) {
        let mut driven = self.settle_in_time(&tenure).await;
        if driven == Settled::Quiet && !self.others_finish(&tenure).await {
            tenure.take_over();
            driven = self.settle_in_time(&tenure).await;
        }
        if driven == Settled::Again {
            tenure.give_barrier_up();
            self.owe_release(&tenure);
        }
        drop(pending);
    }
}

impl Keeper {
    async fn settle_in_time(&self, tenure: &Arc<Tenure>) -> Settled {
        let core = &tenure.core;
        // A turn is for what is being sent: what waits for something else takes none from the others.
        let Ok(_turn) = core.pending.sends.acquire().await else {
            // Never closed.
            return Settled::Again;
        };
        let limit = self.clock.now().after(core.settings.command_limit);
        let work = async {
            core.engine.ready(Lane::Keeper).await;
            settle(tenure, Lane::Keeper).await
        };
        tokio::select! {
            biased;
            driven = work => driven,
            () = self.clock.sleep_until(limit) => Settled::Again,
        }
    }

    /// Whoever else is sending for the tenure sends this too. False: their command did not end in time, for one
    /// because the runtime that it is in stands still.
    async fn others_finish(&self, tenure: &Tenure) -> bool {
        const LOOK_EVERY: Duration = Duration::from_millis(20);
        let limit = self.clock.now().after(tenure.core.settings.command_limit);
        let number = tenure.command_number();
        while tenure.is_waiting_for(number) {
            let now = self.clock.now();
            if now >= limit {
                return false;
            }
            self.clock.sleep_until(now.after(LOOK_EVERY)).await;
        }
        true
    }
}

/// Releases whatever the first acquire of that tenure has taken.
async fn release_field(tenure: &Tenure) -> Result<Found, Failure> {
    let call = tenure.scheme.abandon(&tenure.bearer);
    let reply = tenure.core.engine.call(Lane::Keeper, call).await?;
    match read_release(reply, 0)? {
        Release::Free { .. } => Ok(Found::Field),
        Release::Left | Release::Not(_) => Ok(Found::Nothing),
    }
}

impl Owed {
    pub(super) fn tenure(&self) -> &Arc<Tenure> {
        let (Owed::Tenure(tenure) | Owed::Field(tenure)) = self;
        tenure
    }

    /// Nobody tries any more.
    fn leave_to_lease(&self) {
        if let Owed::Tenure(tenure) = self {
            tenure.leave_to_lease();
        }
    }
}

impl Debt {
    fn is_of(&self, core: &Arc<Core>) -> bool {
        Arc::ptr_eq(&self.what.tenure().core, core)
    }
}

/// A try that is under way until this is dropped, also by a panic.
struct Trying<'a> {
    keeper: &'a Keeper,
    id: u64,
    answer: Option<Found>,
}

impl Drop for Trying<'_> {
    fn drop(&mut self) {
        let mut state = unpoisoned(&self.keeper.state);
        let paid = match self.answer {
            Some(found) => state.debts.answered(self.id, found),
            None => {
                state.debts.unanswered(self.id);
                None
            }
        };
        let open = state.debts.len();
        drop(state);
        // With the last debt of a client that is gone its connections end here, which takes its time.
        drop(paid);
        figures::debts_open(open);
    }
}
