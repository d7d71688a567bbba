//! The Java peer, on real servers: it executes commands and answers with their results.
#![allow(
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code"
)]

mod bench;
mod dialogue;
mod kinds;
mod lives;
mod loops;
mod times;

testkit::roles![lives::landlord];

use testkit::java::JavaClient;
use testkit::{JavaPeer, Kind, Server};

/// A client of the newest Redisson and its own server; the peer's own tests need only one kind of server.
struct Stage {
    // Before the server: fields are dropped in this order.
    client: JavaClient,
    server: Server,
}

#[track_caller]
fn stage() -> Option<Stage> {
    let java = JavaPeer::here()?;
    if !Kind::Redis.is_here() {
        return None;
    }
    let server = Server::start(Kind::Redis);
    let client = java.open(&server);
    Some(Stage { client, server })
}
