//! Waiting on real servers: who gets the lock, after what, how soon, and what it costs.
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
#![cfg(feature = "redis")]

/// One test per server for each of these functions, which take a [`testkit::Kind`].
macro_rules! on_each_server {
    (alone: $($name:ident),+ $(,)?) => { on_each_server!(@ alone $($name)+); };
    ($($name:ident),+ $(,)?) => { on_each_server!(@ among_others $($name)+); };
    (@ $how:ident $($name:ident)+) => {
        mod redis {
            $(#[test] fn $name() { crate::support::$how(testkit::Kind::Redis, super::$name) })+
        }
        mod valkey {
            $(#[test] fn $name() { crate::support::$how(testkit::Kind::Valkey, super::$name) })+
        }
    };
}

mod crowds;
mod fairness;
#[cfg(feature = "metrics")]
mod handoffs;
mod lazily;
mod offers;
mod runtimes;
mod silence;
mod subscriptions;
mod support;
mod wakes;

#[cfg(not(feature = "metrics"))]
#[test]
fn handoffs() {
    testkit::left_out(
        "without the feature `metrics`",
        "build with `--all-features`\n",
    );
}
