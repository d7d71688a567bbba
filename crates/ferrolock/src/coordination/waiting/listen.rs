//! From a channel to the waiters: passes each message and gap to the driver of the name.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::coordination::{Core, unpoisoned};
use crate::engine::{Listener, Signal};
use crate::protocol::scheme::Scheme;

/// After a gap the attempts of all names are spread over this time per name, at most a second.
const SPREAD_PER_NAME: Duration = Duration::from_micros(100);
const SPREAD_MAX: Duration = Duration::from_secs(1);

/// Listens to the channel of one name.
pub(super) struct NameListener {
    core: Weak<Core>,
    scheme: Arc<dyn Scheme>,
}

impl NameListener {
    pub(crate) fn new(core: &Arc<Core>, scheme: Arc<dyn Scheme>) -> Arc<Self> {
        core.listening.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self {
            core: Arc::downgrade(core),
            scheme,
        })
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
            Signal::Message(payload) => {
                driver.message(now, self.scheme.hears(&payload), round_trip)
            }
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
