//! What the process tells about itself over HTTP, on every replica whether it leads or not: `/livez`, `/readyz` and
//! `/metrics` on the admin address, `/debug/state` on a listener of its own that must be on loopback, because it shows
//! the cluster's address plan.

mod server;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use clap::Args;
use http::{StatusCode, Uri, header};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::args::{InvalidFlag, socket_address};
use crate::metrics::{CONTENT_TYPE, Metrics};
use server::Server;

const ADMIN_ADDRESS: &str = "--admin-address";
const DEBUG_ADDRESS: &str = "--debug-address";

/// Flags of the admin and debug servers.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Admin server")]
pub struct AdminArgs {
    /// Where to serve /livez, /readyz and /metrics. Port 0 takes a free one, which the log names.
    #[arg(long, value_name = "IP:PORT", default_value = "0.0.0.0:9808", value_parser = socket_address)]
    pub admin_address: SocketAddr,

    /// Where to serve /debug/state; a loopback address [default: not served].
    #[arg(long, value_name = "IP:PORT", value_parser = socket_address)]
    pub debug_address: Option<SocketAddr>,
}

impl AdminArgs {
    /// Checks what clap cannot check alone.
    ///
    /// # Errors
    /// When the debug address is not on loopback.
    pub fn check(&self) -> Result<(), InvalidFlag> {
        self.debug_address.map_or(Ok(()), check_loopback)
    }
}

fn check_loopback(address: SocketAddr) -> Result<(), InvalidFlag> {
    if address.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    let problem = format!(
        "{address} is not on loopback, and the state shows the cluster's addresses; use 127.0.0.1:{0} or [::1]:{0}",
        address.port()
    );
    Err(InvalidFlag::new(DEBUG_ADDRESS, problem))
}

/// A health check: cheap, and it never blocks. The error is a text for people.
pub type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The checks behind `/livez` and `/readyz`, in the order in which they are listed.
#[derive(Default)]
pub struct Probes {
    live: Vec<(&'static str, Check)>,
    ready: Vec<(&'static str, Check)>,
    was_ready: AtomicBool,
}

impl Probes {
    /// No checks: alive and ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check to `/livez`. Failing means that only a restart helps.
    #[must_use]
    pub fn live(mut self, name: &'static str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.live.push((name, Box::new(check)));
        self
    }

    /// Adds a check to `/readyz`. Once all have passed together, `/readyz` never fails again: what goes stale later must
    /// not take the replica out of its Service.
    #[must_use]
    pub fn ready(mut self, name: &'static str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.ready.push((name, Box::new(check)));
        self
    }
}

/// The admin server, listening.
pub struct AdminServer {
    server: Server,
    router: Router,
}

impl AdminServer {
    /// Listens on `address` and logs where.
    ///
    /// # Errors
    /// When it cannot listen there; the error names the flag.
    pub async fn bind(address: SocketAddr, probes: Probes, metrics: Metrics) -> Result<Self, InvalidFlag> {
        let server = Server::bind(ADMIN_ADDRESS, address).await?;
        info!(address = %server.address(), "admin server listening");
        let probes = Arc::new(probes);
        let router = Router::new()
            .route("/livez", get(livez))
            .route("/readyz", get(readyz))
            .with_state(probes)
            .route("/metrics", get(scrape))
            .with_state(metrics);
        Ok(Self { server, router })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Serves until `stop`; then answers under way are finished, within a limit.
    pub async fn run(self, stop: CancellationToken) {
        self.server.run(self.router, stop).await;
    }
}

/// The debug server, listening.
pub struct DebugServer {
    server: Server,
    router: Router,
}

impl DebugServer {
    /// Listens on `address` and logs where. `state` makes what `/debug/state` shows; it runs on a thread that may block.
    ///
    /// # Errors
    /// When `address` is not on loopback, or it cannot listen there; the error names the flag.
    pub async fn bind(
        address: SocketAddr,
        state: impl Fn() -> Value + Send + Sync + 'static,
    ) -> Result<Self, InvalidFlag> {
        check_loopback(address)?;
        let server = Server::bind(DEBUG_ADDRESS, address).await?;
        info!(address = %server.address(), "debug server listening");
        let state: Arc<dyn Fn() -> Value + Send + Sync> = Arc::new(state);
        Ok(Self {
            server,
            router: Router::new().route("/debug/state", get(debug_state)).with_state(state),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Serves until `stop`; then answers under way are finished, within a limit.
    pub async fn run(self, stop: CancellationToken) {
        self.server.run(self.router, stop).await;
    }
}

async fn livez(State(probes): State<Arc<Probes>>, uri: Uri) -> Response {
    report("livez", &probes.live, false, &uri)
}

async fn readyz(State(probes): State<Arc<Probes>>, uri: Uri) -> Response {
    let latched = probes.was_ready.load(Ordering::Relaxed);
    let response = report("readyz", &probes.ready, latched, &uri);
    if response.status() == StatusCode::OK {
        probes.was_ready.store(true, Ordering::Relaxed);
    }
    response
}

/// Runs `checks` and answers in the apiserver's form: `ok`, or a line per check when one failed or `?verbose` asks.
/// `latched` passes whatever they say.
fn report(name: &str, checks: &[(&'static str, Check)], latched: bool, uri: &Uri) -> Response {
    let mut lines = String::new();
    let mut passed = true;
    for (check, run) in checks {
        _ = match run() {
            Ok(()) => writeln!(lines, "[+]{check} ok"),
            Err(reason) => {
                passed = latched;
                writeln!(lines, "[-]{check} failed: {reason}")
            }
        };
    }
    let verbose = uri
        .query()
        .is_some_and(|query| query.split('&').any(|pair| pair.split('=').next() == Some("verbose")));
    let verdict = if passed { "passed" } else { "failed" };
    _ = writeln!(lines, "{name} check {verdict}");
    match (passed, verbose) {
        (true, false) => text(StatusCode::OK, "ok".to_owned()),
        (true, true) => text(StatusCode::OK, lines),
        (false, _) => text(StatusCode::INTERNAL_SERVER_ERROR, lines),
    }
}

async fn scrape(State(metrics): State<Metrics>) -> Response {
    match metrics.encode() {
        Ok(body) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], Body::from(body)).into_response(),
        Err(error) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("metrics cannot be written: {error}\n"),
        ),
    }
}

async fn debug_state(State(state): State<Arc<dyn Fn() -> Value + Send + Sync>>) -> Response {
    let made = tokio::task::spawn_blocking(move || serde_json::to_vec_pretty(&state())).await;
    match made {
        Ok(Ok(body)) => ([(header::CONTENT_TYPE, "application/json")], Body::from(body)).into_response(),
        Ok(Err(error)) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the state cannot be written: {error}\n"),
        ),
        Err(error) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the state cannot be made: {error}\n"),
        ),
    }
}

fn text(status: StatusCode, body: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, body).into_response()
}

#[cfg(test)]
mod tests;
