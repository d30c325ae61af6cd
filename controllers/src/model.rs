//! What the controllers know about the cluster: small types that cannot be wrong, made once at the edge (`wire`).
//!
//! Nothing in here knows tokio, kube or JSON. Names are Kubernetes' own.

mod endpoints;
mod ids;
mod interner;
mod pod;
mod service;

pub use endpoints::{Address, EndpointPort, EndpointsObject, OwnerReference, Subset, TargetRef};
pub use ids::{Labels, ObjectKey, Protocol, Revision, Timestamp, Uid};
pub use interner::Interner;
pub use pod::{ContainerPort, LabelledPod, Phase, Pod, PodName};
pub use service::{IpFamily, Selector, Service, ServicePort, ServiceType, TargetPort};
