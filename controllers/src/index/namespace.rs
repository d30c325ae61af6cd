//! One namespace of the index.

use std::collections::HashMap;
use std::sync::Arc;

use super::endpoints::{EndpointsEntry, Orphan, is_leftover, same_content};
use super::pairs::{PairId, Pairs, matches};
use super::pods::{PodEntry, Pods};
use super::services::ServiceEntry;
use super::{Affected, Cause, Counts, Epoch, is_old, is_older};
use crate::model::{EndpointsObject, LabelledPod, ObjectKey, Pod, Revision, Service, Uid};

/// All that a reconcile of one key needs to know.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The Service, if there is one.
    pub service: Option<Arc<Service>>,
    /// The Pods that its selector matches, in no particular order.
    pub pods: Vec<Arc<Pod>>,
    /// The Endpoints object of its name.
    pub endpoints: Option<Arc<EndpointsObject>>,
    /// Whether that object is to go because there is no Service.
    pub orphan: Option<Orphan>,
}

#[derive(Debug)]
pub(super) struct Namespace {
    name: Arc<str>,
    services: HashMap<Arc<str>, ServiceEntry, ahash::RandomState>,
    /// Services whose selector is empty.
    match_all: Vec<Arc<str>>,
    pods: Pods,
    endpoints: HashMap<Arc<str>, EndpointsEntry, ahash::RandomState>,
    /// Content that a writer is sending right now.
    expected: HashMap<Arc<str>, Arc<EndpointsObject>, ahash::RandomState>,
    pairs: Pairs,
}

