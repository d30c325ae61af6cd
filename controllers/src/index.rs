//! What is stored in the cluster, as far as it matters, and who is affected by a change.
//!
//! ```text
//! namespace ─┬─ services   by name, each filed under its least shared selector pair
//!            ├─ pods       by name, each with the ids of its label pairs
//!            ├─ endpoints  by name, with our own writes laid over what the watch has shown
//!            ├─ slices     as these, and by the Service that they name
//!            └─ pairs      (label key, value) -> Pods that carry it, Services filed under it
//! nodes      by name, and the shares of the zones
//! ```
//!
//! One mutex, sections of microseconds, no awaits. Fed by the watches and by the writers; read by the workers. A Pod event costs its
//! labels and the Services filed under them, not all Services of the namespace. Revisions never go backwards per object, so an old list
//! cannot undo a newer event. A relist stamps what it brings with a new epoch; what still carries an old one at its end is gone.

mod changes;
mod endpoints;
mod namespace;
mod nodes;
mod overlay;
mod pairs;
mod pods;
mod services;
mod slices;

use std::collections::HashMap;
use std::sync::Arc;

pub use changes::{Changes, PodChange, PodChanges, PodEvent};
pub use endpoints::Orphan;
pub use namespace::Snapshot;
pub use overlay::{DeleteEnd, WriteEnd};

use crate::controller::Controller;
use crate::model::{EndpointsObject, LabelledPod, Node, ObjectKey, Revision, Service, Slice, Uid};
use namespace::Namespace;
use nodes::Nodes;

/// A Service (or an Endpoints object of that name) that must be looked at again, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affected {
    /// Whose turn it is.
    pub key: ObjectKey,
    /// Why.
    pub cause: Cause,
}

/// Why a key must be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its Service was added, changed or deleted.
    Service,
    /// A Pod that its selector matches, or matched, changed, or the Node of one: the batch period applies.
    Pod,
    /// Its Endpoints object or a slice of it, which we keep, was changed or deleted by somebody else.
    Foreign(Controller),
}

/// The kinds that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Services.
    Service,
    /// Pods.
    Pod,
    /// Endpoints.
    Endpoints,
    /// EndpointSlices of our controllers.
    Slice,
    /// Nodes.
    Node,
}

/// One round of listing: what it brings is stamped with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epoch(u32);

/// How much is held, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Namespaces with anything in them.
    pub namespaces: usize,
    /// Services.
    pub services: usize,
    /// Pods.
    pub pods: usize,
    /// Endpoints objects.
    pub endpoints: usize,
    /// Endpoints objects that have no Service of their name.
    pub endpoints_without_service: usize,
    /// EndpointSlices of our controllers.
    pub slices: usize,
    /// Nodes.
    pub nodes: usize,
    /// Ready addresses in Endpoints objects of Services with a selector.
    pub ready_addresses: usize,
    /// Addresses that are not ready in those.
    pub not_ready_addresses: usize,
}

/// The index.
#[derive(Debug, Default)]
pub struct Index {
    namespaces: HashMap<Arc<str>, Namespace, ahash::RandomState>,
    nodes: Nodes,
    epochs: [Epoch; 5],
    affected: Vec<Affected>,
}

impl Index {
    /// Takes the keys affected by what was fed since the last call, in order.
    pub fn take_affected(&mut self) -> Vec<Affected> {
        std::mem::take(&mut self.affected)
    }

    /// A complete list of `kind` begins.
    pub fn begin(&mut self, kind: Kind) {
        let epoch = self.epoch_mut(kind);
        epoch.0 = epoch.0.wrapping_add(1);
        if kind == Kind::Node {
            self.nodes.begin();
        }
    }

    /// The list of `kind` is complete: what it did not bring is gone.
    pub fn sweep(&mut self, kind: Kind) {
        let epoch = self.epoch(kind);
        if kind == Kind::Node {
            self.nodes.sweep(epoch);
            self.after_nodes();
            return;
        }
        let affected = &mut self.affected;
        for namespace in self.namespaces.values_mut() {
            match kind {
                Kind::Service => namespace.sweep_services(epoch, affected),
                Kind::Pod => namespace.sweep_pods(epoch, affected),
                Kind::Endpoints => namespace.sweep_endpoints(epoch, affected),
                Kind::Slice => namespace.sweep_slices(epoch, affected),
                Kind::Node => {}
            }
        }
        self.namespaces.retain(|_, namespace| !namespace.is_empty());
    }

    /// A Service as stored.
    pub fn apply_service(&mut self, service: Service) {
        let epoch = self.epoch(Kind::Service);
        let (namespace, affected) = self.namespace(&service.key.namespace.clone());
        namespace.apply_service(service, epoch, affected);
    }

