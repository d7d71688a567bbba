//! Entries in a queue of the server that are this client's, and that no call here knows of.
//!
//! A waiter's leave may be lost, for good when its debt was given up. The client lives, so no other process skips the entry,
//! and the server goes on telling it that it is its turn.

use std::sync::Arc;

use crate::coordination::waiting::drive::DriverTask;
use crate::coordination::{Core, unpoisoned};
use crate::owner::Owner;
use crate::protocol::scheme::Scheme;

/// Takes the field with that number out of the server's queue. Only for a number that no call here has: a late message for
/// a tenure that holds the lock would release it.
pub(super) fn leave_stray(core: &Arc<Core>, scheme: &Arc<dyn Scheme>, number: u64) {
    let who = Some(Arc::from(""));
    let tenure = core.tenure_of(scheme.clone(), Owner::new(), who, number);
    tracing::debug!(lock = %scheme.name(), owner = %tenure.id, "left a queue for a waiter that has gone");
    let lease = core.settings.watchdog_lease;
    core.keeper().owe_place(tenure, lease, false);
}

impl DriverTask {
    /// The server says that the field with that number is the first in its queue.
    pub(super) fn check_head(&self, number: u64) {
        let mut names = unpoisoned(&self.core.names);
        let Some(entry) = names.entry_if_any(self.scheme.subject()) else {
            return;
        };
        let driver = entry.driver.as_ref();
        let waits = driver.and_then(|driver| driver.find(|who| who.number() == Some(number)));
        let is_known = waits.is_some() || entry.has_field(number);
        drop(names);
        if !is_known {
            leave_stray(&self.core, &self.scheme, number);
        }
    }
}
