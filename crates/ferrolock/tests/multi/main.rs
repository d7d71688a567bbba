//! Several locks held as one, on every engine and across engines.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "test code: a failure ends the test, and real servers live in real time"
)]

#[macro_use]
#[path = "../stage/mod.rs"]
mod stage;

mod engines;
mod orders;