    /// A Service is gone, last seen at `revision`.
    pub fn delete_service(&mut self, key: &ObjectKey, revision: Revision) {
        self.with_existing(&key.namespace, |namespace, affected| {
            namespace.delete_service(&key.name, revision, Orphan::ServiceDeleted, affected);
        });
    }

    /// A Pod as stored.
    pub fn apply_pod(&mut self, pod: LabelledPod) {
        let epoch = self.epoch(Kind::Pod);
        let (namespace, affected) = self.namespace(&pod.0.namespace.clone());
        namespace.apply_pod(pod, epoch, affected);
    }

    /// A Pod is gone.
    pub fn delete_pod(&mut self, key: &ObjectKey, revision: Revision) {
        self.with_existing(&key.namespace, |namespace, affected| {
            namespace.delete_pod(&key.name, revision, affected);
        });
    }

    /// An Endpoints object as the watch shows it.
    pub fn apply_endpoints(&mut self, object: EndpointsObject) {
        let epoch = self.epoch(Kind::Endpoints);
        let (namespace, affected) = self.namespace(&object.key.namespace.clone());
        namespace.apply_endpoints(object, epoch, affected);
    }

    /// What is known to be stored under this key, and what a write of ours is about to store there.
    pub fn known_endpoints(&self, key: &ObjectKey) -> [Option<Arc<EndpointsObject>>; 2] {
        let namespace = self.namespaces.get(&key.namespace);
        namespace.map_or([None, None], |namespace| namespace.endpoints.known(&key.name))
    }

    /// The watch shows an Endpoints object with the content of `known`, one of [`known_endpoints`](Self::known_endpoints), under this uid
    /// and revision.
    pub fn apply_known_endpoints(&mut self, known: &Arc<EndpointsObject>, uid: Uid, revision: Revision) {
        let epoch = self.epoch(Kind::Endpoints);
        let (namespace, affected) = self.namespace(&known.key.namespace);
        namespace.apply_known_endpoints(known, uid, revision, epoch, affected);
    }

    /// An Endpoints object is gone.
    pub fn delete_endpoints(&mut self, key: &ObjectKey, revision: Revision) {
        self.with_existing(&key.namespace, |namespace, affected| {
            namespace.delete_endpoints(&key.name, revision, affected);
        });
    }

    /// We are about to write this content: should the watch show it before the reply comes, it is ours.
    pub fn expect_endpoints(&mut self, object: &Arc<EndpointsObject>) {
        let (namespace, _) = self.namespace(&object.key.namespace);
        namespace.endpoints.expect(object);
    }

    /// The write of what was expected is over. What is stored is laid over what the watch has shown.
    pub fn finish_endpoints(&mut self, key: &ObjectKey, end: WriteEnd) {
        let epoch = self.epoch(Kind::Endpoints);
        let (namespace, affected) = self.namespace(&key.namespace);
        namespace.finish_endpoints(&key.name, end, epoch, affected);
    }

    /// We have deleted the object of that uid.
    pub fn finish_endpoints_delete(&mut self, key: &ObjectKey, uid: &Uid) {
        self.with_existing(&key.namespace, |namespace, _| {
            namespace.finish_endpoints_delete(&key.name, uid);
        });
    }

    /// A slice of one of our controllers as the watch shows it.
    pub fn apply_slice(&mut self, slice: Slice) {
        let epoch = self.epoch(Kind::Slice);
        let (namespace, affected) = self.namespace(&slice.key.namespace.clone());
        namespace.apply_slice(slice, epoch, affected);
    }

    /// A slice is gone, or none of our controllers' any more.
    pub fn delete_slice(&mut self, key: &ObjectKey, revision: Revision) {
        self.with_existing(&key.namespace, |namespace, affected| {
            namespace.delete_slice(&key.name, revision, affected);
        });
    }

    /// As [`expect_endpoints`](Self::expect_endpoints), for a slice.
    pub fn expect_slice(&mut self, slice: &Arc<Slice>) {
        let (namespace, _) = self.namespace(&slice.key.namespace);
        namespace.slices.expect(slice);
    }

    /// As [`finish_endpoints`](Self::finish_endpoints), for a slice.
    pub fn finish_slice(&mut self, slice: &Slice, end: WriteEnd) {
        let epoch = self.epoch(Kind::Slice);
        let (namespace, affected) = self.namespace(&slice.key.namespace);
        namespace.finish_slice(slice, end, epoch, affected);
    }

    /// We are about to delete this slice: nobody else has disturbed it when the watch shows that it is gone.
    pub fn expect_slice_delete(&mut self, key: &ObjectKey) {
        self.with_existing(&key.namespace, |namespace, _| namespace.expect_slice_delete(&key.name));
    }

