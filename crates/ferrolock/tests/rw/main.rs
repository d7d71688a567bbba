//! The read-write lock: readers share it, a writer is alone.
//!
//! A story is written once, as an `async fn` over a [`Stage`](stage::Stage), and runs in paused time on `memory:`, and in real
//! time on `file:` and on each server.
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

mod crowds;
mod cuts;
mod deadlocks;
mod downgrading;
mod dropped;
mod holding;
mod preferring;
mod sharing;
mod support;
