//! A guard of one name: one hold.

use std::sync::Arc;
use std::time::Duration;

use crate::coordination::holding::bundle::Part;
use crate::coordination::holding::hold::{Hold, Status};
use crate::coordination::holding::joint::Seat;
use crate::coordination::holding::release::unlock;
use crate::coordination::waiting::{Request, acquire};
use crate::coordination::{Alive, Tenure};
use crate::engine::{Boxed, Lane};
use crate::error::{Error, LostReason, Result};
use crate::guard::{Holding, Unlocked};
use crate::protocol::renewal;

/// One hold, given back when it is dropped.
pub(crate) struct SingleHold {
    /// Taken out by `unlock`, which then owns it.
    hold: Option<Arc<Hold>>,
    pub(super) tenure: Arc<Tenure>,
    alive: Arc<Alive>,
}

impl SingleHold {
    pub(super) fn new(hold: Arc<Hold>, alive: Arc<Alive>) -> Self {
        Self {
            tenure: hold.tenure.clone(),
            hold: Some(hold),
            alive,
        }
    }

    pub(super) fn hold(&self) -> Option<&Arc<Hold>> {
        self.hold.as_ref()
    }

    pub(super) fn give_up_hold(mut self) -> Option<(Arc<Hold>, Arc<Alive>)> {
        Some((self.hold.take()?, self.alive.clone()))
    }

    pub(super) fn part(&self) -> Option<Part> {
        self.hold.clone().map(Part::Hold)
    }

    pub(super) fn status(&self) -> Status {
        let status = self.hold.as_ref().map(|hold| hold.status());
        status.unwrap_or(Status::Released)
    }

    /// With `seat`, in one call with others.
    pub(super) async fn unlock(mut self, seat: Option<Seat>) -> Result<Unlocked> {
        let Some(hold) = self.hold.take() else {
            return Ok(Unlocked::Released);
        };
        match unlock(hold, seat).await? {
            0 => Ok(Unlocked::Released),
            left => Ok(Unlocked::StillHeld(left)),
        }
    }

    pub(super) async fn unlock_after(mut self, delay: Duration) -> Result<()> {
        let is_delayed = match &self.hold {
            Some(hold) => self.tenure.begin_delay(hold).await?,
            None => false,
        };
        match self.hold.take() {
            Some(hold) if is_delayed => self.tenure.delay_release(&hold, delay).await,
            Some(hold) => unlock(hold, None).await.map(drop),
            None => Ok(()),
        }
    }

    /// One more hold of the same owner.
    pub(super) fn relock(&self) -> Boxed<Result<Holding>> {
        let (alive, tenure) = (self.alive.clone(), self.tenure.clone());
        let terms = self.hold.as_ref().map(|hold| hold.terms);
        Box::pin(async move {
            let core = alive.core.clone();
            let lost = || Error::lost(LostReason::Removed).of(tenure.scheme.name());
            let request = Request::again(&tenure, terms.ok_or_else(lost)?);
            let hold = acquire(&core, request, None).await?.ok_or_else(lost)?;
            Ok(Holding::One(SingleHold::new(hold, alive)))
        })
    }

    /// Asks the server about it, and for a lease if one is given.
    pub(super) fn ask(&self, lease: Option<Duration>) -> Boxed<Result<()>> {
        Box::pin(ask(self.hold.clone(), lease))
    }
}

impl Drop for SingleHold {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take() {
            hold.release_in_background();
        }
    }
}

/// Asks about a hold, and for a lease if one is given.
async fn ask(hold: Option<Arc<Hold>>, lease: Option<Duration>) -> Result<()> {
    let Some(hold) = hold else {
        return Err(Error::lost(LostReason::Removed));
    };
    let (tenure, core) = (&hold.tenure, &hold.tenure.core);
    let name = tenure.scheme.name();
    let terms = match lease {
        Some(lease) => {
            let margin = core.settings.margin_of(lease);
            let margin = margin.map_err(|error| error.of(name))?;
            Some(hold.terms.by_hand(lease, margin))
        }
        None => None,
    };
    if let Status::Lost(reason) = hold.status() {
        return Err(Error::lost(reason).of(name));
    }
    let sent = core.now();
    let lease = terms.map_or(Duration::ZERO, |terms| terms.lease_at(sent, hold.cap));
    tenure.asks_for(sent, lease);
    let call = tenure.scheme.renew(&tenure.bearer, lease).call();
    let reply = core.ask(Lane::Commands, Some(&tenure.scheme), call).await;
    let standing = renewal::read_one(reply.map_err(|error| error.of(name))?)
        .map_err(|bad| Error::from(crate::engine::Failure::from(bad)).of(name))?;
    if let Some(reason) = standing.lost() {
        tenure.not_ours(reason);
        return Err(Error::lost(reason).of(name));
    }
    if let Some(terms) = terms {
        hold.renewed(&terms, sent, lease);
        core.keeper().extended(&*hold);
    }
    match hold.status() {
        Status::Lost(reason) => Err(Error::lost(reason).of(name)),
        _ => Ok(()),
    }
}
