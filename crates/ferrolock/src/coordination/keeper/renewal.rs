//! One renewal, from the question to what follows from the answer.

use std::sync::Arc;
use std::time::Duration;

use super::Keeper;
use crate::coordination::hold::Hold;
use crate::coordination::unpoisoned;
use crate::engine::{Engine, Failure, Lane, Tick};
use crate::protocol::lock;
use crate::protocol::script::{Call, Value};

impl Keeper {
    /// One renewal. Its answer counts whenever it comes; when to try again is the watch's business.
    pub(super) async fn renew(self: Arc<Self>, id: u64, hold: Arc<Hold>, again: bool) {
        let tenure = &hold.tenure;
        let sent = self.clock.now();
        let lease = hold.wanted_lease(sent);
        let odd = unpoisoned(&self.state).watch.troubles(id) % 2 == 1;
        let lane = if again && odd {
            Lane::KeeperSpare
        } else {
            Lane::Keeper
        };
        if again && hold.doubt() {
            tracing::warn!(lock = %tenure.keys.lock, "renewal failed or hangs; the hold is uncertain until its deadline");
        }
        tracing::trace!(lock = %tenure.keys.lock, ?lane, "renew");
        let call = lock::renew(&tenure.keys, &tenure.bearer, lease);
        let limit = sent.after(tenure.core.settings.command_limit.min(hold.terms.lease / 6));
        hold.renewal_begins();
        let reply = self
            .call_when_connected(&tenure.core.engine, lane, call, limit)
            .await;
        hold.renewal_ends();
        match reply.map(lock::read_standing) {
            Ok(Ok(standing)) => match standing.lost() {
                None => self.renewed(id, &hold, sent, lease),
                Some(reason) => tenure.not_ours(reason),
            },
            Ok(Err(bad)) => self.renewal_failed(id, &hold, &Failure::from(bad)),
            Err(failure) => self.renewal_failed(id, &hold, &failure),
        }
    }

    fn renewed(&self, id: u64, hold: &Hold, sent: Tick, lease: Duration) {
        let deadline = hold.renewed(sent, lease);
        let mut state = unpoisoned(&self.state);
        state.watch.renewed(id, sent, deadline, fastrand::f64());
        self.wake_for(&state);
    }

    /// A call over a lane that may still have to connect, as its spare mostly has when it is needed.
    async fn call_when_connected(
        &self,
        engine: &Arc<dyn Engine>,
        lane: Lane,
        call: Call,
        limit: Tick,
    ) -> Result<Value, Failure> {
        match engine.call(lane, call.clone()).await {
            Err(Failure::NotSent(why)) => tokio::select! {
                () = engine.ready(lane) => engine.call(lane, call).await,
                () = self.clock.sleep_until(limit) => Err(Failure::NotSent(why)),
            },
            reply => reply,
        }
    }

    fn renewal_failed(&self, id: u64, hold: &Hold, failure: &Failure) {
        tracing::debug!(lock = %hold.tenure.keys.lock, %failure, "renewal failed");
        let mut state = unpoisoned(&self.state);
        state.watch.failed(id, self.clock.now());
        self.wake_for(&state);
    }
}
