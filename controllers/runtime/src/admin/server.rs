//! An HTTP/1.1 server that slow or many clients cannot hold: requests must arrive in time, connections do not live for
//! ever, and when there are too many the oldest goes.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::args::InvalidFlag;
use crate::connections::Connections;

/// How many connections there are at most.
pub(super) const MOST_CONNECTIONS: usize = 64;

/// How long the headers of a request may take to arrive, and how long a connection may be idle.
pub(super) const HEADER_LIMIT: Duration = Duration::from_secs(5);

/// After this time a connection takes no further request.
const CONNECTION_LIMIT: Duration = Duration::from_mins(1);

/// How long the last answer of a connection may take from then on.
pub(super) const LAST_ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// The largest request head; bodies are not read.
const BUFFER: usize = 16 * 1024;

pub(super) struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Listens on `address`, which was given by `flag`.
    pub(super) async fn bind(flag: &'static str, address: SocketAddr) -> Result<Self, InvalidFlag> {
        let wrong = |error| {
            InvalidFlag::new(
                flag,
                format!("cannot listen on {address}: {error}; choose another address or port"),
            )
        };
        let listener = TcpListener::bind(address).await.map_err(wrong)?;
        let address = listener.local_addr().map_err(wrong)?;
        Ok(Self { listener, address })
    }

    /// Where it listens: with port 0, the port that was taken.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`, then lets answers under way end.
    pub(super) async fn run(self, router: Router, stop: CancellationToken) {
        let mut connections = Connections::on(self.listener);
        let mut by_age: VecDeque<AbortHandle> = VecDeque::new();
        while let Some(stream) = connections.next(&stop).await {
            by_age.retain(|connection| !connection.is_finished());
            if by_age.len() >= MOST_CONNECTIONS
                && let Some(oldest) = by_age.pop_front()
            {
                oldest.abort();
            }
            by_age.push_back(connections.serve(serve(stream, router.clone(), stop.clone())));
        }
        connections.drain(LAST_ANSWER_LIMIT).await;
    }
}

/// Serves one connection until the client, the time or `stop` ends it.
async fn serve(stream: TcpStream, router: Router, stop: CancellationToken) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_LIMIT)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => {
            if let Err(error) = ended {
                debug!(%error, "admin connection ended");
            }
            return;
        }
        () = stop.cancelled() => {}
        () = sleep(CONNECTION_LIMIT) => {}
    }
    connection.as_mut().graceful_shutdown();
    _ = timeout(LAST_ANSWER_LIMIT, connection).await;
}
