//! Code of others that runs inside ours: a caller's waker, a sink of logs or figures.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs such code. A panic in it ends neither a task of ours nor what is left to do for other callers.
pub(crate) fn safely(work: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        let told = || {
            tracing::error!("code that a program gave to the library panicked: the library goes on")
        };
        let _ = catch_unwind(told);
    }
}
