//! A server with TLS, as a client sees it.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "test code")]

use std::sync::Arc;
use testkit::{Address, Certificates, Connection, Kind, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

#[tokio::test]
async fn a_client_that_trusts_the_authority_is_answered() {
    if !Kind::Redis.is_here() {
        return;
    }
    let server = Server::builder(Kind::Redis).tls().start();

    assert!(server.url().starts_with("rediss://127.0.0.1:"));
    for host in ["127.0.0.1", "localhost"] {
        let config = trusting(server.certificates()).with_no_client_auth();
        assert_eq!(ping(&server, host, config).await.unwrap(), "+PONG\r\n");
    }
}

#[tokio::test]
async fn a_client_that_trusts_another_authority_does_not_connect() {
    if !Kind::Redis.is_here() {
        return;
    }
    let server = Server::builder(Kind::Redis).tls().start();
    let folder = tempfile::tempdir().unwrap();
    let config = trusting(&Certificates::make(folder.path())).with_no_client_auth();

    assert!(ping(&server, "localhost", config).await.is_err());
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_takes_the_clients() {
    if !Kind::Redis.is_here() {
        return;
    }
    let server = Server::builder(Kind::Redis)
        .tls()
        .config("tls-auth-clients yes")
        .start();
    let made = server.certificates();
    let chain = vec![CertificateDer::from_pem_file(made.client()).unwrap()];
    let key = PrivateKeyDer::from_pem_file(made.client_key()).unwrap();
    let known = trusting(made).with_client_auth_cert(chain, key).unwrap();
    let unknown = trusting(made).with_no_client_auth();

    assert_eq!(
        ping(&server, "localhost", known).await.unwrap(),
        "+PONG\r\n"
    );
    assert!(ping(&server, "localhost", unknown).await.is_err());
}

#[test]
fn plain_text_is_refused_on_the_port_and_the_tests_still_have_access() {
    if !Kind::Redis.is_here() {
        return;
    }
    let server = Server::builder(Kind::Redis).tls().start();
    let mut plain = Connection::open(&Address::Tcp(server.address())).unwrap();

    assert!(plain.try_command(&["PING"]).is_err());
    assert_eq!(server.command(&["PING"]), "PONG".into());
}

type Trusting = tokio_rustls::rustls::ConfigBuilder<
    ClientConfig,
    tokio_rustls::rustls::client::WantsClientCert,
>;

fn trusting(certificates: &Certificates) -> Trusting {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(certificates.ca()).unwrap())
        .unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
}

async fn ping(server: &Server, host: &str, config: ClientConfig) -> std::io::Result<String> {
    let stream = TcpStream::connect(server.address()).await?;
    let host = ServerName::try_from(host.to_owned()).unwrap();
    let mut stream = TlsConnector::from(Arc::new(config))
        .connect(host, stream)
        .await?;
    stream.write_all(b"PING\r\n").await?;
    let mut reply = [0; 7];
    stream.read_exact(&mut reply).await?;
    Ok(String::from_utf8_lossy(&reply).into_owned())
}
