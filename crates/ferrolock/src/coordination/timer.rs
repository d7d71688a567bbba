//! Timers of the system, for what the runtime's timers are too coarse or too late for.
//!
//! The keeper's timer counts suspend, so that holds that expired meanwhile are noticed when the machine wakes up. Drivers
//! pause for less than the millisecond that is the resolution of `tokio`'s timers; without these they would have to spin.
//! Only Linux has them; elsewhere a pause is rounded up.

use std::time::Duration;

#[cfg(target_os = "linux")]
use std::sync::Mutex;
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::engine::{Clock, Tick};

/// Sleeps until a time on the clock.
#[derive(Debug)]
pub(super) struct Timer {
    clock: Clock,
    #[cfg(target_os = "linux")]
    boot: Option<boot::BootTimer>,
}

/// Longer sleeps are cut: the loop looks again.
const NAP_MAX: Duration = Duration::from_secs(3600);

impl Timer {
    pub(super) fn new(clock: &Clock) -> Self {
        Self {
            clock: clock.clone(),
            #[cfg(target_os = "linux")]
            boot: if clock.is_virtual() {
                None
            } else {
                boot::BootTimer::new()
            },
        }
    }

    /// Returns at that time, or earlier by no more than the clock's grain.
    pub(super) async fn sleep_until(&mut self, until: Tick) {
        let now = self.clock.now();
        if until <= now {
            // Other tasks in the keeper's thread get their turn all the same.
            tokio::task::yield_now().await;
            return;
        }
        let until = until.min(now.after(NAP_MAX));
        #[cfg(target_os = "linux")]
        if let Some(boot) = &mut self.boot
            && boot.sleep_until(until).await
        {
            return;
        }
        self.clock.sleep_until(until).await;
    }
}

/// Longer sleeps need no fine timer.
#[cfg(target_os = "linux")]
const NAP_FINE: Duration = Duration::from_millis(20);
/// Fine timers per client: each is a file descriptor. With more naps at a time, the rest are rounded up.
#[cfg(target_os = "linux")]
const FINE_TIMERS_MAX: usize = 8;

/// The fine timers of a client. They need a runtime with I/O, which `tokio` does not tell: it panics where there is none.
#[derive(Debug, Default)]
pub(super) struct Naps {
    #[cfg(target_os = "linux")]
    idle: Mutex<Vec<boot::BootTimer>>,
    #[cfg(target_os = "linux")]
    made: AtomicUsize,
}

impl Naps {
    /// Waits until `until`, in the client's runtime; with a fine timer if there is one and `is_fine`.
    pub(super) async fn sleep_until(&self, clock: &Clock, is_fine: bool, until: Tick) {
        #[cfg(target_os = "linux")]
        if is_fine
            && !clock.is_virtual()
            && until.since(clock.now()) < NAP_FINE
            && let Some(mut nap) = self.timer()
            && let Some(timer) = &mut nap.timer
        {
            while clock.now() < until {
                if !timer.sleep_until(until).await {
                    break;
                }
            }
        }
        clock.sleep_until(until).await;
    }

    #[cfg(target_os = "linux")]
    fn timer(&self) -> Option<Nap<'_>> {
        let idle = crate::engine::unpoisoned(&self.idle).pop();
        let timer = match idle {
            Some(timer) => timer,
            None if self.made.load(Ordering::Relaxed) >= FINE_TIMERS_MAX => return None,
            None => {
                self.made.fetch_add(1, Ordering::Relaxed);
                boot::BootTimer::new()?
            }
        };
        Some(Nap {
            naps: self,
            timer: Some(timer),
        })
    }
}

/// A timer in use; free for the next nap when this is dropped.
#[cfg(target_os = "linux")]
struct Nap<'a> {
    naps: &'a Naps,
    timer: Option<boot::BootTimer>,
}

#[cfg(target_os = "linux")]
impl Drop for Nap<'_> {
    fn drop(&mut self) {
        crate::engine::unpoisoned(&self.naps.idle).extend(self.timer.take());
    }
}

#[cfg(target_os = "linux")]
mod boot {
    use std::os::fd::OwnedFd;
    use std::panic::catch_unwind;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::unix::AsyncFd;

