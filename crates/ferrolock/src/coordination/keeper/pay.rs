//! Releases that no caller waits for: sent, and sent again while they are owed.

use std::sync::Arc;
use std::time::Duration;

use crate::coordination::keeper::debts::{Debts, Owing, ReleaseFound};
use crate::coordination::keeper::kept::{Owes, Settled};
use crate::coordination::keeper::pending::{PendingWork, WorkKind};
use crate::coordination::keeper::{Keeper, Owed, OwedRelease};
use crate::coordination::{Core, unpoisoned};
use crate::engine::{Failure, Lane, Tick};
use crate::figures;
use crate::protocol::scheme::{Release, read_release};

impl Keeper {
    /// The outcome of this tenure's first acquire is unknown.
    pub(crate) fn owe_field(&self, tenure: Arc<dyn Owes>, lease: Duration) {
        self.owe(Owed::Field(tenure), Owing::LateAcquire { lease });
    }

    /// A waiter has gone from the server's queue without a grant; `is_doubtful`: an attempt of it may still run.
    pub(crate) fn owe_place(&self, tenure: Arc<dyn Owes>, lease: Duration, is_doubtful: bool) {
        let until = self.clock.now().after(lease);
        let kind = match is_doubtful {
            true => Owing::LateAttempts { lease },
            false => Owing::Release { until },
        };
        self.owe(Owed::Field(tenure), kind);
    }

    /// The tenure's release has no answer: it is owed until the server has ended the last lease that it was asked for. A
    /// command that is under way may reach the server one command limit later.
    fn owe_release(&self, tenure: Arc<dyn Owes>) {
        let limit = tenure.core().settings.command_limit;
        let until = tenure.server_until().after(limit);
        self.owe(Owed::Tenure(tenure), Owing::Release { until });
    }

    fn owe(&self, what: Owed, kind: Owing) {
        if what.tenure().core().pending.is_closed() {
            return what.leave_to_lease();
        }
        let work = match what {
            Owed::Tenure(_) => WorkKind::ReleaseDebt,
            Owed::Field(_) => WorkKind::LateAcquire,
        };
        self.owe_as(work, what, kind, Tick::ZERO);
    }

    /// The process is about to end while this tenure's first acquire has no answer, and perhaps no thread is left that could
    /// read one: the field is released again and again until a release has found it, quickly until `brisk_until`.
    pub(crate) fn owe_field_briskly(
        &self,
        tenure: Arc<dyn Owes>,
        lease: Duration,
        brisk_until: Tick,
    ) {
        let kind = Owing::LateAcquire { lease };
        self.owe_as(WorkKind::Release, Owed::Field(tenure), kind, brisk_until);
    }

    fn owe_as(&self, work: WorkKind, what: Owed, kind: Owing, brisk_until: Tick) {
        let pending = Arc::new(PendingWork::new(what.tenure().core(), work));
        let debt = OwedRelease { what, pending };
        let now = self.clock.now();
        self.with_debts(|debts| debts.owe(now, debt, kind, brisk_until));
    }

    /// Changes the debts, and shows how many there are when the lock is free again: a metrics sink is foreign code, and with
    /// the last debt of a client, which is in what this returns, its connections may end.
    fn with_debts<T>(&self, change: impl FnOnce(&mut Debts<OwedRelease>) -> T) -> T {
        let mut state = unpoisoned(&self.state);
        let changed = change(&mut state.debts);
        self.wake_for(&state);
        let open = state.debts.len();
        drop(state);
        figures::debts_open(open);
        changed
    }

    /// The process is about to end: fields that a client owes already are released quickly too until then, and its last
    /// handle waits for them.
    pub(crate) fn hurry_fields_of(&self, core: &Arc<Core>, brisk_until: Tick) {
        let is_field = |debt: &OwedRelease| matches!(debt.what, Owed::Field(_)) && debt.is_of(core);
        let now = self.clock.now();
        for debt in self.with_debts(|debts| debts.be_brisk(now, brisk_until, is_field)) {
            debt.pending.becomes_release();
        }
    }

    /// The first acquire was answered after all.
    pub(crate) fn field_is_known(&self, tenure: &dyn Owes) {
        let of = |debt: &OwedRelease| matches!(&debt.what, Owed::Field(other) if std::ptr::addr_eq(&**other, tenure));
        drop(self.with_debts(|debts| debts.take(of)));
    }

