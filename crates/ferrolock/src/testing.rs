//! What unit tests of several parts share.

pub(crate) mod census;
pub(crate) mod lying;
#[cfg(feature = "embedded")]
pub(crate) mod scenes;
#[cfg(feature = "embedded")]
mod simulation;
