//! `ferrolock run`, with real commands.
//!
//! A story is a test that is written once, over a [`Stage`](stage::Stage), and runs on a store in a folder and on a real
//! server. Tests of a server that does not answer run on a server only.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "test code: a failure ends the test, and real commands live in real time"
)]

#[macro_use]
mod stage;
mod run;

mod crowds;
mod default_store;
mod environment;
mod events;
mod exit_codes;
mod killed;
mod kinds;
mod losing;
mod max_hold;
mod pty;
mod signals;
mod silence;
mod terminal;
mod waiting;

testkit::roles![silence::writer];
