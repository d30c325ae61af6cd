//! One namespace of the index.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::endpoints::{Orphan, is_leftover};
use super::nodes::Changed;
use super::overlay::Overlay;
use super::pairs::{Pairs, matches};
use super::pods::Pods;
use super::services::ServiceEntry;
use super::{Affected, Cause, Counts};
use crate::endpointslice::Zones;
use crate::model::{Distribution, EndpointsObject, NodeTable, ObjectKey, Pod, Service, Slice};

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
    /// The slices of our controllers that name it, in no particular order.
    pub slices: Vec<Arc<Slice>>,
    /// All Nodes.
    pub nodes: Arc<NodeTable>,
    /// The shares of the zones, if topology mode `Auto` can work.
    pub zones: Option<Arc<Zones>>,
}

#[derive(Debug)]
pub(super) struct Namespace {
    pub(super) name: Arc<str>,
    pub(super) services: HashMap<Arc<str>, ServiceEntry, ahash::RandomState>,
    /// Services whose selector is empty.
    pub(super) match_all: Vec<Arc<str>>,
    pub(super) pods: Pods,
    pub(super) endpoints: Overlay<EndpointsObject>,
    /// Endpoints that are to go, by name.
    pub(super) orphans: HashMap<Arc<str>, Orphan, ahash::RandomState>,
    pub(super) slices: Overlay<Slice>,
    /// Names of slices by the Service that they name.
    pub(super) slice_names: HashMap<Arc<str>, Vec<Arc<str>>, ahash::RandomState>,
    /// Slices that we are deleting.
    pub(super) going: HashSet<Arc<str>, ahash::RandomState>,
    pub(super) pairs: Pairs,
}

impl Namespace {
    pub(super) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            services: HashMap::default(),
            match_all: Vec::new(),
            pods: Pods::default(),
            endpoints: Overlay::default(),
            orphans: HashMap::default(),
            slices: Overlay::default(),
            slice_names: HashMap::default(),
            going: HashSet::default(),
            pairs: Pairs::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.services.is_empty()
            && self.pods.len() == 0
            && self.endpoints.is_empty()
            && self.slices.is_empty()
            && self.pairs.is_empty()
    }

    pub(super) fn start_term(&mut self, namespace: &Arc<str>, keys: &mut Vec<ObjectKey>) {
        self.service_keys(namespace, keys);
        for (name, object) in self.endpoints.iter() {
            if !self.services.contains_key(name) && is_leftover(object) {
                self.orphans.entry(Arc::clone(name)).or_insert(Orphan::Leftover);
            }
        }
        let sliced = self.slice_names.keys().filter(|name| !self.orphans.contains_key(*name));
        let without_service = self.orphans.keys().chain(sliced);
        let without_service = without_service.filter(|name| !self.services.contains_key(*name));
        keys.extend(without_service.map(|name| ObjectKey::new(Arc::clone(namespace), Arc::clone(name))));
    }

    /// Adds the Services that list otherwise because of what changed about Nodes.
    pub(super) fn affect_by_nodes(&mut self, changed: &Changed, affected: &mut Vec<Affected>) {
        let mut names: HashSet<Arc<str>, ahash::RandomState> = HashSet::default();
        if changed.zones {
            let auto = self
                .services
                .iter()
                .filter(|(_, entry)| entry.service.distribution == Distribution::Auto);
            names.extend(auto.map(|(name, _)| Arc::clone(name)));
        }
        if !changed.names.is_empty() {
            let on_them = self.pods.iter().filter(|(_, entry)| {
                let node = entry.pod.node_name.as_ref();
                node.is_some_and(|node| changed.names.contains(node))
            });
            for (_, entry) in on_them {
                names.extend(self.matching(&entry.labels));
            }
        }
        for name in &names {
            self.affect(name, Cause::Pod, affected);
        }
    }

    pub(super) fn service_keys(&self, namespace: &Arc<str>, keys: &mut Vec<ObjectKey>) {
        keys.extend(
            self.services
                .keys()
                .map(|name| ObjectKey::new(Arc::clone(namespace), Arc::clone(name))),
        );
    }

    /// The Pods that the selector of the Service of this name matches.
    pub(super) fn pods_of(&self, name: &str) -> Vec<Arc<Pod>> {
        match self.services.get(name).and_then(|entry| entry.selector.as_deref()) {
            Some([]) => self.pods.iter().map(|(_, entry)| Arc::clone(&entry.pod)).collect(),
            Some(selector) => {
                let candidates = self.pairs.rarest(selector).filter_map(|slot| self.pods.get(slot));
                candidates
                    .filter(|entry| matches(selector, &entry.labels))
                    .map(|entry| Arc::clone(&entry.pod))
                    .collect()
            }
            None => Vec::new(),
        }
    }

    /// All but the Pods and what is not of this namespace.
    pub(super) fn stored(&self, name: &str) -> Snapshot {
        let entry = self.services.get(name);
        Snapshot {
            service: entry.map(|entry| Arc::clone(&entry.service)),
            endpoints: self.endpoints.get(name).cloned(),
            orphan: self.orphans.get(name).copied(),
            slices: self.slices_of(name),
            ..Snapshot::default()
        }
    }

    pub(super) fn count(&self, counts: &mut Counts) {
        counts.services += self.services.len();
        counts.pods += self.pods.len();
        counts.endpoints += self.endpoints.len();
        counts.slices += self.slices.len();
        for (name, object) in self.endpoints.iter() {
            match self.services.get(name) {
                None => counts.endpoints_without_service += 1,
                Some(service) if service.selector.is_some() => {
                    for subset in &object.subsets {
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
