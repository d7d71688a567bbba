//! What a client still has here, for tests that say that nothing is left.

use super::keeper::Kept;
use super::{Core, unpoisoned};

/// How many of each there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) seats: usize,
    pub(crate) tenures: usize,
    pub(crate) errands: usize,
    pub(crate) kept: Kept,
}

impl Core {
    pub(crate) fn census(&self) -> Census {
        let (seats, tenures) = {
            let desk = unpoisoned(&self.desk);
            (desk.seats(), desk.tenures().len())
        };
        Census {
            seats,
            tenures,
            errands: self.errands.all(),
            kept: self.keeper().kept_for(self),
        }
    }
}
