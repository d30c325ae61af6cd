//! Brings one Service's Endpoints to what they should be: snapshot, compute, plan, write.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use svcplane_runtime::api::Failure;
use svcplane_runtime::events::{Event, EventSink, EventType, Regarding};
use svcplane_runtime::queue::{Outcome, Queue};

use super::change::Change;
use super::compute::compute;
use super::contention::Contention;
use super::metrics::EndpointsMetrics;
use super::plan::{Operation, Version, plan};
use super::trigger::TriggerTracker;
use super::write::Writer;
use crate::gate::{Closed, Gate};
use crate::index::{Affected, Cause, Index, Orphan, Snapshot, WriteEnd};
use crate::model::{EndpointsObject, ObjectKey, Revision, ServiceType, Uid};

/// No call takes longer, whatever is left of the term.
const CALL_LIMIT: Duration = Duration::from_secs(10);
/// `reportingController` of our Events: upstream's name, which people filter by.
const EVENT_SOURCE: &str = "endpoint-controller";
/// `action` of our Events.
const EVENT_ACTION: &str = "SyncEndpoints";

/// The Endpoints controller (spec: kube-controller-manager's `endpoints-controller`). Its workers share it.
pub struct EndpointsController {
    /// What is stored.
    pub index: Arc<Mutex<Index>>,
    /// Services to look at.
    pub queue: Queue<ObjectKey>,
    /// Asked before every write.
    pub gate: Gate,
    /// Makes the writes.
    pub writer: Writer,
    /// Tells people what went wrong.
    pub events: EventSink,
    /// Counts.
    pub metrics: EndpointsMetrics,
    /// `--endpoint-updates-batch-period`: how long a change of a Pod may wait for others.
    pub batch_period: Duration,
    /// State behind the trigger-time annotation.
    pub trigger: Mutex<TriggerTracker>,
    /// State behind the patience with other writers.
    pub contention: Mutex<Contention>,
}

/// How a sync ended, for the metric.
enum Synced {
    Unchanged,
    Skipped,
    Written,
    Planned,
    Failed(Failure),
    NotLeading,
}

/// The apiserver writes these itself, and makes their Service again if somebody deletes it.
fn is_apiservers_own(key: &ObjectKey) -> bool {
    (&*key.namespace, &*key.name) == ("default", "kubernetes")
}

impl EndpointsController {
    /// Puts what the index found affected into the queue.
    pub fn enqueue(&self, affected: Vec<Affected>) {
        for Affected { key, cause } in affected {
            let delay = match cause {
                Cause::Service => Duration::ZERO,
                Cause::Pod => self.batch_period,
                Cause::Foreign => self.patience(&key),
            };
            self.queue.add(&key, delay);
        }
    }

    /// How long somebody else's change stands before it is put right.
    fn patience(&self, key: &ObjectKey) -> Duration {
        self.metrics.foreign_change();
        let wait = self.contention.lock().note(key, Instant::now());
        if wait >= Duration::from_secs(1) {
            tracing::warn!(endpoints = %key, ?wait, "changed by somebody else again and again: looked at after a wait");
        }
        wait
    }

    /// A worker: takes keys for ever.
    pub async fn work(self: Arc<Self>) {
        loop {
            let key = self.queue.take().await;
            let started = Instant::now();
            let synced = self.sync(&key).await;
            let (result, outcome) = match synced {
                Synced::Unchanged => ("unchanged", Outcome::Done),
                Synced::Skipped => ("skipped", Outcome::Done),
                Synced::Written => ("written", Outcome::Done),
                Synced::Planned => ("planned", Outcome::Done),
                Synced::Failed(failure) => (
                    "failed",
                    Outcome::Retry {
                        at_least: failure.retry_after(),
                    },
                ),
                Synced::NotLeading => (
                    "not_leading",
                    Outcome::Retry {
                        at_least: Duration::ZERO,
                    },
                ),
            };
            self.metrics.sync(result);
            self.queue.finish(&key, outcome, started.elapsed());
        }
    }

    async fn sync(&self, key: &ObjectKey) -> Synced {
        if is_apiservers_own(key) {
            return Synced::Skipped;
        }
        let Snapshot {
            service,
            pods,
            endpoints,
            orphan,
        } = self.index.lock().snapshot(key);
        let Some(service) = service else {
            self.trigger.lock().forget(key);
            return match (endpoints, orphan) {
                (Some(endpoints), Some(orphan)) => self.delete(key, &endpoints, orphan).await,
                _ => Synced::Skipped,
            };
        };
        if service.kind == ServiceType::ExternalName || service.selector.is_none() {
            return Synced::Skipped;
        }
        // Also when nothing is written: the next change is measured against what is seen now.
        let trigger = self.trigger.lock().observe(&service, &pods);
        let desired = compute(&service, &pods);
        match plan(&service, desired, endpoints.as_deref(), trigger) {
            Some(operation) => self.write(operation, endpoints.as_deref()).await,
            None => Synced::Unchanged,
        }
    }

