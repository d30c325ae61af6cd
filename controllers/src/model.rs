//! What the controllers know about the cluster: small types that cannot be wrong, made once at the edge (`wire`).
//!
//! Nothing in here knows tokio, kube or JSON. Names are Kubernetes' own.

mod endpoints;
mod ids;
mod interner;
mod labels;
mod node;
mod pod;
mod service;
mod slice;

pub use endpoints::{Address, EndpointPort, EndpointsObject, OwnerReference, Subset, TargetRef, TargetRest};
pub use ids::{ObjectKey, Protocol, Revision, Timestamp, Uid, Version};
pub use interner::Interner;
pub use labels::Labels;
pub use node::{Node, NodeTable};
pub use pod::{ContainerPort, LabelledPod, Phase, Pod, PodName};
pub use service::{CANARY_LABEL, Distribution, IpFamily, Selector, Service, ServicePort, ServiceType, TargetPort};
pub use slice::{
    Conditions, Endpoint, Extra, Hints, Manager, OtherEndpoint, PodEndpoint, Slice, SliceContent, SlicePort,
};

/// What few objects have, out of the way of the others: `None` if there is nothing in it, so that equal objects are equal values.
pub(crate) fn boxed<T: Default + PartialEq>(rare: T) -> Option<Box<T>> {
    (rare != T::default()).then(|| Box::new(rare))
}

/// Collects without spare room. A `collect` that consumes a list of wire types would reuse its buffer, which has room for far more: three
/// times the size of each entry, and as many more entries as the list grew by.
pub(crate) fn fitted<T>(entries: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = entries.collect();
    all.shrink_to_fit();
    all
}
