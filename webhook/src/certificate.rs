//! The certificate that the server shows. It comes through a channel, so that whoever keeps it can renew it while the server
//! serves: connections that are open go on with the old one, every new handshake shows the new one.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use thiserror::Error;
use tokio::sync::watch;

use crate::authority;
use crate::rotation::Seconds;

/// A certificate chain with its key, checked to belong together.
#[derive(Clone, Debug)]
pub struct Certificate(Arc<CertifiedKey>);

/// What is wrong with a certificate or key.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// The chain is not PEM, or empty.
    #[error("the certificate cannot be read: {0}")]
    Chain(String),
    /// The key is not PEM, or of an unknown kind.
    #[error("the private key cannot be read: {0}")]
    Key(String),
    /// Both can be read, but they do not belong together or cannot be used.
    #[error("certificate and private key cannot be used together: {0}")]
    Pair(rustls::Error),
}

impl Certificate {
    /// Reads a chain (the server's certificate first) and its key.
    ///
    /// # Errors
    /// They cannot be read, or do not belong together.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, CertificateError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(|error| CertificateError::Chain(error.to_string()))?;
        if chain.is_empty() {
            return Err(CertificateError::Chain("no certificate in it".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| CertificateError::Key(error.to_string()))?;
        let pair = CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(CertificateError::Pair)?;
        Ok(Self(Arc::new(pair)))
    }

    /// When it ends, in seconds since 1970.
    pub fn ends(&self) -> Option<Seconds> {
        authority::ends(self.0.end_entity_cert().ok()?)
    }
}

/// Where a server's certificate comes from. Until the first one is there, handshakes fail.
pub type Certificates = watch::Receiver<Option<Certificate>>;

#[derive(Debug)]
struct Newest(Certificates);

impl ResolvesServerCert for Newest {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.borrow().as_ref().map(|certificate| certificate.0.clone())
    }
}

/// TLS 1.2 and 1.3 with HTTP/2 and HTTP/1.1, by ring whatever the process's default provider is.
///
/// # Errors
/// ring and rustls know no common version; never in practice.
pub(crate) fn tls(certificates: Certificates) -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Newest(certificates)));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use rcgen::generate_simple_self_signed;

    use super::*;

    #[test]
    fn certificate_and_key_must_belong_together() {
        let one = generate_simple_self_signed(["a.example".to_owned()]).unwrap();
        let other = generate_simple_self_signed(["b.example".to_owned()]).unwrap();
        let (chain, key) = (one.cert.pem(), one.signing_key.serialize_pem());
        assert!(Certificate::from_pem(chain.as_bytes(), key.as_bytes()).is_ok());
        let error = |chain: &str, key: &str| Certificate::from_pem(chain.as_bytes(), key.as_bytes()).unwrap_err();
        let foreign = other.signing_key.serialize_pem();
        assert!(matches!(error(&chain, &foreign), CertificateError::Pair(_)));
        assert!(matches!(error("", &key), CertificateError::Chain(_)));
        assert!(matches!(error(&chain, &chain), CertificateError::Key(_)));
    }
}
