//! Distributed locks and synchronizers on Redis or Valkey, or inside one process.
#![allow(
    dead_code,
    reason = "the skeleton: taken out as soon as the layers meet"
)]

mod engine;
mod protocol;
