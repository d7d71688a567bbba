//! A waiter's place in a queue that the server keeps.

use std::sync::Arc;
use std::time::Duration;

use crate::coordination::Tenure;

/// The field under which a request is in the server's queue, from its first attempt to its grant.
///
/// Every attempt of the request is made under it, so an attempt without an answer needs no debt: the next attempt finds what
/// it left. If this is dropped before a grant, however the request ends, the keeper owes the release of the field.
#[derive(Debug)]
pub(super) struct ServerPlace {
    tenure: Arc<Tenure>,
    /// The lease that was asked for; zero after a grant.
    lease: Duration,
    /// An attempt may still run.
    is_doubtful: bool,
    /// Where it is in the queue, as the server said last.
    place: Option<u64>,
}

impl ServerPlace {
    pub(crate) fn new(tenure: Arc<Tenure>, lease: Duration) -> Self {
        Self {
            tenure,
            lease,
            is_doubtful: false,
            place: None,
        }
    }

    pub(crate) fn tenure(&self) -> &Arc<Tenure> {
        &self.tenure
    }

    pub(super) fn doubt(&mut self) {
        self.is_doubtful = true;
    }

    pub(crate) fn is_of(&self, tenure: &Arc<Tenure>) -> bool {
        Arc::ptr_eq(&self.tenure, tenure)
    }

    pub(super) fn place(&self) -> Option<u64> {
        self.place
    }

    /// The server said where it is.
    pub(super) fn note(&mut self, place: Option<u64>) {
        self.place = place.or(self.place);
    }

    /// Its attempt was granted: from now on the hold owns the field.
    pub(super) fn granted(mut self) {
        self.lease = Duration::ZERO;
        if self.is_doubtful {
            self.tenure.was_granted_in_doubt();
        }
    }
}

impl Drop for ServerPlace {
    fn drop(&mut self) {
        if !self.lease.is_zero() {
            let keeper = self.tenure.core.keeper();
            keeper.owe_place(self.tenure.clone(), self.lease, self.is_doubtful);
        }
    }
}