    async fn write(&self, operation: Operation, observed: Option<&EndpointsObject>) -> Synced {
        let (reason, replaces) = (operation.reason, operation.replaces.clone());
        let key = operation.content.key.clone();
        let verb = if replaces.is_some() { "update" } else { "create" };
        self.metrics.planned(verb, reason.as_str());
        let limit = match self.gate.check() {
            Ok(left) => left.min(CALL_LIMIT),
            Err(closed) => {
                let change = || Change::between(observed, &operation.content.subsets);
                return closed_to(closed, &key, verb, reason.as_str(), change);
            }
        };
        let unknown = || (Uid::parse(""), Revision::default());
        let (uid, revision) = replaces
            .clone()
            .map_or_else(unknown, |version| (version.uid, version.revision));
        let object = Arc::new(operation.into_object(uid, revision));
        self.index.lock().expect_write(&object);
        let stored = self.writer.put(&object, replaces.as_ref(), limit).await;
        drop(object);
        let end = match &stored {
            Ok((uid, revision)) => WriteEnd::Stored(uid.clone(), *revision),
            Err(failure) if failure.may_have_acted() => WriteEnd::Unknown,
            Err(_) => WriteEnd::Refused,
        };
        let affected = {
            let mut index = self.index.lock();
            index.finish_write(&key, end);
            index.take_affected()
        };
        self.enqueue(affected);
        self.metrics
            .operation(verb, stored.as_ref().err().map_or("ok", Failure::as_str));
        match stored {
            Ok((_, revision)) => {
                tracing::debug!(endpoints = %key, verb, reason = reason.as_str(), revision = revision.0, "written");
                Synced::Written
            }
            // Upstream: nothing can be created there any more, and nothing needs to be.
            Err(Failure::NamespaceTerminating) if replaces.is_none() => Synced::Skipped,
            Err(failure) => {
                let event = if replaces.is_some() {
                    "FailedToUpdateEndpoint"
                } else {
                    "FailedToCreateEndpoint"
                };
                self.report(&key, verb, event, observed, &failure);
                Synced::Failed(failure)
            }
        }
    }

    async fn delete(&self, key: &ObjectKey, endpoints: &EndpointsObject, orphan: Orphan) -> Synced {
        let reason = match orphan {
            Orphan::ServiceDeleted => "service_deleted",
            Orphan::Leftover => "leftover",
        };
        self.metrics.planned("delete", reason);
        let change = || Change::between(Some(endpoints), &[]);
        let left = match self.gate.check() {
            Ok(left) => left,
            Err(closed) => return closed_to(closed, key, "delete", reason, change),
        };
        if orphan == Orphan::Leftover {
            match self.writer.service_exists(key, left.min(CALL_LIMIT)).await {
                Ok(true) => return Synced::Skipped,
                Ok(false) => {}
                Err(failure) => return Synced::Failed(failure),
            }
        }
        let limit = match self.gate.check() {
            Ok(left) => left.min(CALL_LIMIT),
            Err(closed) => return closed_to(closed, key, "delete", reason, change),
        };
        let version = Version {
            uid: endpoints.uid.clone(),
            revision: endpoints.revision,
        };
        let deleted = self.writer.delete(key, &version, limit).await;
        self.metrics
            .operation("delete", deleted.as_ref().err().map_or("ok", Failure::as_str));
        match deleted {
            Ok(gone) => {
                if gone {
                    self.index.lock().finish_delete(key, &version.uid);
                }
                tracing::debug!(endpoints = %key, reason, "deleted");
                Synced::Written
            }
            Err(failure) => {
                tracing::warn!(endpoints = %key, error = %failure, "cannot delete Endpoints, trying again");
                Synced::Failed(failure)
            }
        }
    }

    fn report(
        &self,
        key: &ObjectKey,
        verb: &str,
        reason: &'static str,
        observed: Option<&EndpointsObject>,
        failure: &Failure,
    ) {
        tracing::warn!(endpoints = %key, verb, error = %failure, "cannot write Endpoints, trying again");
        self.events.emit(Event {
            regarding: Regarding {
                api_version: "v1",
                kind: "Endpoints",
                namespace: key.namespace.to_string(),
                name: key.name.to_string(),
                uid: observed.map(|object| object.uid.to_string()).unwrap_or_default(),
            },
            event_type: EventType::Warning,
            reason,
            action: EVENT_ACTION,
            note: format!("Cannot {verb} the Endpoints of Service {key}: {failure}"),
            controller: EVENT_SOURCE,
        });
    }
}

/// A write that the gate does not let through.
fn closed_to(closed: Closed, key: &ObjectKey, verb: &str, reason: &str, change: impl Fn() -> Change) -> Synced {
    match closed {
        Closed::Observing => {
            tracing::info!(endpoints = %key, verb, reason, change = %change(), "would write (observe mode)");
            Synced::Planned
        }
        Closed::NotLeading => Synced::NotLeading,
    }
}
