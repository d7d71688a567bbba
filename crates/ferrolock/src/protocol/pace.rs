//! The pauses between attempts that no event asks for.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// How long to wait after each such attempt, counted from the last event.
#[derive(Clone)]
pub(crate) enum Pace {
    /// The first pause, doubled from one to the next up to the longest. Each is up to a quarter shorter by chance, so that
    /// processes do not ask in step.
    Doubled {
        first: Duration,
        most: Duration,
    },
    Constant(Duration),
    /// By the number of pauses before it: code of the user's, which is called while no lock of ours is held.
    Own(Arc<dyn Fn(u32) -> Duration + Send + Sync>),
}

/// The shortest pause: no waiter asks a server without one.
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(1);
/// Where the user's code does not say.
const PAUSE_UNKNOWN: Duration = Duration::from_secs(1);

impl Pace {
    /// The pause after `polls` others in a row; `chance` is a random number from 0 to 1. Without a call of the user's code.
    pub(crate) fn pause(&self, polls: u32, chance: f64) -> Duration {
        match self {
            Pace::Doubled { first, most } => {
                let doubled = first.saturating_mul(1_u32.checked_shl(polls).unwrap_or(u32::MAX));
                doubled.min(*most).mul_f64(1.0 - chance / 4.0)
            }
            Pace::Constant(pause) => *pause,
            Pace::Own(_) => PAUSE_UNKNOWN,
        }
    }

    /// The pause that the user's code returns, if it decides.
    pub(crate) fn own_pause(&self, polls: u32) -> Option<Duration> {
        let Pace::Own(pause) = self else { return None };
        let asked = catch_unwind(AssertUnwindSafe(|| pause(polls)));
        Some(asked.unwrap_or(PAUSE_UNKNOWN).max(PAUSE_MIN))
    }
}

impl fmt::Debug for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pace::Doubled { first, most } => write!(f, "{first:?}, doubled to {most:?}"),
            Pace::Constant(pause) => write!(f, "{pause:?}"),
            Pace::Own(_) => f.write_str("own"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn pauses_are_doubled_up_to_the_longest_and_shorter_by_chance() {
        let pace = Pace::Doubled {
            first: MS,
            most: 100 * MS,
        };
        let pauses = [0, 1, 6, 7, 31, 32, 200].map(|polls| pace.pause(polls, 0.0));

        assert_eq!(pauses, [1, 2, 64, 100, 100, 100, 100].map(|n| n * MS));
        assert_eq!(pace.pause(2, 1.0), 3 * MS);
    }

    #[test]
    fn a_constant_pause_is_the_same_each_time() {
        assert_eq!(Pace::Constant(7 * MS).pause(3, 0.9), 7 * MS);
        assert_eq!(Pace::Constant(7 * MS).own_pause(3), None);
    }

    #[test]
    fn an_own_pause_is_what_the_users_code_returns_but_never_zero() {
        let own = Pace::Own(Arc::new(|polls| polls * MS));

        assert_eq!(own.own_pause(3), Some(3 * MS));
        assert_eq!(own.own_pause(0), Some(MS));
    }

    #[test]
    fn users_code_that_panics_ends_no_wait() {
        let own = Pace::Own(Arc::new(|_| std::panic::resume_unwind(Box::new(()))));

        assert_eq!(own.own_pause(1), Some(PAUSE_UNKNOWN));
    }
}
