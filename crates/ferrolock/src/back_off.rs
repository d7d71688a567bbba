//! The pauses of a spin lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::options::check_time;
use crate::protocol::pace::{PAUSE_MIN, Pace};
use crate::protocol::spin_lock::SpinScheme;

/// How long the waiters of a [`SpinLock`](crate::SpinLock) pause between two attempts.
///
/// The default begins with 1 ms and doubles up to 128 ms.
#[derive(Clone)]
pub struct BackOff(Pace);

impl BackOff {
    /// The first pause, doubled from one to the next up to the longest; each up to a quarter shorter by chance, so that
    /// processes do not ask in step.
    pub fn exponential(first: Duration, max: Duration) -> BackOff {
        let most = max;
        BackOff(Pace::Doubled { first, most })
    }

    /// The same pause each time, without chance.
    pub fn constant(pause: Duration) -> BackOff {
        BackOff(Pace::Constant(pause))
    }

    /// A pause by the number of pauses before it. Less than 1 ms counts as 1 ms.
    ///
    /// One waiter of a client asks for all of them. The function is called in the client's runtime: it must not block.
    pub fn custom(pause: impl Fn(u32) -> Duration + Send + Sync + 'static) -> BackOff {
        BackOff(Pace::Own(Arc::new(pause)))
    }

    /// Checked when the lock is first used.
    pub(crate) fn pace(&self) -> Result<Pace> {
        let check = |pause: Duration| {
            let instead = || format!("the least is {PAUSE_MIN:?}");
            check_time("a pause", pause.max(Duration::from_nanos(1)), instead)
        };
        match &self.0 {
            Pace::Doubled { first, most } => {
                check(*first)?;
                check(*most)?;
                Ok(Pace::Doubled {
                    first: (*first).max(PAUSE_MIN),
                    most: (*most).max(PAUSE_MIN),
                })
            }
            Pace::Constant(pause) => {
                check(*pause)?;
                Ok(Pace::Constant((*pause).max(PAUSE_MIN)))
            }
            Pace::Own(_) => Ok(self.0.clone()),
        }
    }
}

impl Default for BackOff {
    fn default() -> Self {
        BackOff(SpinScheme::PACE)
    }
}

impl fmt::Debug for BackOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BackOff({:?})", self.0)
    }
}
