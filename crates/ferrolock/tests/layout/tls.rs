//! Connecting to a server with TLS.

use ferrolock::{Client, Error, ErrorKind, Tls};
use testkit::{Certificates, Kind, Server};

use crate::runtime;
use crate::ways_in::works;

#[track_caller]
fn assert_refused_by_tls(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert_eq!(error.code(), Some("TLS"), "{error}");
    assert!(!error.is_transient());
}

/// Only the Redis program is known to be built with TLS.
fn with_tls(config: &[&str]) -> Option<Server> {
    Kind::Redis.is_here().then(|| {
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
fn tls_works_with_a_private_authority_given_as_file_or_text() {
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
        assert_refused_by_tls(&error);
    });
}

#[test]
fn a_server_of_another_authority_is_refused_with_the_reason() {
    let Some(server) = with_tls(&[]) else { return };
    let elsewhere = tempfile::tempdir().unwrap();
    let others = Certificates::make(elsewhere.path());
    runtime().block_on(async {
        let error = over_tls(&server, Some(Tls::new().ca_file(others.ca())))
            .await
            .unwrap_err();
        assert_refused_by_tls(&error);
        assert!(error.to_string().contains("certificate"), "{error}");
        // The system does not trust an authority that the test has just made.
        assert_refused_by_tls(&over_tls(&server, None).await.unwrap_err());
        assert_refused_by_tls(&over_tls(&server, Some(Tls::new())).await.unwrap_err());
    });
}

#[test]
fn the_error_for_an_unreadable_certificate_names_its_path() {
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
