//! Durations and choices, checked before anything is sent.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::engine::Tick;
use crate::error::{Error, Result};
use crate::name::check_prefix;
use crate::owner::Owner;
use crate::protocol::fair_lock::FairTimes;

/// Shorter leases leave no room for a renewal that hangs.
const LEASE_MIN: Duration = Duration::from_millis(200);
/// Longer times are mistakes (seconds taken for milliseconds, or a value that was never set).
const TIME_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 3600);
const MARGIN_MIN: Duration = Duration::from_millis(50);
/// Clocks of servers are read to the millisecond.
const DRIFT_MIN: Duration = Duration::from_millis(2);

/// The settings of a client.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) watchdog_lease: Duration,
    pub(crate) renew_every: Option<Duration>,
    pub(crate) safety_margin: Option<Duration>,
    pub(crate) connect_limit: Duration,
    pub(crate) command_limit: Duration,
    pub(crate) drop_limit: Duration,
    pub(crate) unreachable_after: Duration,
    pub(crate) name: Option<String>,
    pub(crate) key_prefix: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            watchdog_lease: Duration::from_secs(30),
            renew_every: None,
            safety_margin: None,
            connect_limit: Duration::from_secs(5),
            command_limit: Duration::from_secs(3),
            drop_limit: Duration::from_millis(250),
            unreachable_after: Duration::from_secs(30),
            name: None,
            key_prefix: String::new(),
        }
    }
}

impl Settings {
    pub(crate) fn check(&self) -> Result<()> {
        let defaults = Settings::default();
        for (what, limit, usual) in [
            (
                "a connect_limit",
                self.connect_limit,
                defaults.connect_limit,
            ),
            (
                "a command_limit",
                self.command_limit,
                defaults.command_limit,
            ),
            (
                "an unreachable_after",
                self.unreachable_after,
                defaults.unreachable_after,
            ),
        ] {
            check_time(what, limit, || {
                format!("give it some time, {usual:?} is usual")
            })?;
        }
        if self.drop_limit > TIME_MAX {
            return Err(Error::invalid("drop_limit is longer than ten years"));
        }
        if let Some(name) = &self.name {
            check_label("the client's name", name)?;
        }
        check_prefix(&self.key_prefix)?;
        self.terms(&LockOptions::default()).map(drop)
    }

    /// How long before the end of that lease a hold is over for us.
    pub(crate) fn margin_of(&self, lease: Duration) -> Result<Duration> {
        check_lease(lease)?;
        let margin = self
            .safety_margin
            .unwrap_or_else(|| (lease / 20).max(MARGIN_MIN));
        if margin.is_zero() || margin > lease / 2 {
            return Err(Error::invalid(format!(
                "a safety margin of {margin:?} does not fit a lease of {lease:?}: \
                 more than zero, at most half of the lease"
            )));
        }
        Ok(margin)
    }

    /// What an acquisition with these options asks for.
    pub(crate) fn terms(&self, options: &LockOptions) -> Result<Terms> {
        let (lease, renewed) = match options.lease {
            Lease::Client => (self.watchdog_lease, true),
            Lease::Watchdog(lease) => (lease, true),
            Lease::Fixed(lease) => (lease, false),
        };
        let margin = self.margin_of(lease)?;
        let interval = match self.renew_every {
            Some(every) if lease == self.watchdog_lease => every,
            _ => lease / 3,
        };
        let end = lease - margin;
        if interval.is_zero() || interval >= end {
            return Err(Error::invalid(format!(
                "renewing every {interval:?} does not keep a lease of {lease:?}: \
                 more than zero, less than {end:?}; a third of the lease is usual"
            )));
        }
        if let Some(limit) = options.max_hold {
            check_time("a max_hold", limit, || {
                "leave it out for no limit".to_owned()
            })?;
        }
        if let Some(wait) = options.max_wait {
            check_wait("a max_wait", wait)?;
        }
        if let Some(label) = &options.label {
            check_label("the label", label)?;
        }
        let terms = Terms {
            lease,
            margin,
            renew_every: renewed.then_some(interval),
            max_hold: options.max_hold,
            drift_per_mille: options.drift_per_mille,
        };
        Ok(terms.by_hand(lease, margin))
    }
}

/// The settings of a handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct LockOptions {
    pub(crate) lease: Lease,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) max_wait: Option<Duration>,
    pub(crate) cancelled_by: Option<CancellationToken>,
    pub(crate) owner: Option<Owner>,
    pub(crate) label: Option<String>,
    pub(crate) reentry: Reentry,
    /// Of a node of a quorum: how much its clock may differ from ours in its speed.
    pub(crate) drift_per_mille: Option<u32>,
    pub(crate) fair: FairTimes,
}

impl LockOptions {
    /// The owner that acquires.
    pub(crate) fn whose(&self) -> Owner {
        let owner = self.owner.clone();
        owner.or_else(Owner::current).unwrap_or_else(Owner::new)
    }

    /// These options of a member, with those of the lock that it is a member of laid over them.
    pub(crate) fn under(&self, whole: &LockOptions) -> LockOptions {
        let lease = match whole.lease {
            Lease::Client => self.lease,
            lease => lease,
        };
        LockOptions {
            lease,
            max_hold: whole.max_hold.or(self.max_hold),
            max_wait: whole.max_wait.or(self.max_wait),
            cancelled_by: whole.cancelled_by.clone().or(self.cancelled_by.clone()),
            owner: whole.owner.clone().or(self.owner.clone()),
            label: whole.label.clone().or(self.label.clone()),
            reentry: self.reentry,
            drift_per_mille: whole.drift_per_mille.or(self.drift_per_mille),
            fair: self.fair,
        }
    }
}

