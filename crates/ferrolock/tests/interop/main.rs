//! Ours and the real Redisson on one server: the same lock, seen from both sides.
//!
//! | file | what it tests |
//! |---|---|
//! | [`scene`] | a server with a client of each side, and how a test runs on it |
//! | [`record`] | every command that a server was sent |
//! | [`crowd`] | waiters of both sides for one lock |
//! | [`taking_over`] | one side holds: the other finds the lock busy until it is free, and then gets it at once |
//! | [`handing_over`] | two thousand hand-offs back and forth, each by a message |
//! | [`contending`] | two JVMs and two processes of ours compete for one lock: exclusion, and a share for each side |
//! | [`queueing`] | waiters of both sides in one fair queue: order, wake-ups |
//! | [`lining_up`] | one fair queue for thousands of grants: exact counts, no overtaking, no pause |
//! | [`agreeing`] | random scripts: at every step both sides, a model and the server agree |
//! | [`reentering`] | one side enters more than once: the other sees every step |
//! | [`renewing`] | the watchdog of each side keeps its locks from the other; ours makes no renewal after a release |
//! | [`forcing`] | one side forces a lock of the other open: how the holder finds out, and which waiter gets the lock |
//! | [`crashing`] | a process of one side dies: the other goes on |
//! | [`freezing`] | a process of one side is stopped for longer than its lease, and continues too late |
//! | [`sharing`] | the read-write lock: who gets in beside whom, and which message wakes whom |
//! | [`sort`] | the fenced, spin, multi and red locks of both sides, which are tested alike |
//! | [`excluding`] | these locks: each side keeps the other out, lets it in when it leaves, and counts exactly beside it |
//! | [`dying`] | a process of one side dies and holds one of each: the other goes on |
//! | [`fencing`] | one row of fences, whoever takes the lock |
//! | [`voting`] | a majority of three servers means the same to both sides |
//! | [`differing`] | what the two sides do differently |
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
mod crashing;
mod crowd;
mod differing;
mod dying;
mod excluding;
mod fencing;
mod forcing;
mod freezing;
#[cfg(feature = "metrics")]
#[path = "../stage/grants.rs"]
mod grants;
#[cfg(feature = "metrics")]
mod handing_over;
mod lining_up;
mod queueing;
mod record;
mod reentering;
mod renewing;
mod sharing;
mod sort;
mod taking_over;
mod voting;

testkit::roles![
    contending::contender,
    crashing::mortal,
    dying::holder,
    freezing::sleeper_of_ours,
    #[cfg(feature = "metrics")]
    handing_over::taker,
    lining_up::waiters,
    taking_over::holder,
];

#[cfg(not(feature = "metrics"))]
#[test]
fn handing_over() {
    testkit::left_out(
        "without the feature `metrics`",
        "build with `--all-features`\n",
    );
}
