//! One connection: handshake, requests, end.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use http::{HeaderValue, Method, Request, Version, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Service as _;
use tracing::debug;

/// How long the handshake may take.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// How long the first request may take to begin.
const FIRST_REQUEST_LIMIT: Duration = Duration::from_secs(10);

/// How long HTTP/1.1 headers may take to arrive, which is also how long a connection may be idle. Longer than the 90 s after
/// which an apiserver closes an idle connection itself: one that we closed could be about to be used.
const IDLE_LIMIT: Duration = Duration::from_mins(2);

/// How often an HTTP/2 client is asked whether it is still there, and how long it may take to answer.
const PING: Duration = Duration::from_secs(30);

/// How long a connection may go on once the server stops. Closing one that is idle could cross a request that is under way, which the client would
/// not send again; so whoever uses it meanwhile is answered and told to use it no more.
const LINGER: Duration = Duration::from_millis(500);

/// The largest HTTP/1.1 head.
const BUFFER: usize = 32 * 1024;

/// How many requests of one HTTP/2 connection are under way at most.
const MOST_STREAMS: u32 = 128;

/// How many requests an HTTP/1.1 connection answers. A client that holds on to the few connections that it opened first would leave a replica that
/// came later, or that its balancer chose seldom, without work for as long as they live. Few enough to spread, too many for the handshakes to be felt.
pub(super) const MOST_REQUESTS: u32 = 250;

/// Serves until the client, the time or `stop` ends it. Sets `asked` at the first review.
pub(super) async fn serve(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    router: Router,
    asked: Arc<AtomicBool>,
    stop: CancellationToken,
) {
    // An answer is one small write.
    _ = stream.set_nodelay(true);
    let stream = match timeout(HANDSHAKE_LIMIT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%error, "handshake failed"),
        Err(_) => return debug!("handshake took too long"),
    };
    let requests = AtomicU32::new(0);
    let service = service_fn(|request: Request<Incoming>| {
        let earlier = requests.fetch_add(1, Ordering::Relaxed);
        if request.method() == Method::POST {
            asked.store(true, Ordering::Relaxed);
        }
        // HTTP/2 has a way of its own to say that, which crosses nothing; and an apiserver speaks it to loopback alone.
        let last = (stop.is_cancelled() || earlier >= MOST_REQUESTS - 1) && request.version() < Version::HTTP_2;
        let answer = router.clone().call(request);
        async move {
            let mut answer = answer.await?;
            if last {
                let close = HeaderValue::from_static("close");
                answer.headers_mut().insert(header::CONNECTION, close);
            }
            Ok::<_, Infallible>(answer)
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_LIMIT)
        .max_buf_size(BUFFER);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING)
        .max_concurrent_streams(MOST_STREAMS);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let in_vain = async {
        sleep(FIRST_REQUEST_LIMIT).await;
        if asked.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        ended = connection.as_mut() => {
            if let Err(error) = ended {
                debug!(error, "connection ended");
            }
            return;
        }
        () = in_vain => return debug!("no request came"),
        () = stop.cancelled() => {}
    }
    if timeout(LINGER, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        _ = connection.await;
    }
}
