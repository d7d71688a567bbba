//! Who holds: tenures, the holds of each, and how they are given back.

pub(crate) mod count;
mod delayed;
pub(crate) mod entrant;
pub(crate) mod first_acquire;
pub(crate) mod hold;
mod kept;
pub(crate) mod reenter;
pub(crate) mod release;
mod stranded;
pub(crate) mod tenure;
mod unlock_alarm;
pub(crate) mod unlock_answer;
