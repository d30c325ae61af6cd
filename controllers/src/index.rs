//! What is stored in the cluster, as far as it matters, and who is affected by a change.
//!
//! ```text
//! namespace ─┬─ services   by name, each filed under its least shared selector pair
//!            ├─ pods       by name, each with the ids of its label pairs
//!            ├─ endpoints  by name, with our own writes laid over what the watch has shown
//!            └─ pairs      (label key, value) -> Pods that carry it, Services filed under it
//! ```
//!
//! One mutex, sections of microseconds, no awaits. Fed by the watches and by the writers; read by the workers. A Pod event costs its
//! labels and the Services filed under them, not all Services of the namespace. Revisions never go backwards per object, so an old list
//! cannot undo a newer event. A relist stamps what it brings with a new epoch; what still carries an old one at its end is gone.

mod endpoints;
mod namespace;
mod pairs;
mod pods;
mod services;

use std::collections::HashMap;
use std::sync::Arc;

pub use endpoints::{Orphan, WriteEnd};
pub use namespace::Snapshot;

use crate::model::{EndpointsObject, LabelledPod, ObjectKey, Revision, Service, Uid};
use namespace::Namespace;

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
    /// A Pod that its selector matches, or matched, changed: the batch period applies.
    Pod,
    /// Its Endpoints object was changed or deleted by somebody else.
    Foreign,
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
    /// Ready addresses in Endpoints objects of Services with a selector.
    pub ready_addresses: usize,
    /// Addresses that are not ready in those.
    pub not_ready_addresses: usize,
}

/// The index.
#[derive(Debug, Default)]
pub struct Index {
    namespaces: HashMap<Arc<str>, Namespace, ahash::RandomState>,
    epochs: [Epoch; 3],
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
    }

    /// The list of `kind` is complete: what it did not bring is gone.
    pub fn sweep(&mut self, kind: Kind) {
        let epoch = self.epoch(kind);
        let affected = &mut self.affected;
        for namespace in self.namespaces.values_mut() {
            match kind {
                Kind::Service => namespace.sweep_services(epoch, affected),
                Kind::Pod => namespace.sweep_pods(epoch, affected),
                Kind::Endpoints => namespace.sweep_endpoints(epoch, affected),
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

    /// An Endpoints object is gone.
    pub fn delete_endpoints(&mut self, key: &ObjectKey, revision: Revision) {
        self.with_existing(&key.namespace, |namespace, affected| {
            namespace.delete_endpoints(&key.name, revision, affected);
        });
    }

    /// We are about to write this content: should the watch show it before the reply comes, it is ours.
    pub fn expect_write(&mut self, object: &Arc<EndpointsObject>) {
        let (namespace, _) = self.namespace(&object.key.namespace);
        namespace.expect_write(object);
    }

    /// The write of what was expected is over. What is stored is laid over what the watch has shown.
    pub fn finish_write(&mut self, key: &ObjectKey, end: WriteEnd) {
        let epoch = self.epoch(Kind::Endpoints);
        let (namespace, affected) = self.namespace(&key.namespace);
        namespace.finish_write(&key.name, end, epoch, affected);
    }

    /// We have deleted the object of that uid.
    pub fn finish_delete(&mut self, key: &ObjectKey, uid: &Uid) {
        self.with_existing(&key.namespace, |namespace, _| namespace.finish_delete(&key.name, uid));
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
        self.namespaces
            .get(&key.namespace)
            .map_or_else(Snapshot::default, |namespace| namespace.snapshot(&key.name))
    }

    /// How much is held.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts {
            namespaces: self.namespaces.len(),
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
        let [services, pods, endpoints] = self.epochs;
        match kind {
            Kind::Service => services,
            Kind::Pod => pods,
            Kind::Endpoints => endpoints,
        }
    }

    fn epoch_mut(&mut self, kind: Kind) -> &mut Epoch {
        let [services, pods, endpoints] = &mut self.epochs;
        match kind {
            Kind::Service => services,
            Kind::Pod => pods,
            Kind::Endpoints => endpoints,
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
mod tests;
