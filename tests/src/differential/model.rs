//! The world as the operations alone make it. Nothing here comes from a server.

mod creation;
mod touched;

use std::collections::{BTreeMap, BTreeSet};

pub use self::touched::is_unseen;
pub use super::ops::LEADER;
use super::ops::{HandMade, Key, Node, Op, Pod, Service, SliceTamper, Status, Tamper};

/// The namespace of the crowd: many Pods in few Services. Its Pods take no part in anything else.
pub const CROWD_SPACE: usize = 6;
/// Namespaces in all.
pub const SPACES: usize = CROWD_SPACE + 1;
/// The key of every user's annotation of the stream.
pub const NOTE: &str = "differential/note";

/// A Pod that is stored.
#[derive(Clone, Debug)]
pub struct Stored {
    /// As created, but for the changes since.
    pub pod: Pod,
    /// Its status.
    pub status: Status,
    /// Deleted with a grace period, and still there: no kubelet ends it.
    pub terminating: bool,
}

impl Stored {
    /// Whether the reference would list it in a way that the apiserver refuses, so that the whole object freezes.
    pub fn freezes(&self) -> bool {
        self.is_listed() && (self.pod.node.is_none() || self.is_unfit())
    }

    /// The same of slices: that it has no Node is no obstacle there.
    pub fn freezes_slices(&self) -> bool {
        self.is_listed() && self.is_unfit()
    }

    /// Whether it has an address that neither Endpoints nor slices may hold.
    pub fn is_unfit(&self) -> bool {
        let unfit = |ip: &String| ip.starts_with("127.") || ip.starts_with("169.254.");
        self.status.ips.iter().any(unfit)
    }

    fn is_listed(&self) -> bool {
        !self.status.is_finished() && !self.status.ips.is_empty()
    }
}

/// What is stored.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// Services.
    pub services: BTreeMap<Key, Service>,
    /// Pods.
    pub pods: BTreeMap<Key, Stored>,
    /// Endpoints that no controller keeps: made by hand, or left behind. `None` for those left behind, and for those
    /// that were edited since.
    pub loose: BTreeMap<Key, Option<HandMade>>,
    /// Nodes.
    pub nodes: BTreeMap<String, Node>,
    /// Slices that somebody else writes, with their address.
    pub foreign: BTreeMap<(Key, u8), u8>,
    /// Services that no controller keeps and that slices of others were given to: which ones these were is a matter of how Pods are spread.
    pub strays: BTreeSet<Key>,
    /// Services that no controller kept when the reference alone was started again, until it has looked at them.
    pub new_to_reference: BTreeSet<Key>,
    /// Pods whose readiness went there and back when svcplane's watches expired, so that it may have seen none of it, and the time of the
    /// last transition: it counts as news when svcplane looks at their Services for another reason.
    pub missed_flips: BTreeMap<Key, u64>,
}

