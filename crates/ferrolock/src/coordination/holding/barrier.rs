//! The barrier: from the moment that the last hold of a tenure leaves until the answer to its release, this client sends no
//! attempt on the name. Release and attempt may take different connections (the keeper sends the release of a dropped
//! guard over its own). An attempt that reached the server first would find the old hold of this client, and a `try_lock`
//! after the drop of the guard would return busy. If the release is not answered in time, the barrier is given up.

use crate::coordination::holding::count::{Phase, ReleaseEnd};
use crate::coordination::holding::tenure::TenureState;
use crate::coordination::names::Names;
use crate::coordination::{Tenure, unpoisoned};
use crate::engine::Tick;
use crate::protocol::scheme::{Lines, Subject};

impl Tenure {
    /// Attempts of this client wait from now on, if a release that leaves nothing was decided. Raised when the hold leaves,
    /// not when the release is sent: an attempt could be sent in between.
    pub(super) fn raise_barrier(&self, names: &mut Names, state: &mut TenureState, now: Tick) {
        if state.count.phase() != Phase::Closed || state.barring != Lines::NONE {
            return;
        }
        // Holders of a shared kind come and go all the time. A caller that waited before this release began does not wait
        // for it: else it might never attempt.
        let is_shared = self.scheme.waiting().is_shared;
        let mut bar = |subject: &Subject| {
            let bars = !is_shared || !names.is_waited_for(subject);
            if bars {
                names.release_begins(subject, now);
            }
            bars
        };
        let barred = self.scheme.barred();
        state.barring = Lines {
            own: barred.own && bar(self.scheme.subject()),
            sibling: barred.sibling
                && (self.scheme.sibling()).is_some_and(|sibling| bar(&sibling.subject)),
        };
    }

    /// Attempts of this client no longer wait.
    pub(super) fn lift_barrier(&self, names: &mut Names, barring: Lines, end: ReleaseEnd) {
        let own = barring.own.then(|| self.scheme.subject());
        let sibling = self.scheme.sibling().filter(|_| barring.sibling);
        for subject in own.into_iter().chain(sibling.map(|other| &other.subject)) {
            names.change(subject, |entry| entry.release_ended(&self.core, end));
        }
    }

    /// Our release is not answered in time: attempts no longer wait for it.
    pub(super) fn give_barrier_up(&self) {
        let mut names = unpoisoned(&self.core.names);
        let barring = std::mem::take(&mut unpoisoned(&self.state).barring);
        self.lift_barrier(&mut names, barring, ReleaseEnd::GivenUp);
    }
}
