//! Two owners never hold at once, and a hold belongs to its owner.
//!
//! A story is written once, as an `async fn` over a [`Stage`](stage::Stage), and runs in paused time on `memory:`, and in real
//! time on `file:` and on each server. What needs a broken network runs on the servers only.
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

mod contention;
mod cuts;
mod giving_back;
mod inspection;
mod lists;
mod numbers;
mod ownership;
mod reentry;
mod self_made;

testkit::roles![contention::contender];
