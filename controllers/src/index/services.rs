//! Services in the index: filing, changes, deletion.

use std::sync::Arc;

use super::changes::PodChanges;
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
    /// Since the last sync.
    pub changes: PodChanges,
}

impl Namespace {
    pub(super) fn apply_service(&mut self, service: Service, epoch: Epoch, affected: &mut Vec<Affected>) {
        let name = Arc::clone(&service.key.name);
        if let Some(entry) = self.services.get_mut(&name)
            && is_old(service.revision, entry.service.revision)
        {
            entry.epoch = epoch;
            return;
        }
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
            changes: PodChanges::Any,
        };
        self.services.insert(Arc::clone(&name), entry);
        self.orphans.remove(&name);
        // Even if nothing that we read has changed: whoever touches a Service has its Endpoints looked at, as upstream.
        self.affect(&name, Cause::Service, affected);
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
        if self.endpoints.get(name).is_some() {
            self.orphans.insert(Arc::clone(name), why);
        }
        self.affect(name, Cause::Service, affected);
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
