//! From a channel to the waiters: passes each message and gap to the driver of the name.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::coordination::waiting::strays::leave_stray;
use crate::coordination::{Core, unpoisoned};
use crate::engine::{Listener, Signal};
use crate::protocol::scheme::{Scheme, Wake};

/// After a gap the attempts of all names are spread over this time per name, at most a second.
const SPREAD_PER_NAME: Duration = Duration::from_micros(100);
const SPREAD_MAX: Duration = Duration::from_secs(1);

/// Listens to the channel of one name.
pub(super) struct NameListener {
    core: Weak<Core>,
    scheme: Arc<dyn Scheme>,
    /// On a waiter's own channel every message is for the waiter with that number.
    meant: Option<u64>,
}

impl NameListener {
    pub(crate) fn new(core: &Arc<Core>, scheme: Arc<dyn Scheme>, meant: Option<u64>) -> Arc<Self> {
        core.listening.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self {
            core: Arc::downgrade(core),
            scheme,
            meant,
        })
    }

    fn wake(&self, payload: &[u8]) -> Wake {
        self.meant
            .map_or_else(|| self.scheme.hears(payload), Wake::Named)
    }
}

impl Drop for NameListener {
    fn drop(&mut self) {
        if let Some(core) = self.core.upgrade() {
            core.listening.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Listener for NameListener {
    fn hear(&self, signal: Signal) {
        let Some(core) = self.core.upgrade() else {
            return;
        };
        let (now, round_trip) = (core.now(), core.engine.round_trip());
        let mut names = unpoisoned(&core.names);
        let Some(entry) = names.entry_if_any(self.scheme.subject()) else {
            return;
        };
        let Some(driver) = &mut entry.driver else {
            return;
        };
        match signal {
            Signal::Message(payload) => match self.wake(&payload) {
                Wake::Named(number) => match driver.find(|who| who.number() == Some(number)) {
                    Some(id) => driver.woken(now, id),
                    None if entry.has_field(number) => return,
                    None => {
                        drop(names);
                        return leave_stray(&core, &self.scheme, number);
                    }
                },
                wake => driver.message(now, wake, round_trip),
            },
            Signal::Gap => {
                // Few names ask at once; thousands spread out, so that the server is not asked by all in one moment.
                let names = core.listening.load(Ordering::Relaxed);
                let names = u32::try_from(names).unwrap_or(u32::MAX);
                driver.gap(now, SPREAD_PER_NAME.saturating_mul(names).min(SPREAD_MAX));
            }
        }
        entry.tell_driver();
    }
}
