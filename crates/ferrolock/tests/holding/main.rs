//! Holding a lock: it is kept while its holder works, and the holder learns of its loss in time.
//!
//! What is promised on every engine is tested by stories, which run on every engine. Servers that refuse, hang, die or are
//! cut off are tested on servers only.
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
#[path = "../stage/mod.rs"]
mod stage;

mod batches;
mod keeping;
mod losing;
mod paused;
mod refusals;
mod renewals;
mod storm;
mod support;
mod work;

testkit::roles![paused::holder];
