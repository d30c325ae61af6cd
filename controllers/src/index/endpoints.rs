//! Endpoints in the index: who is affected by them, and which of them are to go.

use std::sync::Arc;

use super::namespace::Namespace;
use super::overlay::{Finished, Seen, Stored, WriteEnd};
use super::{Affected, Cause, Epoch};
use crate::controller::Controller;
use crate::endpoints::is_managed;
use crate::mirroring::LEADER_ANNOTATION;
use crate::model::{EndpointsObject, Revision, Uid, Version};

/// Why an Endpoints object without a Service of its name is to be deleted. Without such a reason it is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orphan {
    /// The watch told us that its Service was deleted.
    ServiceDeleted,
    /// Its Service was missing from a list, or it bears the mark of an endpoints controller and had no Service when we began to lead.
    /// The Service is asked for once more, by a read that no cache answers, before anything is deleted.
    Leftover,
}

impl Orphan {
    /// The value of the metric's label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ServiceDeleted => "service_deleted",
            Self::Leftover => "leftover",
        }
    }
}

impl Stored for EndpointsObject {
    fn name(&self) -> &Arc<str> {
        &self.key.name
    }

    fn stamp(&self) -> (&Uid, Revision) {
        (&self.uid, self.revision)
    }

    fn with_version(self, uid: Uid, revision: Revision) -> Self {
        Self { uid, revision, ..self }
    }

    fn same_content(&self, other: &Self) -> bool {
        self.labels == other.labels
            && self.subsets == other.subsets
            && self.annotations == other.annotations
            && self.finalizers == other.finalizers
            && self.owner_references == other.owner_references
    }
}

/// Bears the mark of an endpoints controller, and is nobody's leader lock.
pub(super) fn is_leftover(object: &EndpointsObject) -> bool {
    is_managed(&object.labels) && !object.annotations.contains_key(LEADER_ANNOTATION)
}

impl Namespace {
    pub(super) fn known_version(&self, name: &str) -> Option<Version> {
        self.endpoints.get(name).map(|object| object.version())
    }

    pub(super) fn apply_known_endpoints(
        &mut self,
        known: &Arc<EndpointsObject>,
        uid: Uid,
        revision: Revision,
        epoch: Epoch,
        affected: &mut Vec<Affected>,
    ) {
        let seen = self.endpoints.apply_known(known, uid, revision, epoch);
        self.after_endpoints(&known.key.name, seen, affected);
    }

    pub(super) fn apply_endpoints(&mut self, object: EndpointsObject, epoch: Epoch, affected: &mut Vec<Affected>) {
        let name = Arc::clone(&object.key.name);
        let seen = self.endpoints.apply(object, epoch);
        self.after_endpoints(&name, seen, affected);
    }

    fn after_endpoints(&mut self, name: &Arc<str>, seen: Seen, affected: &mut Vec<Affected>) {
        match seen {
            Seen::Nothing => {}
            Seen::Found if self.services.contains_key(name) => self.affect(name, Cause::Service, affected),
            Seen::Found => self.too_late(name, affected),
            Seen::Disturbed => self.disturbed(name, affected),
            Seen::Appeared { expected, replaces } => {
                self.orphans.remove(name);
                if expected {
                    self.too_late(name, affected);
                } else if replaces {
                    self.disturbed(name, affected);
                } else {
                    self.affect(name, Cause::Service, affected);
                }
            }
        }
    }

    /// Somebody else has changed an object. One that we do not keep is his to change, as often as he likes.
    fn disturbed(&mut self, name: &Arc<str>, affected: &mut Vec<Affected>) {
        let cause = match self.services.get(name) {
            Some(entry) if entry.service.is_followed() => Cause::Foreign(Controller::Endpoints),
            _ => Cause::Service,
        };
        self.affect(name, cause, affected);
    }

    /// For an object that we have just created: the Service may have gone while the create was under way, and nobody else would remember
    /// to take its Endpoints away.
    fn too_late(&mut self, name: &Arc<str>, affected: &mut Vec<Affected>) {
        if !self.services.contains_key(name) {
            self.orphans.insert(Arc::clone(name), Orphan::ServiceDeleted);
            self.affect(name, Cause::Service, affected);
        }
    }

    pub(super) fn delete_endpoints(&mut self, name: &Arc<str>, revision: Revision, affected: &mut Vec<Affected>) {
        if self.endpoints.delete(name, revision).is_none() {
            return;
        }
        // One that was to go has not been disturbed.
        if self.orphans.remove(name).is_some() {
            self.affect(name, Cause::Service, affected);
        } else {
            self.disturbed(name, affected);
        }
    }

    pub(super) fn sweep_endpoints(&mut self, epoch: Epoch, affected: &mut Vec<Affected>) {
        for object in self.endpoints.stale(epoch) {
            self.delete_endpoints(&object.key.name, object.revision, affected);
        }
        for object in self.endpoints.listed() {
            self.orphans.remove(&object.key.name);
            self.affect(&object.key.name, Cause::Service, affected);
        }
    }

    pub(super) fn finish_endpoints(
        &mut self,
        name: &Arc<str>,
        end: WriteEnd,
        epoch: Epoch,
        affected: &mut Vec<Affected>,
    ) {
        match self.endpoints.finish(name, end, epoch) {
            Finished::Nothing => {}
            Finished::Unclear => self.affect(name, Cause::Service, affected),
            Finished::Made => self.too_late(name, affected),
        }
    }

    pub(super) fn finish_endpoints_delete(&mut self, name: &str, uid: &Uid) {
        if self.endpoints.finish_delete(name, uid).is_some() {
            self.orphans.remove(name);
        }
    }
}
