//! One watch per kind: kube's `watcher`, restarted with a back-off of ours, fed into a sink.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use kube::runtime::watcher::{self, Event, InitialListStrategy};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::api::Failure;
use crate::metrics::WatchMetrics;
use crate::readiness::Readiness;

mod backoff;

pub use backoff::WatchBackoff;

/// How long the server keeps a watch open, and (5 s later) how soon a watch that died without a sign is noticed.
pub const WATCH_TIMEOUT: Duration = Duration::from_mins(1);

/// While the first state comes in, this long without an object is a stalled list.
const LIST_STALL: Duration = Duration::from_secs(70);

/// How the first state is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListStyle {
    /// One stream, object by object (KEP-3157): least memory on our side. Needs a server of 1.34 or newer.
    Streaming,
    /// Pages of 500, as client-go did before.
    Paged,
}

/// Watches everything `api` covers and hands each event to `sink`, for ever.
///
/// A relist (`Event::Init` to `Event::InitDone`) says nothing of what was deleted meanwhile: the sink sweeps what it did not hear of again.
/// `ready` is raised after the first complete state.
pub async fn run<K>(
    resource: &'static str,
    api: Api<K>,
    style: ListStyle,
    metrics: WatchMetrics,
    ready: Readiness,
    mut sink: impl FnMut(Event<K>),
) where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut backoff = WatchBackoff::default();
    let mut trouble = Trouble {
        resource,
        metrics: metrics.clone(),
        last: None,
    };
    loop {
        let mut stream = Box::pin(watcher::watcher(api.clone(), config(style)));
        let mut listing = true;
        loop {
            let next = if listing {
                match tokio::time::timeout(LIST_STALL, stream.try_next()).await {
                    Ok(next) => next,
                    Err(_stalled) => break trouble.note(Failure::Deadline(LIST_STALL)),
                }
            } else {
                stream.try_next().await
            };
            match next {
                Ok(Some(event)) => {
                    match &event {
                        Event::Init => {
                            listing = true;
                            if ready.is_raised() {
                                metrics.relists.inc();
                            }
                        }
                        Event::InitDone => {
                            listing = false;
                            tracing::debug!(resource, "complete");
                        }
                        Event::InitApply(_) | Event::Apply(_) | Event::Delete(_) => metrics.events.inc(),
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
                    let expired = is_expired(&error);
                    trouble.note(failure(&error));
                    if expired {
                        // What we have is too old to go on from: a fresh list at once. kube's own state does not leave a 410 that came
                        // as the answer itself.
                        if backoff.excuse(Instant::now()) {
                            break;
                        }
                    }
                    tokio::time::sleep(backoff.next(Instant::now(), rand::random())).await;
                    if expired {
                        break;
                    }
                }
            }
        }
    }
}

fn config(style: ListStyle) -> watcher::Config {
    let config = watcher::Config::default().timeout(u32::try_from(WATCH_TIMEOUT.as_secs()).unwrap_or(60));
    match style {
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

fn failure(error: &watcher::Error) -> Failure {
    match error {
        watcher::Error::WatchError(status) => Failure::from(&kube::Error::Api(status.clone())),
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => Failure::from(error),
        watcher::Error::NoResourceVersion => Failure::Unreachable(error.to_string()),
    }
}

/// Counts every failure; logs one only when it is another than the last, so that an apiserver that is away costs a line, not a flood.
struct Trouble {
    resource: &'static str,
    metrics: WatchMetrics,
    last: Option<Failure>,
}

impl Trouble {
    fn note(&mut self, failure: Failure) {
        self.metrics.errors.inc();
        if self.last.as_ref() != Some(&failure) {
            tracing::warn!(resource = self.resource, error = %failure, "watch interrupted, trying again");
            self.last = Some(failure);
        }
    }

    fn over(&mut self) {
        if self.last.take().is_some() {
            tracing::info!(resource = self.resource, "watch is back");
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
    use super::*;

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
