//! One request through the proxy: record, rule, server, rule, client.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::TryStreamExt;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, Method, Request, Response, StatusCode, request, response};
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::body::{ClientBody, Inner};
use super::connection::{ClientStream, Fate, SETTLE};
use super::record::{Outcome, Records};
use super::refusal::Refusal;
use super::request::ApiRequest;
use super::rule::{Action, Match, Rules, WatchEnd};
use super::stream::{BodyError, WatchStream};
use super::upstream::{ServerBody, Upstream};
use super::wire::{self, Encoding, Meta};

/// Begins the path of requests that come through a kubeconfig of ours.
const PREFIX: &str = "/as/";
/// Larger than any request the apiserver takes (3 MiB).
const MAX_REQUEST: usize = 8 << 20;

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

/// The connection ends without a reply.
type Broken = BodyError;

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
    fn unprefix(&self, parts: &mut request::Parts) -> Option<()> {
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
struct Registered {
    shared: Arc<Shared>,
    seq: u64,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.shared.watches.lock().remove(&self.seq);
    }
}

/// Records a request that ends before it has a reply body, whatever ends it.
struct Entry {
    records: Arc<Records>,
    seq: u64,
    outcome: Option<Outcome>,
}

impl Entry {
    fn ends(mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }

    /// The reply body writes the outcome.
    fn goes_on(mut self) -> u64 {
        self.outcome = None;
        self.seq
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(outcome) = self.outcome {
            self.records.update(self.seq, |r| r.outcome = outcome);
        }
    }
}

async fn handle(
    shared: Arc<Shared>,
    fate: Arc<Fate>,
    request: Request<Incoming>,
) -> Result<Response<ClientBody>, Broken> {
    let (mut parts, body) = request.into_parts();
    // Without a prefix the request stays as it is.
    let _ = shared.unprefix(&mut parts);
    let body = Limited::new(body, MAX_REQUEST).collect().await?.to_bytes();
    let sent = wire::meta(Encoding::of(&parts.headers), &body);
    let asked = ApiRequest::read(&parts, sent.as_ref());
    fate.user_agent.lock().clone_from(&asked.user_agent);
    let seq = shared.records.open(&asked, &body);
    let entry = Entry {
        records: Arc::clone(&shared.records),
        seq,
        outcome: Some(Outcome::ClientGone),
    };

    let action = shared.rules.for_request(&asked);
    match &action {
        Some((_, Action::Refuse(refusal))) => return Ok(refuse(&shared, entry, &asked, refusal)),
        Some((_, Action::ResetBefore)) => {
            entry.ends(Outcome::Reset);
            fate.reset_on_close();
            return Err("reset before the server".into());
        }
        Some((_, Action::Delay(by))) => sleep(*by).await,
        Some((_, Action::Hang)) => std::future::pending().await,
        Some((id, Action::Hold)) => shared.rules.removed(*id).await,
        _ => {}
    }
    let action = action.map(|(_, action)| action);

    shared.records.update(seq, |r| r.reached_server = true);
    let mut forwarded = Request::from_parts(parts, Full::new(body));
    strip_hop_headers(forwarded.headers_mut());
    // The apiserver compresses even single watch events, and then they could not be told apart.
    forwarded.headers_mut().remove(ACCEPT_ENCODING);
    let reply = match shared.upstream.send(forwarded).await {
        Ok(reply) => reply,
        Err(error) => {
            entry.ends(Outcome::ServerGone);
            fate.reset_on_close();
            return Err(error.into());
        }
    };
    let (mut head, server) = reply.into_parts();
    strip_hop_headers(&mut head.headers);
    shared.records.update(seq, |r| r.status = Some(head.status.as_u16()));

    if asked.is_watch && head.status == StatusCode::OK {
        if matches!(action, Some(Action::LoseReply)) {
            entry.ends(Outcome::Lost);
            fate.reset_on_close();
            return Err("reply lost".into());
        }
        if let Some(Action::DelayReply(by)) = &action {
            sleep(*by).await;
        }
        return Ok(watch(shared, fate, entry, asked, head, server, action));
    }
    let must_read = asked.is_write() || !asked.name.is_empty();
    if !must_read && !matches!(action, Some(Action::LoseReply | Action::CutReply)) {
        if let Some(Action::DelayReply(by)) = &action {
            sleep(*by).await;
        }
        let body = stream_body(server);
        return Ok(respond(
            &shared,
            entry,
            head,
            body,
            Outcome::Delivered,
            Outcome::ServerGone,
        ));
    }

    let mut server = server;
    let whole = match (&mut server.incoming).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => {
            entry.ends(Outcome::ServerGone);
            fate.reset_on_close();
            return Err(error.into());
        }
    };
    drop(server);
    let changed = learn(&shared.records, &asked, sent.as_ref(), &head, &whole);
    shared.records.update(seq, |r| r.changed = changed);
    match action {
        Some(Action::LoseReply) => {
            entry.ends(Outcome::Lost);
            fate.reset_on_close();
            Err("reply lost".into())
        }
        Some(Action::CutReply) => {
            // The length promised is that of the whole, so the client can tell.
            head.headers.insert(CONTENT_LENGTH, whole.len().into());
            let half = whole.slice(..whole.len() / 2);
            let pieces = futures::stream::once(async move { Ok(Frame::data(half)) }).chain_break();
            Ok(respond(&shared, entry, head, pieces, Outcome::Lost, Outcome::Lost))
        }
        action => {
            if let Some(Action::DelayReply(by)) = action {
                sleep(by).await;
            }
            let body = Full::new(whole).map_err(never).boxed_unsync();
            Ok(respond(
                &shared,
                entry,
                head,
                body,
                Outcome::Delivered,
                Outcome::ServerGone,
            ))
        }
    }
}

