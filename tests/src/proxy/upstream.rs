//! The side that faces the apiserver: TLS, HTTP/1.1, idle connections kept for reuse, nothing ever sent twice.

use std::sync::Arc;

use anyhow::Context;
use http::{HeaderValue, Request, Response, Uri, header::HOST};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const MAX_IDLE: usize = 64;

type Sender = SendRequest<Full<Bytes>>;

/// No reply came.
#[derive(Debug)]
pub(super) enum SendError {
    /// The server has not seen the request.
    NotSent(anyhow::Error),
    /// It may have.
    Broken(hyper::Error),
}

impl SendError {
    pub(super) fn may_have_arrived(&self) -> bool {
        matches!(self, Self::Broken(_))
    }
}

impl std::fmt::Display for SendError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotSent(error) => write!(f, "not sent: {error:#}"),
            Self::Broken(error) => write!(f, "broken off: {error}"),
        }
    }
}

impl std::error::Error for SendError {}

pub(super) struct Upstream {
    address: String,
    host: HeaderValue,
    name: ServerName<'static>,
    tls: TlsConnector,
    idle: Mutex<Vec<Sender>>,
}

impl Upstream {
    /// `url` is `https://host:port`; `ca_pem` verifies the server.
    pub(super) fn new(url: &str, ca_pem: &str) -> anyhow::Result<Self> {
        let uri: Uri = url.parse().with_context(|| format!("apiserver URL {url:?}"))?;
        let authority = uri
            .authority()
            .with_context(|| format!("apiserver URL {url:?} has no host"))?;
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
            roots.add(certificate.context("the apiserver's CA")?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let address = format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(443));
        Ok(Self {
            host: address.parse().context("Host header")?,
            address,
            name: ServerName::try_from(host)?,
            tls: TlsConnector::from(Arc::new(config)),
            idle: Mutex::new(Vec::new()),
        })
    }

    async fn connect(&self) -> anyhow::Result<Sender> {
        let tcp = TcpStream::connect(&self.address).await?;
        tcp.set_nodelay(true)?;
        let tls = self.tls.connect(self.name.clone(), tcp).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(tls)).await?;
        // Ends with the connection, or with the proxy's runtime.
        tokio::spawn(connection);
        Ok(sender)
    }

    /// Sends `request` once. A kept connection that turns out closed before it took the request is replaced; a request
    /// that may have been sent is never sent again. The connection is kept for reuse when the answer's body is dropped.
    pub(super) async fn send(
        self: &Arc<Self>,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<ServerBody>, SendError> {
        request.headers_mut().insert(HOST, self.host.clone());
        loop {
            let kept = self.take_idle();
            let fresh = kept.is_none();
            let mut sender = match kept {
                Some(sender) => sender,
                None => self.connect().await.map_err(SendError::NotSent)?,
            };
            match sender.try_send_request(request).await {
                Ok(response) => {
                    return Ok(response.map(|incoming| ServerBody {
                        incoming,
                        sender: Some(sender),
                        upstream: Arc::clone(self),
                    }));
                }
                Err(mut error) => match error.take_message() {
                    Some(unsent) if !fresh => request = unsent,
                    Some(_) => return Err(SendError::NotSent(error.into_error().into())),
                    None => return Err(SendError::Broken(error.into_error())),
                },
            }
        }
    }

    fn take_idle(&self) -> Option<Sender> {
        let mut idle = self.idle.lock();
        idle.retain(|s| !s.is_closed());
        let at = idle.iter().rposition(Sender::is_ready)?;
        Some(idle.swap_remove(at))
    }
}

/// The body of the apiserver's answer, with the connection it comes from.
pub(super) struct ServerBody {
    pub(super) incoming: Incoming,
    sender: Option<Sender>,
    upstream: Arc<Upstream>,
}

impl Drop for ServerBody {
    fn drop(&mut self) {
        // A body dropped half-way closes its connection, which `take_idle` then finds.
        let mut idle = self.upstream.idle.lock();
        if let Some(sender) = self.sender.take().filter(|s| !s.is_closed() && idle.len() < MAX_IDLE) {
            idle.push(sender);
        }
    }
}
