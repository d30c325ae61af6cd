//! What the last sync of a Service spares the next one.

use std::sync::Arc;

use super::compute::listed;
use super::ip_text::IpText;
use crate::index::{Changes, PodChange, PodChanges, PodEvent};
use crate::model::{Service, Version};

/// Endpoints that say what they should, list nothing but ready Pods, and have no room for all of these. A Pod that stands behind the last one
/// listed may become ready or not: nothing changes. So in a Service of thousands most changes of readiness cost next to nothing.
#[derive(Clone, Debug)]
pub struct Settled {
    service: Arc<Service>,
    endpoints: Version,
    last: IpText,
}

impl Settled {
    /// After a sync of `service` that left its Endpoints at this version, up to the address `cut` (see [`super::Decision::cut`]).
    pub fn new(service: Arc<Service>, endpoints: Version, cut: std::net::IpAddr) -> Self {
        Self {
            service,
            endpoints,
            last: IpText::of(cut),
        }
    }

    /// Whether none of the changes makes a difference.
    pub fn spares(&self, changes: &Changes) -> bool {
        let PodChanges::Few(pods) = &changes.pods else {
            return false;
        };
        let stands_behind = |change: &PodChange| {
            change.what == PodEvent::Flipped
                && listed(&self.service, &change.pod).is_ok_and(|(ip, _)| IpText::of(ip) > self.last)
        };
        Arc::ptr_eq(&self.service, &changes.service)
            && changes.endpoints.as_ref() == Some(&self.endpoints)
            && pods.iter().all(stands_behind)
    }
}

#[cfg(test)]
mod tests;
