//! Ends of every kind: futures dropped half-way, guards dropped anywhere, clients shut down. Nothing is left behind.
//!
//! Tested by stories, which run on every engine. What only a server shows (subscriptions, commands, connections) is checked on
//! servers only.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "test code"
)]

#[macro_use]
#[path = "../stage/mod.rs"]
mod stage;

mod dropped_connecting;
mod dropped_futures;
mod dropped_guards;
mod dropped_waits;
mod given_up;
mod many;
mod shutdown;
mod world;

testkit::roles![
    dropped_guards::short_program,
    given_up::impatient_program,
    many::busy_program,
];
