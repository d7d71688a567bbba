//! What the tests on servers share.

use std::time::Duration;

use ferrolock::Client;
use testkit::Server;
use tokio::time::Instant;

pub(crate) async fn connect(server: &Server) -> Client {
    Client::connect(server.url()).await.unwrap()
}

/// Prints what was measured beside what is promised, and allows ten times the promise: the machine is shared.
pub(crate) fn took(what: &str, who: &str, begun: Instant, promised: Duration) {
    let took = begun.elapsed();
    eprintln!("{who}: {what}: {took:.1?} (promised {promised:?})");
    assert!(took <= promised * 10, "{what}: {took:?} of {promised:?}");
}
