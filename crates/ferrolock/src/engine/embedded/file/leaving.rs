//! How a process leaves a store of which a part was removed.
//!
//! Other processes may begin the store anew as soon as this process has given up its file locks on what is left. So before
//! that, its clients lose all that they hold there.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::environment::Environment;
use super::store::Store;
use super::turn::safely;
use crate::engine::LoseAll;

/// Loses all that an engine's client holds, once there is a client.
#[derive(Default)]
pub(super) struct Loser(OnceLock<LoseAll>);

impl Loser {
    pub(super) fn set(&self, lose_all: LoseAll) {
        let _ = self.0.set(lose_all);
    }

    fn lose_all(&self) {
        if let Some(lose_all) = self.0.get() {
            lose_all();
        }
    }
}

impl fmt::Debug for Loser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Loser")
    }
}

/// How far leaving is.
#[derive(Debug, Default)]
pub(super) struct LeavingProgress {
    has_begun: AtomicBool,
    has_left: AtomicBool,
}

impl Environment {
    /// Looks whether all of the store is still there. True: it is not, and other processes cannot begin it anew yet.
    pub(super) fn notices(&'static self) -> bool {
        if self.check_process().is_err() {
            return false;
        }
        self.turn.change(Store::look);
        self.leave_if_over();
        self.is_over() && !self.leaving.has_left.load(Ordering::Acquire)
    }

    /// Loses all that this process holds in a store that it has given up, and then lets others begin it anew. On a thread of
    /// its own: the thread that noticed may have mutexes of ours locked, and losing a lock runs callers' code.
    pub(super) fn leave_if_over(&'static self) {
        if !self.is_over() || self.leaving.has_begun.swap(true, Ordering::AcqRel) {
            return;
        }
        let thread = std::thread::Builder::new().name("ferrolock-leaves".to_owned());
        if thread.spawn(|| self.leave()).is_err() {
            self.leaving.has_begun.store(false, Ordering::Release);
        }
    }

    fn leave(&self) {
        let losers = self.turn.look(Store::losers);
        let lost = losers
            .iter()
            .filter_map(|loser| safely(|| loser.lose_all()));
        // A client whose call panicked may still hold something: others are kept out until this process ends.
        if lost.count() == losers.len() {
            self.turn.change(Store::leave);
            self.leaving.has_left.store(true, Ordering::Release);
        }
    }
}
