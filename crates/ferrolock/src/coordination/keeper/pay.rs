//! Releases that nobody waits for: sent, and sent again while they are owed.

use std::sync::Arc;
use std::time::Duration;

use super::debts::Owing;
use super::{Keeper, Owed};
use crate::coordination::errands::Errand;
use crate::coordination::release::{Driven, settle};
use crate::coordination::{Tenure, unpoisoned};
use crate::engine::{Lane, Tick};
use crate::figures;
use crate::protocol::lock;

impl Keeper {
    /// Tries what is owed once more.
    pub(super) async fn pay(self: Arc<Self>, id: u64, owed: Owed) {
        let (Owed::Tenure(tenure) | Owed::Field(tenure)) = &owed;
        let core = tenure.core.clone();
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
            self.owe(
                Owed::Tenure(tenure.clone()),
                Owing::Release,
                tenure.longest_lease(),
            );
        }
        drop(errand);
    }
}
