//! Nodes in the index: where Pods run, and how many CPUs each zone has.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Epoch, is_old, is_older};
use crate::endpointslice::Zones;
use crate::model::{Node, NodeTable, Revision};

/// Nodes as slices see them. Snapshots share the table; it is copied only if it changes while one is held.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    table: Arc<NodeTable>,
    zones: Option<Arc<Zones>>,
    seen: HashMap<Arc<str>, (Revision, Epoch), ahash::RandomState>,
    changed: Changed,
    /// A list is under way: what it changes is looked at when it is complete.
    listing: bool,
}

/// What has changed and is not looked at yet.
#[derive(Debug, Default)]
pub(super) struct Changed {
    /// Nodes that came, went or are in another zone: their Pods are listed otherwise.
    pub names: HashSet<Arc<str>, ahash::RandomState>,
    /// The shares of the zones: every Service with topology mode `Auto` may have other hints.
    pub zones: bool,
}

impl Nodes {
    pub(super) fn table(&self) -> &Arc<NodeTable> {
        &self.table
    }

    pub(super) fn zones(&self) -> Option<&Arc<Zones>> {
        self.zones.as_ref()
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn begin(&mut self) {
        self.listing = true;
    }

    pub(super) fn apply(&mut self, node: Node, epoch: Epoch) {
        if let Some((revision, seen)) = self.seen.get_mut(&node.name)
            && is_old(node.revision, *revision)
        {
            *seen = epoch;
            return;
        }
        self.seen.insert(Arc::clone(&node.name), (node.revision, epoch));
        let known = self.table.get(&node.name);
        // A Node's heartbeat changes nothing that matters.
        if known.is_some_and(|known| known.is_like(&node)) {
            return;
        }
        if known.is_none_or(|known| known.zone != node.zone) {
            self.changed.names.insert(Arc::clone(&node.name));
        }
        self.changed.zones = true;
        Arc::make_mut(&mut self.table).insert(Arc::clone(&node.name), node);
    }

    pub(super) fn delete(&mut self, name: &Arc<str>, revision: Revision) {
        let seen = self.seen.get(name);
        if seen.is_none_or(|(seen, _)| is_older(revision, *seen)) {
            return;
        }
        self.seen.remove(name);
        Arc::make_mut(&mut self.table).remove(name);
        self.changed.names.insert(Arc::clone(name));
        self.changed.zones = true;
    }

    pub(super) fn sweep(&mut self, epoch: Epoch) {
        let stale = self.seen.iter().filter(|(_, (_, seen))| *seen != epoch);
        let stale: Vec<_> = stale
            .map(|(name, (revision, _))| (Arc::clone(name), *revision))
            .collect();
        for (name, revision) in stale {
            self.delete(&name, revision);
        }
        self.listing = false;
    }

    /// What has changed since the last call, unless a list is under way.
    pub(super) fn take_changed(&mut self) -> Option<Changed> {
        if self.listing || (self.changed.names.is_empty() && !self.changed.zones) {
            return None;
        }
        let mut changed = std::mem::take(&mut self.changed);
        if changed.zones {
            let zones = Zones::of(&self.table);
            changed.zones = zones.as_ref() != self.zones.as_deref();
            self.zones = zones.map(Arc::new);
        }
        Some(changed)
    }
}
