//! Whom the keeper calls when a time has come, unless that is called off.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::coordination::holding::hold::Hold;
use crate::coordination::keeper::{Keeper, State};
use crate::coordination::waiting::{Request, first};
use crate::coordination::{Core, unpoisoned};
use crate::engine::Tick;

/// When an alarm rings, and which of those it is.
pub(crate) type AlarmKey = (Tick, u64);

/// Somebody who is told when a time has come.
#[derive(Debug)]
pub(super) enum Alarm {
    /// An unlock without an answer, in that turn of its wait.
    Unlock(Arc<Hold>, u32, Call),
    /// An unlock that waits for a renewal under way.
    Renewal(Arc<Hold>),
    /// A caller who does not come to look at its first attempt.
    First(Arc<Core>, Arc<Request>),
    /// A client without handles that still owes something.
    Close(Weak<Core>),
}

/// How often somebody was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    First,
    Last,
}

impl Keeper {
    pub(super) fn rung(&self, alarm: Alarm) {
        match alarm {
            Alarm::Unlock(hold, turn, call) => self.unanswered(hold, turn, call),
            Alarm::Renewal(hold) => hold.renewal_given_up(),
            Alarm::First(core, request) => first::overdue(&core, &request),
            Alarm::Close(core) => {
                if let Some(core) = core.upgrade() {
                    self.give_up(&core);
                }
            }
        }
    }

    /// It is being unlocked: not kept any more (true: a renewal of it is under way), and an unlock that is not
    /// answered until then is taken over.
    pub(crate) fn begin_unlock(&self, hold: &Arc<Hold>, until: Tick) -> (bool, AlarmKey) {
        let mut state = unpoisoned(&self.state);
        let renewing = state.watch.forget(hold.kept_as.load(Ordering::Acquire));
        let alarm = Alarm::Unlock(hold.clone(), hold.unlock_answer.turn(), Call::First);
        (renewing, self.set_in(&mut state, until, alarm))
    }

    /// An unlock whose answer has not come until then is taken over.
    pub(crate) fn alarm(&self, hold: &Arc<Hold>, until: Tick) -> AlarmKey {
        let turn = hold.unlock_answer.turn();
        self.set(until, Alarm::Unlock(hold.clone(), turn, Call::First))
    }

    fn unanswered(&self, hold: Arc<Hold>, turn: u32, call: Call) {
        let tenure = &hold.tenure;
        if !hold.unlock_answer.is_waiting(turn) {
            return;
        }
        match call {
            Call::First => {
                // Its future may never be polled again, also before anything was sent.
                tenure.take_over();
                self.settle(tenure);
                let until = self
                    .clock
                    .now()
                    .after(tenure.core.settings.command_limit / 2);
                self.set(until, Alarm::Unlock(hold.clone(), turn, Call::Last));
            }
            Call::Last => {
                let answer = Err(tenure.not_released());
                if hold.unlock_answer.answer_in(turn, answer) {
                    tenure.give_barrier_up();
                    self.settle(tenure);
                }
            }
        }
    }

    /// Ends the wait for a renewal under way.
    pub(crate) fn alarm_renewal(&self, hold: &Arc<Hold>, limit: Duration) {
        self.set(self.clock.now().after(limit), Alarm::Renewal(hold.clone()));
    }

    /// Takes a first attempt out of the hands of a caller who leaves it alone until then.
    pub(crate) fn alarm_first(
        &self,
        core: &Arc<Core>,
        request: &Arc<Request>,
        until: Tick,
    ) -> AlarmKey {
        self.set(until, Alarm::First(core.clone(), request.clone()))
    }

    /// What the client still owes then is left to the leases.
    pub(crate) fn alarm_close(&self, core: &Arc<Core>, until: Tick) {
        self.set(until, Alarm::Close(Arc::downgrade(core)));
    }

    fn set(&self, at: Tick, alarm: Alarm) -> AlarmKey {
        self.set_in(&mut unpoisoned(&self.state), at, alarm)
    }

    fn set_in(&self, state: &mut State, at: Tick, alarm: Alarm) -> AlarmKey {
        let key = (at, state.next_alarm);
        state.next_alarm += 1;
        state.alarms.insert(key, alarm);
        self.wake_for(state);
        key
    }

    pub(crate) fn cancel(&self, alarm: AlarmKey) {
        let called_off = unpoisoned(&self.state).alarms.remove(&alarm);
        drop(called_off);
    }
}
