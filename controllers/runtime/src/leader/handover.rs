//! A candidate's hint that the Lease has changed. Looking at it every few seconds is what counts, as in client-go; a watch
//! beside it makes the takeover after a release immediate instead of some seconds late, and lets the time for which a
//! renewal is believed begin with the renewal instead of with the next look. Where the watch does not work, for lack of
//! permission or for any other reason, nothing else changes.

use std::time::Duration;

use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use kube::api::{Api, DynamicObject, WatchEvent, WatchParams};
use tokio::time::Instant;
use tracing::debug;

/// How long the apiserver keeps one watch open.
const WATCH_SECONDS: u32 = 60;

/// The least time between two hints: whatever happens to the Lease, it is not read more often than so.
const PAUSE: Duration = Duration::from_millis(50);

/// After this time a watch that has not ended by itself is dead.
const LONGEST: Duration = Duration::from_secs(70);

/// The watch of one Lease.
pub(super) struct Handover {
    api: Api<DynamicObject>,
    parameters: WatchParams,
    stream: Option<(BoxStream<'static, kube::Result<WatchEvent<DynamicObject>>>, Instant)>,
}

impl Handover {
    pub(super) fn new(api: Api<DynamicObject>, name: &str) -> Self {
        let parameters = WatchParams::default()
            .fields(&format!("metadata.name={name}"))
            .timeout(WATCH_SECONDS);
        Self {
            api,
            parameters,
            stream: None,
        }
    }

    /// Returns when the Lease has been changed or deleted after `version`; without a version, never. May be dropped and
    /// called again without losing anything. A watch that fails is opened again at the next call, not in this one.
    pub(super) async fn wait(&mut self, version: Option<String>) {
        let Some(version) = version else {
            self.stream = None;
            return std::future::pending().await;
        };
        if self
            .stream
            .as_ref()
            .is_none_or(|(_, opened)| opened.elapsed() > LONGEST)
        {
            let (api, parameters) = (self.api.clone(), self.parameters.clone());
            let opened = async move { api.watch(&parameters, &version).await };
            self.stream = Some((futures::stream::once(opened).try_flatten().boxed(), Instant::now()));
        }
        tokio::time::sleep(PAUSE).await;
        while let Some((stream, _)) = &mut self.stream {
            match stream.next().await {
                Some(Ok(WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Deleted(_))) => return,
                Some(Ok(WatchEvent::Bookmark(_))) => {}
                other => {
                    debug!(error = ?other, "the watch of the lease ended");
                    self.stream = None;
                }
            }
        }
        std::future::pending::<()>().await;
    }
}