fn never(error: Infallible) -> BodyError {
    match error {}
}

fn stream_body(mut server: ServerBody) -> Inner {
    let frames = futures::stream::poll_fn(move |cx| {
        use hyper::body::Body;
        std::pin::Pin::new(&mut server.incoming).poll_frame(cx)
    });
    StreamBody::new(frames.map_err(BodyError::from)).boxed_unsync()
}

trait ChainBreak {
    fn chain_break(self) -> Inner;
}

impl<S> ChainBreak for S
where
    S: futures::Stream<Item = Result<Frame<Bytes>, BodyError>> + Send + 'static,
{
    /// The stream, then, once it has reached the socket, a broken connection.
    fn chain_break(self) -> Inner {
        use futures::StreamExt;
        let end = futures::stream::once(async {
            sleep(SETTLE).await;
            Err("reply cut".into())
        });
        StreamBody::new(self.chain(end)).boxed_unsync()
    }
}

fn refuse(shared: &Arc<Shared>, entry: Entry, asked: &ApiRequest, refusal: &Refusal) -> Response<ClientBody> {
    shared.records.update(entry.seq, |r| r.status = Some(refusal.code()));
    let (head, body) = refusal.response(asked).into_parts();
    let body = Full::new(body).map_err(never).boxed_unsync();
    respond(shared, entry, head, body, Outcome::Refused, Outcome::Refused)
}

fn respond(
    shared: &Arc<Shared>,
    entry: Entry,
    head: response::Parts,
    body: Inner,
    complete: Outcome,
    broken: Outcome,
) -> Response<ClientBody> {
    let seq = entry.goes_on();
    let records = Arc::clone(&shared.records);
    Response::from_parts(head, ClientBody::new(body, records, seq, complete, broken))
}

fn watch(
    shared: Arc<Shared>,
    fate: Arc<Fate>,
    entry: Entry,
    asked: ApiRequest,
    head: response::Parts,
    server: ServerBody,
    action: Option<Action>,
) -> Response<ClientBody> {
    let planned = match action {
        Some(Action::EndWatch { after, how }) => Some((after, how)),
        Some(Action::CutReply) => Some((0, WatchEnd::MidEvent)),
        _ => None,
    };
    let (orders, inbox) = mpsc::channel(4);
    let seq = entry.seq;
    let open = OpenWatch {
        request: asked.clone(),
        orders,
    };
    shared.watches.lock().insert(seq, open);
    let registered = Registered {
        shared: Arc::clone(&shared),
        seq,
    };
    let encoding = Encoding::of(&head.headers);
    let stream = WatchStream::new(asked, encoding, Arc::clone(&shared.rules), fate, inbox, planned, server);
    let frames = stream.into_stream().inspect_ok(move |_| {
        let _ = &registered;
    });
    let body = StreamBody::new(frames).boxed_unsync();
    respond(&shared, entry, head, body, Outcome::Delivered, Outcome::Lost)
}

/// Whether a write changed what is stored, by the resourceVersions before (the one sent, else the last seen) and after.
fn learn(
    records: &Records,
    asked: &ApiRequest,
    sent: Option<&Meta>,
    head: &response::Parts,
    body: &Bytes,
) -> Option<bool> {
    if !asked.is_write() && asked.method != Method::GET {
        return None;
    }
    if !head.status.is_success() {
        return asked.is_write().then_some(false);
    }
    let got = wire::meta(Encoding::of(&head.headers), body).filter(|m| !m.resource_version.is_empty());
    let seen = got
        .as_ref()
        .and_then(|m| records.learn(asked, &m.name, &m.resource_version));
    if !asked.is_write() {
        return None;
    }
    if asked.is_dry_run {
        return Some(false);
    }
    match asked.method {
        Method::PUT | Method::PATCH => {
            let before = sent
                .map(|m| m.resource_version.clone())
                .filter(|v| !v.is_empty())
                .or(seen)?;
            Some(got?.resource_version != before)
        }
        _ => Some(true),
    }
}

fn strip_hop_headers(headers: &mut HeaderMap) {
    for name in [CONNECTION, TRANSFER_ENCODING] {
        headers.remove(name);
    }
}
