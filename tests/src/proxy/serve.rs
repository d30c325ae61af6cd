//! One request through the proxy: record, rule, server, rule, client.

use std::convert::Infallible;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use http::header::{ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, Method, Request, Response, StatusCode, response};
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use tokio::time::sleep;

use super::body::{ClientBody, Inner};
use super::connection::{Fate, SETTLE};
use super::record::{Outcome, Records};
use super::refusal::Refusal;
use super::request::ApiRequest;
use super::rule::{Action, WatchEnd};
use super::shared::Shared;
use super::stream::{BodyError, WatchStream};
use super::upstream::ServerBody;
use super::wire::{self, Encoding, Meta};

/// Larger than any request the apiserver takes (3 MiB).
const MAX_REQUEST: usize = 8 << 20;

/// The connection ends without a reply.
type Broken = BodyError;

/// Records a request that ends before it has a reply body, whatever ends it.
struct Entry {
    records: Arc<Records>,
    seq: u64,
    outcome: Option<Outcome>,
}

impl Entry {
    /// The connection is reset instead of a reply.
    fn reset(mut self, fate: &Fate, outcome: Outcome, why: impl Into<Broken>) -> Result<Response<ClientBody>, Broken> {
        self.outcome = Some(outcome);
        fate.reset_on_close();
        Err(why.into())
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

/// Answers one request, or ends its connection.
pub(super) async fn handle(
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
        Some((_, Action::ResetBefore)) => return entry.reset(&fate, Outcome::Reset, "reset before the server"),
        Some((_, Action::Delay(by))) => sleep(*by).await,
        Some((_, Action::Hang)) => std::future::pending().await,
        Some((id, Action::Hold)) => shared.rules.removed(*id).await,
        _ => {}
    }
    let reply_rule = action.as_ref().map_or(0, |(id, _)| *id);
    let action = action.map(|(_, action)| action);
    if let Some(limit) = shared.rules.pages_for(&asked) {
        set_limit(&mut parts.uri, limit);
    }

    shared.records.update(seq, |r| r.reached_server = true);
    let mut forwarded = Request::from_parts(parts, Full::new(body));
    strip_hop_headers(forwarded.headers_mut());
    // The apiserver compresses even single watch events, and then they could not be told apart.
    forwarded.headers_mut().remove(ACCEPT_ENCODING);
    let reply = match shared.upstream.send(forwarded).await {
        Ok(reply) => reply,
        Err(error) => {
            shared
                .records
                .update(seq, |r| r.reached_server = error.may_have_arrived());
            return entry.reset(&fate, Outcome::ServerGone, error);
        }
    };
    let (mut head, server) = reply.into_parts();
    strip_hop_headers(&mut head.headers);
    shared.records.update(seq, |r| {
        r.status = Some(head.status.as_u16());
        r.answered = Some(std::time::Instant::now());
    });

    if asked.is_watch && head.status == StatusCode::OK {
        if matches!(action, Some(Action::LoseReply)) {
            return entry.reset(&fate, Outcome::Lost, "reply lost");
        }
        late(&shared, reply_rule, action.as_ref()).await;
        if matches!(action, Some(Action::GarbleReply)) {
            return Ok(respond(&shared, entry, head, garbled(), Outcome::Lost, Outcome::Lost));
        }
        return Ok(watch(shared, fate, entry, asked, head, server, action));
    }
    let must_read = asked.is_write() || !asked.name.is_empty();
    if !must_read && !matches!(action, Some(Action::LoseReply | Action::CutReply | Action::GarbleReply)) {
        late(&shared, reply_rule, action.as_ref()).await;
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
        Err(error) => return entry.reset(&fate, Outcome::ServerGone, error),
    };
    drop(server);
    let got = wire::meta(Encoding::of(&head.headers), &whole).filter(|m| !m.resource_version.is_empty());
    let changed = learn(&shared.records, &asked, sent.as_ref(), head.status, got.as_ref());
    shared.records.update(seq, |r| {
        r.changed = changed;
        let version = got.as_ref().and_then(|m| m.resource_version.parse().ok());
        let makes = asked.is_write() && asked.method != Method::DELETE && !asked.is_dry_run;
        r.version = version.filter(|_| makes && head.status.is_success());
    });
    match action {
        Some(Action::LoseReply) => entry.reset(&fate, Outcome::Lost, "reply lost"),
        Some(Action::CutReply) => {
            // The length promised is that of the whole, so the client can tell.
            head.headers.insert(CONTENT_LENGTH, whole.len().into());
            let body = cut_body(whole.slice(..whole.len() / 2));
            Ok(respond(&shared, entry, head, body, Outcome::Lost, Outcome::Lost))
        }
        Some(Action::GarbleReply) => {
            head.headers.remove(CONTENT_LENGTH);
            head.status = StatusCode::OK;
            Ok(respond(&shared, entry, head, garbled(), Outcome::Lost, Outcome::Lost))
        }
        action => {
            late(&shared, reply_rule, action.as_ref()).await;
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

/// Waits for as long as the client is to wait for a reply that is there.
async fn late(shared: &Shared, rule: u64, action: Option<&Action>) {
    match action {
        Some(Action::DelayReply(by)) => sleep(*by).await,
        Some(Action::HoldReply) => shared.rules.removed(rule).await,
        _ => {}
    }
}

fn garbled() -> Inner {
    Full::new(wire::garbage(Encoding::Json)).map_err(never).boxed_unsync()
}

/// Replaces the limit in the query of a list.
fn set_limit(uri: &mut http::Uri, limit: u32) {
    let query = uri.query().unwrap_or_default();
    let others = query.split('&').filter(|pair| !pair.starts_with("limit="));
    let pairs: Vec<&str> = others.filter(|pair| !pair.is_empty()).collect();
    let limited = format!("{}?limit={limit}&{}", uri.path(), pairs.join("&"));
    if let Ok(limited) = limited.parse() {
        *uri = limited;
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

/// This much of a body, and once it has reached the socket a broken connection.
fn cut_body(part: Bytes) -> Inner {
    let part = futures::stream::once(async { Ok(Frame::data(part)) });
    let end = futures::stream::once(async {
        sleep(SETTLE).await;
        Err("reply cut".into())
    });
    StreamBody::new(part.chain(end)).boxed_unsync()
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
    let (registered, orders) = shared.register_watch(entry.seq, &asked);
    let encoding = Encoding::of(&head.headers);
    let stream = WatchStream::new(
        asked,
        encoding,
        Arc::clone(&shared.rules),
        fate,
        orders,
        planned,
        server,
    );
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
    status: StatusCode,
    got: Option<&Meta>,
) -> Option<bool> {
    if !asked.is_write() && asked.method != Method::GET {
        return None;
    }
    if !status.is_success() {
        return asked.is_write().then_some(false);
    }
    let seen = got.and_then(|m| records.learn(asked, &m.name, &m.resource_version));
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
