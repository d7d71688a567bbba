//! Certificates for servers with TLS, made when they are needed.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use std::fs;
use std::path::{Path, PathBuf};

/// An authority with a server's and a client's certificate, as PEM files in one folder.
#[derive(Debug, Clone)]
pub struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    /// Makes them in `folder`; the server's is good for `localhost` and `127.0.0.1`.
    pub fn make(folder: &Path) -> Self {
        let certificates = Self {
            folder: folder.to_owned(),
        };
        let ca = authority();
        fs::write(certificates.ca(), ca.pem()).unwrap();
        certificates.issue(
            "server",
            &["localhost", "127.0.0.1"],
            ExtendedKeyUsagePurpose::ServerAuth,
            &ca,
        );
        certificates.issue("client", &[], ExtendedKeyUsagePurpose::ClientAuth, &ca);
        certificates
    }

    /// The authority's certificate, for clients to trust.
    pub fn ca(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// The server's certificate.
    pub fn server(&self) -> PathBuf {
        self.folder.join("server.pem")
    }

    /// The server's private key.
    pub fn server_key(&self) -> PathBuf {
        self.folder.join("server.key")
    }

    /// A client's certificate.
    pub fn client(&self) -> PathBuf {
        self.folder.join("client.pem")
    }

    /// A client's private key.
    pub fn client_key(&self) -> PathBuf {
        self.folder.join("client.key")
    }

    fn issue(
        &self,
        name: &str,
        hosts: &[&str],
        purpose: ExtendedKeyUsagePurpose,
        ca: &CertifiedIssuer<'_, KeyPair>,
    ) {
        let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, ca).unwrap();
        fs::write(self.folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
        fs::write(self.folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "tests of ferrolock");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}
