//! Services in the index: filing, changes, deletion.

use std::sync::Arc;

use super::endpoints::Orphan;
use super::namespace::Namespace;
use super::pairs::PairId;
use super::{Affected, Cause, Epoch, is_old, is_older};
use crate::model::{Revision, Service};

#[derive(Debug)]
pub(super) struct ServiceEntry {
    pub service: Arc<Service>,
    /// The numbers of its selector's pairs; `None` = no selector.
    pub selector: Option<Box<[PairId]>>,
    /// Where it is filed; `None` with a selector = the empty selector, which every Pod matches.
    pub filed: Option<PairId>,
    pub epoch: Epoch,
}

impl Namespace {
    pub(super) fn apply_service(&mut self, mut service: Service, epoch: Epoch, affected: &mut Vec<Affected>) {
        let name = Arc::clone(&service.key.name);
        if let Some(entry) = self.services.get_mut(&name)
            && is_old(service.revision, entry.service.revision)
        {
            entry.epoch = epoch;
            return;
        }
        let unchanged = self.services.get(&name).is_some_and(|entry| {
            let revision = std::mem::replace(&mut service.revision, entry.service.revision);
            let unchanged = *entry.service == service;
            service.revision = revision;
            unchanged
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
}
