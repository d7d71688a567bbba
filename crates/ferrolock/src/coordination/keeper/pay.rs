//! Releases that nobody waits for: sent, and sent again while they are owed.

use std::sync::Arc;
use std::time::Duration;

use super::debts::Owing;
use super::{Debt, Keeper, Owed};
use crate::coordination::errands::{Errand, Length};
use crate::coordination::release::{Driven, settle};
use crate::coordination::{Tenure, unpoisoned};
use crate::engine::{Lane, Tick};
use crate::figures;
use crate::protocol::lock;

impl Keeper {
    /// The outcome of this tenure's first acquire is unknown.
    pub(crate) fn owe_field(&self, tenure: &Arc<Tenure>, lease: Duration) {
        self.owe(Owed::Field(tenure.clone()), Owing::LateAcquire { lease });
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
        let _errand = Arc::new(Errand::new(&what.tenure().core, Length::Long));
        let mut state = unpoisoned(&self.state);
        state
            .debts
            .owe(self.clock.now(), Debt { what, _errand }, kind);
        figures::debts_open(state.debts.len());
        self.wake_for(&state);
    }

    pub(super) fn try_to_pay(self: &Arc<Self>, id: u64, debt: Debt) {
        tokio::spawn(self.clone().pay(id, debt.what));
    }

    /// The time of a debt is over: what it was about, the server has ended.
    pub(super) fn not_owed(&self, debt: Debt) {
        let Owed::Tenure(tenure) = &debt.what else {
            return;
        };
        // Renewed meanwhile, for holds that go on.
        if tenure.server_until() > self.clock.now() {
            self.owe_release(tenure);
        } else {
            tenure.is_left_to_its_lease();
        }
    }

    /// Tries what is owed once more.
    async fn pay(self: Arc<Self>, id: u64, owed: Owed) {
        let core = owed.tenure().core.clone();
        let until = unpoisoned(&self.state)
            .debts
            .until(id)
            .unwrap_or(Tick::ZERO);
        // However long the server is away: the release goes out as soon as there is a connection.
        tokio::select! {
            () = core.engine.ready(Lane::Keeper) => {}
            () = self.clock.sleep_until(until) => {}
        }
        let work = async {
            match &owed {
                Owed::Tenure(tenure) => settle(tenure, Lane::Keeper).await == Driven::Quiet,
                Owed::Field(tenure) => {
                    let call = lock::release(&tenure.keys, &tenure.bearer, 0, Duration::ZERO);
                    core.engine.call(Lane::Keeper, call).await.is_ok()
                }
            }
        };
        let limit = self.clock.now().after(core.settings.command_limit);
        let answered = tokio::select! {
            answered = work => answered,
            () = self.clock.sleep_until(limit) => false,
        };
        let mut state = unpoisoned(&self.state);
        if answered {
            state.debts.answered(id);
        } else {
            state.debts.unanswered(id);
        }
        figures::debts_open(state.debts.len());
    }

    /// Finishes a tenure that nobody waits for; what is not answered in time becomes a debt.
    pub(super) async fn finish(self: Arc<Self>, tenure: Arc<Tenure>, errand: Errand) {
        let limit = self.clock.now().after(tenure.core.settings.command_limit);
        let work = async {
            tenure.core.engine.ready(Lane::Keeper).await;
            settle(&tenure, Lane::Keeper).await
        };
        let driven = tokio::select! {
            driven = work => driven,
            () = self.clock.sleep_until(limit) => Driven::Again,
        };
        // Quiet it is also when somebody else is sending for the tenure, and sends this too.
        if driven == Driven::Again {
            tenure.open_gate();
            self.owe_release(&tenure);
        }
        drop(errand);
    }
}

impl Owed {
    pub(super) fn tenure(&self) -> &Arc<Tenure> {
        let (Owed::Tenure(tenure) | Owed::Field(tenure)) = self;
        tenure
    }
}
