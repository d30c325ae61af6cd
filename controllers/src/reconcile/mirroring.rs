//! The slices of hand-made Endpoints.

use ahash::AHashMap;
use parking_lot::Mutex;
use svcplane_runtime::events::{Event, EventType};

use super::carry_out::carry_out;
use super::outcome::Synced;
use super::{Desk, regarding};
use crate::controller::Controller;
use crate::index::Snapshot;
use crate::mirroring::{Skipped, plan_all};
use crate::model::{EndpointsObject, ObjectKey};

const WE: Controller = Controller::Mirroring;

/// Mirrors hand-made Endpoints.
pub struct MirroringPart {
    /// `--mirroring-max-endpoints-per-subset`.
    pub max: usize,
    /// What was said last about what is left out.
    told: Mutex<AHashMap<ObjectKey, Skipped>>,
}

impl MirroringPart {
    /// With at most this many addresses of a subset.
    pub fn new(max: usize) -> Self {
        Self {
            max,
            told: Mutex::default(),
        }
    }

    pub(super) fn forget(&self) {
        self.told.lock().clear();
    }

    pub(super) async fn sync(&self, desk: &Desk, key: &ObjectKey, snapshot: &Snapshot) -> Synced {
        let endpoints = snapshot.endpoints.as_deref();
        let (plan, skipped) = plan_all(snapshot.service.as_deref(), endpoints, &snapshot.slices, self.max);
        if let (Some(endpoints), Some(skipped)) = (endpoints, skipped) {
            self.tell(desk, endpoints, &skipped);
        } else {
            self.told.lock().remove(key);
            if plan.is_empty() {
                return Synced::Skipped;
            }
        }
        carry_out(desk, WE, key, snapshot, plan).await
    }

    /// Events about what is left out, when that changes.
    fn tell(&self, desk: &Desk, endpoints: &EndpointsObject, skipped: &Skipped) {
        if !desk.tells() {
            return;
        }
        let before = self.told.lock().insert(endpoints.key.clone(), skipped.clone());
        if before.unwrap_or_default() == *skipped {
            return;
        }
        let tell = |reason, note| {
            desk.events.emit(Event {
                regarding: regarding("Endpoints", &endpoints.key, &endpoints.uid),
                event_type: EventType::Warning,
                reason,
                action: "MirrorEndpoints",
                note,
                controller: WE.event_source(),
            });
        };
        if skipped.invalid > 0 {
            let note = format!(
                "Skipped {} invalid IP addresses when mirroring to EndpointSlices",
                skipped.invalid
            );
            tell("InvalidIPAddress", note);
        }
        if skipped.over_limit > 0 {
            let note = format!(
                "A max of {} addresses can be mirrored to EndpointSlices per Endpoints subset. {} addresses were skipped",
                self.max,
                skipped.over_limit + skipped.invalid
            );
            tell("TooManyAddressesToMirror", note);
        }
        for name in &skipped.doubled_ports {
            let note = format!(
                "A subset in which the port name {name:?} stands twice is not mirrored: give each port a name of its own"
            );
            tell("DuplicatePortName", note);
        }
    }
}
