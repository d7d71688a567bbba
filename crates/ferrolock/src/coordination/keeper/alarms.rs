//! Alarms: functions that the keeper calls at a given time, unless they are cancelled.

use std::fmt;
use std::sync::Arc;

use crate::coordination::keeper::kept::Kept;
use crate::coordination::keeper::{Keeper, State};
use crate::coordination::{Core, unpoisoned};
use crate::engine::Tick;
use crate::primitives::Ordering;

/// When an alarm rings, and its number.
pub(crate) type AlarmKey = (Tick, u64);

/// What an alarm calls: of the two alarms of each lock and unlock, one object that is there anyway.
pub(crate) trait Alarmed: Send + Sync {
    /// `turn`: what was given with the alarm.
    fn ring(self: Arc<Self>, turn: u32);
}

pub(super) enum Ring {
    Object(Arc<dyn Alarmed>, u32),
    Function(Box<dyn FnOnce() + Send>),
}

pub(super) struct Alarm {
    ring: Ring,
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
    fn new(of: &Core, ring: Ring) -> Self {
        Self {
            ring,
            #[cfg(test)]
            of: std::ptr::from_ref(of).addr(),
        }
    }

    pub(super) fn ring(self) {
        match self.ring {
            Ring::Object(object, turn) => object.ring(turn),
            Ring::Function(function) => function(),
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
        let alarm = Alarm::new(of, Ring::Function(Box::new(ring)));
        self.set(&mut unpoisoned(&self.state), at, alarm)
    }

    /// Rings the object when the time has come.
    pub(crate) fn alarm_for(
        &self,
        of: &Core,
        at: Tick,
        object: Arc<dyn Alarmed>,
        turn: u32,
    ) -> AlarmKey {
        let alarm = Alarm::new(of, Ring::Object(object, turn));
        self.set(&mut unpoisoned(&self.state), at, alarm)
    }

    /// Both in one step: [`forget`](Keeper::forget) and [`alarm_for`](Keeper::alarm_for) the hold.
    pub(crate) fn forget_and_alarm<H: Kept + Alarmed + 'static>(
        &self,
        hold: &Arc<H>,
        at: Tick,
        turn: u32,
    ) -> (bool, AlarmKey) {
        let alarm = Alarm::new(hold.core(), Ring::Object(hold.clone(), turn));
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