    pub(super) fn try_to_pay(self: &Arc<Self>, id: u64, debt: OwedRelease) {
        let core = debt.what.tenure().core();
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
            let now = self.clock.now();
            self.with_debts(|debts| debts.hurry(now, |debt| debt.is_of(&core)));
        }
    }

    /// The client is closed, and its time for debts is over: the leases end what it still owes.
    pub(crate) fn give_up(&self, core: &Arc<Core>) {
        core.pending.close();
        for debt in self.with_debts(|debts| debts.take(|debt| debt.is_of(core))) {
            debt.what.leave_to_lease();
        }
    }

    /// The time of a debt is over: the server has ended the lease.
    pub(super) fn not_owed(&self, debt: OwedRelease) {
        match &debt.what {
            // Renewed meanwhile, for holds that go on.
            Owed::Tenure(tenure) if tenure.server_until() > self.clock.now() => {
                self.owe_release(tenure.clone());
            }
            what => what.leave_to_lease(),
        }
    }

    /// Tries what is owed once more.
    async fn pay(self: Arc<Self>, id: u64, owed: Owed) {
        let core = owed.tenure().core().clone();
        let mut trying = Trying {
            keeper: &self,
            id,
            answer: None,
        };
        let until = unpoisoned(&self.state)
            .debts
            .until(id)
            .unwrap_or(Tick::ZERO);
        // However long the server is away, the release goes out as soon as there is a connection.
        core.until(until, core.engine.ready(Lane::Keeper)).await;
        let work = async {
            match &owed {
                Owed::Tenure(tenure) => match tenure.clone().settle(Lane::Keeper).await {
                    Settled::Quiet => Some(ReleaseFound::Field),
                    Settled::Again => None,
                },
                Owed::Field(tenure) => release_field(&**tenure).await.ok(),
            }
        };
        let Ok(_turn) = core.pending.sends.acquire().await else {
            return;
        };
        let limit = self.clock.now().after(core.settings.command_limit);
        trying.answer = core.until(limit, work).await.flatten();
    }

    /// Finishes a tenure that no caller waits for; a release that is not answered in time becomes a debt.
    pub(crate) async fn finish(self: Arc<Self>, tenure: Arc<dyn Owes>, pending: PendingWork) {
        let mut driven = self.settle_in_time(&tenure).await;
        if driven == Settled::Quiet && !self.others_finish(&*tenure).await {
            tenure.clone().take_over();
            driven = self.settle_in_time(&tenure).await;
        }
        if driven == Settled::Again {
            tenure.give_barrier_up();
            self.owe_release(tenure);
        }
        drop(pending);
    }
}

impl Keeper {
    async fn settle_in_time(&self, tenure: &Arc<dyn Owes>) -> Settled {
        let core = tenure.core();
        // Held only while commands are sent: a release that waits for another task keeps no turn from the others.
        let Ok(_turn) = core.pending.sends.acquire().await else {
            // Never closed.
            return Settled::Again;
        };
        let limit = self.clock.now().after(core.settings.command_limit);
        let work = async {
            core.engine.ready(Lane::Keeper).await;
            tenure.clone().settle(Lane::Keeper).await
        };
        core.until(limit, work).await.unwrap_or(Settled::Again)
    }

    /// Waits for another task that is sending for the tenure, and sends this too. False: its command did not end in time,
    /// for example because its runtime is stopped.
    async fn others_finish(&self, tenure: &dyn Owes) -> bool {
        const LOOK_EVERY: Duration = Duration::from_millis(20);
        let limit = self.clock.now().after(tenure.core().settings.command_limit);
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
async fn release_field(tenure: &dyn Owes) -> Result<ReleaseFound, Failure> {
    match read_release(tenure.release_field().await?, 0)? {
        Release::Free { .. } | Release::Shared => Ok(ReleaseFound::Field),
        Release::Left | Release::Not(_) => Ok(ReleaseFound::Nothing),
    }
}

impl Owed {
    pub(crate) fn tenure(&self) -> &Arc<dyn Owes> {
        let (Owed::Tenure(tenure) | Owed::Field(tenure)) = self;
        tenure
    }

    /// It is not tried again.
    fn leave_to_lease(&self) {
        if let Owed::Tenure(tenure) = self {
            tenure.clone().leave_to_lease();
        }
    }
}

impl OwedRelease {
    fn is_of(&self, core: &Arc<Core>) -> bool {
        Arc::ptr_eq(self.what.tenure().core(), core)
    }
}

/// A try that is under way until this is dropped, also by a panic.
struct Trying<'a> {
    keeper: &'a Keeper,
    id: u64,
    answer: Option<ReleaseFound>,
}

impl Drop for Trying<'_> {
    fn drop(&mut self) {
        drop(self.keeper.with_debts(|debts| match self.answer {
            Some(found) => debts.answered(self.id, found),
            None => {
                debts.unanswered(self.id);
                None
            }
        }));
    }
}
