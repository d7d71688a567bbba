//! Alarms: functions that the keeper calls at a given time, unless they are cancelled.

use std::fmt;

use crate::coordination::keeper::kept::Kept;
use crate::coordination::keeper::{Keeper, State};
use crate::coordination::{Core, unpoisoned};
use crate::engine::Tick;
use crate::primitives::Ordering;

/// When an alarm rings, and its number.
pub(crate) type AlarmKey = (Tick, u64);

pub(super) struct Alarm {
    pub(super) ring: Box<dyn FnOnce() + Send>,
    /// The address of its client.
    #[cfg(test)]
    pub(super) of: usize,
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Alarm")
    }
}

impl Alarm {
    #[cfg_attr(
        not(test),
        allow(unused_variables, reason = "tests count alarms by client")
    )]
    fn new(of: &Core, ring: impl FnOnce() + Send + 'static) -> Self {
        Self {
            ring: Box::new(ring),
            #[cfg(test)]
            of: std::ptr::from_ref(of).addr(),
        }
    }
}

impl Keeper {
    /// Calls `ring` in the keeper's thread when the time has come.
    pub(crate) fn alarm(
        &self,
        of: &Core,
        at: Tick,
        ring: impl FnOnce() + Send + 'static,
    ) -> AlarmKey {
        let alarm = Alarm::new(of, ring);
        self.set(&mut unpoisoned(&self.state), at, alarm)
    }

    /// Both in one step: [`forget`](Keeper::forget) and [`alarm`](Keeper::alarm).
    pub(crate) fn forget_and_alarm(
        &self,
        hold: &dyn Kept,
        at: Tick,
        ring: impl FnOnce() + Send + 'static,
    ) -> (bool, AlarmKey) {
        let alarm = Alarm::new(hold.core(), ring);
        let mut state = unpoisoned(&self.state);
        let renewing = state.watch.forget(hold.number().load(Ordering::Acquire));
        (renewing, self.set(&mut state, at, alarm))
    }

    fn set(&self, state: &mut State, at: Tick, alarm: Alarm) -> AlarmKey {
        let key = (at, state.next_alarm);
        state.next_alarm += 1;
        state.alarms.insert(key, alarm);
        self.wake_for(state);
        key
    }

    pub(crate) fn cancel(&self, alarm: AlarmKey) {
        let called_off = unpoisoned(&self.state).alarms.remove(&alarm);
        // After the lock: a request or a client may end with its alarm, which takes time and may lock the state again.
        drop(called_off);
    }
}
