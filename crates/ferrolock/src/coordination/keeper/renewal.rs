//! One renewal, from the question to what follows from the answer.

use std::sync::Arc;
use std::time::Duration;

use super::Keeper;
use crate::coordination::hold::Hold;
use crate::coordination::unpoisoned;
use crate::engine::{Failure, Lane, Tick};
use crate::protocol::scheme::{Standing, read_standing};

impl Keeper {
    /// One renewal. Its answer counts whenever it comes; when to try again is the watch's business. Without a
    /// connection, as its spare lane mostly is when it is needed, it also goes out as soon as there is one: the
    /// watch's next try may come too late.
    pub(super) async fn renew(self: Arc<Self>, id: u64, hold: Arc<Hold>, again: bool) {
        let odd = unpoisoned(&self.state).watch.troubles(id) % 2 == 1;
        let lane = if again && odd {
            Lane::KeeperSpare
        } else {
            Lane::Keeper
        };
        if again && hold.doubt() {
            tracing::warn!(lock = %hold.tenure.scheme.name(), "renewal failed or hangs; the hold is uncertain until its deadline");
        }
        let deadline = hold.deadline();
        let Err(Failure::NotSent(_)) = self.send_renewal(id, &hold, lane).await else {
            return;
        };
        let Some(waits) = hold.wait_for_connection(lane) else {
            return;
        };
        hold.tenure.core.engine.ready(lane).await;
        drop(waits);
        let confirmed_meanwhile = hold.deadline() != deadline;
        if !confirmed_meanwhile {
            let _ = self.send_renewal(id, &hold, lane).await;
        }
    }

    /// Asks the server to keep the hold, unless it is over. `Err`: there is no answer, or no good one.
    async fn send_renewal(&self, id: u64, hold: &Arc<Hold>, lane: Lane) -> Result<(), Failure> {
        let (tenure, core) = (&hold.tenure, &hold.tenure.core);
        let sent = self.clock.now();
        // Begun before the look: a release that the look does not see waits for its end.
        hold.renewal_begins();
        if !self.still_wanted(id, hold, sent) {
            hold.renewal_ends();
            return Ok(());
        }
        let lease = hold.wanted_lease(sent);
        tenure.asks_for(sent, lease);
        tracing::trace!(lock = %tenure.scheme.name(), ?lane, "renew");
        let call = tenure.scheme.renew(&tenure.bearer, lease);
        let reply = core.engine.call(lane, call).await;
        hold.renewal_ends();
        let standing = reply.and_then(|reply| read_standing(reply).map_err(Failure::from));
        match standing.map(Standing::lost) {
            Ok(None) => self.renewed(id, hold, sent, lease),
            Ok(Some(reason)) => tenure.not_ours(reason),
            Err(failure) => {
                self.renewal_failed(id, hold, &failure);
                return Err(failure);
            }
        }
        Ok(())
    }

    fn still_wanted(&self, id: u64, hold: &Hold, now: Tick) -> bool {
        let limit = hold.tenure.core.settings.command_limit;
        let watched = unpoisoned(&self.state).watch.sends(id, now, limit);
        let live = hold.is_live();
        if !live {
            // A look at the clock may have found it over while the renewal before was being confirmed.
            self.forget(hold);
        }
        watched && live
    }

    fn renewed(&self, id: u64, hold: &Hold, sent: Tick, lease: Duration) {
        let deadline = hold.renewed(&hold.terms, sent, lease);
        let mut state = unpoisoned(&self.state);
        let jitter = state.random.f64();
        state.watch.renewed(id, sent, deadline, jitter);
        self.wake_for(&state);
    }

    fn renewal_failed(&self, id: u64, hold: &Hold, failure: &Failure) {
        tracing::debug!(lock = %hold.tenure.scheme.name(), %failure, "renewal failed");
        let mut state = unpoisoned(&self.state);
        state.watch.failed(id, self.clock.now());
        self.wake_for(&state);
    }
}
