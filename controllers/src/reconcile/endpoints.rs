//! The Endpoints of one Service.

use std::sync::Arc;

use ahash::AHashMap;
use k8s_openapi::api::core::v1 as api;
use parking_lot::Mutex;
use svcplane_runtime::api::Failure;
use svcplane_runtime::events::{Event, EventType};

use super::outcome::{Synced, write_end};
use super::{Desk, regarding};
use crate::controller::Controller;
use crate::endpoints::{Decision, Operation, Settled, decide};
use crate::index::{Changes, Orphan, Snapshot};
use crate::listing;
use crate::model::{EndpointsObject, ObjectKey, Service, Timestamp, Version};

const WE: Controller = Controller::Endpoints;
/// `action` of our Events.
const EVENT_ACTION: &str = "SyncEndpoints";

/// Keeps Endpoints.
#[derive(Default)]
pub struct EndpointsPart {
    /// What needs no second look.
    settled: Mutex<AHashMap<ObjectKey, Settled>>,
}

impl EndpointsPart {
    /// Whether what has changed makes no difference, by what the last sync found.
    pub(super) fn stands(&self, key: &ObjectKey, changes: &Changes) -> bool {
        let mut settled = self.settled.lock();
        let stands = settled.get(key).is_some_and(|settled| settled.spares(changes));
        if !stands {
            settled.remove(key);
        }
        stands
    }

    /// The next sync of each Service goes through all of it.
    pub(super) fn look_at_everything(&self) {
        self.settled.lock().clear();
    }

    pub(super) async fn sync(
        &self,
        desk: &Desk,
        service: &Arc<Service>,
        snapshot: &Snapshot,
        trigger: Option<Timestamp>,
    ) -> Synced {
        let stored = snapshot.endpoints.as_deref();
        let Decision { operation, cut } = decide(service, &snapshot.pods, stored, trigger);
        let synced = match operation {
            Some(operation) => write(desk, operation, stored).await,
            None => Synced::Unchanged,
        };
        let stands = match &synced {
            Synced::Unchanged => stored.map(EndpointsObject::version),
            Synced::Written(version) => version.clone(),
            _ => None,
        };
        if let (Some(version), Some(cut)) = (stands, cut) {
            let settled = Settled::new(Arc::clone(service), version, cut);
            self.settled.lock().insert(service.key.clone(), settled);
        }
        synced
    }

    /// There is no Service of this name.
    pub(super) async fn clean_up(&self, desk: &Desk, key: &ObjectKey, snapshot: &Snapshot) -> Synced {
        match (&snapshot.endpoints, snapshot.orphan) {
            (Some(endpoints), Some(orphan)) => delete(desk, key, endpoints, orphan).await,
            _ => Synced::Skipped,
        }
    }
}

async fn write(desk: &Desk, operation: Operation, observed: Option<&EndpointsObject>) -> Synced {
    let (reason, replaces) = (operation.reason, operation.replaces.clone());
    let key = operation.content.key.clone();
    let verb = if replaces.is_some() { "update" } else { "create" };
    desk.metrics.planned(WE, verb, reason.as_str());
    let limit = match desk.open() {
        Ok(limit) => limit,
        Err(closed) => {
            let change = || match observed {
                Some(observed) => listing::of_endpoints(observed, &operation.content).join(", "),
                None => listing::subsets_text(&operation.content.subsets),
            };
            return closed_to(closed, &key, verb, reason.as_str(), change);
        }
    };
    let Version { uid, revision } = replaces.clone().unwrap_or_default();
    let object = Arc::new(operation.into_object(uid, revision));
    desk.index.lock().expect_endpoints(&object);
    let stored = desk.writer.put_endpoints(&object, replaces.as_ref(), limit).await;
    drop(object);
    desk.index.lock().finish_endpoints(&key, write_end(&stored));
    desk.metrics
        .operation(WE, verb, stored.as_ref().err().map_or("ok", Failure::as_str));
    match stored {
        Ok(version) => {
            let revision = version.revision.0;
            tracing::debug!(endpoints = %key, verb, reason = reason.as_str(), revision, "written");
            Synced::Written(Some(version))
        }
        // Upstream: nothing can be created there any more, and nothing needs to be.
        Err(Failure::NamespaceTerminating) if replaces.is_none() => Synced::Skipped,
        Err(failure) => {
            let reason = if replaces.is_some() {
                "FailedToUpdateEndpoint"
            } else {
                "FailedToCreateEndpoint"
            };
            report(desk, &key, verb, reason, observed, &failure);
            Synced::Failed(failure)
        }
    }
}

async fn delete(desk: &Desk, key: &ObjectKey, endpoints: &EndpointsObject, orphan: Orphan) -> Synced {
    let reason = orphan.as_str();
    desk.metrics.planned(WE, "delete", reason);
    let change = || listing::subsets_text(&endpoints.subsets);
    let limit = match desk.open() {
        Ok(limit) => limit,
        Err(closed) => return closed_to(closed, key, "delete", reason, change),
    };
    if orphan == Orphan::Leftover {
        match desk.writer.service_exists(key, limit).await {
            Ok(true) => return Synced::Skipped,
            Ok(false) => {}
            Err(failure) => return Synced::Failed(failure),
        }
    }
    let limit = match desk.open() {
        Ok(limit) => limit,
        Err(closed) => return closed_to(closed, key, "delete", reason, change),
    };
    let version = endpoints.version();
    let deleted = desk.writer.delete::<api::Endpoints>(key, &version, limit).await;
    desk.metrics
        .operation(WE, "delete", deleted.as_ref().err().map_or("ok", Failure::as_str));
    match deleted {
        Ok(gone) => {
            if gone {
                desk.index.lock().finish_endpoints_delete(key, &version.uid);
            }
            tracing::debug!(endpoints = %key, reason, "deleted");
            Synced::Written(None)
        }
        Err(failure) => {
            tracing::warn!(endpoints = %key, error = %failure, "cannot delete Endpoints, trying again");
            Synced::Failed(failure)
        }
    }
}

fn report(
    desk: &Desk,
    key: &ObjectKey,
    verb: &str,
    reason: &'static str,
    observed: Option<&EndpointsObject>,
    failure: &Failure,
) {
    tracing::warn!(endpoints = %key, verb, error = %failure, "cannot write Endpoints, trying again");
    let uid = observed.map(|object| object.uid.clone()).unwrap_or_default();
    desk.events.emit(Event {
        regarding: regarding("Endpoints", key, &uid),
        event_type: EventType::Warning,
        reason,
        action: EVENT_ACTION,
        note: format!("Cannot {verb} the Endpoints of Service {key}: {failure}"),
        controller: WE.event_source(),
    });
}

/// A write that the gate does not let through.
fn closed_to(
    closed: crate::gate::Closed,
    key: &ObjectKey,
    verb: &str,
    reason: &'static str,
    change: impl FnOnce() -> String,
) -> Synced {
    Synced::closed(closed, reason, || {
        tracing::info!(endpoints = %key, verb, reason, change = %change(), "would write (observe mode)");
    })
}
