//! Ends of every kind: futures dropped half-way, guards dropped anywhere, clients shut down. Nothing is left behind.
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

mod dropped_futures;
mod dropped_futures_on_servers;
mod dropped_guards;
mod many;
mod shutdown;
mod world;
