//! Brings all that is made of one Service to what it should be: its Endpoints and its slices, from one reading of its Pods.
//!
//! ```text
//! index ─► queue ─► worker: snapshot ─┬─► endpoints   compute, plan, PUT        ┐
//!                                     ├─► slices      desired, pack, plan, PUTs ┤ at the same time
//!                                     └─► mirroring   mirror, plan, PUTs        ┘
//! ```

mod carry_out;
mod endpoints;
mod mirroring;
mod outcome;
mod slices;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use svcplane_runtime::api::Failure;
use svcplane_runtime::events::{EventSink, Regarding};
use svcplane_runtime::queue::{Lane, Outcome, Queue};

use crate::contention::{Contention, Patience};
use crate::controller::Controller;
use crate::drift::Drift;
use crate::endpoints::TriggerTracker;
use crate::endpointslice::Matched;
use crate::first_look::FirstLook;
use crate::foreign_writers::Suspects;
use crate::gate::{Closed, Gate, Mode};
use crate::index::{Affected, Cause, Index, PodChange, PodChanges, Snapshot};
use crate::metrics::ControllerMetrics;
use crate::model::{ObjectKey, Service, Timestamp, Uid};
use crate::write::Writer;
pub use endpoints::EndpointsPart;
pub use mirroring::MirroringPart;
use outcome::Synced;
pub use slices::SlicesPart;

/// No call takes longer, whatever is left of the term.
pub(crate) const CALL_LIMIT: Duration = Duration::from_secs(10);
/// `action` of our Events about slices.
const SLICES_ACTION: &str = "SyncEndpointSlices";
/// An event that concerns more Services than this does not go before others'.
const FAN: usize = 8;

/// The Endpoints, EndpointSlice and mirroring controllers (spec: kube-controller-manager's). Their workers share it.
pub struct Reconciler {
    /// Services to look at.
    pub queue: Queue<ObjectKey>,
    /// What every write goes through.
    pub desk: Desk,
    /// `--endpoint-updates-batch-period` and its like: how long a change of a Pod may wait for others.
    pub batch_period: Duration,
    /// State behind the trigger-time annotation.
    pub trigger: Mutex<TriggerTracker>,
    /// State behind the patience with other writers.
    pub contention: Mutex<Contention>,
    /// Told who may have another writer.
    pub suspects: Suspects,
    /// How much an observer finds to write.
    pub first_look: FirstLook,
    /// How many objects differ now.
    pub drift: Drift,
    /// If it runs.
    pub endpoints: Option<EndpointsPart>,
    /// If it runs.
    pub slices: Option<SlicesPart>,
    /// If it runs.
    pub mirroring: Option<MirroringPart>,
}

/// What every write goes through, and where it is told of.
pub struct Desk {
    /// What is stored.
    pub index: Arc<Mutex<Index>>,
    /// Asked before every write.
    pub gate: Gate,
    /// Makes the writes.
    pub writer: Writer,
    /// Tells people what went wrong.
    pub events: EventSink,
    /// Counts.
    pub metrics: ControllerMetrics,
    /// Names of slices that somebody else has given to his: not ours to use.
    pub taken: Mutex<HashSet<Arc<str>>>,
}

/// Names of others that are remembered.
const TAKEN: usize = 1000;

impl Desk {
    /// How long a call may take that is made now, or why none may be.
    fn open(&self) -> Result<Duration, Closed> {
        Ok(self.gate.check()?.min(CALL_LIMIT))
    }

    /// Whether Events are told of what the objects say. An observer tells none: somebody else keeps them, and tells of what he does.
    fn tells(&self) -> bool {
        self.gate.mode() == Mode::Active
    }

    fn take(&self, name: &Arc<str>) {
        let mut taken = self.taken.lock();
        if taken.len() >= TAKEN {
            taken.clear();
        }
        taken.insert(Arc::clone(name));
    }
}

/// What an Event is about.
fn regarding(kind: &'static str, key: &ObjectKey, uid: &Uid) -> Regarding {
    Regarding {
        api_version: "v1",
        kind,
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        uid: uid.to_string(),
    }
}

