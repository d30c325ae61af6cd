//! Which Services an operation is about.

use std::collections::BTreeSet;

use super::super::ops::{Key, Labels, Op, Service, SliceTamper, Tamper};
use super::super::render::time;
use super::{Stored, World};

impl World {
    /// The Services with a selector that matches these labels.
    pub fn matching(&self, space: usize, labels: &Labels) -> BTreeSet<Key> {
        let range = Key::new(space, "")..Key::new(space + 1, "");
        let services = self.services.range(range).filter(|(_, service)| {
            let selector = service.selector.as_ref();
            selector.is_some_and(|selector| selector.iter().all(|(key, value)| labels.get(key) == Some(value)))
        });
        services.map(|(key, _)| key.clone()).collect()
    }

    /// The Pods that the selector of this Service matches.
    pub fn pods_of(&self, key: &Key) -> Vec<(&Key, &Stored)> {
        let Some(selector) = self.services.get(key).and_then(|service| service.selector.as_ref()) else {
            return Vec::new();
        };
        let range = Key::new(key.space, "")..Key::new(key.space + 1, "");
        let selected = |stored: &Stored| {
            selector
                .iter()
                .all(|(label, value)| stored.pod.labels.get(label) == Some(value))
        };
        self.pods.range(range).filter(|(_, stored)| selected(stored)).collect()
    }

    /// Trigger times that svcplane may have left over for this Service.
    pub fn times_missed(&self, key: &Key) -> BTreeSet<String> {
        let pods = self.pods_of(key).into_iter();
        let missed = pods.filter_map(|(pod, _)| self.missed_flips.get(pod));
        missed.map(|since| time(*since)).collect()
    }

    /// Whether the reference cannot write the Endpoints of this name.
    pub fn is_frozen(&self, key: &Key) -> bool {
        self.services.get(key).is_some_and(Service::is_live)
            && self.pods_of(key).iter().any(|(_, stored)| stored.freezes())
    }

    /// The Endpoints that an operation may change, by name, in the world before it.
    pub fn touched(&self, op: &Op) -> BTreeSet<Key> {
        let of_pod = |key: &Key| {
            let labels = self.pods.get(key).map(|stored| &stored.pod.labels);
            labels.map_or_else(BTreeSet::new, |labels| self.matching(key.space, labels))
        };
        match op {
            Op::CreateService { key, .. }
            | Op::ReplaceService { key, .. }
            | Op::DeleteService { key }
            | Op::CreateEndpoints { key, .. }
            | Op::ReplaceEndpoints { key, .. }
            | Op::DeleteEndpoints { key }
            | Op::TamperEndpoints { key, .. } => [key.clone()].into(),
            Op::CreatePod { key, pod, .. } => self.matching(key.space, &pod.labels),
            Op::SetPodStatus { key, .. } | Op::BindPod { key, .. } | Op::DeletePod { key, .. } => of_pod(key),
            Op::LabelPod { key, labels } => {
                let mut touched = of_pod(key);
                touched.extend(self.matching(key.space, labels));
                touched
            }
            Op::CreateCrowd { pods } => pods
                .iter()
                .flat_map(|(key, pod, _)| self.matching(key.space, &pod.labels))
                .collect(),
            Op::DeleteCrowd { keys } => keys.iter().flat_map(of_pod).collect(),
            Op::TamperSlices { .. }
            | Op::PutForeignSlice { .. }
            | Op::DeleteForeignSlice { .. }
            | Op::PutNode { .. }
            | Op::DeleteNode { .. }
            | Op::Fault { .. }
            | Op::Stop { .. }
            | Op::Start
            | Op::RestartReference
            | Op::ReleaseSlices => BTreeSet::new(),
        }
    }

    /// The Services whose Endpoints or slices an operation may change, in the world before it.
    pub fn concerned(&self, op: &Op) -> BTreeSet<Key> {
        match op {
            Op::TamperSlices { key, how, .. } => {
                let other = match how {
                    SliceTamper::OtherService(name) => Some(Key::new(key.space, name)),
                    _ => None,
                };
                [key.clone()].into_iter().chain(other).collect()
            }
            Op::PutForeignSlice { key, .. } | Op::DeleteForeignSlice { key, .. } => [key.clone()].into(),
            Op::PutNode { name, node } if self.nodes.get(name) != Some(node) => self.on_node(name),
            Op::DeleteNode { name } => self.on_node(name),
            op => self.touched(op),
        }
    }

    /// The Services with Pods on this Node, and those whose hints go by the CPUs of all Nodes.
    pub fn on_node(&self, name: &str) -> BTreeSet<Key> {
        let here = self
            .pods
            .iter()
            .filter(|(_, stored)| stored.pod.node.as_deref() == Some(name));
        let mut services: BTreeSet<Key> = here
            .flat_map(|(key, stored)| self.matching(key.space, &stored.pod.labels))
            .collect();
        let auto = self.services.iter().filter(|(_, service)| service.is_auto());
        services.extend(auto.map(|(key, _)| key.clone()));
        services
    }

    /// Whether the reference cannot write the slices of this Service.
    pub fn is_frozen_in_slices(&self, key: &Key) -> bool {
        self.services.get(key).is_some_and(Service::is_live)
            && self.pods_of(key).iter().any(|(_, stored)| stored.freezes_slices())
    }

    /// Whether slices of this Service may list this Pod.
    pub fn may_be_in_slices(&self, service: &Service, stored: &Stored) -> bool {
        let node = stored.pod.node.as_ref();
        let known = node.is_some_and(|node| self.nodes.contains_key(node));
        !stored.is_unfit() && !stored.status.is_finished() && (known || service.publish_not_ready)
    }
}

/// Whether the reference does not see that an operation is a reason to look at a Service, so that a touch has to tell
/// it; in the world before the operation.
pub fn is_unseen(world: &World, op: &Op) -> bool {
    match op {
        Op::TamperEndpoints { how, .. } => !matches!(how, Tamper::Annotation),
        Op::BindPod { .. } => true,
        Op::SetPodStatus { key, status } => world.pods.get(key).is_some_and(|stored| {
            let before = &stored.status;
            before.is_finished() != status.is_finished() && before.ready == status.ready && before.ips == status.ips
        }),
        _ => false,
    }
}
