//! When to attempt again if nothing happens.

use std::time::Duration;

use crate::coordination::waiting::driver::{Driver, Listening};
use crate::engine::Tick;
use crate::protocol::pace::Pace;

/// Pauses when the subscription was refused.
const BLIND: Pace = Pace::Doubled {
    first: Duration::from_millis(25),
    most: Duration::from_secs(1),
};
/// The pause after an attempt without an answer, if there is no new connection before.
const FAILED: Pace = Pace::Doubled {
    first: Duration::from_millis(100),
    most: Duration::from_millis(100),
};

impl<W> Driver<W> {
    /// How many pauses in a row no event has ended: what the user's code is asked with.
    pub(in crate::coordination::waiting) fn polls(&self) -> u32 {
        self.polls
    }

    /// The user's code has decided on the next pause.
    pub(in crate::coordination::waiting) fn set_own_pause(&mut self, pause: Option<Duration>) {
        self.own_pause = pause;
    }

    /// When to attempt again if nothing happens.
    pub(super) fn poll(&mut self, now: Tick) -> Tick {
        let pace = match self.listening {
            Listening::Refused => &BLIND,
            _ => &self.pace,
        };
        let own = self.own_pause.take();
        now.after(own.unwrap_or_else(|| pace.pause(self.polls, self.random.f64())))
    }

    /// When to attempt again after an attempt without an answer, if there is no new connection before.
    pub(super) fn after_failure(&mut self, now: Tick) -> Tick {
        now.after(FAILED.pause(0, self.random.f64()))
    }
}
