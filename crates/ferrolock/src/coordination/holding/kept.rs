//! Holds and tenures as the keeper sees them.

use std::sync::Arc;
use std::time::Duration;

use crate::coordination::holding::hold::{Hold, Status};
use crate::coordination::holding::release::settle;
use crate::coordination::keeper::kept::{Kept, Owes, Settled};
use crate::coordination::{Core, Tenure};
use crate::engine::{Boxed, Calling, Lane, Tick};
use crate::error::LostReason;
use crate::options::Terms;
use crate::primitives::AtomicU64;
use crate::protocol::renewal::{Row, Shape};
use crate::protocol::scheme::{NO_LONGER, Standing};

impl Kept for Hold {
    fn core(&self) -> &Arc<Core> {
        &self.tenure.core
    }

    fn name(&self) -> &Arc<str> {
        self.tenure.scheme.name()
    }

    fn terms(&self) -> Terms {
        let Some(most) = self.tenure.scheme.renewed_within() else {
            return self.terms;
        };
        let every = self.terms.renew_every.unwrap_or(most).min(most);
        Terms {
            // A renewal that fails is tried again as that of a lease with this interval is.
            lease: self.terms.lease.min(most * 3),
            renew_every: Some(every),
            ..self.terms
        }
    }

    fn since(&self) -> Tick {
        self.since
    }

    fn deadline(&self) -> Tick {
        Hold::deadline(self)
    }

    fn number(&self) -> &AtomicU64 {
        &self.kept_as
    }

    fn end_at_deadline(&self) {
        Hold::lose(self, self.reason_at_deadline());
    }

    fn lose(&self, reason: LostReason) -> bool {
        Hold::lose(self, reason)
    }

    fn doubt(&self) -> bool {
        Hold::doubt(self)
    }

    fn wait_for_connection(&self, lane: Lane) -> Option<Box<dyn Send + '_>> {
        let waits = Hold::wait_for_connection(self, lane)?;
        Some(Box::new(waits))
    }

    fn renewal_begins(&self) {
        Hold::renewal_begins(self);
    }

    fn renewal_ends(&self) {
        Hold::renewal_ends(self);
    }

    fn shape(&self) -> Shape {
        let row = self
            .tenure
            .scheme
            .renew(&self.tenure.bearer, Duration::ZERO);
        row.shape()
    }

    fn row(&self, sent: Tick) -> Option<(Row, Duration)> {
        if !matches!(self.status(), Status::Held | Status::Uncertain) {
            return None;
        }
        let lease = match self.terms.renew_every {
            Some(_) => self.wanted_lease(sent),
            None => NO_LONGER,
        };
        self.tenure.asks_for(sent, lease);
        let row = self.tenure.scheme.renew(&self.tenure.bearer, lease);
        Some((row, lease))
    }

    fn answered(&self, sent: Tick, lease: Duration, answer: Standing) -> Option<Tick> {
        match answer.lost() {
            None => Some(self.renewed(&self.terms, sent, lease)),
            Some(reason) => {
                self.tenure.not_ours(reason);
                None
            }
        }
    }
}

impl Owes for Tenure {
    fn core(&self) -> &Arc<Core> {
        &self.core
    }

    fn settle(self: Arc<Self>, lane: Lane) -> Boxed<Settled> {
        Box::pin(async move { settle(&self, lane).await })
    }

    fn release_field(&self) -> Calling {
        let call = self.scheme.abandon(&self.bearer);
        self.core.send(Lane::Keeper, call)
    }

    fn take_over(self: Arc<Self>) -> bool {
        Tenure::take_over(&self)
    }

    fn give_barrier_up(&self) {
        Tenure::give_barrier_up(self);
    }

    fn leave_to_lease(self: Arc<Self>) {
        Tenure::leave_to_lease(&self);
    }

    fn server_until(&self) -> Tick {
        Tenure::server_until(self)
    }

    fn command_number(&self) -> u64 {
        Tenure::command_number(self)
    }

    fn is_waiting_for(&self, number: u64) -> bool {
        Tenure::is_waiting_for(self, number)
    }
}
