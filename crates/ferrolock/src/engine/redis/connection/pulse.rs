//! When the last byte came over one connection, and which replies it still owes.

use std::time::Duration;

use super::super::trouble::Trouble;
use crate::engine::{Clock, Tick};
use crate::primitives::{AtomicU64, AtomicUsize, OnceLock, Ordering};

/// The signs of life of one connection.
///
/// It is watched while a reply is owed: to a caller that waits, or to one that gave up. (Callers give up after the same
/// limit that makes a connection suspect: if only waiting callers counted, a dead connection would never be suspected.)
#[derive(Debug)]
pub(in super::super) struct Pulse {
    /// When the last byte came.
    heard: AtomicU64,
    /// When the oldest of the replies now owed began to be owed, at the latest.
    busy_since: AtomicU64,
    /// Changes last and is read first (`Release`, `Acquire`): the watcher that sees that a reply is owed sees since when,
    /// and one that sees no caller waiting sees those that gave up. The models of it are in `orderings/`.
    waiting: AtomicUsize,
    /// How many calls were sent while another reply was owed.
    asked: AtomicUsize,
    /// How many callers ever gave up, and how many of them had given up before a PING that was answered: replies come in
    /// order, so its reply means that theirs came too.
    gave_up: AtomicU64,
    excused: AtomicU64,
    /// Why the stream ended. Set before a waiting caller learns of the end.
    fault: OnceLock<Trouble>,
}

/// One caller that waits for a reply; dropped without [`WaitingCaller::answered`], it gave up.
#[derive(Debug)]
pub(in super::super) struct WaitingCaller<'a> {
    pulse: &'a Pulse,
    answered: bool,
    /// When it began, if the clock was read.
    since: Option<Tick>,
}

impl Pulse {
    pub(in super::super) fn new() -> Pulse {
        let now = Clock::Boot.now().as_nanos();
        Pulse {
            heard: AtomicU64::new(now),
            busy_since: AtomicU64::new(now),
            waiting: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
            gave_up: AtomicU64::new(0),
            excused: AtomicU64::new(0),
            fault: OnceLock::new(),
        }
    }

    /// A byte came.
    pub(in super::super) fn beat(&self) {
        self.heard
            .store(Clock::Boot.now().as_nanos(), Ordering::Relaxed);
    }

    /// The stream failed.
    pub(in super::super) fn fail(&self, trouble: Trouble) {
        let _ = self.fault.set(trouble);
    }

    pub(in super::super) fn fault(&self) -> Option<&Trouble> {
        self.fault.get()
    }

    /// A reply is owed from `now` on. The clock is read if no other reply is owed, and else for one of 64 calls.
    pub(in super::super) fn wait(&self, now: impl FnOnce() -> Tick) -> WaitingCaller<'_> {
        const TIMED_EVERY: usize = 64;
        // Another caller may come or go at this moment: then a byte has just come, or both have just sent their call.
        let alone = self.waiting.load(Ordering::Acquire) == 0;
        let timed = alone
            || self
                .asked
                .fetch_add(1, Ordering::Relaxed)
                .is_multiple_of(TIMED_EVERY);
        let since = timed.then(now);
        if let (true, Some(now)) = (alone && !self.is_owed_to_leavers(), since) {
            self.busy_since.store(now.as_nanos(), Ordering::Relaxed);
        }
        self.waiting.fetch_add(1, Ordering::AcqRel);
        WaitingCaller {
            pulse: self,
            answered: false,
            since,
        }
    }

    /// For how long no byte came although a reply was owed.
    pub(in super::super) fn silence(&self, now: Tick) -> Duration {
        if self.waiting.load(Ordering::Acquire) == 0 && !self.is_owed_to_leavers() {
            return Duration::ZERO;
        }
        let busy = Tick::from_nanos(self.busy_since.load(Ordering::Relaxed));
        self.quiet(now).min(now.since(busy))
    }

    /// For how long no byte came.
    pub(in super::super) fn quiet(&self, now: Tick) -> Duration {
        now.since(Tick::from_nanos(self.heard.load(Ordering::Relaxed)))
    }

    /// How many callers gave up so far; a reply to a command sent after this [excuses](Pulse::excuse) them.
    pub(in super::super) fn leavers(&self) -> u64 {
        self.gave_up.load(Ordering::Relaxed)
    }

    pub(in super::super) fn excuse(&self, leavers: u64) {
        self.excused.store(leavers, Ordering::Relaxed);
    }

    fn is_owed_to_leavers(&self) -> bool {
        self.gave_up.load(Ordering::Relaxed) != self.excused.load(Ordering::Relaxed)
    }
}

impl WaitingCaller<'_> {
    /// The reply came. Since when it was owed, if the clock was read then.
    pub(in super::super) fn answered(mut self) -> Option<Tick> {
        self.answered = true;
        self.since
    }
}

impl Drop for WaitingCaller<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.pulse.gave_up.fetch_add(1, Ordering::Relaxed);
        }
        self.pulse.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_idle_connection_is_never_silent() {
        let pulse = Pulse::new();
        let late = Clock::Boot.now().after(60 * SECOND);

        assert_eq!(pulse.silence(late), Duration::ZERO);
        assert!(pulse.quiet(late) >= 59 * SECOND);
    }

    #[test]
    fn silence_is_counted_from_the_call() {
        let pulse = Pulse::new();
        let late = Clock::Boot.now().after(60 * SECOND);

        let _waiting = pulse.wait(|| late);

        assert_eq!(pulse.silence(late.after(SECOND)), SECOND);
    }

    #[test]
    fn a_caller_that_gave_up_counts_as_waiting_until_a_later_reply() {
        let pulse = Pulse::new();
        let start = Clock::Boot.now().after(SECOND);
        drop(pulse.wait(|| start));

        let _next = pulse.wait(|| start.after(SECOND));

        assert_eq!(pulse.silence(start.after(2 * SECOND)), 2 * SECOND);
        pulse.wait(|| start).answered();
        pulse.excuse(pulse.leavers());
        assert!(!pulse.is_owed_to_leavers());
    }
}
