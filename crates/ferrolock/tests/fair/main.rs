//! The fair lock: who comes first is served first, across clients and processes, and the dead are skipped.
#![allow(missing_docs, reason = "test code")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "test code: a failure ends the test, and real servers live in real time"
)]
#![cfg(all(feature = "redis", feature = "embedded"))]

#[macro_use]
#[path = "../stage/mod.rs"]
mod stage;

mod crowd;
mod deaths;
mod order;
mod servers;
mod support;

testkit::roles![crowd::member, support::waiter];
