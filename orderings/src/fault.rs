//! Faults that can be planted, to show that a model notices them.

use std::sync::OnceLock;

/// One kind of mistake, everywhere at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Every atomic access is `Relaxed`, and there is no fence.
    Relaxed,
    /// There is no fence.
    NoFence,
    /// There is no fence, and a mutex orders nothing.
    Unordered,
    /// A value is compared, and exchanged a moment later.
    Torn,
    /// What was set once is not found by a later look.
    Forgotten,
    /// A waker does nothing.
    LostWake,
    /// A wait for a notification begins when it is first polled, not when it is made.
    LateEar,
}

static PLANTED: OnceLock<Fault> = OnceLock::new();

/// Plants the fault for the rest of this process.
pub(crate) fn plant(fault: Fault) {
    let _ = PLANTED.set(fault);
}

pub(crate) fn is_planted(fault: Fault) -> bool {
    PLANTED.get() == Some(&fault)
}
