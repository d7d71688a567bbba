//! A lock whose kind is forgotten.

use crate::fence::Fence;
use crate::guard::{AnyGuard, Guard};
use crate::kind::{Any, Fair, Fenced, Multi, Plain, Quorum, Read, Spin, Write};
use crate::sync::lock::Lock;

/// A lock of any kind, by [`erase`](Lock::erase) or `into()`: for locks of several kinds in one list or field.
///
/// It locks as its kind does. What only one kind can do, and what needs one name, is gone.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> ferrolock::Result<()> {
/// use ferrolock::{AnyLock, Client};
///
/// let client = Client::memory();
/// let steps: Vec<AnyLock> = vec![client.lock("import").into(), client.fenced_lock("ledger").into()];
///
/// for step in &steps {
///     let guard = step.lock().await?;
///     println!("{}: {:?}", guard.name(), guard.fence());
///     guard.unlock().await?;
/// }
/// # Ok(()) }
/// ```
pub type AnyLock = Lock<Any>;

impl Guard<Any> {
    /// The number of its grant, if its kind has one.
    pub fn fence(&self) -> Option<Fence> {
        self.granted_fence()
    }
}

macro_rules! erased {
    ($($kind:ident),+) => {
        $(
            impl From<Lock<$kind>> for AnyLock {
                fn from(lock: Lock<$kind>) -> AnyLock {
                    lock.erase()
                }
            }

            impl From<Guard<$kind>> for AnyGuard {
                fn from(guard: Guard<$kind>) -> AnyGuard {
                    guard.erase()
                }
            }
        )+
    };
}
erased!(Plain, Fair, Fenced, Spin, Read, Write, Multi, Quorum);
