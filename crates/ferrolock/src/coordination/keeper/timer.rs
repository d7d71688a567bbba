//! The keeper's alarm clock: on Linux one that counts suspend, so that what expired meanwhile is told at wake-up.

use std::time::Duration;

use crate::engine::{Clock, Tick};

/// Sleeps until a time on the clock.
#[derive(Debug)]
pub(crate) struct Timer {
    clock: Clock,
    #[cfg(target_os = "linux")]
    boot: Option<boot::BootTimer>,
}

/// Longer sleeps are cut: the loop looks again.
const NAP_MAX: Duration = Duration::from_secs(3600);

impl Timer {
    pub(crate) fn new(clock: &Clock) -> Self {
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
    pub(crate) async fn sleep_until(&mut self, until: Tick) {
        let now = self.clock.now();
        if until <= now {
            // Those who share the thread with the keeper have their turn all the same.
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

#[cfg(target_os = "linux")]
mod boot {
    use std::os::fd::OwnedFd;

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
                reason = "an `OwnedFd` keeps the promise that `new` cannot check"
            )]
            AsyncFd::new(descriptor).ok().map(BootTimer)
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

        /// Setting it anew also takes back an expiry that nobody has read.
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
