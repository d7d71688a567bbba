//! The times of a run, and whether they fit each other.

use std::time::Duration;

use super::OnLost;
use crate::exit::Failure;

/// With a shorter lease, delays of the system could use up the time between the deadline and the end of the lease.
const LEASE_MIN: Duration = Duration::from_secs(1);
const GRACE_MAX_BY_DEFAULT: Duration = Duration::from_secs(10);

/// The library's own limit; checked here before a server is asked for anything, and before the command runs.
const TIME_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Fails if the time given with that option is longer than the library allows.
pub(super) fn check_max(option: &str, time: Option<Duration>) -> Result<(), Failure> {
    match time {
        Some(time) if time > TIME_MAX => Err(Failure::usage(format!(
            "{option} is longer than ten years: give less"
        ))),
        _ => Ok(()),
    }
}

/// The times of a run.
///
/// ```text
/// renewed      next renewal                TERM           KILL     the lease ends
/// |----------------|-------------------------|--------------|-----------|
/// 0            lease/3               deadline - grace    deadline     lease
///                                                           '- margin --'
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) lease: Duration,
    /// Larger than the library's own: a group of processes takes longer to stop than a task.
    pub(super) margin: Duration,
    pub(super) grace: Duration,
    pub(super) max_hold: Option<Duration>,
    pub(super) on_lost: OnLost,
}

impl Terms {
    pub(super) fn new(
        lease: Duration,
        grace: Option<Duration>,
        max_hold: Option<Duration>,
        on_lost: OnLost,
    ) -> Result<Self, Failure> {
        if lease < LEASE_MIN {
            return Err(Failure::usage(format!(
                "a lease of {lease:?} is too short to stop a command in: give --lease at least {LEASE_MIN:?}"
            )));
        }
        // Half of the lease leaves time for a renewal, at a third of it, and for a second try.
        let grace_max = lease / 2;
        if let Some(grace) = grace.filter(|grace| *grace > grace_max) {
            return Err(Failure::usage(format!(
                "a grace of {grace:?} does not fit a lease of {lease:?}: give --grace at most half of the lease"
            )));
        }
        if let (Some(grace), Some(limit)) = (grace, max_hold)
            && grace >= limit
        {
            return Err(Failure::usage(format!(
                "a grace of {grace:?} does not fit a --max-hold of {limit:?}: give --grace less than that"
            )));
        }
        let by_default = GRACE_MAX_BY_DEFAULT.min(lease / 3);
        // With a short `--max-hold`, TERM must not come right at the start.
        let by_default = max_hold.map_or(by_default, |limit| by_default.min(limit / 2));
        Ok(Self {
            lease,
            margin: lease / 10,
            grace: grace.unwrap_or(by_default),
            max_hold,
            on_lost,
        })
    }

    /// How often the deadline is checked and sent to the shim.
    pub(super) fn look_every(&self) -> Duration {
        self.lease / 6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn terms(lease: u32, grace: Option<u32>, max_hold: Option<u32>) -> Result<Terms, Failure> {
        let seconds = |count| SECOND * count;
        Terms::new(
            seconds(lease),
            grace.map(seconds),
            max_hold.map(seconds),
            OnLost::Term,
        )
    }

    #[test]
    fn the_grace_is_ten_seconds_or_a_third_of_the_lease() {
        assert_eq!(terms(30, None, None).unwrap().grace, SECOND * 10);
        assert_eq!(terms(300, None, None).unwrap().grace, SECOND * 10);
        assert_eq!(terms(6, None, None).unwrap().grace, SECOND * 2);
        assert_eq!(terms(30, None, Some(4)).unwrap().grace, SECOND * 2);
    }

    #[test]
    fn times_that_cannot_work_are_refused() {
        for refused in [
            terms(0, None, None),
            terms(30, Some(16), None),
            terms(30, Some(5), Some(5)),
        ] {
            assert_eq!(refused.unwrap_err().code, crate::exit::USAGE);
        }
        assert!(terms(30, Some(15), Some(16)).is_ok());
    }

    #[test]
    fn term_comes_after_the_renewal_was_tried_and_kill_before_the_lease_ends() {
        for (lease, grace) in [(1, None), (30, None), (30, Some(15)), (3600, Some(1800))] {
            let terms = terms(lease, grace, None).unwrap();
            let deadline = terms.lease - terms.margin;

            assert!(deadline - terms.grace > terms.lease / 3);
            assert!(terms.margin >= Duration::from_millis(100));
        }
    }
}
