//! Services, Pods and subsets for tests.

use std::net::IpAddr;
use std::sync::Arc;

use crate::model::{
    Address, ContainerPort, Distribution, EndpointPort, EndpointsObject, IpFamily, Labels, ObjectKey, Phase, Pod,
    Protocol, Revision, Service, ServicePort, ServiceType, Subset, TargetPort, TargetRef, Timestamp, Uid,
};

/// An IPv4 Service `marsh/<name>` with a clusterIP, a selector and no ports.
pub fn service(name: &str) -> Service {
    Service {
        key: ObjectKey::new("marsh", name),
        uid: Uid::parse("service"),
        revision: Revision(1),
        created: Timestamp(1_000),
        labels: Labels::new(),
        kind: ServiceType::Proxied,
        selector: Some(labels(&[("app", name)])),
        headless: false,
        cluster_ip_none: false,
        family: Some(IpFamily::V4),
        dual_stack: false,
        terminating: false,
        distribution: Distribution::Anywhere,
        publish_not_ready: false,
        ports: Box::new([]),
    }
}

/// The same with these ports.
pub fn service_with(name: &str, ports: &[ServicePort]) -> Service {
    Service {
        ports: ports.into(),
        ..service(name)
    }
}

pub fn numbered(name: &str, target: i32) -> ServicePort {
    service_port(name, Protocol::Tcp, TargetPort::Number(target))
}

pub fn named(name: &str, target: &str) -> ServicePort {
    service_port(name, Protocol::Tcp, TargetPort::Name(target.into()))
}

pub fn service_port(name: &str, protocol: Protocol, target: TargetPort) -> ServicePort {
    ServicePort {
        name: name.into(),
        protocol,
        app_protocol: None,
        target,
    }
}

/// A ready, bound Pod of namespace `marsh` whose uid is `uid-<name>`.
pub fn pod(name: &str, ips: &[&str]) -> Pod {
    Pod {
        namespace: "marsh".into(),
        name: name.into(),
        uid: Uid::parse(&format!("uid-{name}")),
        revision: Revision(7),
        node_name: Some("n1".into()),
        hostname: None,
        subdomain: None,
        phase: Phase::Active,
        terminating: false,
        ready: true,
        ready_transition: Some(Timestamp(2_000)),
        ips: ips.iter().map(|ip| ip.parse::<IpAddr>().unwrap()).collect(),
        ports: Box::new([]),
    }
}

pub fn pods<const N: usize>(pods: [Pod; N]) -> Vec<Arc<Pod>> {
    pods.into_iter().map(Arc::new).collect()
}

pub fn container_port(name: &str, port: i32, protocol: Protocol) -> ContainerPort {
    ContainerPort {
        name: name.into(),
        port,
        protocol,
    }
}

pub fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|&(key, value)| (key.into(), value.into())).collect()
}

/// `<ip>` of a Pod whose uid is `uid`.
pub fn address(ip: &str, uid: &str) -> Address {
    Address {
        ip: ip.into(),
        hostname: None,
        node_name: Some("n1".into()),
        target: Some(Box::new(target(uid))),
    }
}

/// An address as people write it: nothing but the IP.
pub fn bare(ip: &str) -> Address {
    Address {
        ip: ip.into(),
        hostname: None,
        node_name: None,
        target: None,
    }
}

pub fn target(uid: &str) -> TargetRef {
    TargetRef {
        kind: "Pod".into(),
        namespace: "marsh".into(),
        name: uid.trim_start_matches("uid-").into(),
        uid: Uid::parse(uid),
        rest: None,
    }
}

pub fn port(name: &str, port: i32) -> EndpointPort {
    EndpointPort {
        name: name.into(),
        port,
        protocol: Protocol::Tcp,
        app_protocol: None,
    }
}

pub fn subset<'a>(
    ready: impl IntoIterator<Item = &'a Address>,
    not_ready: impl IntoIterator<Item = &'a Address>,
    ports: impl IntoIterator<Item = &'a EndpointPort>,
) -> Subset {
    Subset {
        addresses: ready.into_iter().cloned().collect(),
        not_ready_addresses: not_ready.into_iter().cloned().collect(),
        ports: ports.into_iter().cloned().collect(),
    }
}

/// Stored Endpoints of `service`, written by us with these subsets.
pub fn stored(service: &Service, subsets: Vec<Subset>) -> EndpointsObject {
    super::plan(service, subsets, None, None)
        .unwrap()
        .into_object(Uid::parse("endpoints"), Revision(40))
}

/// Endpoints `marsh/web` that somebody made by hand.
pub fn hand_made(subsets: Vec<Subset>) -> EndpointsObject {
    EndpointsObject {
        key: ObjectKey::new("marsh", "web"),
        uid: Uid::parse("endpoints"),
        revision: Revision(4),
        terminating: false,
        generate_name: None,
        labels: Labels::new(),
        annotations: Labels::new(),
        finalizers: Vec::new(),
        owner_references: Vec::new(),
        subsets,
    }
}

/// The IPs of each list, for short comparisons.
pub fn ips(subsets: &[Subset]) -> Vec<(Vec<&str>, Vec<&str>)> {
    subsets
        .iter()
        .map(|subset| {
            (
                subset.addresses.iter().map(|address| &*address.ip).collect(),
                subset.not_ready_addresses.iter().map(|address| &*address.ip).collect(),
            )
        })
        .collect()
}
