//! Waiters whose time is up, and their answer: busy if the server said so to the end, unreachable if it did not answer.

use std::time::Duration;

use crate::coordination::waiting::driver::{Driver, Late, Next, Waiter};
use crate::engine::Tick;

/// How long after its deadline a waiter waits for the answer to its last attempt.
pub(crate) const LAST_ANSWER: Duration = Duration::from_millis(80);
/// The longest answer time that is counted: waiters whose time is up do not wait for a server that is slower.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(1);

impl<W> Driver<W> {
    /// Waiters past their deadline: busy if an attempt said so after it, unreachable if it was not answered.
    pub(super) fn take_out_of_time(&mut self, now: Tick) -> Option<Next<W>> {
        let late = self.take_late(now, |driver, deadline| {
            deadline <= now && driver.was_last_chance(deadline)
        });
        if !late.is_empty() {
            return Some(Next::TimedOut(late));
        }
        let late = self.take_late(now, |driver, deadline| {
            deadline <= now && driver.too_slow_since.is_some() && driver.attempt.is_none()
        });
        if !late.is_empty() {
            return Some(Next::Unreachable(late));
        }
        // A waiter that came back to the line after its deadline has the time of one attempt.
        let late = self.take_if(now, |_, waiter| {
            waiter
                .deadline
                .is_some_and(|deadline| now >= deadline.max(waiter.joined).after(LAST_ANSWER))
        });
        if late.is_empty() {
            return None;
        }
        // A little less than the time that was waited: the attempt was sent a little late.
        let patience = self.answer_time + LAST_ANSWER * 3 / 4;
        let owed = self
            .silent_since
            .is_some_and(|since| now >= since.after(patience));
        Some(if owed || self.busy.is_none() {
            Next::Unreachable(late)
        } else {
            Next::TimedOut(late)
        })
    }

    /// Takes out the waiters with a deadline for which `is_late` returns true.
    fn take_late(&mut self, now: Tick, is_late: impl Fn(&Self, Tick) -> bool) -> Vec<Late<W>> {
        self.take_if(now, |driver, waiter| {
            waiter
                .deadline
                .is_some_and(|deadline| is_late(driver, deadline))
        })
    }

    pub(super) fn take_if(
        &mut self,
        now: Tick,
        goes: impl Fn(&Self, &Waiter<W>) -> bool,
    ) -> Vec<Late<W>> {
        let rest = self.busy.map(|(_, rest)| rest);
        let mut late = Vec::new();
        let mut index = 0;
        while let Some(waiter) = self.line.get(index) {
            if goes(self, waiter) {
                if let Some(waiter) = self.line.remove(index) {
                    late.push(Late {
                        waited: now.since(waiter.joined),
                        who: waiter.who,
                        rest,
                    });
                }
            } else {
                index += 1;
            }
        }
        late
    }

    /// Waiters that have had no answer from the server for `unreachable_after`, each counted from when it joined.
    pub(super) fn take_unanswered(&mut self, now: Tick) -> Vec<Late<W>> {
        let Some(since) = self.unanswered_since() else {
            return Vec::new();
        };
        let limit = self.unreachable_after;
        self.take_if(now, |_, waiter| {
            now >= since.max(waiter.joined).after(limit)
        })
    }

    fn unanswered_since(&self) -> Option<Tick> {
        self.silent_since
            .into_iter()
            .chain(self.too_slow_since)
            .min()
    }

    /// How long before a deadline its last attempt is sent: zero, unless the answer would come too late.
    pub(super) fn lead(&self) -> Duration {
        if self.answer_time > LAST_ANSWER / 2 {
            self.answer_time + LAST_ANSWER / 2
        } else {
            Duration::ZERO
        }
    }

    /// Whether the last attempt that found it busy was as late as one for that deadline can be.
    pub(super) fn was_last_chance(&self, deadline: Tick) -> bool {
        self.busy
            .is_some_and(|(sent, _)| deadline <= sent.after(self.lead()))
    }

    /// When there is something to do without an event: an attempt, or a waiter's time is up.
    pub(super) fn wake_at(&self, now: Tick) -> Tick {
        let idle = self.attempt.is_none() && self.releases == 0;
        let due = self.due.filter(|_| idle).map(|(at, _)| at);
        let stale = self.next_stale_place().filter(|_| idle);
        let silent = self.unanswered_since().and_then(|since| {
            let first = self.line.iter().map(|waiter| waiter.joined).min()?;
            Some(since.max(first).after(self.unreachable_after))
        });
        let deadlines = self
            .line
            .iter()
            .filter_map(|waiter| Some((waiter.deadline?, waiter.joined)))
            .map(|(deadline, joined)| match deadline.before(self.lead()) {
                ask if idle && ask > now => ask,
                _ if idle && deadline > now => deadline,
                _ => deadline.max(joined).after(LAST_ANSWER),
            });
        deadlines
            .chain(due)
            .chain(silent)
            .chain(stale)
            .chain(self.tries_end())
            .min()
            .unwrap_or(Tick::FAR)
    }
}

#[cfg(test)]
#[path = "lateness_tests.rs"]
mod tests;
