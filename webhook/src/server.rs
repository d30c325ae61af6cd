//! HTTP/1.1 and HTTP/2 over TLS, within limits: slow, many or large requests hold up nobody else.

mod connection;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use svcplane_runtime::connections::Connections;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::admission::{Admission, Endpoint, no_review};
use crate::certificate::{Certificates, tls};
use crate::review::NotAReview;

/// The largest body that is read: what the apiserver takes itself.
pub const LARGEST_BODY: usize = 3 << 20;

/// How much of bodies may be in memory at one time: of large ones, and of those that say that they are small.
const BODY_BUDGET: usize = 24 << 20;
const SMALL_BUDGET: usize = 8 << 20;

/// What nearly every review of a Service fits into.
const SMALL_BODY: usize = 64 << 10;

/// How many connections there are at most. An apiserver needs a few.
const MOST_CONNECTIONS: usize = 512;

/// How long a body may take to arrive. The apiserver waits 10 s for the answer by default.
const BODY_LIMIT: Duration = Duration::from_secs(5);

/// How long a request may wait for its share of the budget.
const BUDGET_LIMIT: Duration = Duration::from_secs(1);

/// How long answers under way may take once the server stops: the longest time that an apiserver waits for one.
const DRAIN_LIMIT: Duration = Duration::from_secs(30);

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

/// Who answers. A test has one of its own, to look over the apiserver's shoulder.
pub trait Reviewer: Send + Sync + 'static {
    /// Answers the body of a request.
    ///
    /// # Errors
    /// It is no review that could be answered.
    fn review(&self, endpoint: Endpoint, body: &[u8]) -> Result<Vec<u8>, NotAReview>;

    /// A request was answered with this code because it held no review, or came at a bad time.
    fn refused(&self, code: StatusCode);
}

impl Reviewer for Admission {
    fn review(&self, endpoint: Endpoint, body: &[u8]) -> Result<Vec<u8>, NotAReview> {
        Self::review(self, endpoint, body)
    }

    fn refused(&self, code: StatusCode) {
        self.metrics().refused_request(code);
    }
}

struct Shared<R> {
    reviewer: R,
    large: Budget,
    small: Budget,
}

/// Of bytes of bodies, in KiB. They count when they have come: who only says that they will holds up nobody.
struct Budget(Semaphore);

impl Budget {
    fn new(bytes: usize) -> Self {
        Self(Semaphore::new(bytes / 1024))
    }

    /// Reads a body, and holds its share until that is dropped.
    async fn read(&self, body: Body) -> Result<(Vec<u8>, Option<SemaphorePermit<'_>>), Refused> {
        let (mut body, mut bytes) = (Limited::new(body, LARGEST_BODY), Vec::new());
        let mut share: Option<SemaphorePermit<'_>> = None;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| match error {
                error if error.is::<LengthLimitError>() => too_large(),
                error => (StatusCode::BAD_REQUEST, format!("the body broke off: {error}")),
            })?;
            let Ok(data) = frame.into_data() else { continue };
            bytes.extend_from_slice(&data);
            let held = share.as_ref().map_or(0, SemaphorePermit::num_permits);
            let more = (bytes.len() / 1024 + 1).saturating_sub(held);
            let more = self.0.acquire_many(u32::try_from(more).unwrap_or(u32::MAX));
            let Ok(Ok(more)) = timeout(BUDGET_LIMIT, more).await else {
                let words = "too many large requests at a time; try again".to_owned();
                return Err((StatusCode::SERVICE_UNAVAILABLE, words));
            };
            match &mut share {
                Some(share) => share.merge(more),
                None => share = Some(more),
            }
        }
        Ok((bytes, share))
    }
}

