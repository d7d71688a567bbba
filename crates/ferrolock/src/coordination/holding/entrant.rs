//! What a tenure asks of a caller that enters.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::coordination::Core;
use crate::coordination::holding::hold::Hold;
use crate::coordination::keeper::kept::Offered;
use crate::engine::{Failure, Tick};
use crate::error::Error;
use crate::options::Terms;

/// A caller that is to get a hold.
pub(crate) trait Entrant: Offered {
    fn terms(&self) -> Terms;
    /// The latest end of a re-entry that begins now.
    fn reentry_limit(&self, core: &Core, now: Tick) -> Tick;
    fn is_waiting(&self) -> bool;
    /// Ready when, after this call, the caller was offered a hold, was answered, has to begin anew, or has gone.
    fn served(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
    /// Offers a hold. `Err`: the caller has gone, or has another answer.
    fn offer(&self, hold: Arc<Hold>) -> Result<(), Arc<Hold>>;
    fn fail(&self, error: Error);
    /// Its owner no longer holds the lock: it waits like every other caller, or fails if it wants a re-entry only.
    fn come_anew(&self);
    /// Its grant came too late, and was given back: it goes on waiting, if it has time.
    fn too_late(&self, core: &Core, sent: Tick, failure: Failure);
}

impl Hold {
    /// Offers it to a caller: the hold goes back if the caller does not come for it.
    pub(crate) fn offer_to(self: Arc<Self>, entrant: &Arc<dyn Entrant>) {
        let core = self.tenure.core.clone();
        let number = core.keeper().offer(self.clone(), entrant.clone());
        if let Err(hold) = entrant.offer(self) {
            return hold.release_in_background();
        }
        // If this thread was stopped in between, the keeper may have ended the offer before the caller had it.
        if !core.keeper().is_kept(number) {
            entrant.withdraw_offer();
        }
    }
}

/// The error of a grant whose reply took longer than its lease allows.
pub(crate) fn too_late(took: Duration, lease: Duration) -> Failure {
    Failure::Unknown(format!(
        "the grant came after {took:.1?}, too late for a lease of {lease:?}, and was given back"
    ))
}
