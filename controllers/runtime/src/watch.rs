//! One watch per kind: kube's `watcher`, restarted with a back-off of ours, fed into a sink.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use kube::api::ListParams;
use kube::runtime::watcher::{self, Event, InitialListStrategy};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::api::{Failure, Repeated, call, in_seconds, lasting};
use crate::client::RESPONSE_HEAD_LIMIT;
use crate::metrics::WatchMetrics;
use crate::readiness::Readiness;

mod backoff;
mod pulse;

pub use backoff::WatchBackoff;
pub use pulse::Pulse;

/// How long the server keeps a watch open, and (5 s later) how soon a watch that died without a sign is noticed.
pub const WATCH_TIMEOUT: Duration = Duration::from_mins(1);

/// A watch that ends no more than this before its time has used it up.
const ENDS_EARLY: Duration = Duration::from_secs(5);

/// While the first state comes in, this long without an object is a stalled list.
const LIST_STALL: Duration = Duration::from_secs(70);

/// A watch that was interrupted and is silent for so long is open again and has nothing to tell: had no answer come, that would have been an
/// error before.
const SILENCE: Duration = Duration::from_secs(RESPONSE_HEAD_LIMIT.as_secs() + 5);

/// How the first state is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListStyle {
    /// One stream, object by object (KEP-3157): least memory on our side. Needs a server of 1.34 or newer.
    Streaming,
    /// Pages of 500, as client-go did before.
    Paged,
}

/// What of a kind is watched, and how.
#[derive(Clone, Debug)]
pub struct Selection {
    /// How the first state is asked for.
    pub style: ListStyle,
    /// Label selector; `None` = everything.
    pub labels: Option<String>,
    /// Field selector; `None` = everything. By name it is the one object that a right to it by name is enough for.
    pub fields: Option<String>,
}

impl Selection {
    /// Everything.
    pub fn all(style: ListStyle) -> Self {
        Self {
            style,
            labels: None,
            fields: None,
        }
    }

    /// The one object of this name.
    pub fn named(style: ListStyle, name: &str) -> Self {
        Self {
            fields: Some(format!("metadata.name={name}")),
            ..Self::all(style)
        }
    }
}

/// The apiserver's newest state is older than one that it has shown, as after etcd was restored from a backup. It would let a watch wait
/// without a word until versions that it has never seen come round again, and what is known would be taken for newer than what is stored:
/// only a process that knows nothing yet can go on.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "the apiserver has shown version {shown} of {resource} and its newest is {newest} now, as after a restore from a backup; start again"
)]
pub struct WentBack {
    resource: &'static str,
    shown: u64,
    newest: u64,
}