impl Server {
    /// Listens on this address; port 0 takes a free one.
    ///
    /// # Errors
    /// It cannot listen there.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves `/mutate` and `/validate` until `stop`, then finishes the answers that are under way.
    ///
    /// # Errors
    /// TLS cannot be set up; never in practice.
    pub async fn run(
        self,
        reviewer: impl Reviewer,
        certificates: Certificates,
        stop: CancellationToken,
    ) -> Result<(), rustls::Error> {
        let acceptor = TlsAcceptor::from(Arc::new(tls(certificates)?));
        let router = router(reviewer);
        let mut connections = Connections::on(self.listener);
        let mut by_age: VecDeque<Known> = VecDeque::new();
        while let Some(stream) = connections.next(&stop).await {
            if !make_room(&mut by_age) {
                continue;
            }
            let asked = Arc::new(AtomicBool::new(false));
            let served = connection::serve(stream, acceptor.clone(), router.clone(), asked.clone(), stop.clone());
            let task = connections.serve(served);
            by_age.push_back(Known { task, asked });
        }
        connections.drain(DRAIN_LIMIT).await;
        Ok(())
    }
}

/// A connection that was accepted.
struct Known {
    task: AbortHandle,
    /// Has it carried a review?
    asked: Arc<AtomicBool>,
}

/// Where there are too many, the oldest one goes that has not asked anything; if all have, the new one is not taken.
fn make_room(by_age: &mut VecDeque<Known>) -> bool {
    if by_age.len() < MOST_CONNECTIONS {
        return true;
    }
    by_age.retain(|known| !known.task.is_finished());
    if by_age.len() < MOST_CONNECTIONS {
        return true;
    }
    let idle = by_age.iter().position(|known| !known.asked.load(Ordering::Relaxed));
    match idle.and_then(|idle| by_age.remove(idle)) {
        Some(idle) => {
            idle.task.abort();
            true
        }
        None => false,
    }
}

fn router<R: Reviewer>(reviewer: R) -> Router {
    let shared = Arc::new(Shared {
        reviewer,
        large: Budget::new(BODY_BUDGET),
        small: Budget::new(SMALL_BUDGET),
    });
    let on = |endpoint| post(move |shared: State<Arc<Shared<R>>>, request: Request| answer(endpoint, shared, request));
    Router::new()
        .route("/mutate", on(Endpoint::Mutate))
        .route("/validate", on(Endpoint::Validate))
        .with_state(shared)
}

async fn answer<R: Reviewer>(endpoint: Endpoint, State(shared): State<Arc<Shared<R>>>, request: Request) -> Response {
    match shared.read_and_review(endpoint, request).await {
        Ok(review) => ([(header::CONTENT_TYPE, "application/json")], Body::from(review)).into_response(),
        Err((code, words)) => {
            shared.reviewer.refused(code);
            (code, words).into_response()
        }
    }
}

type Refused = (StatusCode, String);

impl<R: Reviewer> Shared<R> {
    async fn read_and_review(&self, endpoint: Endpoint, request: Request) -> Result<Vec<u8>, Refused> {
        let (head, body) = request.into_parts();
        check_content_type(&head.headers)?;
        let length = content_length(&head.headers).unwrap_or(LARGEST_BODY);
        if length > LARGEST_BODY {
            return Err(too_large());
        }
        let budget = if length <= SMALL_BODY { &self.small } else { &self.large };
        let Ok(read) = timeout(BODY_LIMIT, budget.read(body)).await else {
            let words = format!("the body did not arrive within {} s", BODY_LIMIT.as_secs());
            return Err((StatusCode::REQUEST_TIMEOUT, words));
        };
        // The share is kept until the answer is made.
        let (body, _share) = read?;
        self.reviewer
            .review(endpoint, &body)
            .map_err(|error| (StatusCode::BAD_REQUEST, no_review(&error)))
    }
}

fn too_large() -> Refused {
    let words = format!("the body is too large; send at most {LARGEST_BODY} bytes");
    (StatusCode::PAYLOAD_TOO_LARGE, words)
}

fn content_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn check_content_type(headers: &HeaderMap) -> Result<(), Refused> {
    let given = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let media_type = given.split(';').next().unwrap_or_default().trim();
    if media_type.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let words = "send an AdmissionReview as application/json".to_owned();
    Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, words))
}

#[cfg(test)]
mod tests;