/// How long a hold is given, and whether it is renewed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lease {
    /// Renewed, as long as the client's setting says.
    #[default]
    Client,
    /// Renewed, this long each time.
    Watchdog(Duration),
    /// Over at its end.
    Fixed(Duration),
}

/// What the same owner's second acquisition does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reentry {
    #[default]
    Enters,
    IsAnError,
}

/// The times of one hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) lease: Duration,
    pub(crate) margin: Duration,
    /// `None`: a fixed lease.
    pub(crate) renew_every: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    /// The margin is larger by that, on a node of a quorum.
    pub(crate) drift_per_mille: Option<u32>,
}

impl Terms {
    /// When a hold is over for us if its lease was asked for at `sent`: before the server ends it.
    pub(crate) fn deadline(&self, sent: Tick, lease: Duration) -> Tick {
        sent.after(lease.saturating_sub(self.margin))
    }

    /// The times of a renewal by hand for that lease, with the client's margin for it.
    pub(crate) fn by_hand(self, lease: Duration, margin: Duration) -> Terms {
        let drift = match self.drift_per_mille {
            Some(per_mille) => lease * per_mille / 1000 + DRIFT_MIN,
            None => Duration::ZERO,
        };
        Terms {
            lease,
            margin: margin + drift,
            ..self
        }
    }

    /// The lease to ask for at `now`: never beyond the cap by more than the margin.
    pub(crate) fn lease_at(&self, now: Tick, cap: Option<Tick>) -> Duration {
        match cap {
            Some(cap) => self.lease.min(cap.since(now) + self.margin),
            None => self.lease,
        }
    }
}

fn check_lease(lease: Duration) -> Result<()> {
    if lease < LEASE_MIN {
        return Err(Error::invalid(format!(
            "a lease of {lease:?} is too short: the least is {LEASE_MIN:?}"
        )));
    }
    check_time("a lease", lease, String::new)
}

/// Zero is allowed: one attempt.
pub(crate) fn check_wait(what: &str, wait: Duration) -> Result<()> {
    if wait > TIME_MAX {
        return Err(Error::invalid(format!(
            "{what} of {wait:?} is longer than ten years: leave it out to wait for ever"
        )));
    }
    Ok(())
}

/// Zero is not allowed; `instead` says what to give.
pub(crate) fn check_time(what: &str, time: Duration, instead: impl Fn() -> String) -> Result<()> {
    if time.is_zero() {
        return Err(Error::invalid(format!("{what} of zero: {}", instead())));
    }
    if time > TIME_MAX {
        return Err(Error::invalid(format!(
            "{what} of {time:?} is longer than ten years"
        )));
    }
    Ok(())
}

fn check_label(what: &str, label: &str) -> Result<()> {
    if label.chars().any(char::is_control) {
        return Err(Error::invalid(format!(
            "{what} contains a control character"
        )));
    }
    if label.len() > 256 {
        return Err(Error::invalid(format!("{what} is longer than 256 bytes")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms_of(lease: Lease) -> Result<Terms> {
        Settings::default().terms(&LockOptions {
            lease,
            ..LockOptions::default()
        })
    }

    #[test]
    fn a_lease_of_200_ms_is_the_least() {
        assert!(terms_of(Lease::Fixed(Duration::from_millis(200))).is_ok());
        assert!(terms_of(Lease::Watchdog(Duration::from_millis(199))).is_err());
        assert!(terms_of(Lease::Fixed(Duration::ZERO)).is_err());
        assert!(terms_of(Lease::Fixed(Duration::MAX)).is_err());
    }

    #[test]
    fn the_margin_is_a_twentieth_and_at_least_50_ms() {
        assert_eq!(
            terms_of(Lease::Client).unwrap().margin,
            Duration::from_millis(1500)
        );
        assert_eq!(
            terms_of(Lease::Fixed(Duration::from_millis(200)))
                .unwrap()
                .margin,
            Duration::from_millis(50)
        );
    }

    #[test]
    fn a_lease_is_cut_to_the_cap_and_its_margin() {
        let terms = terms_of(Lease::Client).unwrap();
        let now = Tick::from_nanos(1);

        assert_eq!(terms.lease_at(now, None), Duration::from_secs(30));
        let cap = now.after(Duration::from_secs(2));
        assert_eq!(terms.lease_at(now, Some(cap)), Duration::from_millis(3500));
    }

    #[test]
    fn settings_that_cannot_keep_a_lease_are_refused() {
        let slow = Settings {
            renew_every: Some(Duration::from_secs(30)),
            ..Settings::default()
        };
        let wide = Settings {
            safety_margin: Some(Duration::from_secs(16)),
            ..Settings::default()
        };
        let none = Settings {
            command_limit: Duration::ZERO,
            ..Settings::default()
        };

        assert!(slow.check().is_err());
        assert!(wide.check().is_err());
        assert!(none.check().is_err());
        assert!(Settings::default().check().is_ok());
    }
}
