//! The part of a Service that endpoints depend on.

use std::sync::Arc;

use super::{Labels, ObjectKey, Protocol, Revision, Timestamp, Uid};

/// A Service as the endpoint controllers see it.
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
    /// `spec.publishNotReadyAddresses`.
    pub publish_not_ready: bool,
    /// `spec.ports` in stored order.
    pub ports: Box<[ServicePort]>,
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
