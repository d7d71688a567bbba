//! The lock whose grants have fences.

#[cfg(all(test, feature = "embedded"))]
mod tests;

use std::sync::Arc;

use crate::coordination::Alive;
use crate::fence::Fence;
use crate::guard::Guard;
use crate::kind::Fenced;
use crate::protocol::fenced_lock::FencedScheme;
use crate::sync::lock::Lock;

/// A lock whose guards have a [`fence`](Guard::fence): a number that grows from grant to grant, with which the resource
/// itself refuses the late write of an earlier holder.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use ferrolock::{Client, FenceGate};
///
/// let client = Client::memory();
/// let gate = FenceGate::new(); // of the resource, where all its writers come by
///
/// let first = client.fenced_lock("ledger").lock().await?;
/// let late = first.fence();
/// first.unlock().await?;
///
/// let second = client.fenced_lock("ledger").lock().await?;
/// gate.admit(second.fence())?;
/// assert!(gate.admit(late).is_err()); // the first holder comes too late
/// # Ok(()) }
/// ```
pub type FencedLock = Lock<Fenced>;

/// A hold of a [`FencedLock`].
pub type FencedGuard = Guard<Fenced>;

impl Lock<Fenced> {
    pub(crate) fn new(alive: Arc<Alive>, name: &str) -> Self {
        Self::of_scheme(alive, name, |name| Ok(Arc::new(FencedScheme::new(name))))
    }
}

impl Guard<Fenced> {
    /// The number of this grant: larger than that of every grant before it. A re-entry has that of the first entry.
    ///
    /// It grows also when the server has lost its data, as long as its clock goes on; see `docs/guarantees.md` for the one
    /// case in which it does not.
    pub fn fence(&self) -> Fence {
        self.granted_fence().unwrap_or(Fence::NONE)
    }
}
