//! The lock whose waiters need no messages.

use std::sync::Arc;

use crate::back_off::BackOff;
use crate::coordination::Alive;
use crate::kind::Spin;
use crate::protocol::spin_lock::SpinScheme;
use crate::sync::lock::Lock;

/// A lock for servers, proxies and users without pub/sub: a release sends no message, and waiters ask again and again, with
/// [pauses](BackOff) in between.
///
/// On one name use one kind of lock only: a waiter of a [plain lock](Lock) on the same name is not woken by a release here.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> ferrolock::Result<()> {
/// use std::time::Duration;
/// use ferrolock::{BackOff, Client};
///
/// let client = Client::memory();
/// let pauses = BackOff::exponential(Duration::from_millis(2), Duration::from_millis(50));
/// let guard = client.spin_lock("orders").back_off(pauses).lock().await?;
/// guard.unlock().await?;
/// # Ok(()) }
/// ```
pub type SpinLock = Lock<Spin>;

impl Lock<Spin> {
    pub(crate) fn new(alive: Arc<Alive>, name: &str) -> Self {
        let pace = BackOff::default().pace();
        Self::of_scheme(alive, name, |name| {
            pace.map(|pace| Arc::new(SpinScheme::new(name, pace)) as _)
        })
    }

    /// The pauses between two attempts of a waiter.
    pub fn back_off(self, policy: BackOff) -> Self {
        self.with_scheme(|name| {
            let pace = policy.pace()?;
            Ok(Arc::new(SpinScheme::new(name, pace)))
        })
    }
}
