//! A caller whose task may be dropped with its runtime.

use std::sync::Arc;

use crate::coordination::waiting::Request;
use crate::engine::RUNTIME_ENDED;
use crate::error::Error;

/// Tells a caller whose task is dropped with its runtime; made before the task, which may never be polled.
pub(super) struct Stranded {
    pub(super) request: Arc<Request>,
    told: bool,
}

impl Stranded {
    pub(super) fn new(request: Arc<Request>) -> Self {
        let told = false;
        Self { request, told }
    }

    /// The caller has its answer, or takes another way, on which it may wait again by now.
    pub(super) fn told(mut self) {
        self.told = true;
    }
}

impl Drop for Stranded {
    fn drop(&mut self) {
        if !self.told {
            self.request.fail(Error::closed(RUNTIME_ENDED));
        }
    }
}
