//! What a client still has here, for tests that check that nothing is left.

use crate::coordination::keeper::KeptCounts;
use crate::coordination::{Core, unpoisoned};

/// How many of each there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) entries: usize,
    pub(crate) tenures: usize,
    pub(crate) pending: usize,
    pub(crate) kept: KeptCounts,
}

impl Core {
    pub(crate) fn census(&self) -> Census {
        let (entries, tenures) = {
            let names = unpoisoned(&self.names);
            (names.entries(), names.tenures().len())
        };
        Census {
            entries,
            tenures,
            pending: self.pending.all(),
            kept: self.keeper().kept_for(self),
        }
    }
}
