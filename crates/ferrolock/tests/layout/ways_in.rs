//! Every way to a server: TCP, TLS, a Unix socket, a database, a client that is there already.

use ferrolock::{Client, Error, ErrorKind, Tls};
use testkit::{Certificates, Kind, Server, servers};

use crate::{on_each_server, runtime};

async fn works(client: &Client) {
    let guard = client.lock("orders").lock().await.unwrap();
    assert!(guard.is_held());
    assert!(client.lock("orders").try_lock().await.unwrap().is_none());
    guard.unlock().await.unwrap();
    client.ping().await.unwrap();
}

#[track_caller]
fn refused_by_tls(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert_eq!(error.code(), Some("TLS"), "{error}");
    assert!(!error.is_transient());
}

/// Only the Redis program is known to be built with TLS.
fn with_tls(config: &[&str]) -> Option<Server> {
    servers().contains(&Kind::Redis).then(|| {
        config
            .iter()
            .fold(Server::builder(Kind::Redis).tls(), |builder, line| {
                builder.config(line)
            })
            .start()
    })
}

async fn over_tls(server: &Server, tls: Option<Tls>) -> ferrolock::Result<Client> {
    let builder = Client::builder().url(server.url());
    match tls {
        Some(tls) => builder.tls(tls).connect().await,
        None => builder.connect().await,
    }
}

#[test]
fn tls_works_with_an_own_authority_by_file_and_by_text() {
    let Some(server) = with_tls(&[]) else { return };
    assert!(server.url().starts_with("rediss://"));
    let ca = server.certificates().ca();
    runtime().block_on(async {
        works(
            &over_tls(&server, Some(Tls::new().ca_file(&ca)))
                .await
                .unwrap(),
        )
        .await;
        let pem = std::fs::read(&ca).unwrap();
        works(
            &over_tls(&server, Some(Tls::new().ca_pem(pem)))
                .await
                .unwrap(),
        )
        .await;
    });
}

#[test]
fn a_server_that_asks_for_a_client_certificate_gets_it() {
    let Some(server) = with_tls(&["tls-auth-clients yes"]) else {
        return;
    };
    let made = server.certificates();
    runtime().block_on(async {
        let ca = || Tls::new().ca_file(made.ca());
        let files = ca().client_files(made.client(), made.client_key());
        works(&over_tls(&server, Some(files)).await.unwrap()).await;
        let read = |path| std::fs::read(path).unwrap();
        let text = ca().client_pem(read(made.client()), read(made.client_key()));
        works(&over_tls(&server, Some(text)).await.unwrap()).await;

        let error = over_tls(&server, Some(ca())).await.unwrap_err();
        refused_by_tls(&error);
    });
}

#[test]
fn a_server_of_another_authority_is_refused_with_the_reason() {
    let Some(server) = with_tls(&[]) else { return };
    let elsewhere = tempdir();
    let others = Certificates::make(elsewhere.path());
    runtime().block_on(async {
        let error = over_tls(&server, Some(Tls::new().ca_file(others.ca())))
            .await
            .unwrap_err();
        refused_by_tls(&error);
        assert!(error.to_string().contains("certificate"), "{error}");
        // What the system trusts does not include an authority made a moment ago.
        refused_by_tls(&over_tls(&server, None).await.unwrap_err());
        refused_by_tls(&over_tls(&server, Some(Tls::new())).await.unwrap_err());
    });
}

#[test]
fn certificates_that_cannot_be_read_are_told_with_their_path() {
    let Some(server) = with_tls(&[]) else { return };
    runtime().block_on(async {
        let tls = Tls::new().ca_file("/nowhere/ca.pem");
        let error = over_tls(&server, Some(tls)).await.unwrap_err();
        assert!(error.to_string().contains("/nowhere/ca.pem"), "{error}");
        let error = over_tls(&server, Some(Tls::new().ca_pem("nonsense")))
            .await
            .unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Refused),
            "{error}"
        );
    });
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

fn tempdir() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}
