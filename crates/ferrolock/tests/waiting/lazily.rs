//! A program that starts before its server. Nothing starts before the embedded engines: they are inside the program.

use ferrolock::{Client, ErrorKind};
use testkit::{Kind, Server};
use tokio::time::Instant;

use crate::stage::ms;
use crate::support::took;

on_each_server!(a_lazy_client_waits_for_its_server);

async fn a_lazy_client_waits_for_its_server(kind: Kind) {
    let server = Server::start(kind);
    server.kill();
    let client = Client::builder()
        .url(server.url())
        .command_limit(ms(300))
        .connect_lazy()
        .unwrap();
    let early = client.lock("a").try_lock().await.unwrap_err();
    assert_eq!(early.kind(), ErrorKind::Unreachable, "{early}");
    let waiter = tokio::spawn(client.lock("a").lock());
    tokio::time::sleep(ms(100)).await;
    assert!(!waiter.is_finished());

    server.restart();
    let begun = Instant::now();

    assert!(waiter.await.unwrap().unwrap().is_held());
    took(
        "a waiter after its server came up",
        kind.name(),
        begun,
        ms(2000),
    );
}
