//! What keeps a client alive, and its end.

use std::sync::Arc;

use crate::coordination::{Core, unpoisoned};
use crate::engine::{SHUT_DOWN, Tick};
use crate::error::Error;

/// What every handle and guard of a client holds; with the last one the client ends.
#[derive(Debug)]
pub(crate) struct Alive {
    pub(crate) core: Arc<Core>,
}

impl Alive {
    pub(crate) fn new(core: Arc<Core>) -> Arc<Self> {
        Arc::new(Self { core })
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.core.last_handle_gone();
    }
}

impl Core {
    /// The last handle is gone: waits for releases under way, then ends the connections.
    fn last_handle_gone(self: &Arc<Self>) {
        if self.is_forked() {
            return;
        }
        let limit = self.settings.drop_limit;
        // First: no new attempt begins after the others were handed over.
        self.begin_closing();
        self.hand_over(self.now().after(limit));
        if !limit.is_zero() && !self.clock().is_virtual() {
            self.pending.wait_for_releases(limit);
        }
        self.close_when_quiet();
    }

    /// No caller is left, but commands may be under way, and this thread may be the only one that could read their
    /// replies: the keeper, which has a thread of its own, releases what they take.
    pub(super) fn hand_over(self: &Arc<Self>, brisk_until: Tick) {
        let (attempts, tenures) = {
            let names = unpoisoned(&self.names);
            (names.hand_attempts_over(), names.tenures())
        };
        for tenure in tenures {
            if tenure.take_over() {
                tenure.settle_in_background();
            }
        }
        self.keeper().hurry_fields_of(self, brisk_until);
        for tenure in attempts {
            let lease = tenure.first.lease();
            self.keeper()
                .owe_field_briskly(tenure.clone(), lease, brisk_until);
            // Answered meanwhile: the thread with the answer looked for the debt before it was there.
            if tenure.first.is_answered() {
                self.keeper().field_is_known(&*tenure);
            }
        }
    }

    /// New calls fail from now on, and all waiters fail.
    pub(crate) fn begin_closing(&self) {
        self.set_closing();
        let waiters = unpoisoned(&self.names).take_waiters();
        for request in waiters {
            request.fail(Error::closed(SHUT_DOWN));
        }
        self.pending.tell_who_waits_for_room();
    }
}
