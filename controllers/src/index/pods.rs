//! Pods in the index: changes, and the Services that see them.

use std::collections::HashMap;
use std::sync::Arc;

use super::changes::PodEvent;
use super::namespace::Namespace;
use super::pairs::{PairId, PodSlot, matches};
use super::{Affected, Epoch, is_old, is_older};
use crate::model::{LabelledPod, Pod, PodName, Revision};

#[derive(Debug)]
pub(super) struct PodEntry {
    pub pod: Arc<Pod>,
    pub labels: Box<[PairId]>,
    pub epoch: Epoch,
}

/// Pods by name and by slot. A slot is stable for the life of the Pod.
#[derive(Debug, Default)]
pub(super) struct Pods {
    slots: Vec<Option<PodEntry>>,
    free: Vec<PodSlot>,
    by_name: HashMap<PodName, PodSlot, ahash::RandomState>,
}

impl Pods {
    pub(super) fn slot(&self, name: &str) -> Option<PodSlot> {
        self.by_name.get(name).copied()
    }

    pub(super) fn get(&self, slot: PodSlot) -> Option<&PodEntry> {
        self.slots.get(slot as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: PodSlot) -> Option<&mut PodEntry> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    pub(super) fn insert(&mut self, entry: PodEntry) -> PodSlot {
        let name = Arc::clone(&entry.pod.name);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            PodSlot::try_from(self.slots.len() - 1).unwrap_or(PodSlot::MAX)
        });
        if let Some(place) = self.slots.get_mut(slot as usize) {
            *place = Some(entry);
        }
        self.by_name.insert(name, slot);
        slot
    }

    pub(super) fn remove(&mut self, slot: PodSlot) -> Option<PodEntry> {
        let entry = self.slots.get_mut(slot as usize)?.take()?;
        self.by_name.remove(&entry.pod.name);
        self.free.push(slot);
        Some(entry)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (PodSlot, &PodEntry)> {
        self.by_name.values().filter_map(|slot| Some((*slot, self.get(*slot)?)))
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }
}

impl Namespace {
    pub(super) fn apply_pod(&mut self, (mut pod, labels): LabelledPod, epoch: Epoch, affected: &mut Vec<Affected>) {
        let known = self.pods.slot(&pod.name);
        if let Some(entry) = known.and_then(|slot| self.pods.get_mut(slot))
            && is_old(pod.revision, entry.pod.revision)
        {
            entry.epoch = epoch;
            return;
        }
        let labels = self.pairs.hold(labels);
        let Some((slot, entry)) = known.and_then(|slot| Some((slot, self.pods.get_mut(slot)?))) else {
            let pod = Arc::new(pod);
            self.affect_all_by(&labels, &pod, PodEvent::Changed, affected);
            let slot = self.pods.insert(PodEntry {
                pod,
                labels: labels.clone(),
                epoch,
            });
            self.pairs.add_pod(&labels, slot);
            return;
        };
        let changed = matters(&entry.pod, &mut pod);
        let what = if changed && is_flip(&entry.pod, &mut pod) {
            PodEvent::Flipped
        } else {
            PodEvent::Changed
        };
        let pod = Arc::new(pod);
        entry.pod = Arc::clone(&pod);
        entry.epoch = epoch;
        if entry.labels == labels {
            self.pairs.release(&labels);
            if changed {
                self.affect_all_by(&labels, &pod, what, affected);
            }
            return;
        }
        let old = std::mem::replace(&mut entry.labels, labels.clone());
        self.pairs.remove_pod(&old, slot);
        self.pairs.add_pod(&labels, slot);
        let (gone, come) = (self.matching(&old), self.matching(&labels));
        // A Service that matches before and after sees no difference but that of the Pod.
        for name in gone.iter().filter(|name| !come.contains(name)) {
            self.affect_by_pod(name, &pod, PodEvent::Gone, affected);
        }
        for name in come.iter().filter(|name| changed || !gone.contains(name)) {
            self.affect_by_pod(name, &pod, PodEvent::Changed, affected);
        }
        self.pairs.release(&old);
    }

    pub(super) fn delete_pod(&mut self, name: &str, revision: Revision, affected: &mut Vec<Affected>) {
        let Some(slot) = self.pods.slot(name) else { return };
        if self
            .pods
            .get(slot)
            .is_none_or(|entry| is_older(revision, entry.pod.revision))
        {
            return;
        }
        if let Some(entry) = self.pods.remove(slot) {
            self.affect_all_by(&entry.labels, &entry.pod, PodEvent::Gone, affected);
            self.pairs.remove_pod(&entry.labels, slot);
            self.pairs.release(&entry.labels);
        }
    }

    pub(super) fn sweep_pods(&mut self, epoch: Epoch, affected: &mut Vec<Affected>) {
        let stale = self.pods.iter().filter(|(_, entry)| entry.epoch != epoch);
        let stale: Vec<_> = stale
            .map(|(_, entry)| (Arc::clone(&entry.pod.name), entry.pod.revision))
            .collect();
        for (name, revision) in stale {
            self.delete_pod(&name, revision, affected);
        }
    }

    /// Names of the Services that a Pod with these labels belongs to.
    pub(super) fn matching(&self, labels: &[PairId]) -> Vec<Arc<str>> {
        let candidates = self.pairs.candidates(labels).filter(|name| {
            let selector = self.services.get(*name).and_then(|entry| entry.selector.as_deref());
            selector.is_some_and(|selector| matches(selector, labels))
        });
        candidates.chain(&self.match_all).cloned().collect()
    }

    fn affect_all_by(&mut self, labels: &[PairId], pod: &Arc<Pod>, what: PodEvent, affected: &mut Vec<Affected>) {
        for name in self.matching(labels) {
            self.affect_by_pod(&name, pod, what, affected);
        }
    }
}

/// Whether a change of a Pod can change endpoints. The time of a Ready transition without a transition does not.
fn matters(old: &Pod, new: &mut Pod) -> bool {
    // Set alike what does not matter and compare the rest: a field that is added later counts without being named here, and nothing is
    // copied for an event that changes nothing.
    let (revision, transition) = (new.revision, new.ready_transition);
    (new.revision, new.ready_transition) = (old.revision, old.ready_transition);
    let matters = old != new;
    (new.revision, new.ready_transition) = (revision, transition);
    matters
}

/// Whether of all that [`matters`] only the readiness differs.
fn is_flip(old: &Pod, new: &mut Pod) -> bool {
    let ready = std::mem::replace(&mut new.ready, old.ready);
    let others = matters(old, new);
    new.ready = ready;
    !others
}
