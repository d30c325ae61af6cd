//! Pods of one namespace.

use std::collections::HashMap;
use std::sync::Arc;

use super::Epoch;
use super::pairs::{PairId, PodSlot};
use crate::model::{Pod, PodName};

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
