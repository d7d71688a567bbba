//! The clock that deadlines are read from.

use std::time::Duration;

/// A point on an engine's clock, in nanoseconds; only differences mean anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tick(u64);

impl Tick {
    pub(crate) const ZERO: Tick = Tick(0);
    pub(crate) const FAR: Tick = Tick(u64::MAX);

    pub(crate) const fn from_nanos(nanos: u64) -> Tick {
        Tick(nanos)
    }

    pub(crate) const fn as_nanos(self) -> u64 {
        self.0
    }

    pub(crate) fn after(self, duration: Duration) -> Tick {
        Tick(self.0.saturating_add(nanos(duration)))
    }

    pub(crate) fn before(self, duration: Duration) -> Tick {
        Tick(self.0.saturating_sub(nanos(duration)))
    }

    /// The time from `earlier` to here; zero if it is not earlier.
    pub(crate) fn since(self, earlier: Tick) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Real time that counts suspend, or the paused time of a test's runtime.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// Boot time on Linux, the monotonic clock elsewhere.
    Boot,
    /// `tokio`'s time in that runtime, which a test has paused.
    Virtual(tokio::runtime::Handle),
}

impl Clock {
    /// Paused time if the current runtime's time stands still, real time otherwise.
    pub(crate) fn detect() -> Clock {
        let Ok(handle) = tokio::runtime::Handle::try_current() else {
            return Clock::Boot;
        };
        let (before, real) = (tokio::time::Instant::now(), now_real());
        // A paused clock does not move while a real one does.
        while now_real() == real {
            std::hint::spin_loop();
        }
        while now_real().since(real) < Duration::from_micros(2) {
            std::hint::spin_loop();
        }
        if tokio::time::Instant::now() == before {
            Clock::Virtual(handle)
        } else {
            Clock::Boot
        }
    }

    /// Now.
    pub(crate) fn now(&self) -> Tick {
        match self {
            Clock::Boot => now_real(),
            Clock::Virtual(handle) => {
                let _entered = handle.enter();
                Tick(nanos(
                    tokio::time::Instant::now().duration_since(virtual_base()),
                ))
            }
        }
    }

    /// Whether it is a test's paused time.
    pub(crate) fn is_virtual(&self) -> bool {
        matches!(self, Clock::Virtual(_))
    }

    /// Waits until `until`, in the runtime that polls it. Late at most by the timer's grain; never early.
    ///
    /// `tokio`'s timers stand still during suspend, which only makes this late. The keeper, which must not be, has a
    /// boot-time timer of its own.
    pub(crate) async fn sleep_until(&self, until: Tick) {
        loop {
            let left = until.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}

/// An instant that lies before every other one of this process.
fn virtual_base() -> tokio::time::Instant {
    static BASE: std::sync::OnceLock<tokio::time::Instant> = std::sync::OnceLock::new();
    // Far enough back for a test that starts its runtime before the first call here.
    *BASE.get_or_init(|| {
        let now = tokio::time::Instant::now();
        now.checked_sub(Duration::from_secs(3600)).unwrap_or(now)
    })
}

#[cfg(target_os = "linux")]
fn now_real() -> Tick {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Tick(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
fn now_real() -> Tick {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    // Not zero, so that subtracting a little from the first reading stays a time.
    Tick(nanos(START.get_or_init(std::time::Instant::now).elapsed()).saturating_add(1 << 40))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_clock_follows_paused_time() {
        let clock = Clock::detect();
        let before = clock.now();

        tokio::time::advance(Duration::from_secs(7)).await;

        assert!(clock.is_virtual());
        assert_eq!(clock.now().since(before), Duration::from_secs(7));
    }

    #[tokio::test]
    async fn the_clock_is_real_in_a_runtime_that_is_not_paused() {
        assert!(!Clock::detect().is_virtual());
    }

    #[test]
    fn the_clock_is_real_without_a_runtime() {
        assert!(!Clock::detect().is_virtual());
    }
}
