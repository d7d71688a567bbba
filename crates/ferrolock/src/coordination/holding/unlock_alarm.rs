//! An unlock without an answer: its future may never be polled again, so the keeper goes on with it.

use std::sync::Arc;

use crate::coordination::holding::hold::Hold;
use crate::coordination::keeper::{AlarmKey, Alarmed};
use crate::engine::Tick;

impl Alarmed for Hold {
    fn ring(self: Arc<Self>, turn: u32) {
        self.take_unlock_over(turn);
    }
}

impl Hold {
    /// It is being unlocked: the keeper no longer renews it (true: a renewal of it is under way), and takes its release over
    /// if there is no answer at `until`.
    pub(super) fn begin_unlock(self: &Arc<Self>, until: Tick) -> (bool, AlarmKey) {
        let keeper = self.tenure.core.keeper();
        keeper.forget_and_alarm(self, until, self.unlock_answer.turn())
    }

    /// The keeper takes its release over if there is no answer at `until`.
    pub(super) fn alarm_unlock(self: &Arc<Self>, until: Tick) -> AlarmKey {
        let core = &self.tenure.core;
        let turn = self.unlock_answer.turn();
        core.keeper().alarm_for(core, until, self.clone(), turn)
    }

    fn take_unlock_over(self: Arc<Self>, turn: u32) {
        if !self.unlock_answer.is_waiting(turn) {
            return;
        }
        // Settles also if no command was under way to be taken over: nothing was sent yet.
        self.tenure.take_over();
        self.tenure.settle_in_background();
        let core = self.tenure.core.clone();
        let until = core.now().after(core.settings.command_limit / 2);
        core.keeper()
            .alarm(&core, until, move || self.give_unlock_up(turn));
    }

    fn give_unlock_up(&self, turn: u32) {
        let error = self.tenure.not_released();
        if self.unlock_answer.answer_in(turn, Err(error)) {
            self.tenure.give_barrier_up();
            self.tenure.settle_in_background();
        }
    }
}