impl Namespace {
    pub(super) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            services: HashMap::default(),
            match_all: Vec::new(),
            pods: Pods::default(),
            endpoints: HashMap::default(),
            expected: HashMap::default(),
            pairs: Pairs::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.services.is_empty()
            && self.pods.len() == 0
            && self.endpoints.is_empty()
            && self.expected.is_empty()
            && self.pairs.is_empty()
    }

    // Services

    pub(super) fn apply_service(&mut self, service: Service, epoch: Epoch, affected: &mut Vec<Affected>) {
        let name = Arc::clone(&service.key.name);
        if let Some(entry) = self.services.get_mut(&name)
            && is_old(service.revision, entry.service.revision)
        {
            entry.epoch = epoch;
            return;
        }
        let unchanged = self.services.get(&name).is_some_and(|entry| {
            let stored = Service {
                revision: service.revision,
                ..(*entry.service).clone()
            };
            stored == service
        });
        self.forget_service(&name);
        let selector = service.selector.clone().map(|selector| self.pairs.hold(selector));
        let filed = match &selector {
            Some(selector) if selector.is_empty() => {
                self.match_all.push(Arc::clone(&name));
                None
            }
            Some(selector) => self.pairs.file(selector, &name),
            None => None,
        };
        let entry = ServiceEntry {
            service: Arc::new(service),
            selector,
            filed,
            epoch,
        };
        self.services.insert(Arc::clone(&name), entry);
        if let Some(entry) = self.endpoints.get_mut(&name) {
            entry.orphan = None;
        }
        if !unchanged {
            affected.push(self.affected(&name, Cause::Service));
        }
    }

    pub(super) fn delete_service(
        &mut self,
        name: &Arc<str>,
        revision: Revision,
        why: Orphan,
        affected: &mut Vec<Affected>,
    ) {
        if self
            .services
            .get(name)
            .is_none_or(|entry| is_older(revision, entry.service.revision))
        {
            return;
        }
        self.forget_service(name);
        if let Some(entry) = self.endpoints.get_mut(name) {
            entry.orphan = Some(why);
        }
        affected.push(self.affected(name, Cause::Service));
    }

    pub(super) fn sweep_services(&mut self, epoch: Epoch, affected: &mut Vec<Affected>) {
        let stale = self.services.iter().filter(|(_, entry)| entry.epoch != epoch);
        let stale: Vec<_> = stale
            .map(|(name, entry)| (Arc::clone(name), entry.service.revision))
            .collect();
        for (name, revision) in stale {
            self.delete_service(&name, revision, Orphan::Leftover, affected);
        }
    }

    fn forget_service(&mut self, name: &Arc<str>) {
        let Some(entry) = self.services.remove(name) else {
            return;
        };
        if let Some(filed) = entry.filed {
            self.pairs.unfile(filed, name);
        }
        match entry.selector {
            Some(selector) if selector.is_empty() => self.match_all.retain(|filed| filed != name),
            Some(selector) => self.pairs.release(&selector),
            None => {}
        }
    }

    // Pods

    pub(super) fn apply_pod(&mut self, (pod, labels): LabelledPod, epoch: Epoch, affected: &mut Vec<Affected>) {
        let known = self.pods.slot(&pod.name);
        if let Some(entry) = known.and_then(|slot| self.pods.get_mut(slot))
            && is_old(pod.revision, entry.pod.revision)
        {
            entry.epoch = epoch;
            return;
        }
        let labels = self.pairs.hold(labels);
        let Some((slot, entry)) = known.and_then(|slot| Some((slot, self.pods.get_mut(slot)?))) else {
            let pod = Arc::new(pod);
            self.affect(&labels, affected);
            let slot = self.pods.insert(PodEntry {
                pod,
                labels: labels.clone(),
                epoch,
            });
            self.pairs.add_pod(&labels, slot);
            return;
        };
        let changed = matters(&entry.pod, &pod);
        entry.pod = Arc::new(pod);
        entry.epoch = epoch;
        if entry.labels == labels {
            self.pairs.release(&labels);
            if changed {
                self.affect(&labels, affected);
            }
            return;
        }
        let old = std::mem::replace(&mut entry.labels, labels.clone());
        self.pairs.remove_pod(&old, slot);
        self.pairs.add_pod(&labels, slot);
        let (mut gone, mut come) = (self.matching(&old), self.matching(&labels));
        if !changed {
            // A Service that matches before and after sees no difference.
            let both: Vec<_> = gone.iter().filter(|name| come.contains(name)).cloned().collect();
            gone.retain(|name| !both.contains(name));
            come.retain(|name| !both.contains(name));
        }
        come.retain(|name| !gone.contains(name));
        for name in gone.iter().chain(&come) {
            affected.push(self.affected(name, Cause::Pod));
        }
        self.pairs.release(&old);
    }

    pub(super) fn delete_pod(&mut self, name: &str, revision: Revision, affected: &mut Vec<Affected>) {
        let Some(slot) = self.pods.slot(name) else { return };
        if self
            .pods
            .get(slot)
            .is_none_or(|entry| is_older(revision, entry.pod.revision))
        {
            return;
        }
        if let Some(entry) = self.pods.remove(slot) {
            self.affect(&entry.labels, affected);
            self.pairs.remove_pod(&entry.labels, slot);
            self.pairs.release(&entry.labels);
        }
    }

    pub(super) fn sweep_pods(&mut self, epoch: Epoch, affected: &mut Vec<Affected>) {
        let stale = self.pods.iter().filter(|(_, entry)| entry.epoch != epoch);
        let stale: Vec<_> = stale
            .map(|(_, entry)| (Arc::clone(&entry.pod.name), entry.pod.revision))
            .collect();
        for (name, revision) in stale {
            self.delete_pod(&name, revision, affected);
        }
    }

    /// Names of the Services that a Pod with these labels belongs to.
    fn matching(&self, labels: &[PairId]) -> Vec<Arc<str>> {
        let candidates = self.pairs.candidates(labels).filter(|name| {
            let selector = self.services.get(*name).and_then(|entry| entry.selector.as_deref());
            selector.is_some_and(|selector| matches(selector, labels))
        });
        candidates.chain(&self.match_all).cloned().collect()
    }

    fn affect(&self, labels: &[PairId], affected: &mut Vec<Affected>) {
        affected.extend(self.matching(labels).iter().map(|name| self.affected(name, Cause::Pod)));
    }

    // Endpoints

    pub(super) fn apply_endpoints(&mut self, object: EndpointsObject, epoch: Epoch, affected: &mut Vec<Affected>) {
        let name = Arc::clone(&object.key.name);
        let expected = self.expected.get(&name).is_some_and(|ours| same_content(ours, &object));
        match self.endpoints.get_mut(&name) {
            Some(entry) if is_old(object.revision, entry.object.revision) => entry.epoch = epoch,
            Some(entry) => {
                entry.epoch = epoch;
                let foreign = !expected && !same_content(&entry.object, &object);
                if entry.object.uid != object.uid {
                    // Another object of that name: what was decided about the last one does not bind it.
                    entry.orphan = None;
                }
                entry.object = Arc::new(object);
                if foreign {
                    affected.push(self.affected(&name, Cause::Foreign));
                }
            }
            None => {
                let entry = EndpointsEntry {
                    object: Arc::new(object),
                    orphan: None,
                    epoch,
                };
                self.endpoints.insert(Arc::clone(&name), entry);
                if !expected {
                    affected.push(self.affected(&name, Cause::Foreign));
                }
            }
        }
    }

    pub(super) fn delete_endpoints(&mut self, name: &Arc<str>, revision: Revision, affected: &mut Vec<Affected>) {
        if self
            .endpoints
            .get(name)
            .is_some_and(|entry| !is_older(revision, entry.object.revision))
        {
            self.endpoints.remove(name);
            affected.push(self.affected(name, Cause::Foreign));
        }
    }

    pub(super) fn sweep_endpoints(&mut self, epoch: Epoch, affected: &mut Vec<Affected>) {
        let stale = self.endpoints.iter().filter(|(_, entry)| entry.epoch != epoch);
        let stale: Vec<_> = stale
            .map(|(name, entry)| (Arc::clone(name), entry.object.revision))
            .collect();
        for (name, revision) in stale {
            self.delete_endpoints(&name, revision, affected);
        }
    }

    pub(super) fn expect_write(&mut self, object: &Arc<EndpointsObject>) {
        self.expected.insert(Arc::clone(&object.key.name), Arc::clone(object));
    }

    pub(super) fn finish_write(
        &mut self,
        name: &Arc<str>,
        stored: Option<(Uid, Revision)>,
        epoch: Epoch,
        affected: &mut Vec<Affected>,
    ) {
        let expected = self.expected.remove(name);
        let (Some(expected), Some((uid, revision))) = (expected, stored) else {
            return;
        };
        let stored = EndpointsObject {
            uid,
            revision,
            ..Arc::unwrap_or_clone(expected)
        };
        match self.endpoints.get_mut(name) {
            Some(entry) if is_old(stored.revision, entry.object.revision) => {}
            Some(entry) => {
                entry.object = Arc::new(stored);
                entry.epoch = epoch;
            }
            None => {
                // The Service may have gone while the create was under way: nobody else would remember to take its Endpoints away.
                let orphan = (!self.services.contains_key(name)).then_some(Orphan::ServiceDeleted);
                let entry = EndpointsEntry {
                    object: Arc::new(stored),
                    orphan,
                    epoch,
                };
                self.endpoints.insert(Arc::clone(name), entry);
                if orphan.is_some() {
                    affected.push(self.affected(name, Cause::Service));
                }
            }
        }
    }

    pub(super) fn finish_delete(&mut self, name: &Arc<str>, uid: &Uid) {
        if self.endpoints.get(name).is_some_and(|entry| entry.object.uid == *uid) {
            self.endpoints.remove(name);
        }
    }

    // Reading

    pub(super) fn start_term(&mut self, namespace: &Arc<str>, keys: &mut Vec<ObjectKey>) {
        self.service_keys(namespace, keys);
        for (name, entry) in &mut self.endpoints {
            if self.services.contains_key(name) {
                continue;
            }
            if entry.orphan.is_none() && is_leftover(&entry.object) {
                entry.orphan = Some(Orphan::Leftover);
            }
            if entry.orphan.is_some() {
                keys.push(ObjectKey::new(Arc::clone(namespace), Arc::clone(name)));
            }
        }
    }

    pub(super) fn service_keys(&self, namespace: &Arc<str>, keys: &mut Vec<ObjectKey>) {
        keys.extend(
            self.services
                .keys()
                .map(|name| ObjectKey::new(Arc::clone(namespace), Arc::clone(name))),
        );
    }

    pub(super) fn snapshot(&self, name: &Arc<str>) -> Snapshot {
        let endpoints = self.endpoints.get(name);
        let entry = self.services.get(name);
        let pods = match entry.and_then(|entry| entry.selector.as_deref()) {
            Some([]) => self.pods.iter().map(|(_, entry)| Arc::clone(&entry.pod)).collect(),
            Some(selector) => {
                let candidates = self.pairs.rarest(selector).filter_map(|slot| self.pods.get(slot));
                candidates
                    .filter(|entry| matches(selector, &entry.labels))
                    .map(|entry| Arc::clone(&entry.pod))
                    .collect()
            }
            None => Vec::new(),
        };
        Snapshot {
            service: entry.map(|entry| Arc::clone(&entry.service)),
            pods,
            endpoints: endpoints.map(|entry| Arc::clone(&entry.object)),
            orphan: endpoints.and_then(|entry| entry.orphan),
        }
    }

    pub(super) fn count(&self, counts: &mut Counts) {
        counts.services += self.services.len();
        counts.pods += self.pods.len();
        counts.endpoints += self.endpoints.len();
        for (name, entry) in &self.endpoints {
            match self.services.get(name) {
                None => counts.endpoints_without_service += 1,
                Some(service) if service.selector.is_some() => {
                    for subset in &entry.object.subsets {
                        counts.ready_addresses += subset.addresses.len();
                        counts.not_ready_addresses += subset.not_ready_addresses.len();
                    }
                }
                Some(_) => {}
            }
        }
    }

    fn affected(&self, name: &Arc<str>, cause: Cause) -> Affected {
        Affected {
            key: ObjectKey::new(Arc::clone(&self.name), Arc::clone(name)),
            cause,
        }
    }
}

/// Whether a change of a Pod can change endpoints. The time of a Ready transition without a transition does not.
fn matters(old: &Pod, new: &Pod) -> bool {
    let relevant = |pod: &Pod| Pod {
        revision: Revision::default(),
        ready_transition: None,
        ..pod.clone()
    };
    relevant(old) != relevant(new)
}
