//! A caller whose task may be dropped with its runtime.

use std::sync::Arc;

use crate::coordination::holding::entrant::Entrant;
use crate::engine::RUNTIME_ENDED;
use crate::error::Error;

/// Fails a caller whose task is dropped with its runtime. Made before the task, which may never be polled.
pub(super) struct Stranded {
    pub(super) entrant: Arc<dyn Entrant>,
    told: bool,
}

impl Stranded {
    pub(super) fn new(entrant: Arc<dyn Entrant>) -> Self {
        let told = false;
        Self { entrant, told }
    }

    /// The caller has its answer, or begins anew and may wait again by now: a drop no longer fails it.
    pub(crate) fn told(mut self) {
        self.told = true;
    }
}

impl Drop for Stranded {
    fn drop(&mut self) {
        if !self.told {
            self.entrant.fail(Error::closed(RUNTIME_ENDED));
        }
    }
}
