//! A candidate's hint that the Lease has become free. Looking at it every few seconds is what counts, as in client-go; a
//! watch beside it makes the takeover after a release immediate instead of some seconds late. Where the watch does not
//! work, for lack of permission or for any other reason, nothing else changes.

use std::time::Duration;

use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, WatchEvent, WatchParams};
use tokio::time::Instant;
use tracing::debug;

use super::lease::record_of;

/// How long the apiserver keeps one watch open.
const WATCH_SECONDS: u32 = 60;

/// After this time a watch that has not ended by itself is dead.
const LONGEST: Duration = Duration::from_secs(70);

/// The watch of one Lease.
pub(super) struct Handover {
    api: Api<Lease>,
    parameters: WatchParams,
    stream: Option<(BoxStream<'static, kube::Result<WatchEvent<Lease>>>, Instant)>,
}

impl Handover {
    pub(super) fn new(api: Api<Lease>, name: &str) -> Self {
        let parameters = WatchParams::default()
            .fields(&format!("metadata.name={name}"))
            .timeout(WATCH_SECONDS);
        Self {
            api,
            parameters,
            stream: None,
        }
    }

    /// Returns when the Lease has been released or deleted after `version`; without a version, never. May be dropped and
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
        while let Some((stream, _)) = &mut self.stream {
            match stream.next().await {
                Some(Ok(WatchEvent::Deleted(_))) => return,
                Some(Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease))) if record_of(&lease).is_released() => {
                    return;
                }
                Some(Ok(WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Bookmark(_))) => {}
                other => {
                    debug!(error = ?other, "the watch of the lease ended");
                    self.stream = None;
                }
            }
        }
        std::future::pending::<()>().await;
    }
}
