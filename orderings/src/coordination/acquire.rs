//! The library's slot.

#[path = "../../../crates/ferrolock/src/coordination/acquire/slot.rs"]
pub(crate) mod slot;
