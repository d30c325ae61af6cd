//! A fresh handshake, as an apiserver makes it: an apiserver keeps its open connections, and with them what was served before, so only a new one
//! shows whether those that come will be answered.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// How long it may take: the server is this process.
const DEADLINE: Duration = Duration::from_secs(2);

/// Why an apiserver would not have been answered.
#[derive(Debug, Error)]
pub enum HandshakeError {
    /// The name is none, or one of the authorities is no certificate.
    #[error("cannot try a handshake: {0}")]
    Unfit(String),
    /// The handshake fails, such as for a certificate that nobody trusts.
    #[error("a handshake fails: {0}")]
    Fails(#[from] std::io::Error),
    /// There is no answer.
    #[error("a handshake is not answered within {DEADLINE:?}")]
    Late,
    /// Another certificate is shown than the one that is stored.
    #[error("a handshake shows another certificate than the one that is stored")]
    Other,
}

/// Shakes hands with the server of this process that listens at `address`, as somebody who trusts `bundle` (PEM) and asks for `name`. It has to show
/// `served` (DER).
///
/// # Errors
/// An apiserver would not be answered.
pub async fn shake_hands(address: SocketAddr, name: &str, bundle: &str, served: &[u8]) -> Result<(), HandshakeError> {
    let unfit = |error: &dyn std::fmt::Display| HandshakeError::Unfit(error.to_string());
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        let authority = authority.map_err(|error| unfit(&error))?;
        roots.add(authority).map_err(|error| unfit(&error))?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| unfit(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).map_err(|error| unfit(&error))?;
    let shake = async {
        let stream = TcpStream::connect(reachable(address)).await?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    };
    let stream = timeout(DEADLINE, shake).await.map_err(|_| HandshakeError::Late)??;
    let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    if shown.is_some_and(|shown| shown.as_ref() == served) {
        Ok(())
    } else {
        Err(HandshakeError::Other)
    }
}

/// Who listens everywhere listens on loopback, too.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
