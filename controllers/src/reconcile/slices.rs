//! The slices of one Service.

use ahash::{AHashMap, AHashSet};
use parking_lot::Mutex;
use svcplane_runtime::events::{Event, EventType};

use super::carry_out::carry_out;
use super::outcome::Synced;
use super::{Desk, SLICES_ACTION, regarding};
use crate::controller::Controller;
use crate::endpointslice::{Matched, Plan, Refusal, Terms, plan_all};
use crate::index::Snapshot;
use crate::model::{Distribution, IpFamily, Manager, ObjectKey, Service, Timestamp};

/// Keeps the slices of Services with a selector.
pub struct SlicesPart {
    /// Under whose name.
    manager: Manager,
    /// `--max-endpoints-per-slice`.
    pub max: usize,
    /// Services whose slices were right after the last sync: from there on it is enough to look at the Pods that have changed.
    settled: Mutex<AHashSet<ObjectKey>>,
    /// What was said last about topology mode `Auto`, by Service and family.
    told: Mutex<AHashMap<(ObjectKey, IpFamily), Option<Refusal>>>,
}

impl SlicesPart {
    /// Under this name, with at most this many endpoints in a slice.
    pub fn new(manager: Manager, max: usize) -> Self {
        Self {
            manager,
            max,
            settled: Mutex::default(),
            told: Mutex::default(),
        }
    }

    /// Whether all was right after the last sync.
    pub(super) fn stands(&self, key: &ObjectKey) -> bool {
        self.settled.lock().contains(key)
    }

    /// The next sync of each Service goes through all of it.
    pub(super) fn look_at_everything(&self) {
        self.settled.lock().clear();
    }

    pub(super) fn forget(&self) {
        self.told.lock().clear();
    }

    pub(super) fn forget_service(&self, key: &ObjectKey) {
        self.settled.lock().remove(key);
        let mut told = self.told.lock();
        for family in [IpFamily::V4, IpFamily::V6] {
            told.remove(&(key.clone(), family));
        }
    }

    pub(super) async fn sync(
        &self,
        desk: &Desk,
        service: &Service,
        snapshot: &Snapshot,
        pods: Matched<'_>,
        trigger: Option<Timestamp>,
    ) -> Synced {
        let terms = Terms {
            manager: self.manager,
            max: self.max,
            trigger,
            zones: snapshot.zones.as_deref(),
        };
        let plans = plan_all(service, pods, &snapshot.slices, &snapshot.nodes, terms);
        let mut all = plans.others;
        for (family, plan) in plans.families {
            self.tell(desk, service, family, &plan);
            all.merge(plan);
        }
        let synced = carry_out(desk, Controller::Slices, &service.key, snapshot, all).await;
        let right = matches!(synced, Synced::Unchanged | Synced::Written(_));
        // In topology mode `Auto` one Pod's change may move the hints of others.
        if right && service.distribution != Distribution::Auto {
            self.settled.lock().insert(service.key.clone());
        } else {
            self.settled.lock().remove(&service.key);
        }
        synced
    }

    /// Events about topology mode `Auto`, when it begins to give hints or ceases to.
    fn tell(&self, desk: &Desk, service: &Service, family: IpFamily, plan: &Plan) {
        let place = (service.key.clone(), family);
        let asked = service.distribution == Distribution::Auto;
        let before = {
            let mut told = self.told.lock();
            if asked {
                told.insert(place, plan.refusal)
            } else {
                told.remove(&place)
            }
        };
        let (event_type, reason, text) = match (before, asked, plan.refusal) {
            (Some(None), true, None) | (None, false, _) => return,
            (Some(Some(before)), true, Some(refusal)) if before == refusal => return,
            (_, true, None) => (
                EventType::Normal,
                "TopologyAwareHintsEnabled",
                "Topology Aware Hints has been enabled".to_owned(),
            ),
            (_, true, Some(refusal)) => (EventType::Warning, "TopologyAwareHintsDisabled", refusal.to_string()),
            (Some(_), false, _) => (
                EventType::Warning,
                "TopologyAwareHintsDisabled",
                "Topology Aware Hints has been disabled".to_owned(),
            ),
        };
        desk.events.emit(Event {
            regarding: regarding("Service", &service.key, &service.uid),
            event_type,
            reason,
            action: SLICES_ACTION,
            note: format!("{text}, addressType: {}", family.as_str()),
            controller: Controller::Slices.event_source(),
        });
    }
}
