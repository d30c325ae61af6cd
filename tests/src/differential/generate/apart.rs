//! Keeps the operations of an isolated round apart.

use std::collections::BTreeSet;

use super::super::model::{CROWD_SPACE, World};
use super::super::ops::{Key, Op};

/// What a round touches so far. Its operations are under way side by side, so a Pod touches the Services that match as
/// they were before the round and as they become in it, whichever comes first.
pub struct Apart {
    before: World,
    /// The same with the round's changes of Services.
    services: World,
    touched: BTreeSet<Key>,
    objects: BTreeSet<(&'static str, String)>,
    /// Nodes of Pods that change, and Nodes that change: what becomes of a Pod must not depend on which comes first.
    nodes: [BTreeSet<String>; 2],
}

impl Apart {
    /// Nothing yet.
    pub fn new(world: &World) -> Self {
        let mut before = world.clone();
        // They take no part in rounds.
        before.pods.retain(|key, _| key.space != CROWD_SPACE);
        Self {
            services: before.clone(),
            before,
            touched: BTreeSet::new(),
            objects: BTreeSet::new(),
            nodes: Default::default(),
        }
    }

    /// Takes the operation in if it touches nothing that the earlier ones do.
    pub fn admits(&mut self, op: &Op, earlier: &[Op]) -> bool {
        if op.object().is_some_and(|object| self.objects.contains(&object)) {
            return false;
        }
        let mut concerns = self.before.concerned(op);
        concerns.extend(self.services.concerned(op));
        let changes_node = matches!(op, Op::PutNode { .. } | Op::DeleteNode { .. });
        let [of_pods, changed] = &self.nodes;
        let against = if changes_node { of_pods } else { changed };
        let node = self.node_of(op);
        if !concerns.is_disjoint(&self.touched) || node.as_ref().is_some_and(|node| against.contains(node)) {
            return false;
        }
        if let Op::CreateService { key, .. } | Op::ReplaceService { key, .. } | Op::DeleteService { key } = op {
            let was = self.services.services.get(key).cloned();
            self.services.apply(op);
            if earlier
                .iter()
                .any(|earlier| self.services.concerned(earlier).contains(key))
            {
                match was {
                    Some(was) => self.services.services.insert(key.clone(), was),
                    None => self.services.services.remove(key),
                };
                return false;
            }
        }
        self.touched.extend(concerns);
        self.objects.extend(op.object());
        self.nodes[usize::from(changes_node)].extend(node);
        true
    }

    /// The Node that it changes, or on which the Pod is that it changes.
    fn node_of(&self, op: &Op) -> Option<String> {
        let of_pod = |key: &Key| self.before.pods.get(key)?.pod.node.clone();
        match op {
            Op::PutNode { name, .. } | Op::DeleteNode { name } => Some(name.clone()),
            Op::CreatePod { pod, .. } => pod.node.clone(),
            Op::BindPod { node, .. } => Some(node.clone()),
            Op::SetPodStatus { key, .. } | Op::LabelPod { key, .. } | Op::DeletePod { key, .. } => of_pod(key),
            _ => None,
        }
    }
}
