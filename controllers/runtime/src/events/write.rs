//! The one task that writes Events.

use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event as Object;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use prometheus::IntCounter;
use serde_json::json;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::correlate::{Correlator, Verdict};
use super::{Event, EventQueue};
use crate::api::{Failure, call};
use crate::metrics::Metrics;

/// No call takes longer than this.
const CALL_LIMIT: Duration = Duration::from_secs(5);

/// How long Events that wait are still written at shutdown.
const DRAIN_LIMIT: Duration = Duration::from_millis(500);

/// Limits of the apiserver, in bytes.
const NOTE: usize = 1024;
const INSTANCE: usize = 128;
const NAME: usize = 253;

/// Writes the Events of a queue, to be run as one task.
pub struct EventWriter {
    client: Client,
    queue: EventQueue,
    instance: String,
    correlator: Correlator,
    limited: IntCounter,
    refused: IntCounter,
    failed: IntCounter,
}

/// How a write ended.
enum Ended {
    Written,
    /// The Event that was to be counted up is no longer there.
    Gone,
    /// The namespace is being deleted or gone, or writing is forbidden.
    Refused,
    Failed,
}

impl EventWriter {
    /// A writer for `queue`. `instance` names this process (`reportingInstance`). `client` must not retry by itself.
    pub fn new(client: Client, queue: EventQueue, instance: &str, metrics: &Metrics) -> Self {
        Self {
            client,
            queue,
            instance: cut(instance, INSTANCE).to_owned(),
            correlator: Correlator::new(Instant::now().into_std()),
            limited: metrics.events_dropped("rate_limited"),
            refused: metrics.events_dropped("refused"),
            failed: metrics.events_dropped("failed"),
        }
    }

    /// Writes until `stop`, then for a moment what is waiting.
    pub async fn run(mut self, stop: CancellationToken) {
        while let Some(Some(event)) = stop.run_until_cancelled(self.queue.waiting.recv()).await {
            self.write(event).await;
        }
        self.queue.waiting.close();
        let drained = timeout(DRAIN_LIMIT, async {
            while let Some(event) = self.queue.waiting.recv().await {
                self.write(event).await;
            }
        });
        if drained.await.is_err() {
            debug!("events left unwritten at shutdown");
        }
    }

    async fn write(&mut self, event: Event) {
        let ended = match self.correlator.admit(Instant::now().into_std(), &event) {
            Verdict::Create => self.create(&event).await,
            Verdict::Count { name, count } => match self.count(&event, &name, count).await {
                Ended::Gone => self.create(&event).await,
                ended => ended,
            },
            Verdict::Limited => return self.limited.inc(),
        };
        match ended {
            Ended::Written => {}
            Ended::Gone | Ended::Refused => self.refused.inc(),
            Ended::Failed => self.failed.inc(),
        }
    }

    async fn create(&mut self, event: &Event) -> Ended {
        let object = object(event, &self.instance, SystemTime::now());
        let name = object.metadata.name.clone().unwrap_or_default();
        let ended = ended(self.api(event).create(&PostParams::default(), &object)).await;
        if matches!(ended, Ended::Written) {
            self.correlator.created(Instant::now().into_std(), event, name);
        }
        ended
    }

    async fn count(&self, event: &Event, name: &str, count: i32) -> Ended {
        let last_observed = MicroTime(Timestamp::now());
        let patch = Patch::Merge(json!({"series": {"count": count, "lastObservedTime": last_observed}}));
        ended(self.api(event).patch(name, &PatchParams::default(), &patch)).await
    }

    fn api(&self, event: &Event) -> Api<Object> {
        Api::namespaced(self.client.clone(), namespace(event))
    }
}

async fn ended(write: impl Future<Output = kube::Result<Object>>) -> Ended {
    let Err(failure) = call(CALL_LIMIT, write).await else {
        return Ended::Written;
    };
    debug!(%failure, "an event was not written");
    match failure {
        Failure::NotFound => Ended::Gone,
        Failure::Forbidden(_) | Failure::NamespaceTerminating => Ended::Refused,
        _ => Ended::Failed,
    }
}

/// The namespace an Event is stored in: that of its object.
fn namespace(event: &Event) -> &str {
    if event.regarding.namespace.is_empty() {
        "default"
    } else {
        &event.regarding.namespace
    }
}

/// The Event object for `event`, which happened at `time`.
fn object(event: &Event, instance: &str, time: SystemTime) -> Object {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // client-go's name: that of the object, and the time in nanoseconds.
    let suffix = format!(".{:x}", since.as_nanos());
    let prefix = cut(&event.regarding.name, NAME - suffix.len()).trim_end_matches(['.', '-']);
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Object {
        metadata: ObjectMeta {
            name: Some(format!("{prefix}{suffix}")),
            namespace: some(namespace(event)),
            ..ObjectMeta::default()
        },
        event_time: Timestamp::try_from(time).ok().map(MicroTime),
        regarding: Some(ObjectReference {
            api_version: some(event.regarding.api_version),
            kind: some(event.regarding.kind),
            namespace: some(&event.regarding.namespace),
            name: some(&event.regarding.name),
            uid: some(&event.regarding.uid),
            ..ObjectReference::default()
        }),
        type_: Some(event.event_type.to_string()),
        reason: some(event.reason),
        action: some(event.action),
        note: some(cut(&event.note, NOTE)),
        reporting_controller: some(event.controller),
        reporting_instance: some(instance),
        ..Object::default()
    }
}

/// The start of `text`, at most `bytes` long and whole characters only.
fn cut(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}

#[cfg(test)]
mod tests;
