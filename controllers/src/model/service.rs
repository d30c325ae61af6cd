//! The part of a Service that endpoints depend on.

use std::net::IpAddr;
use std::sync::Arc;

use super::{Labels, ObjectKey, Protocol, Revision, Timestamp, Uid};

/// Services with this label are left alone by the endpoint controllers: they show whether the built-in ones live.
pub const CANARY_LABEL: &str = "svcplane.io/canary";

/// A Service as the endpoint controllers see it.
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the API")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Namespace and name.
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub revision: Revision,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// `metadata.labels`.
    pub labels: Labels,
    /// `spec.type`.
    pub kind: ServiceType,
    /// `spec.selector`: `None` = absent (hands off), empty = every Pod of the namespace.
    pub selector: Option<Selector>,
    /// `spec.clusterIP` is empty or `None`: what the headless label says.
    pub headless: bool,
    /// `spec.clusterIP` is exactly `None`: what a Service without ports needs to list its Pods.
    pub cluster_ip_none: bool,
    /// `spec.ipFamilies[0]`, or what upstream falls back to: the family of the clusterIP. `None` = a headless Service without
    /// `ipFamilies`, whose Pods then go by the family of their first address.
    pub family: Option<IpFamily>,
    /// `spec.ipFamilies` names both, or nothing says which: slices are made for the other family too.
    pub dual_stack: bool,
    /// `metadata.deletionTimestamp` is set: no new slices are made, which the garbage collector would race with.
    pub terminating: bool,
    /// Who should be preferred by clients, as hints in slices tell them.
    pub distribution: Distribution,
    /// `spec.publishNotReadyAddresses`.
    pub publish_not_ready: bool,
    /// `spec.ports` in stored order.
    pub ports: Box<[ServicePort]>,
}

impl Service {
    /// Whether Pods decide what is listed for it.
    pub fn is_followed(&self) -> bool {
        self.kind != ServiceType::ExternalName && self.selector.is_some() && !self.is_canary()
    }

    /// Whether it shows if built-in controllers live: they alone make something for it.
    pub fn is_canary(&self) -> bool {
        self.labels.contains_key(CANARY_LABEL)
    }

    /// The families that slices are made for, the primary one first.
    pub fn families(&self) -> impl Iterator<Item = IpFamily> + use<> {
        let first = self.family.unwrap_or(IpFamily::V4);
        let second = self.dual_stack.then(|| first.other());
        std::iter::once(first).chain(second)
    }
}

/// Where traffic should go first. The annotation `service.kubernetes.io/topology-mode` (or its older spelling, which wins) goes before
/// `spec.trafficDistribution`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distribution {
    /// Anywhere: no hints.
    #[default]
    Anywhere,
    /// `PreferClose` or `PreferSameZone`.
    SameZone,
    /// `PreferSameNode`: zones too, for when the Node has none.
    SameNode,
    /// Topology mode `Auto`: zones in proportion to their CPUs (KEP-2433).
    Auto,
}

/// Equality-based selector, in key order.
pub type Selector = Labels;

/// One entry of `spec.ports`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// `name`, empty if absent.
    pub name: Arc<str>,
    /// `protocol`.
    pub protocol: Protocol,
    /// `appProtocol`.
    pub app_protocol: Option<Arc<str>>,
    /// `targetPort`; the apiserver's default (the Service's own port) is applied.
    pub target: TargetPort,
}

/// `targetPort`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetPort {
    /// Used as it is; the Pod need not declare it.
    Number(i32),
    /// Looked up among the Pod's named container ports of the same protocol.
    Name(Arc<str>),
}

/// `spec.type`, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceType {
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or absent.
    Proxied,
    /// `ExternalName`: never has endpoints of ours.
    ExternalName,
}

/// An IP family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IpFamily {
    /// `IPv4`.
    V4,
    /// `IPv6`.
    V6,
}

impl IpFamily {
    /// Of an address.
    pub fn of(ip: IpAddr) -> Self {
        if ip.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// The API's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    /// The one that it is not.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }
}
