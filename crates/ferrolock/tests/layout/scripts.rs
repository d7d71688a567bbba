//! When our scripts are sent to a server: with each new connection, or with the first call of a user who may not load any.

use std::time::Duration;

use ferrolock::Client;
use testkit::{Kind, LIMIT, Proxy, Server, eventually_async, servers};
use tokio::time::sleep;

use crate::{on_each_server, runtime};

/// Everything but loading scripts.
const MAY_NOT_LOAD: &str = "alice on >secret ~* &* +@all -script|load";

fn calls(server: &Server, command: &str) -> u64 {
    let stats = server.commandstats();
    stats.get(command).copied().unwrap_or_default()
}

#[test]
fn the_first_lock_and_unlock_need_one_command_each() {
    on_each_server(async |server| {
        let client = Client::connect(server.url()).await.unwrap();

        let guard = client.lock("orders").lock().await.unwrap();
        guard.unlock().await.unwrap();

        assert_eq!((calls(server, "evalsha"), calls(server, "eval")), (2, 0));
    });
}

/// A restarted server knows no script; each new connection loads them.
#[test]
fn the_next_connection_loads_scripts_that_the_server_forgot() {
    on_each_server(async |server| {
        let proxy = Proxy::start(server.address());
        let client = Client::connect(server.url_at(proxy.port())).await.unwrap();
        server.command(&["SCRIPT", "FLUSH"]);
        proxy.cut();

        let guard = client.lock("orders").lock().await.unwrap();
        guard.unlock().await.unwrap();

        assert_eq!(calls(server, "eval"), 0);
    });
}

#[test]
fn scripts_that_the_server_forgot_are_sent_with_their_first_call() {
    on_each_server(async |server| {
        let client = Client::connect(server.url()).await.unwrap();
        let loaded = calls(server, "script|load");
        let guard = client.lock("orders").lock().await.unwrap();
        guard.unlock().await.unwrap();
        // With the first hold the keeper's connection is made, and loads the scripts too.
        eventually_async(LIMIT, "both have told", async || {
            calls(server, "script|load") == 2 * loaded
        })
        .await;
        server.command(&["SCRIPT", "FLUSH"]);

        for _ in 0..3 {
            let guard = client.lock("orders").lock().await.unwrap();
            guard.unlock().await.unwrap();
        }

        assert_eq!(calls(server, "eval"), 2);
    });
}

fn restricted(kind: Kind) -> (Server, String) {
    let server = Server::builder(kind).acl(MAY_NOT_LOAD).start();
    let url = format!("redis://alice:secret@{}", server.address());
    (server, url)
}

#[test]
fn a_user_who_may_not_load_scripts_sends_each_with_its_first_call() {
    for kind in servers() {
        let (server, url) = restricted(kind);
        runtime().block_on(async {
            let client = Client::connect(url).await.unwrap();

            for _ in 0..3 {
                let guard = client.lock("orders").lock().await.unwrap();
                guard.unlock().await.unwrap();
            }
            assert_eq!(calls(&server, "eval"), 2);
        });
    }
}

/// The answer that the script is unknown comes after its caller was dropped: the script's text is not sent then.
#[test]
fn a_script_is_not_sent_for_a_call_that_was_dropped() {
    for kind in servers() {
        let (server, _) = restricted(kind);
        let proxy = Proxy::start(server.address());
        runtime().block_on(async {
            let url = format!("redis://alice:secret@127.0.0.1:{}", proxy.port());
            let client = Client::connect(url).await.unwrap();
            proxy.hold_requests(true);
            let asks = tokio::spawn(client.lock("orders").lock());
            eventually_async(LIMIT, "it is sent", async || proxy.bytes_held() > 0).await;
            asks.abort();
            assert!(asks.await.unwrap_err().is_cancelled());
            proxy.hold_requests(false);

            // Replies come in order: with this one the other has come too, and the text would have been sent by now.
            client.ping().await.unwrap();
            sleep(Duration::from_millis(10)).await;
            client.ping().await.unwrap();
            // This one is of the pings, which use another script.
            assert_eq!(calls(&server, "eval"), 1);
            assert!(server.keys().is_empty());
        });
    }
}