/// Watches everything `api` covers and hands each event to `sink`; ends only if the apiserver's history [went back](WentBack).
///
/// A relist (`Event::Init` to `Event::InitDone`) says nothing of what was deleted meanwhile: the sink sweeps what it did not hear of again.
/// `ready` is raised after the first complete state.
pub async fn run<K>(
    resource: &'static str,
    api: Api<K>,
    mut selection: Selection,
    metrics: WatchMetrics,
    ready: Readiness,
    pulse: Pulse,
    mut sink: impl FnMut(Event<K>),
) -> WentBack
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut backoff = WatchBackoff::default();
    let mut trouble = Trouble {
        resource,
        metrics: metrics.clone(),
        said: Repeated::default(),
        pulse,
    };
    // The newest version that an object had.
    let mut shown = 0;
    loop {
        let mut stream = Box::pin(watcher::watcher(api.clone(), config(&selection)));
        let mut listing = true;
        // Since when a first state comes in.
        let mut begun: Option<tokio::time::Instant> = None;
        loop {
            let next = if listing {
                match tokio::time::timeout(LIST_STALL, stream.try_next()).await {
                    Ok(next) => next,
                    Err(_stalled) => break trouble.note(&Failure::Deadline(LIST_STALL)),
                }
            } else if trouble.said.last().is_some() {
                let Ok(next) = tokio::time::timeout(SILENCE, stream.try_next()).await else {
                    trouble.over();
                    continue;
                };
                next
            } else {
                stream.try_next().await
            };
            match next {
                // A streaming list has ended before its last object, which kube takes for no error.
                Ok(Some(Event::Init)) if let Some(begun) = begun => {
                    trouble.note(&Failure::Unreachable(
                        "the list ended before it was complete".to_owned(),
                    ));
                    // It takes longer than a watch may last. Each page has a time of its own.
                    if begun.elapsed() + ENDS_EARLY >= WATCH_TIMEOUT {
                        selection.style = ListStyle::Paged;
                        tracing::warn!(
                            resource,
                            "listed in pages from now on: in one stream it takes longer than {WATCH_TIMEOUT:?}"
                        );
                    }
                    tokio::time::sleep(backoff.next(Instant::now(), rand::random())).await;
                    break;
                }
                Ok(Some(event)) => {
                    match &event {
                        Event::Init => {
                            begun = Some(tokio::time::Instant::now());
                            listing = true;
                            if ready.is_raised() {
                                metrics.relists.inc();
                            }
                        }
                        Event::InitDone => {
                            (listing, begun) = (false, None);
                            tracing::debug!(resource, "complete");
                        }
                        Event::InitApply(object) | Event::Apply(object) | Event::Delete(object) => {
                            metrics.events.inc();
                            shown = shown.max(version(object.meta().resource_version.as_deref()));
                        }
                    }
                    let complete = matches!(event, Event::InitDone);
                    sink(event);
                    if complete {
                        ready.raise();
                    }
                    // `Init` only says that a list is about to be asked for: no proof that the server answers.
                    if !listing {
                        trouble.over();
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    begun = None;
                    let expired = is_expired(&error);
                    // kube goes on with the next event, as if there had been none: only a list still knows what it said.
                    let missed = is_unreadable(&error);
                    trouble.note(&failure(&error));
                    if expired {
                        // What we have is too old to go on from: a fresh list at once. kube's own state does not leave a 410 that came
                        // as the answer itself.
                        if backoff.excuse(Instant::now()) {
                            break;
                        }
                    }
                    loop {
                        tokio::time::sleep(backoff.next(Instant::now(), rand::random())).await;
                        // A restore takes the apiserver down, so no watch outlives one without an error.
                        match newest(&api, &selection).await {
                            Ok(newest) if newest < shown => {
                                return WentBack {
                                    resource,
                                    shown,
                                    newest,
                                };
                            }
                            Ok(_) => {
                                // A watch that hears nothing can only tell by this that it is at work again.
                                trouble.pulse.back();
                                break;
                            }
                            Err(failure) => trouble.note(&failure),
                        }
                    }
                    if expired || missed {
                        break;
                    }
                }
            }
        }
    }
}

/// The version of the newest state, by a list that no cache may answer from the past.
async fn newest<K>(api: &Api<K>, selection: &Selection) -> Result<u64, Failure>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let one = ListParams {
        field_selector: selection.fields.clone(),
        ..ListParams::default().limit(1)
    };
    let list = call(RESPONSE_HEAD_LIMIT, api.list_metadata(&one)).await?;
    // A version that is not a number says nothing.
    Ok(list
        .metadata
        .resource_version
        .and_then(|it| it.parse().ok())
        .unwrap_or(u64::MAX))
}

fn version(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn config(selection: &Selection) -> watcher::Config {
    let config = watcher::Config {
        label_selector: selection.labels.clone(),
        field_selector: selection.fields.clone(),
        ..watcher::Config::default().timeout(u32::try_from(WATCH_TIMEOUT.as_secs()).unwrap_or(60))
    };
    match selection.style {
        ListStyle::Streaming => config.streaming_lists(),
        ListStyle::Paged => watcher::Config {
            initial_list_strategy: InitialListStrategy::ListWatch,
            ..config.page_size(500)
        },
    }
}

fn is_expired(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchError(status)
        | watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => status.code == 410,
        _ => false,
    }
}

/// An event in an open stream that is none, or is not understood.
fn is_unreadable(error: &watcher::Error) -> bool {
    matches!(
        error,
        watcher::Error::WatchFailed(kube::Error::SerdeError(_) | kube::Error::Api(_))
    )
}

fn failure(error: &watcher::Error) -> Failure {
    match error {
        watcher::Error::WatchError(status) => Failure::from(&kube::Error::Api(status.clone())),
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => Failure::from(error),
        watcher::Error::NoResourceVersion => Failure::Unreachable(error.to_string()),
    }
}

