//! A server whose memory is full: it refuses new locks; every hold can still be renewed, entered again and released.

use std::time::Duration;

use ferrolock::{Client, ErrorKind, Owner, Unlocked};
use testkit::{Kind, LIMIT, Reply, Server, eventually, servers};

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

#[test]
fn both_sides_of_a_read_write_lock_are_given_back_on_a_full_server() {
    for kind in servers() {
        let server = start(kind);
        runtime().block_on(async {
            let client = Client::connect(server.url()).await.unwrap();
            let lock = client.rw_lock("shelf").owned_by(&Owner::new());
            let reading = lock.read().await.unwrap();
            let again = reading.relock().await.unwrap();
            let writer = client.rw_lock("shelf").prefer_writers();
            let waits = tokio::spawn(writer.try_write_for(Duration::from_millis(300)));
            let intent = "ferrolock_rw_intent:{shelf}";
            eventually(LIMIT, "a writer waits", || {
                server.keys().contains(&intent.to_owned())
            });
            fill(&server);

            assert!(
                waits.await.unwrap().is_err(),
                "a full server takes no intent"
            );
            eventually(LIMIT, "it has given up", || {
                !server.keys().contains(&intent.to_owned())
            });
            assert_eq!(again.unlock().await.unwrap(), Unlocked::StillHeld(1));
            reading.renew(Duration::from_secs(60)).await.unwrap();
            assert_eq!(reading.unlock().await.unwrap(), Unlocked::Released);
            assert!(server.keys().is_empty());
            let error = lock.read().await.unwrap_err();
            assert_eq!(error.code(), Some("OOM"), "{error}");
            let error = lock.write().await.unwrap_err();
            assert_eq!(error.code(), Some("OOM"), "{error}");
            assert!(server.keys().is_empty());
        });
    }
}

#[test]
fn a_writer_becomes_a_reader_on_a_full_server() {
    for kind in servers() {
        let server = start(kind);
        runtime().block_on(async {
            let client = Client::connect(server.url()).await.unwrap();
            let writing = client
                .rw_lock("shelf")
                .label("import")
                .write()
                .await
                .unwrap();
            let again = writing.relock().await.unwrap();
            fill(&server);

            assert_eq!(again.unlock().await.unwrap(), Unlocked::StillHeld(1));
            let reading = writing.downgrade().await.unwrap();

            reading.check().await.unwrap();
            reading.unlock().await.unwrap();
            assert!(server.keys().is_empty());
        });
    }
}
