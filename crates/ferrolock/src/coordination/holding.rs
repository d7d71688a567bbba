//! Who holds: tenures, the holds of each, and how they are given back.

pub(crate) mod count;
mod delayed;
pub(crate) mod hold;
pub(crate) mod reenter;
pub(crate) mod release;
mod stranded;
pub(crate) mod tenure;
pub(crate) mod unlock_answer;
