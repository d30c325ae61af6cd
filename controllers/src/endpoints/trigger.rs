//! When the change happened that a write publishes: the value of `endpoints.kubernetes.io/last-change-trigger-time`.

use std::sync::Arc;

use ahash::AHashMap;

use crate::model::{ObjectKey, Pod, PodName, Service, Timestamp};

/// What the last sync of each Service saw. Kept by the process that writes: after a start or a change of leader every Service is new.
#[derive(Debug, Default)]
pub struct TriggerTracker {
    services: AHashMap<ObjectKey, Seen>,
}

#[derive(Debug)]
struct Seen {
    service: Timestamp,
    /// By name.
    pods: Box<[(PodName, Timestamp)]>,
}

impl TriggerTracker {
    /// Notes what this sync of `service` sees and returns the time of the change that brought it about. To be called in every sync, also
    /// in one that writes nothing. `pods` are all that the selector matches, also those that are not listed.
    ///
    /// The first time, that is the Service's creation. Later, it is the earliest `lastTransitionTime` of a Pod's Ready condition that is
    /// newer than the one noted for a Pod of that name, or the Service's creation if that is newer; `None` if there is no such time, as
    /// when a Pod went or the Service was edited. A Pod that was absent from one sync counts as new.
    pub fn observe(&mut self, service: &Service, pods: &[Arc<Pod>]) -> Option<Timestamp> {
        let mut times: Vec<(PodName, Timestamp)> = pods
            .iter()
            .filter_map(|pod| Some((Arc::clone(&pod.name), pod.ready_transition?)))
            .collect();
        times.sort_by(|a, b| a.0.cmp(&b.0));
        let trigger = match self.services.get(&service.key) {
            None => Some(service.created),
            Some(seen) => earliest_change(seen, service.created, &times),
        };
        let seen = Seen {
            service: service.created,
            pods: times.into_boxed_slice(),
        };
        self.services.insert(service.key.clone(), seen);
        trigger
    }

    /// Drops what is noted of a Service; to be called when it is gone.
    pub fn forget(&mut self, key: &ObjectKey) {
        self.services.remove(key);
    }
}

fn earliest_change(seen: &Seen, created: Timestamp, times: &[(PodName, Timestamp)]) -> Option<Timestamp> {
    let mut noted = seen.pods.iter().peekable();
    let newer = times.iter().filter_map(|(name, time)| {
        while noted.next_if(|(other, _)| other < name).is_some() {}
        let before = noted.peek().filter(|(other, _)| other == name);
        before.is_none_or(|(_, before)| time > before).then_some(*time)
    });
    newer.chain((created > seen.service).then_some(created)).min()
}

#[cfg(test)]
mod tests;
