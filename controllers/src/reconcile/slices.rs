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
    told: Mutex<AHashMap<(ObjectKey, IpFamily), Hints>>,
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
        if !desk.tells() {
            return;
        }
        let place = (service.key.clone(), family);
        let now = match (&service.distribution, plan.refusal) {
            (Distribution::Auto, None) => Hints::Given,
            (Distribution::Auto, Some(refusal)) => Hints::Refused(refusal),
            _ => Hints::Off,
        };
        let before = {
            let mut told = self.told.lock();
            if now == Hints::Off {
                told.remove(&place)
            } else {
                told.insert(place, now)
            }
        };
        let Some((event_type, reason, text)) = news(before.unwrap_or_default(), now) else {
            return;
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

/// What topology mode `Auto` makes of a Service's slices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Hints {
    /// It is not asked for, or nothing was looked at yet.
    #[default]
    Off,
    /// They are given.
    Given,
    /// Something is in their way.
    Refused(Refusal),
}

/// What there is to tell of hints that were like this and are like that.
fn news(before: Hints, now: Hints) -> Option<(EventType, &'static str, String)> {
    let (enabled, disabled) = ("TopologyAwareHintsEnabled", "TopologyAwareHintsDisabled");
    let (event_type, reason, text) = match (before, now) {
        (before, now) if before == now => return None,
        // There were none.
        (Hints::Off | Hints::Refused(_), Hints::Off) => return None,
        (_, Hints::Given) => (
            EventType::Normal,
            enabled,
            "Topology Aware Hints has been enabled".to_owned(),
        ),
        (_, Hints::Refused(refusal)) => (EventType::Warning, disabled, refusal.to_string()),
        (Hints::Given, Hints::Off) => (
            EventType::Warning,
            disabled,
            "Topology Aware Hints has been disabled".to_owned(),
        ),
    };
    Some((event_type, reason, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_told_of_when_they_come_or_go_or_something_else_is_in_their_way() {
        use Hints::{Given, Off, Refused};
        let (no_zone, few) = (
            Refused(Refusal::NoZone),
            Refused(Refusal::TooFewEndpoints { endpoints: 1, zones: 2 }),
        );
        let (on, off) = (Some("TopologyAwareHintsEnabled"), Some("TopologyAwareHintsDisabled"));
        let table = [
            (Off, Off, None),
            (Off, Given, on),
            (Off, few, off),
            (Given, Given, None),
            (Given, few, off),
            (Given, Off, off),
            (few, few, None),
            (few, no_zone, off),
            (few, Given, on),
            (few, Off, None),
        ];
        for (before, now, told) in table {
            assert_eq!(
                news(before, now).map(|(_, reason, _)| reason),
                told,
                "{before:?} {now:?}"
            );
        }
    }
}
