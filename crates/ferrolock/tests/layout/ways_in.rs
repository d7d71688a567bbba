//! Every way to connect to a server except TLS: TCP, a Unix socket, a database, an existing client.

use ferrolock::Client;
use testkit::{Server, servers};

use crate::{on_each_server, runtime};

pub(crate) async fn works(client: &Client) {
    let guard = client.lock("orders").lock().await.unwrap();
    assert!(guard.is_held());
    assert!(client.lock("orders").try_lock().await.unwrap().is_none());
    guard.unlock().await.unwrap();
    client.ping().await.unwrap();
}

#[test]
fn a_unix_socket_works_in_all_its_spellings() {
    for kind in servers() {
        let server = Server::builder(kind).unix_socket().start();
        let path = server.socket();
        let path = path.to_str().unwrap();
        runtime().block_on(async {
            for url in [
                server.url(),
                format!("unix:{path}"),
                format!("unix://{path}?db=3"),
                format!("redis+unix://{path}"),
            ] {
                works(&Client::connect(url).await.unwrap()).await;
            }
        });
    }
}

#[test]
fn locks_of_different_databases_are_different_locks() {
    on_each_server(async |server| {
        let first = Client::connect(server.url()).await.unwrap();
        let third = Client::connect(format!("{}/3", server.url()))
            .await
            .unwrap();

        let guard = first.lock("orders").lock().await.unwrap();
        let other = third.lock("orders").try_lock().await.unwrap().unwrap();

        let mut look = server.connect();
        look.command(&["SELECT", "3"]);
        assert_eq!(look.command(&["KEYS", "*"]).texts(), ["orders"]);
        other.unlock().await.unwrap();
        assert_eq!(look.command(&["KEYS", "*"]).texts(), [""; 0]);
        assert_eq!(server.keys(), ["orders"]);
        guard.unlock().await.unwrap();
    });
}

#[test]
fn an_existing_client_gives_its_address_credentials_and_database() {
    for kind in servers() {
        let server = Server::builder(kind).requirepass("secret").start();
        runtime().block_on(async {
            let url = format!("{}/2", server.url());
            let existing = redis::Client::open(url).unwrap();
            let client = Client::builder()
                .redis_client(existing)
                .name("billing")
                .connect()
                .await
                .unwrap();

            let guard = client.lock("orders").lock().await.unwrap();
            let mut look = server.connect();
            let clients = look.command(&["CLIENT", "LIST"]).text();
            let ours = clients.lines().find(|line| line.contains("name=billing"));
            assert!(ours.is_some_and(|line| line.contains("db=2")), "{clients}");
            guard.unlock().await.unwrap();
        });
    }
}

#[test]
fn connecting_to_a_closed_port_fails_at_once_with_a_clear_error() {
    let port = testkit::ClosedPort::new();
    let at = format!("redis://{}", port.address());
    runtime().block_on(async {
        let error = Client::connect(&at).await.unwrap_err();

        assert_eq!(error.kind(), ferrolock::ErrorKind::Unreachable);
        assert_eq!(
            error.to_string(),
            format!("unreachable: cannot connect to {at}: connection refused: is a server running there?")
        );
    });
}
