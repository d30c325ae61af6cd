//! What a window does to Endpoints and slices, by its operations and the model alone. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::exempt::Cause;
use super::model::{Stored, World, is_unseen};
use super::ops::{Key, Op, Tamper, Window};

/// What a window did, by the operations alone.
#[derive(Debug, Default)]
pub struct Effects {
    /// Positions of the operations that may change the Endpoints or slices of each Service.
    pub ops_on: BTreeMap<Key, Vec<usize>>,
    /// Those of which the reference does not see the reason to look.
    pub unseen: BTreeMap<Key, Cause>,
    /// Those whose Service was deleted.
    pub orphaned: BTreeSet<Key>,
    /// Endpoints that somebody else than a controller wrote.
    pub edited: BTreeSet<Key>,
    /// Of these, those that contradict themselves then, or are reordered.
    pub rearranged: BTreeSet<Key>,
    /// Those whose Endpoints got nothing but changes of readiness, of a Pod that they list not there and back: that may be seen as none.
    pub flipped: BTreeSet<Key>,
    /// Those whose Endpoints were frozen at some moment of it.
    pub frozen: BTreeSet<Key>,
    /// Those that got nothing but the deletion of what froze them.
    pub thawed: BTreeSet<Key>,
    /// What it did to slices alone.
    pub slices: SliceEffects,
}

/// The same for slices, by their Service.
#[derive(Debug, Default)]
pub struct SliceEffects {
    /// Those whose slices somebody else than a controller wrote.
    pub edited: BTreeSet<Key>,
    /// Those whose Pods or hints depend on a Node that changed: the reference does not look at them.
    pub nodes: BTreeSet<Key>,
    /// Those that were frozen at some moment of it.
    pub frozen: BTreeSet<Key>,
    /// Those whose Endpoints, made by hand, held both families before or after a change, or may have.
    pub mixed: BTreeSet<Key>,
}

impl Effects {
    /// Applies the window to the world and notes what it does on the way.
    pub fn of(world: &mut World, window: &Window) -> Self {
        world.settle();
        let mut effects = Self::default();
        let (mut unlike_a_flip, mut unlike_a_thaw) = (BTreeSet::new(), BTreeSet::new());
        let mut flips: BTreeMap<Key, Option<bool>> = BTreeMap::new();
        effects.note_frozen(world, None);
        effects.thawed.clone_from(&effects.frozen);
        for (position, op) in window.ops.iter().enumerate() {
            let touched = world.touched(op);
            let concerned = world.concerned(op);
            for key in &concerned {
                effects.ops_on.entry(key.clone()).or_default().push(position);
            }
            effects.note_slices(world, op, &concerned);
            let unseen = is_unseen(world, op);
            let flip = flipped_pod(world, op);
            let thaw = matches!(op, Op::DeletePod { key, .. } if world.pods.get(key).is_some_and(Stored::freezes));
            for key in &touched {
                if unseen {
                    let tampered = matches!(op, Op::TamperEndpoints { .. });
                    let cause = if tampered {
                        Cause::Tampered
                    } else {
                        Cause::UnseenPodChange
                    };
                    effects.unseen.insert(key.clone(), cause);
                }
                if flip.is_none() {
                    unlike_a_flip.insert(key.clone());
                }
                if !thaw {
                    unlike_a_thaw.insert(key.clone());
                }
            }
            if let Op::DeleteService { key } = op {
                effects.orphaned.insert(key.clone());
            }
            if matches!(op.object(), Some(("endpoints", _))) {
                effects.edited.extend(touched.iter().cloned());
            }
            if let Op::TamperEndpoints {
                key,
                how: Tamper::Contradiction | Tamper::Reorder,
            } = op
            {
                effects.rearranged.insert(key.clone());
            }
            world.apply(op);
            effects.note_frozen(world, Some(&touched));
            if let Op::CreateEndpoints { key, .. } | Op::ReplaceEndpoints { key, .. } | Op::TamperEndpoints { key, .. } =
                op
                && holds_both(world, key)
            {
                effects.slices.mixed.insert(key.clone());
            }
            if let Some((pod, ready)) = flip {
                flips.entry(pod.clone()).or_insert(ready);
            }
        }
        let flipped = flips.iter().filter_map(|(pod, ready)| {
            let stored = world.pods.get(pod).filter(|stored| stored.status.ready != *ready)?;
            let mut services = world.matching(pod.space, &stored.pod.labels);
            services.retain(|key| {
                world
                    .services
                    .get(key)
                    .is_some_and(|service| service.lists(&stored.pod, &stored.status))
            });
            Some(services)
        });
        effects.flipped = flipped.flatten().filter(|key| !unlike_a_flip.contains(key)).collect();
        if window.expires_watches() {
            let back = flips.iter().filter_map(|(pod, ready)| {
                let status = &world.pods.get(pod)?.status;
                (status.ready == *ready).then_some((pod.clone(), status.since))
            });
            world.missed_flips.extend(back.collect::<Vec<_>>());
        }
        // A Pod that came after its Node had changed may have been seen before that.
        for op in &window.ops {
            if let Op::PutNode { name, .. } | Op::DeleteNode { name } = op {
                effects.slices.nodes.extend(world.on_node(name));
            }
        }
        effects
            .thawed
            .retain(|key| !unlike_a_thaw.contains(key) && !world.is_frozen(key));
        effects
    }

    fn note_slices(&mut self, world: &World, op: &Op, concerned: &BTreeSet<Key>) {
        let slices = &mut self.slices;
        match op {
            Op::TamperSlices { .. } => slices.edited.extend(concerned.iter().cloned()),
            Op::PutNode { .. } | Op::DeleteNode { .. } => slices.nodes.extend(concerned.iter().cloned()),
            _ => {}
        }
        slices
            .mixed
            .extend(concerned.iter().filter(|key| holds_both(world, key)).cloned());
    }

    fn note_frozen(&mut self, world: &World, among: Option<&BTreeSet<Key>>) {
        let any = || world.pods.values().any(Stored::freezes);
        let keys: Vec<&Key> = match among {
            Some(keys) => keys.iter().collect(),
            None if any() => world.services.keys().collect(),
            None => Vec::new(),
        };
        for key in keys {
            if world.is_frozen(key) {
                self.frozen.insert(key.clone());
            }
            if world.is_frozen_in_slices(key) {
                self.slices.frozen.insert(key.clone());
            }
        }
    }
}

/// Whether Endpoints that no controller keeps may hold addresses of both families: what was left behind or edited is not known.
fn holds_both(world: &World, key: &Key) -> bool {
    let loose = world.loose.get(key);
    loose.is_some_and(|content| {
        content
            .as_ref()
            .is_none_or(|content| content.families() == [true, true])
    })
}

/// The Pod of a change of readiness and of nothing else, and how it was before.
fn flipped_pod<'a>(world: &World, op: &'a Op) -> Option<(&'a Key, Option<bool>)> {
    let Op::SetPodStatus { key, status } = op else {
        return None;
    };
    let before = &world.pods.get(key)?.status;
    let flips = (&before.phase, &before.ips) == (&status.phase, &status.ips) && before.ready != status.ready;
    flips.then_some((key, before.ready))
}
