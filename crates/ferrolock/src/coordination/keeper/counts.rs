//! What the keeper has of one client, for tests.

#[cfg(feature = "embedded")]
use std::sync::Arc;

#[cfg(feature = "embedded")]
use crate::coordination::keeper::kept::Kept;
use crate::coordination::keeper::{Job, Keeper};
use crate::coordination::{Core, unpoisoned};

/// How many of each there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeptCounts {
    pub(super) watched: usize,
    pub(super) debts: usize,
    pub(super) alarms: usize,
    pub(super) jobs: usize,
}

impl Keeper {
    /// Whether this thread could use it now.
    pub(crate) fn is_free(&self) -> bool {
        self.state.try_lock().is_ok()
    }

    /// All that are offered or kept.
    #[cfg(feature = "embedded")]
    pub(super) fn holds(&self) -> Vec<Arc<dyn Kept>> {
        let watched = unpoisoned(&self.state).watch.holds(|_| true);
        watched.into_iter().map(|watched| watched.hold).collect()
    }

    pub(crate) fn kept_for(&self, core: &Core) -> KeptCounts {
        let ours = |other: &Core| std::ptr::eq(other, core);
        let state = unpoisoned(&self.state);
        let here = std::ptr::from_ref(core).addr();
        let alarms = state.alarms.values().filter(|alarm| alarm.of == here);
        let jobs = state.jobs.iter().filter(|job| match job {
            Job::Settle(tenure, _) => ours(tenure.core()),
            Job::Connect(core) => ours(core),
        });
        KeptCounts {
            alarms: alarms.count(),
            jobs: jobs.count(),
            watched: state.watch.holds(|watched| ours(watched.hold.core())).len(),
            debts: state.debts.count(|debt| ours(debt.what.tenure().core())),
        }
    }
}
