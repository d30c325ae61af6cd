//! An EndpointSlice that one of our controllers writes.

use std::net::IpAddr;
use std::sync::Arc;

use super::{IpFamily, Labels, ObjectKey, OwnerReference, PodName, Protocol, Revision, TargetRef, Uid, Version};

/// A stored EndpointSlice, with all that its PUT must preserve (see [`super::EndpointsObject`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Namespace and name of the slice itself.
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub revision: Revision,
    /// `metadata.deletionTimestamp` is set: a finalizer holds it, and nobody should count on it.
    pub terminating: bool,
    /// What is in it, and who wrote it.
    pub content: SliceContent,
}

impl Slice {
    /// Which state of which object this is.
    pub fn version(&self) -> Version {
        Version {
            uid: self.uid.clone(),
            revision: self.revision,
        }
    }
}

/// A slice but for what the apiserver gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceContent {
    /// Label `kubernetes.io/service-name`: whose slice it is.
    pub service: Arc<str>,
    /// Label `endpointslice.kubernetes.io/managed-by`: which controller's it is.
    pub manager: Manager,
    /// `addressType`; `None` = `FQDN` or another that no controller writes. It can never be changed.
    pub family: Option<IpFamily>,
    /// `metadata.generateName`.
    pub generate_name: Option<Box<str>>,
    /// `metadata.labels`, those two included.
    pub labels: Labels,
    /// `metadata.annotations`.
    pub annotations: Labels,
    /// `metadata.finalizers`.
    pub finalizers: Vec<Box<str>>,
    /// `metadata.ownerReferences`.
    pub owner_references: Vec<OwnerReference>,
    /// `ports` in ascending order: that of the stored list means nothing.
    pub ports: Arc<[SlicePort]>,
    /// `endpoints` in stored order.
    pub endpoints: Vec<Endpoint>,
}

/// Whose slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Manager {
    /// Made from a Service's selector: `endpointslice-controller.k8s.io`.
    Selector,
    /// Mirrored from hand-made Endpoints: `endpointslicemirroring-controller.k8s.io`.
    Mirroring,
    /// Made from a Service's selector beside those of the first: `svcplane.io`.
    Own,
}

impl Manager {
    /// The value of its label; upstream's own where we write in its stead.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Selector => "endpointslice-controller.k8s.io",
            Self::Mirroring => "endpointslicemirroring-controller.k8s.io",
            Self::Own => "svcplane.io",
        }
    }

    /// Reads the label; `None` = somebody else's slice.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Selector, Self::Mirroring, Self::Own]
            .into_iter()
            .find(|known| known.as_str() == text)
    }
}

/// One entry of `ports`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlicePort {
    /// `name`, empty if there is none.
    pub name: Arc<str>,
    /// `protocol`.
    pub protocol: Protocol,
    /// `port`; absent (all ports) only in slices that somebody edited.
    pub port: Option<i32>,
    /// `appProtocol`.
    pub app_protocol: Option<Arc<str>>,
}

/// One entry of `endpoints`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    /// A Pod, in the form in which we list Pods.
    Pod(PodEndpoint),
    /// Anything else: a mirrored address, or what somebody wrote by hand.
    Other(Box<OtherEndpoint>),
}

impl Endpoint {
    /// The Pod, if it is one in our form.
    pub fn as_pod(&self) -> Option<&PodEndpoint> {
        match self {
            Self::Pod(pod) => Some(pod),
            Self::Other(_) => None,
        }
    }
}

/// A Pod of the slice's namespace as we list it: one or more addresses, all three conditions given, a `targetRef` with kind, namespace,
/// name and uid. About a hundred bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodEndpoint {
    /// The first of `addresses`.
    pub ip: IpAddr,
    /// `conditions`.
    pub conditions: Conditions,
    /// `targetRef.name`.
    pub name: PodName,
    /// `targetRef.uid`.
    pub uid: Uid,
    /// `nodeName`.
    pub node: Option<Arc<str>>,
    /// `zone`.
    pub zone: Option<Arc<str>>,
    /// What few have.
    pub extra: Option<Box<Extra>>,
}

impl PodEndpoint {
    /// `hostname`.
    pub fn hostname(&self) -> Option<&str> {
        self.extra.as_ref()?.hostname.as_deref()
    }

    /// All of `addresses`.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let more = self.extra.iter().flat_map(|extra| extra.more_ips.iter().copied());
        std::iter::once(self.ip).chain(more)
    }
}

/// `conditions`, all given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conditions {
    /// `ready`.
    pub ready: bool,
    /// `serving`.
    pub serving: bool,
    /// `terminating`.
    pub terminating: bool,
}

/// What few endpoints have.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extra {
    /// `addresses` but for the first.
    pub more_ips: Box<[IpAddr]>,
    /// `hostname`, never empty.
    pub hostname: Option<Box<str>>,
    /// `hints`.
    pub hints: Hints,
}

/// `hints`; absent and empty are one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hints {
    /// Names of `forZones`.
    pub zones: Box<[Arc<str>]>,
    /// Names of `forNodes`.
    pub nodes: Box<[Arc<str>]>,
}

/// An endpoint in full, as text, whatever it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OtherEndpoint {
    /// `addresses`.
    pub addresses: Box<[Box<str>]>,
    /// `conditions.ready`.
    pub ready: Option<bool>,
    /// `conditions.serving`.
    pub serving: Option<bool>,
    /// `conditions.terminating`.
    pub terminating: Option<bool>,
    /// `hostname`.
    pub hostname: Option<Box<str>>,
    /// `nodeName`.
    pub node: Option<Arc<str>>,
    /// `zone`.
    pub zone: Option<Arc<str>>,
    /// `targetRef`.
    pub target: Option<Box<TargetRef>>,
    /// `hints`.
    pub hints: Hints,
    /// `deprecatedTopology` holds something: no controller writes it.
    pub deprecated_topology: bool,
}
