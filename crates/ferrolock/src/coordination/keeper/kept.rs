//! What the keeper has of one client, for tests.

use crate::coordination::keeper::{Alarm, Job, Keeper};
use crate::coordination::{Core, unpoisoned};

/// How many of each there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) watched: usize,
    pub(crate) debts: usize,
    pub(crate) alarms: usize,
    pub(crate) jobs: usize,
}

impl Keeper {
    /// Whether this thread could use it now.
    pub(crate) fn is_free(&self) -> bool {
        self.state.try_lock().is_ok()
    }

    pub(crate) fn kept_for(&self, core: &Core) -> Kept {
        let ours = |other: &Core| std::ptr::eq(other, core);
        let state = unpoisoned(&self.state);
        let alarms = state.alarms.values().filter(|alarm| match alarm {
            Alarm::Unlock(hold, ..) | Alarm::Renewal(hold) => ours(&hold.tenure.core),
            Alarm::First(of, _) => ours(of),
            Alarm::Close(of) => of.upgrade().is_some_and(|of| ours(&of)),
        });
        let jobs = state.jobs.iter().filter(|job| match job {
            Job::Settle(tenure, _) | Job::Connect(tenure) => ours(&tenure.core),
        });
        Kept {
            alarms: alarms.count(),
            jobs: jobs.count(),
            watched: state
                .watch
                .holds(|watched| ours(&watched.hold.tenure.core))
                .len(),
            debts: state.debts.count(|debt| ours(&debt.what.tenure().core)),
        }
    }
}
