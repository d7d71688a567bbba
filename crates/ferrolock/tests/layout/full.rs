//! A server whose memory is full: it refuses new locks; every hold can still be renewed, entered again and released.

use std::time::Duration;

use ferrolock::{Client, ErrorKind, Owner, Unlocked};
use testkit::{Kind, Reply, Server, servers};

use crate::runtime;

fn fill(server: &Server) {
    let set = server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(set, Reply::from("OK"));
}

fn start(kind: Kind) -> Server {
    let config = "maxmemory-policy noeviction";
    Server::builder(kind).config(config).start()
}

/// How often the only holder has entered, according to the server.
fn count(server: &Server, name: &str) -> Vec<String> {
    server.command(&["HVALS", name]).texts()
}

#[test]
fn a_full_server_refuses_a_new_lock() {
    for kind in servers() {
        let server = start(kind);
        runtime().block_on(async {
            let client = Client::connect(server.url()).await.unwrap();
            fill(&server);

            let error = client.lock("orders").lock().await.unwrap_err();

            assert_eq!(
                (error.kind(), error.code()),
                (ErrorKind::Refused, Some("OOM"))
            );
            assert!(server.keys().is_empty());
        });
    }
}

/// The count on the server is lowered by a write that a full server would refuse if it were the first of its script.
#[test]
fn one_hold_of_several_is_released_on_a_full_server() {
    for kind in servers() {
        let server = start(kind);
        runtime().block_on(async {
            let client = Client::connect(server.url()).await.unwrap();
            // In the first case the lease stays as it is; in the second it is raised for the other hold.
            for (name, inner) in [("as it is", 10), ("raised", 60)] {
                let lock = client.lock(name).owned_by(&Owner::new());
                let outer = lock.lock().await.unwrap();
                let inner = lock.clone().lease(Duration::from_secs(inner));
                let inner = inner.lock().await.unwrap();
                assert_eq!(count(&server, name), ["2"]);
                fill(&server);

                assert_eq!(inner.unlock().await.unwrap(), Unlocked::StillHeld(1));

                assert_eq!(count(&server, name), ["1"]);
                assert_eq!(outer.unlock().await.unwrap(), Unlocked::Released);
                assert!(server.keys().is_empty());
                server.command(&["CONFIG", "SET", "maxmemory", "0"]);
            }
        });
    }
}

#[test]
fn an_owner_enters_again_and_a_hold_is_renewed_on_a_full_server() {
    for kind in servers() {
        let server = start(kind);
        runtime().block_on(async {
            let client = Client::connect(server.url()).await.unwrap();
            let outer = client.lock("orders").lock().await.unwrap();
            fill(&server);

            outer.renew(Duration::from_secs(60)).await.unwrap();
            let inner = outer.relock().await.unwrap();

            assert_eq!(count(&server, "orders"), ["2"]);
            drop(inner);
            outer.check().await.unwrap();
            outer.unlock().await.unwrap();
        });
    }
}
