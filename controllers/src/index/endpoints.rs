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

/// How a write of ours ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteEnd {
    /// It is stored under this uid and revision.
    Stored(Uid, Revision),
    /// The apiserver refused it.
    Refused,
    /// No answer came: it may be stored or not, now or in a moment.
    Unknown,
}

/// Content that a writer of ours has sent.
#[derive(Debug)]
pub(super) struct Expected {
    object: Arc<EndpointsObject>,
    /// The watch has shown a deletion at this revision since it was sent.
    deleted: Revision,
    /// The answer was lost: whether it is stored, only the watch can tell.
    answer_lost: bool,
    /// The answer to an earlier try was lost: a refusal of this one may mean that the earlier one is stored.
    earlier_lost: bool,
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
        let expected = self
            .expected
            .get(&name)
            .is_some_and(|ours| same_content(&ours.object, &object));
        match self.endpoints.get_mut(&name) {
            // What we laid over is what we sent; admission has made something else of it. It would do so again: no reason to write at once.
            Some(entry)
                if object.revision == entry.object.revision
                    && entry.object.uid == object.uid
                    && !same_content(&entry.object, &object) =>
            {
                entry.epoch = epoch;
                entry.object = Arc::new(object);
            }
            Some(entry) if is_old(object.revision, entry.object.revision) => entry.epoch = epoch,
            Some(entry) if entry.object.uid == object.uid => {
                entry.epoch = epoch;
                let foreign = !expected && !same_content(&entry.object, &object);
                entry.object = Arc::new(object);
                if foreign {
                    affected.push(self.affected(&name, Cause::Foreign));
                }
            }
            // Another object of that name: what was decided about the last one does not bind it.
            _ => {
                let orphan = if expected { self.too_late(&name, affected) } else { None };
                let entry = EndpointsEntry {
                    object: Arc::new(object),
                    orphan,
                    epoch,
                };
                self.endpoints.insert(Arc::clone(&name), entry);
                if !expected {
                    affected.push(self.affected(&name, Cause::Foreign));
                }
            }
        }
        if self
            .expected
            .get(&name)
            .is_some_and(|ours| expected && ours.answer_lost)
        {
            self.expected.remove(&name);
        }
    }

    /// For an object that we have just created: the Service may have gone while the create was under way, and nobody else would remember
    /// to take its Endpoints away.
    fn too_late(&self, name: &Arc<str>, affected: &mut Vec<Affected>) -> Option<Orphan> {
        if self.services.contains_key(name) {
            return None;
        }
        affected.push(self.affected(name, Cause::Service));
        Some(Orphan::ServiceDeleted)
    }

    pub(super) fn delete_endpoints(&mut self, name: &Arc<str>, revision: Revision, affected: &mut Vec<Affected>) {
        if let Some(ours) = self.expected.get_mut(name) {
            ours.deleted = ours.deleted.max(revision);
        }
        let Some(entry) = self.endpoints.get(name) else { return };
        if is_older(revision, entry.object.revision) {
            return;
        }
        // One that was to go has not been disturbed.
        let cause = entry.orphan.map_or(Cause::Foreign, |_| Cause::Service);
        self.endpoints.remove(name);
        affected.push(self.affected(name, cause));
    }

    pub(super) fn sweep_endpoints(&mut self, epoch: Epoch, affected: &mut Vec<Affected>) {
        let stale = self.endpoints.iter().filter(|(_, entry)| entry.epoch != epoch);
        let stale: Vec<_> = stale
            .map(|(name, entry)| (Arc::clone(name), entry.object.revision))
            .collect();
        for (name, revision) in stale {
            self.delete_endpoints(&name, revision, affected);
        }
        // A complete list has shown whatever became of writes without an answer.
        self.expected.retain(|_, ours| !ours.answer_lost);
    }

    pub(super) fn expect_write(&mut self, object: &Arc<EndpointsObject>) {
        let earlier = self.expected.get(&object.key.name);
        let expected = Expected {
            object: Arc::clone(object),
            deleted: Revision::default(),
            answer_lost: false,
            earlier_lost: earlier.is_some_and(|earlier| earlier.answer_lost),
        };
        self.expected.insert(Arc::clone(&object.key.name), expected);
    }

    pub(super) fn finish_write(&mut self, name: &Arc<str>, end: WriteEnd, epoch: Epoch, affected: &mut Vec<Affected>) {
        let (uid, revision) = match end {
            WriteEnd::Stored(uid, revision) => (uid, revision),
            WriteEnd::Refused if self.expected.get(name).is_none_or(|ours| !ours.earlier_lost) => {
                self.expected.remove(name);
                return;
            }
            WriteEnd::Refused | WriteEnd::Unknown => {
                // It may still turn up in the watch, and is ours then.
                if let Some(ours) = self.expected.get_mut(name) {
                    ours.answer_lost = true;
                }
                return;
            }
        };
        let Some(Expected { object, deleted, .. }) = self.expected.remove(name) else {
            return;
        };
        if deleted > revision {
            // The watch was faster than the reply, and what we wrote is gone again.
            return;
        }
        let stored = EndpointsObject {
            uid,
            revision,
            ..Arc::unwrap_or_clone(object)
        };
        match self.endpoints.get_mut(name) {
            Some(entry) if is_old(stored.revision, entry.object.revision) => {}
            Some(entry) => {
                entry.object = Arc::new(stored);
                entry.epoch = epoch;
            }
            None => {
                let entry = EndpointsEntry {
                    object: Arc::new(stored),
                    orphan: self.too_late(name, affected),
                    epoch,
                };
                self.endpoints.insert(Arc::clone(name), entry);
            }
        }
    }

    pub(super) fn finish_delete(&mut self, name: &Arc<str>, uid: &Uid) {
        if self.endpoints.get(name).is_some_and(|entry| entry.object.uid == *uid) {
            self.endpoints.remove(name);
        }
    }
}
