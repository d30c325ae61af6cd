//! When the change happened that a write publishes: the value of `endpoints.kubernetes.io/last-change-trigger-time`.

use std::sync::Arc;

use ahash::AHashMap;

use crate::index::{PodChange, PodEvent};
use crate::model::{ObjectKey, Pod, PodName, Service, Timestamp};

/// What the last sync of each Service saw. Kept by the process that writes: after a start or a change of leader every Service is new.
#[derive(Debug, Default)]
pub struct TriggerTracker {
    services: AHashMap<ObjectKey, Seen>,
}

#[derive(Debug)]
struct Seen {
    service: Timestamp,
    /// The time of a change whose write has failed.
    owed: Option<Timestamp>,
    /// In the order in which the sync saw them.
    pods: Vec<(PodName, Timestamp)>,
}

impl TriggerTracker {
    /// Notes what this sync of `service` sees and returns the time of the change that brought it about. To be called in every sync, also
    /// in one that writes nothing. `pods` are all that the selector matches, also those that are not listed.
    ///
    /// The first time, that is the Service's creation. Later, it is the earliest `lastTransitionTime` of a Pod's Ready condition that is
    /// newer than the one noted for a Pod of that name, or the Service's creation if that is newer; `None` if there is no such time, as
    /// when a Pod went or the Service was edited. A Pod that was absent from one sync counts as new.
    pub fn observe(&mut self, service: &Service, pods: &[Arc<Pod>]) -> Option<Timestamp> {
        let Some(seen) = self.services.get_mut(&service.key) else {
            let seen = Seen {
                service: service.created,
                owed: None,
                pods: times(pods).map(|(name, time)| (Arc::clone(name), time)).collect(),
            };
            self.services.insert(service.key.clone(), seen);
            return Some(service.created);
        };
        let recreated = (service.created > seen.service).then_some(service.created);
        seen.service = service.created;
        let newer = if seen.has_seen(pods) {
            seen.note_again(pods)
        } else {
            seen.note_others(pods)
        };
        newer.into_iter().chain(recreated).chain(seen.owed.take()).min()
    }

    /// As [`observe`](Self::observe), in a sync of a Service that looks at nothing but what has become of some of its Pods. Outer `None`: the
    /// Service was not seen before, and nothing is noted.
    pub fn observe_changes(&mut self, key: &ObjectKey, changes: &[PodChange]) -> Option<Option<Timestamp>> {
        let seen = self.services.get_mut(key)?;
        let mut newer = seen.owed.take();
        for (position, change) in changes.iter().enumerate() {
            let mut later = changes.iter().skip(position + 1);
            // Only what has become of it in the end was seen.
            if later.all(|later| later.pod.name != change.pod.name) {
                let time = seen.note(change);
                newer = newer.into_iter().chain(time).min();
            }
        }
        Some(newer)
    }

    /// The writes for the change of this time have failed, some of them at least: the next sync publishes it again. Upstream forgets it.
    pub fn owe(&mut self, key: &ObjectKey, time: Timestamp) {
        if let Some(seen) = self.services.get_mut(key) {
            seen.owed = Some(time);
        }
    }

    /// Drops what is noted of a Service; to be called when it is gone.
    pub fn forget(&mut self, key: &ObjectKey) {
        self.services.remove(key);
    }
}

fn times(pods: &[Arc<Pod>]) -> impl Iterator<Item = (&PodName, Timestamp)> {
    pods.iter().filter_map(|pod| Some((&pod.name, pod.ready_transition?)))
}

impl Seen {
    /// The same Pods in the same order as in the last sync: so the index hands them out while none comes or goes.
    fn has_seen(&self, pods: &[Arc<Pod>]) -> bool {
        self.pods
            .iter()
            .map(|(name, _)| name)
            .eq(times(pods).map(|(name, _)| name))
    }

    /// Notes one Pod, and returns its time if that is newer.
    fn note(&mut self, change: &PodChange) -> Option<Timestamp> {
        let name = &change.pod.name;
        // Names are shared, so most often it costs nothing to tell one from the others.
        let same = |(other, _): &(PodName, Timestamp)| Arc::ptr_eq(other, name) || other == name;
        let place = self.pods.iter().position(same);
        let time = change.pod.ready_transition.filter(|_| change.what != PodEvent::Gone);
        match (place, time) {
            (Some(place), Some(time)) => {
                let (_, noted) = self.pods.get_mut(place)?;
                let before = std::mem::replace(noted, time);
                (time > before).then_some(time)
            }
            (None, Some(time)) => {
                self.pods.push((Arc::clone(name), time));
                Some(time)
            }
            (Some(place), None) => {
                self.pods.remove(place);
                None
            }
            (None, None) => None,
        }
    }

    /// Notes Pods that it [has seen](Self::has_seen) and returns the earliest newer time.
    fn note_again(&mut self, pods: &[Arc<Pod>]) -> Option<Timestamp> {
        let mut earliest: Option<Timestamp> = None;
        for ((_, noted), (_, time)) in self.pods.iter_mut().zip(times(pods)) {
            if time > *noted {
                earliest = Some(earliest.map_or(time, |earliest| earliest.min(time)));
            }
            *noted = time;
        }
        earliest
    }

    /// Notes any Pods instead and returns the earliest newer time.
    fn note_others(&mut self, pods: &[Arc<Pod>]) -> Option<Timestamp> {
        let times: Vec<(PodName, Timestamp)> = times(pods).map(|(name, time)| (Arc::clone(name), time)).collect();
        let mut old = std::mem::replace(&mut self.pods, times.clone());
        let mut new = times;
        for list in [&mut old, &mut new] {
            list.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        }
        let mut noted = old.iter().peekable();
        let newer = new.iter().filter_map(|(name, time)| {
            while noted.next_if(|(other, _)| other < name).is_some() {}
            let before = noted.peek().filter(|(other, _)| other == name);
            before.is_none_or(|(_, before)| time > before).then_some(*time)
        });
        newer.min()
    }
}

#[cfg(test)]
mod tests;
