//! A worker: one Service at a time, from what is decided to what is stored.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use kube::Api;
use kube::api::{Patch, PatchParams};
use svcplane_allocators::service::ServiceKey;
use svcplane_runtime::api::{Failure, call};
use svcplane_runtime::events::{Event, EventType, Regarding};
use svcplane_runtime::queue::Outcome;

use super::super::FIELD_MANAGER;
use super::super::condition::Change;
use super::super::desk::Desk;
use super::super::wire::BalancedService;
use super::LoadBalancers;
use super::feed::Fed as _;
use crate::controller::Controller;
use crate::model::Timestamp;

/// No call takes longer, whatever is left of the term.
const CALL_LIMIT: Duration = Duration::from_secs(10);

/// A term that ends by time alone may be renewed by the same process, which then begins nothing anew: the key stays due. One that is lost
/// empties the queue.
const NOT_LEADING: Outcome = Outcome::Retry {
    at_least: Duration::ZERO,
};

impl LoadBalancers {
    /// Takes keys for ever.
    pub(super) async fn work(self: Arc<Self>) {
        loop {
            let key = self.queue.take().await;
            let started = Instant::now();
            let outcome = self.sync(&key).await;
            self.queue.finish(&key, outcome, started.elapsed());
        }
    }

    async fn sync(&self, key: &ServiceKey) -> Outcome {
        let now = Instant::now();
        let (change, rest, has_left) = self.apply(|desk| {
            let change = desk.plan(key, wall(), now);
            let rest = desk.kept(key).and_then(|kept| kept.rest(now));
            (change, rest, desk.has_left(key))
        });
        if has_left {
            return self.leave(key).await;
        }
        let Some(change) = change else {
            if let Some(rest) = rest {
                self.queue.add(key, rest);
            }
            return Outcome::Done;
        };
        let Ok(left) = self.term.check(now) else {
            return NOT_LEADING;
        };
        let services: Api<BalancedService> = Api::namespaced(self.client.clone(), &key.namespace);
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Strategic(&change.patch);
        let limit = left.min(CALL_LIMIT);
        let written = call(limit, services.patch_status(&key.name, &params, &patch)).await;
        self.metrics.written(written.as_ref().err());
        match written {
            Ok(stored) => {
                self.tell(key, &change);
                self.apply(|desk| {
                    let waited = desk.kept_mut(key).and_then(|kept| kept.acknowledge(Instant::now()));
                    self.metrics.assigned(waited.filter(|_| change.of_addresses));
                    take(desk, stored);
                });
                Outcome::Done
            }
            Err(failure) => self.read_again(key, &services, change.version, failure).await,
        }
    }

    /// A Service was ours: if it is still there, as another type, our condition tells of an address that it has no more.
    async fn leave(&self, key: &ServiceKey) -> Outcome {
        let Ok(left) = self.term.check(Instant::now()) else {
            return NOT_LEADING;
        };
        let services: Api<BalancedService> = Api::namespaced(self.client.clone(), &key.namespace);
        let limit = left.min(CALL_LIMIT);
        let Ok(Some(stored)) = call(limit, services.get_opt(&key.name)).await else {
            return Outcome::Done;
        };
        if let Some(farewell) = stored.farewell() {
            let params = PatchParams {
                field_manager: Some(FIELD_MANAGER.to_owned()),
                ..PatchParams::default()
            };
            let patch = Patch::Strategic(&farewell);
            // Words, best effort: whoever was faster may leave them standing.
            let written = call(limit, services.patch_status(&key.name, &params, &patch)).await;
            self.metrics.written(written.as_ref().err());
        }
        Outcome::Done
    }

    /// The write was refused, or nobody knows what became of it: what is stored is read, and decides.
    /// `version`: what was to be written over.
    async fn read_again(
        &self,
        key: &ServiceKey,
        services: &Api<BalancedService>,
        version: u64,
        failure: Failure,
    ) -> Outcome {
        let is_conflict = matches!(failure, Failure::Conflict | Failure::NotFound | Failure::Invalid(_));
        if is_conflict || failure.may_have_acted() {
            match call(CALL_LIMIT, services.get_opt(&key.name)).await {
                Ok(Some(stored)) => self.apply(|desk| take(desk, stored)),
                // One that was made again since stays.
                Ok(None) => self.apply(|desk| desk.gone(key, version, Instant::now())),
                // The watch will tell.
                Err(_) => {}
            }
        }
        if !is_conflict {
            tracing::warn!(service = %key, error = %failure, "cannot write the status of a Service, trying again");
        }
        Outcome::Retry {
            at_least: failure.retry_after(),
        }
    }

    /// Tells people what has changed.
    fn tell(&self, key: &ServiceKey, change: &Change) {
        if !change.of_reason {
            return;
        }
        let is_trouble = !change.says.satisfied;
        self.metrics.told(change.says.reason);
        self.events.emit(Event {
            regarding: Regarding {
                api_version: "v1",
                kind: "Service",
                namespace: key.namespace.to_string(),
                name: key.name.to_string(),
                uid: change.uid.clone(),
            },
            event_type: if is_trouble {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: change.says.reason.as_str(),
            action: "AssignAddresses",
            note: change.says.message.clone(),
            controller: Controller::LoadBalancers.event_source(),
        });
        tracing::debug!(service = %key, reason = change.says.reason.as_str(), "{}", change.says.message);
    }
}

fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Timestamp(since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or_default()))
}

/// An answer of the apiserver, as the watch will show it. What the watch has shown to be gone meanwhile it does not bring back: nobody would
/// take it away again.
fn take(desk: &mut Desk, stored: BalancedService) {
    if desk.kept(&stored.key()).is_none() {
        return;
    }
    let fact = stored.fact(desk.scope().products);
    BalancedService::set(desk, fact, Instant::now());
}
