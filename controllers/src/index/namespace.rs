//! One namespace of the index.

use std::collections::HashMap;
use std::sync::Arc;

use super::endpoints::{EndpointsEntry, Expected, Orphan, is_leftover};
use super::pairs::{Pairs, matches};
use super::pods::Pods;
use super::services::ServiceEntry;
use super::{Affected, Cause, Counts};
use crate::model::{EndpointsObject, ObjectKey, Pod, Service};

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
    pub(super) name: Arc<str>,
    pub(super) services: HashMap<Arc<str>, ServiceEntry, ahash::RandomState>,
    /// Services whose selector is empty.
    pub(super) match_all: Vec<Arc<str>>,
    pub(super) pods: Pods,
    pub(super) endpoints: HashMap<Arc<str>, EndpointsEntry, ahash::RandomState>,
    /// Content that a writer of ours has sent.
    pub(super) expected: HashMap<Arc<str>, Expected, ahash::RandomState>,
    pub(super) pairs: Pairs,
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

    pub(super) fn affected(&self, name: &Arc<str>, cause: Cause) -> Affected {
        Affected {
            key: ObjectKey::new(Arc::clone(&self.name), Arc::clone(name)),
            cause,
        }
    }
}
