//! Certificates for `rediss://`.
#![allow(unreachable_pub, reason = "re-exported at the root of the crate")]

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Which certificates a client trusts, and which one it shows.
///
/// Without anything set it trusts what the system trusts and shows none. Files are read each time a connection is
/// opened, so a renewed certificate is taken without a restart.
///
/// # Examples
///
/// ```
/// use ferrolock::Tls;
///
/// let tls = Tls::new()
///     .ca_file("/etc/redis/ca.pem")
///     .client_files("/etc/redis/me.pem", "/etc/redis/me.key");
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct Tls {
    authorities: Option<Pem>,
    client: Option<(Pem, Pem)>,
}

#[derive(Clone)]
enum Pem {
    Bytes(Arc<[u8]>),
    File(PathBuf),
}

impl Tls {
    /// Trusts what the system trusts.
    pub fn new() -> Tls {
        Tls::default()
    }

    /// Trusts these certificates instead of the system's.
    ///
    /// # Examples
    ///
    /// ```
    /// use ferrolock::Tls;
    ///
    /// let tls = Tls::new().ca_pem("-----BEGIN CERTIFICATE-----\n…");
    /// ```
    pub fn ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Tls {
        self.authorities = Some(Pem::bytes(pem));
        self
    }

    /// Trusts the certificates in this file instead of the system's.
    ///
    /// # Examples
    ///
    /// ```
    /// use ferrolock::Tls;
    ///
    /// let tls = Tls::new().ca_file("tls/ca.pem");
    /// ```
    pub fn ca_file(mut self, path: impl AsRef<Path>) -> Tls {
        self.authorities = Some(Pem::File(path.as_ref().to_owned()));
        self
    }

    /// Shows this certificate (chain) to the server, with its private key.
    ///
    /// # Examples
    ///
    /// ```
    /// use ferrolock::Tls;
    ///
    /// let tls = Tls::new().client_pem("-----BEGIN CERTIFICATE-----\n…", "-----BEGIN PRIVATE KEY-----\n…");
    /// ```
    pub fn client_pem(mut self, cert: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Tls {
        self.client = Some((Pem::bytes(cert), Pem::bytes(key)));
        self
    }

    /// Shows the certificate (chain) in one file to the server, with the private key in the other.
    ///
    /// # Examples
    ///
    /// ```
    /// use ferrolock::Tls;
    ///
    /// let tls = Tls::new().client_files("tls/me.pem", "tls/me.key");
    /// ```
    pub fn client_files(mut self, cert: impl AsRef<Path>, key: impl AsRef<Path>) -> Tls {
        let file = |path: &Path| Pem::File(path.to_owned());
        self.client = Some((file(cert.as_ref()), file(key.as_ref())));
        self
    }

    /// Reads the files and makes what a connection needs. Blocks on the disk.
    pub(in super::super) fn build(&self) -> Result<ClientConfig, String> {
        // Named here, so that no process-wide provider has to be installed.
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("tls cannot be set up: {error}"))?
            .with_root_certificates(self.roots()?);
        match &self.client {
            None => Ok(builder.with_no_client_auth()),
            Some((cert, key)) => builder
                .with_client_auth_cert(cert.certificates()?, key.private_key()?)
                .map_err(|error| format!("the client certificate cannot be used: {error}")),
        }
    }

    fn roots(&self) -> Result<RootCertStore, String> {
        let mut store = RootCertStore::empty();
        if let Some(authorities) = &self.authorities {
            for certificate in authorities.certificates()? {
                store
                    .add(certificate)
                    .map_err(|error| format!("{authorities} cannot be trusted: {error}"))?;
            }
        } else {
            let found = rustls_native_certs::load_native_certs();
            // Systems carry a few that cannot be read; the others are enough.
            store.add_parsable_certificates(found.certs);
            if store.is_empty() {
                return Err(
                    "the system has no certificates to trust: name one with `ca_file`".to_owned(),
                );
            }
        }
        Ok(store)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |pem: &Pem| pem.to_string();
        f.debug_struct("Tls")
            .field("ca", &self.authorities.as_ref().map(text))
            .field("client", &self.client.as_ref().map(|(cert, _)| text(cert)))
            .finish_non_exhaustive()
    }
}

impl Pem {
    fn bytes(pem: impl Into<Vec<u8>>) -> Pem {
        Pem::Bytes(pem.into().into())
    }

    fn read(&self) -> Result<Arc<[u8]>, String> {
        match self {
            Pem::Bytes(bytes) => Ok(bytes.clone()),
            Pem::File(path) => match std::fs::read(path) {
                Ok(bytes) => Ok(bytes.into()),
                Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
            },
        }
    }

    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let found: Vec<_> = CertificateDer::pem_slice_iter(&self.read()?)
            .collect::<Result<_, _>>()
            .map_err(|_| format!("{self} has a certificate that is not in PEM form"))?;
        if found.is_empty() {
            return Err(format!("{self} has no certificate in PEM form"));
        }
        Ok(found)
    }

    fn private_key(&self) -> Result<PrivateKeyDer<'static>, String> {
        PrivateKeyDer::from_pem_slice(&self.read()?)
            .map_err(|_| format!("{self} has no private key in PEM form"))
    }
}

impl fmt::Display for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pem::Bytes(_) => f.write_str("the given text"),
            Pem::File(path) => path.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_or_empty_certificate_is_named_in_the_error() {
        let missing = Tls::new().ca_file("/nowhere/ca.pem").build().unwrap_err();
        let empty = Tls::new().ca_pem("nothing").build().unwrap_err();

        assert!(missing.contains("/nowhere/ca.pem"), "{missing}");
        assert!(empty.contains("no certificate"), "{empty}");
    }

    #[test]
    fn keys_are_never_shown() {
        let tls = Tls::new().client_pem("certificate-text", "key-text");

        let shown = format!("{tls:?}");

        assert!(!shown.contains("key-text") && !shown.contains("certificate-text"));
    }
}
