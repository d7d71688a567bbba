//! Ours and the real Redisson on one server: the same lock, seen from both sides.
//!
//! | file | what it tells |
//! |---|---|
//! | [`scene`] | a server with a client of each side, and what a story is |
//! | [`taking_over`] | one side holds, the other is busy for as long and gets the lock at once when it is free |
//! | [`handing_over`] | two thousand hand-offs to and fro, each by its message |
//! | [`contending`] | two JVMs and two processes of ours at one lock: exclusion, and a share for each side |
//! | [`agreeing`] | random scripts: at every step both sides, a model and the server agree |
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
mod scene;
mod agreeing;
mod contending;
#[cfg(feature = "metrics")]
#[path = "../stage/grants.rs"]
mod grants;
#[cfg(feature = "metrics")]
mod handing_over;
mod taking_over;

#[cfg(not(feature = "metrics"))]
#[test]
fn handing_over() {
    testkit::left_out(
        "without the feature `metrics`",
        "build with `--all-features`\n",
    );
}
