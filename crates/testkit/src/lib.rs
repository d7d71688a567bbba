//! Servers, faults and harnesses for the tests of this workspace.
//!
//! * [`Server`] starts a real Redis or Valkey; [`servers`] says which of them are here.
//! * [`Proxy`] stands between a client and a server and breaks the network on demand.
//! * [`StubServer`] plays a server that is not what it should be.
//! * [`process::Child`] is the test binary started again, to be stopped and killed.
//! * [`JavaPeer`] is the real Redisson in a JVM, which executes one command per line.
//! * [`polling`] drops futures half-way; [`wait`] waits until a condition is true.
//! * [`Counter`] shows broken exclusion; [`fixtures`] holds what the real Redisson did.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code: a failure ends the test, and real servers live in real time"
)]

mod certificates;
mod closed_port;
mod connection;
mod counter;
pub mod fixtures;
mod frames;
pub mod java;
mod keyspace;
mod kind;
mod leash;
mod monitor;
pub mod polling;
pub mod process;
mod proxy;
mod resp;
mod seeds;
mod server;
mod stalls;
mod stub;
pub mod wait;

pub use certificates::Certificates;
pub use closed_port::ClosedPort;
pub use connection::{Address, Connection};
pub use counter::Counter;
pub use java::{JavaPeer, Redisson};
pub use keyspace::{Entry, Value};
pub use kind::{Kind, left_out, servers};
pub use monitor::Monitor;
pub use polling::{DropOutcome, drop_after_polls, poll_once};
pub use proxy::Proxy;
pub use resp::Reply;
pub use seeds::seed;
pub use server::{Builder, Server};
pub use stalls::Stalls;
pub use stub::{Answer, Seen, StubServer};
pub use wait::{LIMIT, eventually, eventually_async, within};

/// How many rounds a test plays: `short` of them, or with `FERROLOCK_LONG=1` (`cargo xtask test --long`) `long` ones.
pub fn count(short: u32, long: u32) -> u32 {
    match std::env::var("FERROLOCK_LONG") {
        Ok(value) if value == "1" => long,
        _ => short,
    }
}

/// A directory for a store that only this test uses, as private as a store has to be.
pub fn store_folder() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let private = std::fs::Permissions::from_mode(0o700);
    let folder = tempfile::Builder::new().permissions(private).tempdir();
    folder.expect("a directory for temporary files")
}
