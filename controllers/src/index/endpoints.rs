//! An Endpoints object in the index: what the watch has shown, with our own writes laid over it.

use std::sync::Arc;

use super::namespace::Namespace;
use super::{Affected, Cause, Epoch, is_old, is_older};
use crate::model::{EndpointsObject, Revision, Uid};

/// Why an Endpoints object without a Service of its name is to be deleted. Without such a reason it is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orphan {
    /// The watch told us that its Service was deleted.
    ServiceDeleted,
    /// Its Service was missing from a list, or it bears the mark of an endpoints controller and had no Service when we began to lead.
    /// The Service is asked for once more, by a read that no cache answers, before anything is deleted.
    Leftover,
}

#[derive(Debug)]
pub(super) struct EndpointsEntry {
    pub object: Arc<EndpointsObject>,
    pub orphan: Option<Orphan>,
    pub epoch: Epoch,
}

/// Equal in all that we read or write; who stored it when does not matter.
pub(super) fn same_content(one: &EndpointsObject, other: &EndpointsObject) -> bool {
    one.labels == other.labels
        && one.subsets == other.subsets
        && one.annotations == other.annotations
        && one.finalizers == other.finalizers
        && one.owner_references == other.owner_references
}

/// Bears the mark of an endpoints controller, and is nobody's leader lock.
pub(super) fn is_leftover(object: &EndpointsObject) -> bool {
    let managed = object.labels.get("endpoints.kubernetes.io/managed-by");
    managed.is_some_and(|value| &**value == "endpoint-controller")
        && !object
            .annotations
            .contains_key("control-plane.alpha.kubernetes.io/leader")
}

impl Namespace {
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
}