    /// The deletion is over.
    pub fn finish_slice_delete(&mut self, slice: &Slice, end: DeleteEnd) {
        self.with_existing(&slice.key.namespace, |namespace, _| {
            namespace.finish_slice_delete(&slice.key.name, &slice.uid, end);
        });
    }

    /// A Node as stored.
    pub fn apply_node(&mut self, node: Node) {
        let epoch = self.epoch(Kind::Node);
        self.nodes.apply(node, epoch);
        self.after_nodes();
    }

    /// A Node is gone.
    pub fn delete_node(&mut self, name: &Arc<str>, revision: Revision) {
        self.nodes.delete(name, revision);
        self.after_nodes();
    }

    fn after_nodes(&mut self) {
        let Some(changed) = self.nodes.take_changed() else {
            return;
        };
        for namespace in self.namespaces.values_mut() {
            namespace.affect_by_nodes(&changed, &mut self.affected);
        }
    }

    /// Start of a term of leadership: marks what earlier leaders left behind (see [`Orphan::Leftover`]) and returns every key there is.
    pub fn start_term(&mut self) -> Vec<ObjectKey> {
        let mut keys = Vec::new();
        for (name, namespace) in &mut self.namespaces {
            namespace.start_term(name, &mut keys);
        }
        keys
    }

    /// Every Service's key.
    pub fn service_keys(&self) -> Vec<ObjectKey> {
        let mut keys = Vec::new();
        for (name, namespace) in &self.namespaces {
            namespace.service_keys(name, &mut keys);
        }
        keys
    }

    /// All that a reconcile of `key` needs to know.
    pub fn snapshot(&self, key: &ObjectKey) -> Snapshot {
        let namespace = self.namespaces.get(&key.namespace);
        let pods = namespace.map(|namespace| namespace.pods_of(&key.name));
        Snapshot {
            pods: pods.unwrap_or_default(),
            ..self.stored(key)
        }
    }

    /// The same without the Pods, of which there may be many.
    pub fn stored(&self, key: &ObjectKey) -> Snapshot {
        let namespace = self.namespaces.get(&key.namespace);
        let stored = namespace.map(|namespace| namespace.stored(&key.name));
        Snapshot {
            nodes: Arc::clone(self.nodes.table()),
            zones: self.nodes.zones().cloned(),
            ..stored.unwrap_or_default()
        }
    }

    /// What is new about a Service since the last call: less than a [`snapshot`](Self::snapshot), and sometimes enough.
    pub fn take_changes(&mut self, key: &ObjectKey) -> Option<Changes> {
        let namespace = self.namespaces.get_mut(&key.namespace)?;
        let entry = namespace.services.get_mut(&key.name)?;
        Some(Changes {
            service: Arc::clone(&entry.service),
            pods: std::mem::replace(&mut entry.changes, PodChanges::NONE),
            endpoints: namespace.known_version(&key.name),
        })
    }

    /// How much is held.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts {
            namespaces: self.namespaces.len(),
            nodes: self.nodes.len(),
            ..Counts::default()
        };
        for namespace in self.namespaces.values() {
            namespace.count(&mut counts);
        }
        counts
    }

    fn namespace(&mut self, name: &Arc<str>) -> (&mut Namespace, &mut Vec<Affected>) {
        let namespace = self
            .namespaces
            .entry(Arc::clone(name))
            .or_insert_with(|| Namespace::new(Arc::clone(name)));
        (namespace, &mut self.affected)
    }

    fn with_existing(&mut self, name: &Arc<str>, change: impl FnOnce(&mut Namespace, &mut Vec<Affected>)) {
        if let Some(namespace) = self.namespaces.get_mut(name) {
            change(namespace, &mut self.affected);
            if namespace.is_empty() {
                self.namespaces.remove(name);
            }
        }
    }

    fn epoch(&self, kind: Kind) -> Epoch {
        let [services, pods, endpoints, slices, nodes] = self.epochs;
        match kind {
            Kind::Service => services,
            Kind::Pod => pods,
            Kind::Endpoints => endpoints,
            Kind::Slice => slices,
            Kind::Node => nodes,
        }
    }

    fn epoch_mut(&mut self, kind: Kind) -> &mut Epoch {
        let [services, pods, endpoints, slices, nodes] = &mut self.epochs;
        match kind {
            Kind::Service => services,
            Kind::Pod => pods,
            Kind::Endpoints => endpoints,
            Kind::Slice => slices,
            Kind::Node => nodes,
        }
    }
}

/// Nothing new: what is stored is as new or newer. A version that is not a number (0) is always news.
fn is_old(new: Revision, stored: Revision) -> bool {
    new != Revision::default() && new <= stored
}

/// A deletion of something earlier than what is stored.
fn is_older(deleted: Revision, stored: Revision) -> bool {
    deleted != Revision::default() && deleted < stored
}

#[cfg(test)]
mod replies;
#[cfg(test)]
mod tests;