/// What a sync goes through.
struct Look {
    /// Without the Pods, if those of `few` are enough for everything.
    snapshot: Snapshot,
    /// What has become of Pods, if that is enough for the slices.
    few: Option<Vec<PodChange>>,
    /// The Endpoints need no look.
    endpoints_stand: bool,
    trigger: Option<Timestamp>,
}

impl Reconciler {
    /// None of its controllers runs: only others do, of the webhook or of LoadBalancers.
    pub fn keeps_nothing(&self) -> bool {
        self.endpoints.is_none() && self.slices.is_none() && self.mirroring.is_none()
    }

    /// Forgets what syncs have noted: it grows stale while others lead, and to the next term every Service is new.
    pub fn forget(&self) {
        *self.trigger.lock() = TriggerTracker::default();
        *self.contention.lock() = Contention::default();
        self.drift
            .forget(|difference, by| self.desk.metrics.drift(difference, by));
        self.look_at_everything();
        if let Some(slices) = &self.slices {
            slices.forget();
        }
        if let Some(mirroring) = &self.mirroring {
            mirroring.forget();
        }
    }

    /// The next sync of each Service goes through all of it.
    pub fn look_at_everything(&self) {
        if let Some(endpoints) = &self.endpoints {
            endpoints.look_at_everything();
        }
        if let Some(slices) = &self.slices {
            slices.look_at_everything();
        }
    }

    /// Puts what the index found affected into the queue.
    pub fn enqueue(&self, affected: Vec<Affected>) {
        let lane = if affected.len() > FAN { Lane::Fan } else { Lane::Single };
        for Affected { key, cause } in affected {
            let delay = match cause {
                Cause::Service => Duration::ZERO,
                Cause::Pod => self.batch_period,
                Cause::Foreign(controller) => self.patience(controller, &key),
            };
            self.queue.add_to(&key, lane, delay);
        }
    }

    /// How long somebody else's change stands before it is put right.
    fn patience(&self, controller: Controller, key: &ObjectKey) -> Duration {
        if self.desk.gate.check().is_err() {
            // Others are to write, the leader among them, and nobody is fought.
            return Duration::ZERO;
        }
        self.desk.metrics.foreign_change(controller);
        self.suspects.add(controller, key);
        let Patience { wait, is_new } = self.contention.lock().note(key, Instant::now());
        if is_new && wait >= Duration::from_secs(1) {
            tracing::warn!(
                service = %key, ?wait, controller = controller.as_str(),
                "changed by somebody else again and again: looked at after a wait"
            );
        }
        wait
    }

    /// A worker: takes keys for ever.
    pub async fn work(self: Arc<Self>) {
        loop {
            let key = self.queue.take().await;
            let started = Instant::now();
            let outcome = self.sync(&key).await;
            self.queue.finish(&key, outcome, started.elapsed());
            // What the replies have brought to light.
            let affected = self.desk.index.lock().take_affected();
            self.enqueue(affected);
        }
    }

    async fn sync(&self, key: &ObjectKey) -> Outcome {
        if key.is_apiservers_own() {
            return self.finish(key, [(Controller::Endpoints, Some(Synced::Skipped))]);
        }
        let Look {
            snapshot,
            few,
            endpoints_stand,
            trigger,
        } = self.look(key);
        let followed = snapshot.service.clone().filter(|service| service.is_followed());
        if snapshot.service.is_none() {
            self.forget_service(key);
        }
        let pods = few.as_deref().map_or(Matched::All(&snapshot.pods), Matched::Changes);
        let (endpoints, slices, mirroring) = tokio::join!(
            self.endpoints(key, &snapshot, followed.as_ref(), trigger, endpoints_stand),
            self.slices(&snapshot, followed.as_deref(), pods, trigger),
            self.mirroring(key, &snapshot),
        );
        let parts = [
            (Controller::Endpoints, endpoints),
            (Controller::Slices, slices),
            (Controller::Mirroring, mirroring),
        ];
        let outcome = self.finish(key, parts);
        if let (Outcome::Retry { .. }, Some(time)) = (outcome, trigger) {
            self.trigger.lock().owe(key, time);
        }
        outcome
    }

