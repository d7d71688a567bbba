//! Waiters that leave with the first answer: `try_lock` of a name that is known here.
//!
//! They are in the line like all others. The next attempt, whichever waiter it is made for, answers all of them that came
//! before it was sent: found busy, or granted to another waiter here.

use crate::coordination::waiting::driver::{Cause, Driver, Late, Stay, Waiter};
use crate::engine::Tick;

impl<W> Driver<W> {
    /// Takes out those that the last attempt has answered.
    pub(in crate::coordination::waiting) fn take_tried(&mut self, now: Tick) -> Vec<Late<W>> {
        self.take_if(now, |driver, waiter| {
            waiter.stay != Stay::Waits && waiter.came_after < driver.attempts
        })
    }

    /// Takes out those for which the server took too long.
    pub(super) fn take_overdue_tries(&mut self, now: Tick) -> Vec<Late<W>> {
        self.take_if(
            now,
            |_, waiter| matches!(waiter.stay, Stay::Tries(until) if now >= until),
        )
    }

    /// Whether a waiter stays when the lock is busy.
    pub(super) fn is_waited_for(&self) -> bool {
        let mut line = self.line.iter();
        line.any(|waiter| waiter.stay == Stay::Waits)
    }

    /// Plans the next attempt for now, if one of them came too late for the last attempt.
    pub(super) fn plan_tries(&mut self, now: Tick) {
        let came_late =
            |waiter: &Waiter<W>| waiter.stay != Stay::Waits && waiter.came_after == self.attempts;
        if self.line.iter().any(came_late) {
            self.try_at(now, Cause::Arrival);
        }
    }

    /// When the first of them has waited long enough for the server.
    pub(super) fn tries_end(&self) -> Option<Tick> {
        let ends = self.line.iter().filter_map(|waiter| match waiter.stay {
            Stay::Tries(until) => Some(until),
            Stay::Waits => None,
        });
        ends.min()
    }
}

#[cfg(test)]
#[path = "tries_tests.rs"]
mod tests;
