//! The next step of a driver.

use std::time::Duration;

use crate::coordination::waiting::driver::{Cause, Driver, Late, Listening, Waiter};
use crate::engine::Tick;

/// How long a subscription stays after the last waiter: where one call waited, another one often follows soon.
const IDLE_SUBSCRIPTION: Duration = Duration::from_secs(5);

/// What to do now.
#[derive(Debug)]
pub(in crate::coordination::waiting) enum Next<W> {
    /// Send an attempt for that waiter, which has that number. It counts as sent from now on: what happens after this step
    /// finds it under way.
    Attempt {
        who: W,
        id: u64,
        /// It is the first in the line.
        is_front: bool,
        cause: Cause,
    },
    /// Ask for the subscription.
    Listen,
    /// Listen to the own channel of the waiter with that number, and of no other.
    ListenOwn(Option<u64>),
    /// The time of these is up, and the lock was busy to the end.
    TimedOut(Vec<Late<W>>),
    /// The server did not answer these.
    Unreachable(Vec<Late<W>>),
    /// Nothing before that time (or an event).
    Sleep(Tick),
    /// There is no waiter, nothing is under way, and the subscription has been idle long enough.
    Done,
}

impl<W: Clone> Driver<W> {
    /// What to do now; called again after each thing done and each event.
    pub(in crate::coordination::waiting) fn next(&mut self, now: Tick) -> Next<W> {
        let mut silent = self.take_unanswered(now);
        silent.extend(self.take_overdue_tries(now));
        if !silent.is_empty() {
            return Next::Unreachable(silent);
        }
        let late = self.take_out_of_time(now);
        if let Some(next) = late {
            return next;
        }
        if let Some(next) = self.change_own_channel() {
            return next;
        }
        if self.line.is_empty() {
            return self.next_without_waiters(now);
        }
        if self.attempt.is_none() && self.releases == 0 {
            if let Some(cause) = self.due_cause(now)
                && let Some((who, id)) = self.next_in_line(now, cause)
            {
                let is_front = self.is_front(id);
                self.cause = cause;
                self.sent(now);
                return Next::Attempt {
                    who,
                    id,
                    is_front,
                    cause,
                };
            }
            if self.listening == Listening::No && self.busy.is_some() && self.is_waited_for() {
                self.listening = Listening::Asked;
                return Next::Listen;
            }
        }
        Next::Sleep(self.wake_at(now))
    }
}

impl<W> Driver<W> {
    fn next_without_waiters(&mut self, now: Tick) -> Next<W> {
        if self.attempt.is_some() {
            return Next::Sleep(Tick::FAR);
        }
        self.places.line_is_empty();
        let until = self.idle_since.get_or_insert(now).after(IDLE_SUBSCRIPTION);
        if self.is_listening() && now < until {
            Next::Sleep(until)
        } else {
            Next::Done
        }
    }

    fn due_cause(&self, now: Tick) -> Option<Cause> {
        if let Some((at, cause)) = self.due
            && at <= now
        {
            return Some(cause);
        }
        if self.stale_place(now).is_some() {
            return Some(Cause::SafetyPoll);
        }
        // A waiter at its deadline makes one more attempt: the message may have been lost. Not if the last attempt failed:
        // the next one is planned, and a server in trouble is not asked in a loop.
        let asks = |waiter: &Waiter<W>| {
            waiter.deadline.is_some_and(|deadline| {
                deadline <= now.after(self.lead()) && !self.was_last_chance(deadline)
            })
        };
        (self.silent_since.is_none() && self.line.iter().any(asks)).then_some(Cause::LastChance)
    }
}
