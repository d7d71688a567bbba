//! A server whose memory is full: it refuses new locks, and lets every hold be kept, left and given back.

use std::time::Duration;

use ferrolock::{Client, ErrorKind, Owner, Unlocked};
use testkit::{Kind, Reply, Server, servers};

use crate::runtime;

fn full(server: &Server) {
    let set = server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(set, Reply::from("OK"));
}

fn start(kind: Kind) -> Server {
    let config = "maxmemory-policy noeviction";
    Server::builder(kind).config(config).start()
}

/// How often the one holder has entered, as the server has it.
fn count(server: &Server, name: &str) -> Vec<String> {
    server.command(&["HVALS", name]).texts()
}

#[test]
fn a_full_server_refuses_a_new_lock() {
    for kind in servers() {
        let server = start(kind);
        runtime().block_on(async {
            let client = Client::connect(server.url()).await.unwrap();
            full(&server);

            let error = client.lock("orders").lock().await.unwrap_err();

            assert_eq!(
                (error.kind(), error.code()),
                (ErrorKind::Refused, Some("OOM"))
            );
            assert!(server.keys().is_empty());
        });
    }
}

/// The count on the server is lowered by a write that a full server would refuse, were it the first of its script.
#[test]
fn one_hold_of_several_is_given_back_on_a_full_server() {
    for kind in servers() {
        let server = start(kind);
        runtime().block_on(async {
            let client = Client::connect(server.url()).await.unwrap();
            // One whose lease need not be raised, and one for whose other hold it is raised.
            for (name, inner) in [("as it is", 10), ("raised", 60)] {
                let lock = client.lock(name).owned_by(&Owner::new());
                let outer = lock.lock().await.unwrap();
                let inner = lock.clone().lease(Duration::from_secs(inner));
                let inner = inner.lock().await.unwrap();
                assert_eq!(count(&server, name), ["2"]);
                full(&server);

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
            full(&server);

            outer.renew(Duration::from_secs(60)).await.unwrap();
            let inner = outer.relock().await.unwrap();

            assert_eq!(count(&server, "orders"), ["2"]);
            drop(inner);
            outer.check().await.unwrap();
            outer.unlock().await.unwrap();
        });
    }
}
