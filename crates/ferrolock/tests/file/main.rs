//! What can happen to a `file:` store: processes that are killed or stopped, files that are removed, replaced, damaged or
//! foreign, disks that are full. There are never two holders, and nothing is destroyed.
//!
//! Other processes are this binary started again: [`Actor`](actor::Actor) executes the commands of its test. Tests that need
//! root or namespaces try to get them, and report if that is not possible.
#![cfg(all(feature = "embedded", target_os = "linux"))]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "test code: a failure ends the test, and processes live in real time"
)]

mod actor;
#[path = "../stage/causes.rs"]
mod causes;
mod deaths;
mod forks;
mod headers;
mod mounts;
mod refusals;
mod remains;
mod removed;
mod sessions;
mod stage;
mod stopped;
mod storm;
mod twice;
mod wakes;

testkit::roles![actor::actor, forks::parent, storm::swimmer];
