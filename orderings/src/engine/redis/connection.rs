//! The library's pulse.

#[path = "../../../../crates/ferrolock/src/engine/redis/connection/pulse.rs"]
pub(super) mod pulse;