    use crate::engine::Tick;

    /// A timer descriptor on the boot-time clock.
    #[derive(Debug)]
    pub(super) struct BootTimer(AsyncFd<OwnedFd>);

    impl BootTimer {
        pub(super) fn new() -> Option<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let descriptor = timerfd_create(TimerfdClockId::Boottime, flags).ok()?;
            #[expect(
                deprecated,
                reason = "an `OwnedFd` keeps the promise that `new` cannot check; the other constructor is `unsafe`"
            )]
            let made = catch_unwind(|| AsyncFd::new(descriptor));
            made.ok()?.ok().map(BootTimer)
        }

        /// False: this timer does not work.
        pub(super) async fn sleep_until(&mut self, until: Tick) -> bool {
            if !self.set(until) {
                return false;
            }
            match self.0.readable().await {
                Ok(mut ready) => {
                    ready.clear_ready();
                    true
                }
                Err(_) => false,
            }
        }

        /// Setting it anew also clears an expiry that was not read.
        fn set(&self, until: Tick) -> bool {
            let seconds = i64::try_from(until.as_nanos() / 1_000_000_000).unwrap_or(i64::MAX);
            let nanos = i64::try_from(until.as_nanos() % 1_000_000_000).unwrap_or(0);
            let once = Itimerspec {
                it_interval: Timespec {
                    tv_sec: 0,
                    tv_nsec: 0,
                },
                it_value: Timespec {
                    tv_sec: seconds,
                    tv_nsec: nanos,
                },
            };
            timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &once).is_ok()
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn idle(naps: &Naps) -> usize {
        crate::engine::unpoisoned(&naps.idle).len()
    }

    /// A timer that was armed and given up is used again: what is left of its old time ends no nap early.
    #[tokio::test]
    async fn a_nap_is_never_short_and_its_timer_is_used_again() {
        let (naps, clock) = (Naps::default(), Clock::Boot);
        for round in 0..50_u64 {
            let given_up = clock.now().after(Duration::from_micros(50 * (round % 4)));
            let _ = testkit::poll_once(std::pin::pin!(naps.sleep_until(&clock, true, given_up)));
            let until = clock.now().after(Duration::from_micros(10 * round));

            naps.sleep_until(&clock, true, until).await;

            assert!(clock.now() >= until);
            assert_eq!(idle(&naps), 1);
        }
    }

    #[tokio::test]
    async fn more_naps_than_timers_all_end() {
        let naps = std::sync::Arc::new(Naps::default());
        let until = Clock::Boot.now().after(Duration::from_millis(15));

        let mut all = tokio::task::JoinSet::new();
        for _ in 0..3 * FINE_TIMERS_MAX {
            let naps = naps.clone();
            all.spawn(async move { naps.sleep_until(&Clock::Boot, true, until).await });
        }
        all.join_all().await;

        assert!(Clock::Boot.now() >= until);
        assert!((1..=FINE_TIMERS_MAX).contains(&idle(&naps)));
    }

    /// A `memory:` client needs no I/O, and neither does its waiting.
    #[cfg(feature = "embedded")]
    #[test]
    fn a_runtime_without_io_can_wait() {
        let mut time_only = tokio::runtime::Builder::new_current_thread();
        time_only.enable_time().build().unwrap().block_on(async {
            let client = crate::Client::memory();
            let held = client.lock("x").lock().await.unwrap();

            let waited = client
                .lock("x")
                .try_lock_for(Duration::from_millis(10))
                .await;

            assert!(matches!(waited, Ok(None)), "{waited:?}");
            drop(held);
        });
    }

    #[test]
    fn a_nap_in_a_runtime_without_io_ends_too() {
        let (naps, until) = (
            Naps::default(),
            Clock::Boot.now().after(Duration::from_millis(5)),
        );
        let mut time_only = tokio::runtime::Builder::new_current_thread();

        let runtime = time_only.enable_time().build().unwrap();
        runtime.block_on(naps.sleep_until(&Clock::Boot, true, until));

        assert!(Clock::Boot.now() >= until);
    }
}
