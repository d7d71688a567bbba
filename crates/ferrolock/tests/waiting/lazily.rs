//! A program that starts before its server. No program starts before the embedded engines: they are inside the program.

use ferrolock::{Client, ErrorKind};
use testkit::{Kind, Server};
use tokio::time::Instant;

use crate::stage::{Party, assert_led_to, causes, ms, unique, waits};
use crate::support::took;

on_each_server!(a_lazy_client_waits_for_its_server);

async fn a_lazy_client_waits_for_its_server(kind: Kind) {
    let (server, name) = (Server::start(kind), unique("a"));
    server.kill();
    let builder = Client::builder().url(server.url());
    let client = builder.command_limit(ms(300)).connect_lazy().unwrap();
    let client = Party::from(client);
    let early = client.lock(&name).try_lock().await.unwrap_err();
    assert_eq!(early.kind(), ErrorKind::Unreachable, "{early}");
    let waiter = waits(&client, &name);
    // Both attempts fail.
    causes::attempted(&name, "reconnected", 2).await;

    server.restart();
    let begun = Instant::now();

    assert_led_to("reconnected", &waiter.await.unwrap());
    took(
        "a waiter after its server came up",
        kind.name(),
        begun,
        ms(2000),
    );
}
