//! Holding a lock on real servers: it is kept while its holder works, and its loss is told in time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::disallowed_methods,
    unreachable_pub,
    reason = "test code: a failure ends the test, and real servers live in real time"
)]

#[macro_use]
mod support;

mod keeping;
mod losing;
mod paused;
mod refusals;
mod storm;
mod work;
