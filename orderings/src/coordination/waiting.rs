//! The library's slot.

#[path = "../../../crates/ferrolock/src/coordination/waiting/slot.rs"]
pub(crate) mod slot;