/// Counts every failure; logs it when it is new and then once a minute, so that an apiserver that is away costs lines, not a flood, and is not
/// forgotten either.
struct Trouble {
    resource: &'static str,
    metrics: WatchMetrics,
    said: Repeated,
    pulse: Pulse,
}

impl Trouble {
    fn note(&mut self, failure: &Failure) {
        self.metrics.errors.inc();
        self.pulse.broke(Instant::now());
        if let Some(time) = self.said.news(failure, Instant::now()) {
            tracing::warn!(resource = self.resource, error = %failure, "watch interrupted{}, trying again", lasting(time));
        }
    }

    fn over(&mut self) {
        self.pulse.back();
        if let Some(time) = self.said.over(Instant::now()) {
            tracing::info!(resource = self.resource, after = in_seconds(time), "watch is back");
        }
    }
}

/// Which way of listing a server of this version understands; `auto` by its minor version.
pub fn list_style(wish: WatchList, server_minor: Option<u32>) -> ListStyle {
    match (wish, server_minor) {
        (WatchList::On, _) => ListStyle::Streaming,
        (WatchList::Auto, Some(minor)) if minor >= 34 => ListStyle::Streaming,
        (WatchList::Auto | WatchList::Off, _) => ListStyle::Paged,
    }
}

/// `--watch-list`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum WatchList {
    /// By the server's version: streaming from 1.34 on, where it is always on.
    Auto,
    /// Streaming lists.
    On,
    /// Paged lists.
    Off,
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use http_body_util::{BodyExt as _, Full, StreamBody};
    use hyper::body::Frame;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Client;
    use kube::client::Body;
    use prometheus::Registry;
    use serde_json::json;

    use super::*;
    use crate::metrics::{BuildInfo, Metrics};

    fn paged() -> Selection {
        Selection::all(ListStyle::Paged)
    }

    /// Shows an object of version 275 in its first list; every watch fails, and later lists are of version `newest`.
    async fn watched(newest: u64) -> Result<WentBack, tokio::time::error::Elapsed> {
        let mut lists = 0;
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            let (code, body) = if query.contains("watch=true") {
                (
                    500,
                    json!({"kind": "Status", "status": "Failure", "message": "no", "reason": "InternalError", "code": 500}),
                )
            } else {
                lists += 1;
                let version = if lists == 1 { 275 } else { newest };
                let meta = json!({"name": "a", "namespace": "marsh", "resourceVersion": version.to_string()});
                let item = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta});
                let list = json!({"resourceVersion": version.to_string()});
                (
                    200,
                    json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": list, "items": [item]}),
                )
            };
            let body = Body::from(serde_json::to_vec(&body).unwrap());
            std::future::ready(Ok::<_, std::io::Error>(
                Response::builder().status(code).body(body).unwrap(),
            ))
        });
        let api: Api<ConfigMap> = Api::all(Client::new(service, "marsh"));
        let build = BuildInfo {
            version: "0",
            kubernetes: "0",
        };
        let metrics = Metrics::new(Registry::new(), build).unwrap().watch("configmaps");
        let ready = Readiness::new("configmaps");
        let run = run("configmaps", api, paged(), metrics, ready, Pulse::default(), |_| {});
        tokio::time::timeout(Duration::from_mins(5), run).await
    }

    /// An etcd that was restored from a backup: the apiserver would keep the watch open and show nothing.
    #[tokio::test(start_paused = true)]
    async fn a_history_that_went_back_ends_the_watch() {
        let ended = watched(225).await.unwrap();
        assert_eq!(
            ended.to_string(),
            "the apiserver has shown version 275 of configmaps and its newest is 225 now, as after a restore from a backup; start again"
        );
        assert!(watched(275).await.is_err(), "a watch that fails is tried again");
    }

    /// The stream goes on after it, so nothing but a list says what it was.
    #[tokio::test(start_paused = true)]
    async fn an_event_that_cannot_be_read_is_made_up_for_by_a_list() {
        let mut watches = 0;
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            let meta = |version: &str| json!({"name": "a", "namespace": "marsh", "resourceVersion": version});
            let item = |version: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(version)});
            let body = if query.contains("watch=true") {
                watches += 1;
                let garbage = if watches == 1 { "<html></html>\n" } else { "" };
                format!("{garbage}{}\n", json!({"type": "MODIFIED", "object": item("9")}))
            } else {
                let list = json!({"resourceVersion": "7"});
                json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": list, "items": [item("7")]}).to_string()
            };
            std::future::ready(Ok::<_, std::io::Error>(Response::new(Body::from(body.into_bytes()))))
        });
        let api: Api<ConfigMap> = Api::all(Client::new(service, "marsh"));
        let build = BuildInfo {
            version: "0",
            kubernetes: "0",
        };
        let metrics = Metrics::new(Registry::new(), build).unwrap().watch("configmaps");
        let (seen, mut events) = tokio::sync::mpsc::unbounded_channel();
        let sink = move |event| {
            let word = match event {
                Event::Init => "list",
                Event::Apply(_) => "event",
                _ => return,
            };
            let _ = seen.send(word);
        };
        let ready = Readiness::new("configmaps");
        let run = run("configmaps", api, paged(), metrics, ready, Pulse::default(), sink);
        let first = async {
            let mut first = Vec::new();
            while first.len() < 3 {
                first.extend(events.recv().await);
            }
            first
        };
        let first = tokio::select! {
            _ = run => Vec::new(),
            first = first => first,
        };
        assert_eq!(first, ["list", "list", "event"]);
    }

    /// A server that needs three minutes for all objects in one stream, and ends a watch when its `timeoutSeconds` are over.
    #[tokio::test(start_paused = true)]
    async fn a_streaming_list_that_takes_longer_than_a_watch_is_told_of_and_comes_in_pages() {
        let asked = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
        let noted = std::sync::Arc::clone(&asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            let item = |number: u64| {
                let meta = json!({"name": number.to_string(), "namespace": "marsh", "resourceVersion": "7"});
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
            };
            let is_stream = query.contains("sendInitialEvents=true");
            let is_watch = query.contains("watch=true");
            noted.lock().push(if is_stream {
                "stream"
            } else if is_watch {
                "watch"
            } else {
                "page"
            });
            let body = if is_watch {
                // One object every 20 s, until the time is over.
                let frames = futures::stream::unfold(0, move |number| async move {
                    if number == 3 {
                        return None;
                    }
                    tokio::time::sleep(Duration::from_secs(20)).await;
                    let line = format!("{}\n", json!({"type": "ADDED", "object": item(number)}));
                    let frame = Frame::data(line.into_bytes().into());
                    Some((Ok::<_, std::io::Error>(frame), number + 1))
                });
                StreamBody::new(frames).boxed_unsync()
            } else {
                let list = json!({"resourceVersion": "7"});
                let page = json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": list, "items": [item(0)]});
                Full::new(page.to_string().into_bytes().into())
                    .map_err(std::io::Error::other)
                    .boxed_unsync()
            };
            std::future::ready(Ok::<_, std::io::Error>(Response::new(body)))
        });
        let api: Api<ConfigMap> = Api::all(Client::new(service, "marsh"));
        let build = BuildInfo {
            version: "0",
            kubernetes: "0",
        };
        let metrics = Metrics::new(Registry::new(), build).unwrap().watch("configmaps");
        let errors = metrics.errors.clone();
        let ready = Readiness::new("configmaps");
        let selection = Selection::all(ListStyle::Streaming);
        let run = run(
            "configmaps",
            api,
            selection,
            metrics,
            ready.clone(),
            Pulse::default(),
            |_| {},
        );
        let ended = tokio::select! {
            ended = run => Some(ended),
            () = ready.raised() => None,
            () = tokio::time::sleep(Duration::from_mins(10)) => None,
        };
        assert!(ended.is_none() && ready.is_raised(), "{asked:?}");
        // The second stream is over as soon as it is seen to be one. What follows the pages may have begun.
        assert_eq!(asked.lock()[..3], ["stream", "stream", "page"]);
        assert_eq!(errors.get(), 1);
    }

    #[test]
    fn the_list_style_follows_the_flag_and_the_servers_version() {
        let table = [
            (WatchList::Auto, Some(37), ListStyle::Streaming),
            (WatchList::Auto, Some(34), ListStyle::Streaming),
            (WatchList::Auto, Some(33), ListStyle::Paged),
            (WatchList::Auto, None, ListStyle::Paged),
            (WatchList::On, Some(31), ListStyle::Streaming),
            (WatchList::Off, Some(37), ListStyle::Paged),
        ];
        for (wish, minor, want) in table {
            assert_eq!(list_style(wish, minor), want, "{wish:?} {minor:?}");
        }
    }
}
