//! Label pairs of one namespace, each known by a small number.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::model::Labels;

/// A label pair of this namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct PairId(u32);

/// Where a Pod stands in its namespace's table.
pub(super) type PodSlot = u32;

type Pair = (Arc<str>, Arc<str>);

#[derive(Debug, Default)]
struct Entry {
    pair: Option<Pair>,
    /// Pods and selectors that mention it; at 0 the number is free.
    holders: u32,
    pods: HashSet<PodSlot, ahash::RandomState>,
    /// Services filed under it.
    services: Vec<Arc<str>>,
}

/// The table of label pairs: who carries one, and which Services are found through it.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    ids: HashMap<Pair, PairId, ahash::RandomState>,
    entries: Vec<Entry>,
    free: Vec<PairId>,
}

impl Pairs {
    /// The numbers of these labels in ascending order; each is held until [`release`](Self::release).
    pub(super) fn hold(&mut self, labels: Labels) -> Box<[PairId]> {
        let mut ids: Box<[PairId]> = labels.into_iter().map(|pair| self.hold_one(pair)).collect();
        ids.sort_unstable();
        ids
    }

    fn hold_one(&mut self, pair: Pair) -> PairId {
        let id = self.ids.get(&pair).copied().unwrap_or_else(|| self.name(pair));
        if let Some(entry) = self.entry_mut(id) {
            entry.holders += 1;
        }
        id
    }

    /// A number for a pair that has none.
    fn name(&mut self, pair: Pair) -> PairId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry::default());
            PairId(u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX))
        });
        self.ids.insert(pair.clone(), id);
        if let Some(entry) = self.entry_mut(id) {
            entry.pair = Some(pair);
        }
        id
    }

    /// Gives back what [`hold`](Self::hold) handed out.
    pub(super) fn release(&mut self, ids: &[PairId]) {
        for id in ids {
            let Some(entry) = self.entry_mut(*id) else { continue };
            entry.holders = entry.holders.saturating_sub(1);
            if entry.holders == 0 {
                let old = std::mem::take(entry);
                if let Some(pair) = old.pair {
                    self.ids.remove(&pair);
                    self.free.push(*id);
                }
            }
        }
    }

    pub(super) fn add_pod(&mut self, ids: &[PairId], pod: PodSlot) {
        for id in ids {
            if let Some(entry) = self.entry_mut(*id) {
                entry.pods.insert(pod);
            }
        }
    }

    pub(super) fn remove_pod(&mut self, ids: &[PairId], pod: PodSlot) {
        for id in ids {
            if let Some(entry) = self.entry_mut(*id) {
                entry.pods.remove(&pod);
            }
        }
    }

    /// Files a Service under that pair of its selector under which the fewest others are.
    pub(super) fn file(&mut self, selector: &[PairId], service: &Arc<str>) -> Option<PairId> {
        let id = selector
            .iter()
            .copied()
            .min_by_key(|id| self.entry(*id).map_or(0, |entry| entry.services.len()))?;
        self.entry_mut(id)?.services.push(Arc::clone(service));
        Some(id)
    }

    pub(super) fn unfile(&mut self, id: PairId, service: &str) {
        if let Some(entry) = self.entry_mut(id) {
            entry.services.retain(|filed| &**filed != service);
        }
    }

    /// Services that a Pod with these labels may match.
    pub(super) fn candidates<'a>(&'a self, ids: &'a [PairId]) -> impl Iterator<Item = &'a Arc<str>> {
        ids.iter()
            .filter_map(|id| self.entry(*id))
            .flat_map(|entry| &entry.services)
    }

    /// Pods that may match this selector: those of its rarest pair.
    pub(super) fn rarest(&self, selector: &[PairId]) -> impl Iterator<Item = PodSlot> {
        let rarest = selector
            .iter()
            .filter_map(|id| self.entry(*id))
            .min_by_key(|entry| entry.pods.len());
        rarest.into_iter().flat_map(|entry| entry.pods.iter().copied())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    fn entry(&self, id: PairId) -> Option<&Entry> {
        self.entries.get(id.0 as usize)
    }

    fn entry_mut(&mut self, id: PairId) -> Option<&mut Entry> {
        self.entries.get_mut(id.0 as usize)
    }
}

/// Does a Pod with these labels match? Both in ascending order.
pub(super) fn matches(selector: &[PairId], labels: &[PairId]) -> bool {
    selector.iter().all(|id| labels.binary_search(id).is_ok())
}