impl World {
    /// Does it. What is not there is left out, as the servers refuse it: parts of a stream are applied too.
    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::CreateService { key, service } => {
                if !self.services.contains_key(key) {
                    self.put_service(key, service);
                }
            }
            Op::ReplaceService { key, service } => {
                if self.services.contains_key(key) {
                    self.put_service(key, service);
                }
            }
            Op::DeleteService { key } => {
                if self.services.remove(key).is_some() {
                    self.loose.remove(key);
                    self.new_to_reference.remove(key);
                }
            }
            Op::CreatePod { key, pod, status } => self.create_pod(key, pod, status),
            Op::SetPodStatus { key, status } => {
                self.missed_flips.remove(key);
                if let Some(stored) = self.pods.get_mut(key) {
                    stored.status = status.clone();
                }
            }
            Op::LabelPod { key, labels } => {
                if let Some(stored) = self.pods.get_mut(key) {
                    stored.pod.labels.clone_from(labels);
                }
            }
            Op::BindPod { key, node } => {
                if let Some(stored) = self.pods.get_mut(key) {
                    stored.pod.node.get_or_insert_with(|| node.clone());
                }
            }
            Op::DeletePod { key, grace } => {
                let Some(stored) = self.pods.get_mut(key) else { return };
                if *grace > 0 && stored.pod.node.is_some() && !stored.status.is_finished() {
                    stored.terminating = true;
                } else {
                    self.missed_flips.remove(key);
                    self.pods.remove(key);
                }
            }
            Op::CreateEndpoints { key, content } => {
                let kept = self.services.get(key).is_some_and(Service::is_live);
                if !kept {
                    self.loose.entry(key.clone()).or_insert_with(|| Some(content.clone()));
                }
            }
            Op::ReplaceEndpoints { key, content } => {
                if let Some(loose) = self.loose.get_mut(key) {
                    *loose = Some(content.clone());
                }
            }
            Op::DeleteEndpoints { key } => {
                self.loose.remove(key);
            }
            Op::PutNode { name, node } => {
                self.nodes.insert(name.clone(), node.clone());
            }
            Op::DeleteNode { name } => {
                self.nodes.remove(name);
            }
            Op::CreateCrowd { pods } => {
                for (key, pod, status) in pods {
                    self.create_pod(key, pod, status);
                }
            }
            Op::DeleteCrowd { keys } => self.pods.retain(|key, _| !keys.contains(key)),
            Op::TamperEndpoints { key, how } => self.tamper(key, how),
            Op::PutForeignSlice { key, number, address } => {
                self.foreign.insert((key.clone(), *number), *address);
            }
            Op::DeleteForeignSlice { key, number } => {
                self.foreign.remove(&(key.clone(), *number));
            }
            Op::Start => {
                self.new_to_reference.clear();
                self.missed_flips.clear();
                self.sweep_loose();
            }
            Op::RestartReference => {
                let idle = self.services.iter().filter(|(_, service)| !service.is_live());
                self.new_to_reference = idle.map(|(key, _)| key.clone()).collect();
                self.sweep_loose();
            }
            Op::TamperSlices {
                key,
                how: SliceTamper::OtherService(name),
                ..
            } => {
                let other = Key::new(key.space, name);
                if !self.services.get(&other).is_some_and(Service::is_live) {
                    self.strays.insert(other);
                }
            }
            Op::TamperSlices { .. } | Op::Fault { .. } | Op::Stop { .. } | Op::ReleaseSlices => {}
        }
    }

    /// A window is over: what is kept was looked at.
    pub fn settle(&mut self) {
        let services = &self.services;
        self.new_to_reference
            .retain(|key| !services.get(key).is_some_and(Service::is_live));
    }

    fn create_pod(&mut self, key: &Key, pod: &Pod, status: &Status) {
        self.pods.entry(key.clone()).or_insert_with(|| Stored {
            pod: pod.clone(),
            status: status.clone(),
            terminating: false,
        });
    }

    fn put_service(&mut self, key: &Key, service: &Service) {
        let was_live = self.services.get(key).is_some_and(Service::is_live);
        if service.is_live() {
            self.strays.remove(key);
            self.loose.remove(key);
        } else if was_live {
            self.loose.insert(key.clone(), None);
        }
        self.services.insert(key.clone(), service.clone());
    }

    /// What people made by hand says something else then.
    fn tamper(&mut self, key: &Key, how: &Tamper) {
        let says_the_same = matches!(
            how,
            Tamper::ExtraLabel | Tamper::NoManagedBy | Tamper::Annotation | Tamper::OverCapacity
        );
        if let Some(loose) = self.loose.get_mut(key).filter(|_| !says_the_same) {
            *loose = None;
        }
    }

    /// At its start the reference deletes Endpoints without a Service.
    fn sweep_loose(&mut self) {
        let services = &self.services;
        self.loose.retain(|key, content| {
            let locks = content
                .as_ref()
                .is_some_and(|content| content.annotations.contains_key(LEADER));
            locks || services.contains_key(key)
        });
    }
}

#[cfg(test)]
mod tests;
