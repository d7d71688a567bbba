//! Bad input, ways to connect, and what lies on the server: what callers and other libraries see of this one.
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

mod actor;
mod after_loss;
mod bad_input;
mod differences;
mod examples;
mod full;
mod journal;
mod player;
mod programs;
mod refusals;
mod replay;
mod scripts;
mod secrets;
#[cfg(feature = "tls")]
mod tls;
mod ways_in;
mod wrong_type;

#[cfg(not(feature = "tls"))]
#[test]
fn tls() {
    testkit::left_out("without the feature `tls`", "build with `--all-features`\n");
}

use ferrolock::Client;
use testkit::{Server, servers};

/// Runs a test on a fresh server of each kind.
pub(crate) fn on_each_server(test: impl AsyncFn(&Server)) {
    for kind in servers() {
        let server = Server::start(kind);
        runtime().block_on(test(&server));
    }
}

/// Two workers: the tests' own calls to a server block.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

pub(crate) async fn connect(server: &Server) -> Client {
    Client::connect(server.url()).await.unwrap()
}
