//! EndpointSlices in the index, by the Service that they name.

use std::sync::Arc;

use super::namespace::Namespace;
use super::overlay::{DeleteEnd, Finished, Seen, Stored, WriteEnd};
use super::{Affected, Cause, Epoch};
use crate::controller::Controller;
use crate::model::{Revision, Slice, Uid};

impl Stored for Slice {
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
        self.terminating == other.terminating && self.content == other.content
    }
}

impl Namespace {
    /// The slices that name this Service, in no particular order.
    pub(super) fn slices_of(&self, service: &str) -> Vec<Arc<Slice>> {
        let names = self.slice_names.get(service).into_iter().flatten();
        names.filter_map(|name| self.slices.get(name).cloned()).collect()
    }

    pub(super) fn apply_slice(&mut self, slice: Slice, epoch: Epoch, affected: &mut Vec<Affected>) {
        let name = Arc::clone(&slice.key.name);
        let before = self.service_of(&name);
        let seen = self.slices.apply(slice, epoch);
        let Some(slice) = self.slices.get(&name) else { return };
        let (after, whose) = (Arc::clone(&slice.content.service), slice.content.manager.into());
        self.file_slice(&name, before.as_ref(), &after);
        let foreign = match seen {
            Seen::Nothing => return,
            Seen::Disturbed
            | Seen::Appeared {
                expected: false,
                replaces: true,
            } => true,
            Seen::Appeared { expected: true, .. } if self.services.contains_key(&after) => return,
            // It may have come too late: its Service went while the create was under way.
            Seen::Found | Seen::Appeared { .. } => false,
        };
        let before = before.filter(|before| *before != after);
        for service in before.iter().chain([&after]) {
            let cause = if foreign {
                self.disturbed_slice(service, whose)
            } else {
                Cause::Service
            };
            self.affect(service, cause, affected);
        }
    }

    /// Somebody else has changed or deleted a slice of this Service. Where we keep none, they are his to change, as often as he likes.
    fn disturbed_slice(&self, service: &str, whose: Controller) -> Cause {
        match self.services.get(service) {
            Some(entry) if whose == Controller::Mirroring || entry.service.is_followed() => Cause::Foreign(whose),
            _ => Cause::Service,
        }
    }

    fn service_of(&self, slice: &str) -> Option<Arc<str>> {
        self.slices.get(slice).map(|slice| Arc::clone(&slice.content.service))
    }

    fn file_slice(&mut self, name: &Arc<str>, before: Option<&Arc<str>>, after: &Arc<str>) {
        if before == Some(after) {
            return;
        }
        if let Some(before) = before {
            self.unfile_slice(name, before);
        }
        let names = self.slice_names.entry(Arc::clone(after)).or_default();
        names.push(Arc::clone(name));
    }

    fn unfile_slice(&mut self, name: &Arc<str>, service: &Arc<str>) {
        if let Some(names) = self.slice_names.get_mut(service) {
            names.retain(|filed| filed != name);
            if names.is_empty() {
                self.slice_names.remove(service);
            }
        }
    }

    pub(super) fn delete_slice(&mut self, name: &Arc<str>, revision: Revision, affected: &mut Vec<Affected>) {
        let Some(slice) = self.slices.delete(name, revision) else {
            return;
        };
        self.unfile_slice(name, &slice.content.service);
        // One that was to go has not been disturbed, and nobody disturbs a Service that is gone: its slices go with it.
        let cause = if self.going.remove(name) {
            Cause::Service
        } else {
            self.disturbed_slice(&slice.content.service, slice.content.manager.into())
        };
        self.affect(&slice.content.service, cause, affected);
    }

    pub(super) fn sweep_slices(&mut self, epoch: Epoch, affected: &mut Vec<Affected>) {
        for slice in self.slices.stale(epoch) {
            self.delete_slice(&slice.key.name, slice.revision, affected);
        }
        for slice in self.slices.listed() {
            self.unfile_slice(&slice.key.name, &slice.content.service);
            self.affect(&slice.content.service, Cause::Service, affected);
        }
    }

    pub(super) fn finish_slice(&mut self, slice: &Slice, end: WriteEnd, epoch: Epoch, affected: &mut Vec<Affected>) {
        let (name, service) = (&slice.key.name, &slice.content.service);
        let before = self.service_of(name);
        let finished = self.slices.finish(name, end, epoch);
        if let Some(after) = self.service_of(name) {
            self.file_slice(name, before.as_ref(), &after);
        }
        let due = match finished {
            Finished::Nothing => false,
            Finished::Unclear => true,
            Finished::Made => !self.services.contains_key(service),
        };
        if due {
            self.affect(service, Cause::Service, affected);
        }
    }

    /// We are about to delete it.
    pub(super) fn expect_slice_delete(&mut self, name: &Arc<str>) {
        self.going.insert(Arc::clone(name));
    }

    /// The deletion of the object of this uid is over.
    pub(super) fn finish_slice_delete(&mut self, name: &Arc<str>, uid: &Uid, end: DeleteEnd) {
        match end {
            DeleteEnd::Going => {}
            DeleteEnd::Refused => {
                self.going.remove(name);
            }
            DeleteEnd::Gone => {
                if let Some(slice) = self.slices.finish_delete(name, uid) {
                    self.unfile_slice(name, &slice.content.service);
                    self.going.remove(name);
                }
            }
        }
    }
}