    /// Takes from the index what has to be gone through: where little has changed, little.
    fn look(&self, key: &ObjectKey) -> Look {
        // A change from now on is one that this look may not see.
        self.contention.lock().looked_at(key);
        let mut index = self.desk.index.lock();
        let changes = index.take_changes(key);
        let changes = changes.filter(|changes| changes.service.is_followed());
        let endpoints_stand = changes.as_ref().is_some_and(|changes| {
            let part = self.endpoints.as_ref();
            part.is_none_or(|endpoints| endpoints.stands(key, changes))
        });
        let few = changes.and_then(|changes| match changes.pods {
            PodChanges::Few(few) => Some(few),
            PodChanges::Any => None,
        });
        let slices_stand = |_: &Vec<PodChange>| self.slices.as_ref().is_none_or(|slices| slices.stands(key));
        let few = few.filter(slices_stand);
        let mut tracker = self.trigger.lock();
        let of_few = few.as_deref().filter(|_| endpoints_stand);
        let (snapshot, trigger) = if let Some(trigger) = of_few.and_then(|few| tracker.observe_changes(key, few)) {
            (index.stored(key), trigger)
        } else {
            let snapshot = index.snapshot(key);
            let followed = snapshot.service.as_ref().filter(|service| service.is_followed());
            // Also when nothing is written: the next change is measured against what is seen now.
            let trigger = followed.and_then(|service| tracker.observe(service, &snapshot.pods));
            (snapshot, trigger)
        };
        Look {
            snapshot,
            few,
            endpoints_stand,
            trigger,
        }
    }

    fn forget_service(&self, key: &ObjectKey) {
        self.trigger.lock().forget(key);
        if let Some(slices) = &self.slices {
            slices.forget_service(key);
        }
    }

    async fn endpoints(
        &self,
        key: &ObjectKey,
        snapshot: &Snapshot,
        service: Option<&Arc<Service>>,
        trigger: Option<Timestamp>,
        stand: bool,
    ) -> Option<Synced> {
        let part = self.endpoints.as_ref()?;
        Some(match (service, &snapshot.service) {
            (Some(_), _) if stand => Synced::Unchanged,
            (Some(service), _) => part.sync(&self.desk, service, snapshot, trigger).await,
            (None, None) => part.clean_up(&self.desk, key, snapshot).await,
            (None, Some(_)) => Synced::Skipped,
        })
    }

    async fn slices(
        &self,
        snapshot: &Snapshot,
        service: Option<&Service>,
        pods: Matched<'_>,
        trigger: Option<Timestamp>,
    ) -> Option<Synced> {
        let part = self.slices.as_ref()?;
        Some(match service {
            Some(service) => part.sync(&self.desk, service, snapshot, pods, trigger).await,
            // Those of a Service that is gone are the garbage collector's; those made by a selector that is gone stay, as upstream.
            None => Synced::Skipped,
        })
    }

    async fn mirroring(&self, key: &ObjectKey, snapshot: &Snapshot) -> Option<Synced> {
        let part = self.mirroring.as_ref()?;
        Some(part.sync(&self.desk, key, snapshot).await)
    }

    /// Counts how each controller fared, and says what becomes of the key.
    fn finish<const N: usize>(&self, key: &ObjectKey, parts: [(Controller, Option<Synced>); N]) -> Outcome {
        let (mut outcome, mut planned, mut drift) = (Outcome::Done, 0, Vec::new());
        for (controller, synced) in parts {
            let Some(synced) = synced else { continue };
            self.desk.metrics.sync(controller, synced.as_str());
            outcome = synced.and(outcome);
            if let Synced::Failed(Failure::Conflict | Failure::AlreadyExists) = &synced {
                self.suspects.add(controller, key);
            }
            let differences = synced.differences();
            if let Synced::Planned(writes) = &synced {
                planned += writes.len();
            }
            drift.extend(differences.iter().map(|reason| (controller, *reason)));
        }
        let leads = || self.desk.gate.check() != Err(Closed::NotLeading);
        self.drift.note(key, drift, leads, |difference, by| {
            self.desk.metrics.drift(difference, by);
        });
        if let Some(summary) = self.first_look.note(key, planned) {
            tracing::info!("{summary}");
        }
        outcome
    }
}
