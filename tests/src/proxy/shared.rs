//! What the connections of one proxy share: rules, records, and what is open now.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::header::AUTHORIZATION;
use http::request;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::connection::{ClientStream, Fate};
use super::matcher::Match;
use super::record::Records;
use super::request::ApiRequest;
use super::rule::{Rules, WatchEnd};
use super::serve::handle;
use super::upstream::Upstream;

/// Begins the path of requests that come through a kubeconfig of ours.
const PREFIX: &str = "/as/";
struct OpenWatch {
    request: ApiRequest,
    orders: mpsc::Sender<WatchEnd>,
}

/// What all connections of one proxy share.
pub(super) struct Shared {
    pub(super) upstream: Arc<Upstream>,
    pub(super) rules: Arc<Rules>,
    pub(super) records: Arc<Records>,
    connections: Mutex<HashMap<u64, Arc<Fate>>>,
    watches: Mutex<HashMap<u64, OpenWatch>>,
    /// Bearer tokens that kubeconfigs were made for; a kubeconfig's server path names one by its place here.
    tokens: Mutex<Vec<String>>,
    next_connection: AtomicU64,
}

impl Shared {
    pub(super) fn new(upstream: Upstream) -> Self {
        Self {
            upstream: Arc::new(upstream),
            rules: Arc::new(Rules::new()),
            records: Arc::new(Records::new()),
            connections: Mutex::default(),
            watches: Mutex::default(),
            tokens: Mutex::default(),
            next_connection: AtomicU64::new(0),
        }
    }

    /// A path prefix that stands for `token`: client-go sends no credentials over plain HTTP.
    pub(super) fn prefix_for(&self, token: &str) -> String {
        let mut tokens = self.tokens.lock();
        let known = tokens.iter().position(|t| t == token);
        let place = known.unwrap_or_else(|| {
            tokens.push(token.to_owned());
            tokens.len() - 1
        });
        format!("{PREFIX}{place}")
    }

    /// Takes the prefix off, and lends its token to a client that brings no credentials.
    pub(super) fn unprefix(&self, parts: &mut request::Parts) -> Option<()> {
        let whole = parts.uri.path_and_query()?.as_str();
        let (place, rest) = whole
            .strip_prefix(PREFIX)?
            .split_at_checked(whole[PREFIX.len()..].find('/')?)?;
        let token = self.tokens.lock().get(place.parse::<usize>().ok()?)?.clone();
        let uri = rest.parse().ok()?;
        parts.uri = uri;
        let entry = parts.headers.entry(AUTHORIZATION);
        entry.or_insert(format!("Bearer {token}").parse().ok()?);
        Some(())
    }

    /// Serves one connection until either side ends it.
    pub(super) async fn serve(self: Arc<Self>, tcp: TcpStream) {
        let id = self.next_connection.fetch_add(1, Ordering::Relaxed);
        let fate = Arc::new(Fate::default());
        self.connections.lock().insert(id, Arc::clone(&fate));
        // Without it each small watch event waits for the client's delayed ACK.
        let _ = tcp.set_nodelay(true);
        let stream = TokioIo::new(ClientStream {
            tcp,
            fate: Arc::clone(&fate),
        });
        let service = service_fn(|request| handle(Arc::clone(&self), Arc::clone(&fate), request));
        let connection = http1::Builder::new().serve_connection(stream, service);
        tokio::select! {
            // An error here is a connection broken on purpose, or a client that left.
            _ = connection => {}
            () = fate.cut.cancelled() => {}
        }
        self.connections.lock().remove(&id);
    }

    /// Resets the connections whose last request came from such a client; `""` is every client.
    pub(super) fn reset_connections(&self, user_agent: &str) -> usize {
        let connections = self.connections.lock();
        let meant = connections
            .values()
            .filter(|f| f.user_agent.lock().contains(user_agent));
        meant.map(|fate| fate.reset_now()).count()
    }

    /// Enters an open watch, until the first of what is returned is dropped; the second tells how it is to end.
    pub(super) fn register_watch(
        self: &Arc<Self>,
        seq: u64,
        request: &ApiRequest,
    ) -> (Registered, mpsc::Receiver<WatchEnd>) {
        let (orders, inbox) = mpsc::channel(4);
        let request = request.clone();
        self.watches.lock().insert(seq, OpenWatch { request, orders });
        let shared = Arc::clone(self);
        (Registered { shared, seq }, inbox)
    }

    pub(super) fn end_watches(&self, matcher: &Match, how: &WatchEnd) -> usize {
        let watches = self.watches.lock();
        let meant = watches.values().filter(|w| matcher.matches(&w.request));
        meant.filter(|w| w.orders.try_send(how.clone()).is_ok()).count()
    }

    pub(super) fn open_watches(&self, matcher: &Match) -> usize {
        self.watches
            .lock()
            .values()
            .filter(|w| matcher.matches(&w.request))
            .count()
    }
}

/// Takes the watch out of the table when its body is dropped.
pub(super) struct Registered {
    shared: Arc<Shared>,
    seq: u64,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.shared.watches.lock().remove(&self.seq);
    }
}
