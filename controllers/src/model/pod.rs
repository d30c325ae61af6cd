//! The part of a Pod that endpoints depend on.

use std::net::IpAddr;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{Labels, Protocol, Revision, Timestamp, Uid};

/// `metadata.name` of a Pod; unique within its namespace.
pub type PodName = Arc<str>;

/// A Pod as endpoints see it. About half a kilobyte, where the parsed API object takes 38 kB.
///
/// The labels are taken out by the index, which files Pods under interned label pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: PodName,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub revision: Revision,
    /// `spec.nodeName`; `None` = not bound to a Node yet (absent or empty).
    pub node_name: Option<Arc<str>>,
    /// `spec.hostname`, never empty.
    pub hostname: Option<Box<str>>,
    /// `spec.subdomain`, never empty.
    pub subdomain: Option<Box<str>>,
    /// `status.phase`.
    pub phase: Phase,
    /// `metadata.deletionTimestamp` is set.
    pub terminating: bool,
    /// The first condition of type `Ready` has status `True`.
    pub ready: bool,
    /// `lastTransitionTime` of that condition; `None` = no such condition.
    pub ready_transition: Option<Timestamp>,
    /// `status.podIPs` in stored order, parsed as Go does (leading zeros are decimal, IPv4-mapped IPv6 is IPv4), without those that are
    /// no address. `status.podIP` alone is not used, as upstream. Most have one.
    pub ips: SmallVec<[IpAddr; 1]>,
    /// Named container ports that a Service port may name as its target: those of `spec.containers` in order, then those of
    /// restartable init containers (sidecars). The first match wins.
    pub ports: Box<[ContainerPort]>,
}

/// A Pod's labels travel beside it: `(Pod, Labels)` is what the edge hands to the index.
pub type LabelledPod = (Pod, Labels);

/// A named container port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerPort {
    /// `name`, never empty.
    pub name: Arc<str>,
    /// `containerPort`.
    pub port: i32,
    /// `protocol`.
    pub protocol: Protocol,
}

/// `status.phase`, as far as it matters: only finished Pods are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// `Pending`, `Running`, `Unknown`, or empty.
    Active,
    /// `Succeeded` or `Failed`.
    Finished,
}
