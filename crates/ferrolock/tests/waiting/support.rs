//! What the tests on servers share.

use std::time::Duration;

use ferrolock::Client;
use testkit::Server;
use tokio::time::Instant;

use crate::stage::Party;

pub(crate) async fn connect(server: &Server) -> Party {
    connect_to(&server.url()).await
}

/// With plain locks.
pub(crate) async fn connect_to(url: &str) -> Party {
    Client::connect(url).await.unwrap().into()
}

/// Prints what was measured beside what is promised, and allows ten times the promise: the machine is shared.
pub(crate) fn took(what: &str, who: &str, begun: Instant, promised: Duration) {
    let took = begun.elapsed();
    eprintln!("{who}: {what}: {took:.1?} (promised {promised:?})");
    assert!(took <= promised * 10, "{what}: {took:?} of {promised:?}");
}
