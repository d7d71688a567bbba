//! Waiting: which waiter gets the lock, after what, how soon, and what it costs.
//!
//! What is promised on every engine is tested by stories, which run on every engine. Broken connections, silent servers and
//! the count of commands are tested on servers only.
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
#[cfg(feature = "metrics")]
#[path = "../stage/grants.rs"]
mod grants;

mod crowds;
mod fairness;
#[cfg(feature = "metrics")]
mod handoffs;
mod lazily;
mod offers;
mod prefixes;
mod runtimes;
mod silence;
mod subscriptions;
mod support;
mod wakes;

testkit::roles![
    fairness::customer,
    #[cfg(feature = "metrics")]
    handoffs::relay,
    offers::other_process,
    wakes::holder,
];

#[cfg(not(feature = "metrics"))]
#[test]
fn handoffs() {
    testkit::left_out(
        "without the feature `metrics`",
        "build with `--all-features`\n",
    );
}
