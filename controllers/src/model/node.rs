//! The part of a Node that slices depend on.

use std::collections::HashMap;
use std::sync::Arc;

use super::Revision;

/// A Node as the slice controller sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.resourceVersion`.
    pub revision: Revision,
    /// Label `topology.kubernetes.io/zone`, never empty.
    pub zone: Option<Arc<str>>,
    /// What it counts for in topology mode `Auto`: allocatable CPUs in thousandths. `None` = not at all, because it is not Ready or a
    /// control-plane Node.
    pub cpu: Option<u64>,
}

impl Node {
    /// Nothing that matters differs.
    pub fn is_like(&self, other: &Self) -> bool {
        self.zone == other.zone && self.cpu == other.cpu
    }
}

/// Nodes by name.
pub type NodeTable = HashMap<Arc<str>, Node, ahash::RandomState>;
