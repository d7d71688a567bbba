//! Who holds: tenures, the holds of each, and how they are given back.

mod barrier;
pub(crate) mod bundle;
pub(super) mod count;
mod delayed;
pub(super) mod entrant;
pub(super) mod first_acquire;
pub(crate) mod hold;
pub(crate) mod joint;
mod kept;
pub(super) mod reenter;
pub(crate) mod release;
mod stranded;
pub(crate) mod tenure;
mod unlock_alarm;
pub(super) mod unlock_answer;
