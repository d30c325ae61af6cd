//! From a Service and its Pods to the subsets of its Endpoints.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::model::{Address, EndpointPort, IpFamily, Phase, Pod, Service, ServicePort, Subset, TargetPort, TargetRef};

use super::ip_text::IpText;
use super::{Unlisted, repack};

/// `kind` of the target of every address.
pub(super) const POD: &str = "Pod";

/// The canonical subsets (see [`repack`]) of the Endpoints of `service`, whose selector matches exactly `pods`, in any order.
///
/// For Services with a selector that are not `ExternalName`; the caller leaves the others alone. Not truncated: [`super::plan`] does that.
///
/// * A Pod counts unless it is finished, has no address of the Service's family, or is being deleted while the Service does not publish
///   not-ready addresses. Upstream also lists a Pod that has an address and no Node, or a loopback or link-local address; the apiserver
///   then refuses the whole object and it freezes, so such a Pod is left out here.
/// * A port that a Pod cannot resolve is missing for that Pod alone; a Pod that resolves none is not listed.
/// * A headless Service without ports lists its Pods without ports; any other Service without ports lists nothing.
pub fn compute(service: &Service, pods: &[Arc<Pod>]) -> Vec<Subset> {
    if lists_nothing(service) {
        return Vec::new();
    }
    let kind: Arc<str> = Arc::from(POD);
    // Pods whose ports resolve to the same numbers go into one subset at once, instead of one subset per Pod and port.
    let mut groups: BTreeMap<Vec<Option<i32>>, Subset> = BTreeMap::new();
    let mut numbers = Vec::with_capacity(service.ports.len());
    for pod in pods {
        let Ok((ip, node_name)) = listed(service, pod) else {
            continue;
        };
        numbers.clear();
        numbers.extend(service.ports.iter().map(|port| resolve(port, pod)));
        if resolves_none(numbers.iter().copied()) {
            continue;
        }
        let group = if let Some(group) = groups.get_mut(numbers.as_slice()) {
            group
        } else {
            groups.entry(numbers.clone()).or_insert(Subset {
                ports: endpoint_ports(service, &numbers),
                ..Subset::default()
            })
        };
        let addresses = if pod.ready || service.publish_not_ready {
            &mut group.addresses
        } else {
            &mut group.not_ready_addresses
        };
        // The standard library and Go print every address alike but IPv4-mapped IPv6, which Pods do not hold (see `Pod::ips`).
        addresses.push(pod_address(service, pod, IpText::of(ip).as_str(), node_name, &kind));
    }
    repack(groups.into_values().collect())
}

/// The address that the Endpoints of `service` list `pod` with, or why they do not: what [`compute`] says, for one Pod.
pub(crate) fn verdict(service: &Service, pod: &Pod) -> Result<IpAddr, Unlisted> {
    if lists_nothing(service) {
        return Err(Unlisted::NoServicePorts);
    }
    let (ip, _) = listed(service, pod)?;
    if resolves_none(service.ports.iter().map(|port| resolve(port, pod))) {
        return Err(Unlisted::NoPort);
    }
    Ok(ip)
}

/// Without ports only a headless Service lists Pods.
pub(super) fn lists_nothing(service: &Service) -> bool {
    service.ports.is_empty() && !service.cluster_ip_none
}

/// There are ports, and none of them leads anywhere.
pub(super) fn resolves_none(mut numbers: impl Iterator<Item = Option<i32>>) -> bool {
    numbers.next().is_some_and(|first| first.is_none()) && numbers.all(|number| number.is_none())
}

/// The address and Node that `pod` is listed with, whatever its ports.
pub(super) fn listed<'a>(service: &Service, pod: &'a Pod) -> Result<(IpAddr, &'a Arc<str>), Unlisted> {
    if pod.phase == Phase::Finished {
        return Err(Unlisted::Finished);
    }
    if pod.terminating && !service.publish_not_ready {
        return Err(Unlisted::Terminating);
    }
    let node_name = pod.node_name.as_ref().ok_or(Unlisted::NoNode)?;
    // Without a family of the Service's own, each Pod goes by its first address.
    let ip = match service.family {
        Some(IpFamily::V4) => pod.ips.iter().find(|ip| ip.is_ipv4()),
        Some(IpFamily::V6) => pod.ips.iter().find(|ip| ip.is_ipv6()),
        None => pod.ips.first(),
    };
    let ip = *ip.ok_or(Unlisted::NoAddress)?;
    may_be_endpoint(ip)
        .then_some((ip, node_name))
        .ok_or(Unlisted::Refused(ip))
}

/// The apiserver's rule (`ValidateEndpointIP`): one address that breaks it, and it refuses the whole object.
pub(crate) fn may_be_endpoint(ip: IpAddr) -> bool {
    let link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || matches!(ip.octets(), [224, 0, 0, _]),
        IpAddr::V6(ip) => ip.is_unicast_link_local() || matches!(ip.octets(), [0xff, scope, ..] if scope & 0x0f == 2),
    };
    !(ip.is_unspecified() || ip.is_loopback() || link_local)
}

/// The number that a Service port leads to in `pod`; `None` = the Pod declares no such port under that protocol.
pub(crate) fn resolve(port: &ServicePort, pod: &Pod) -> Option<i32> {
    match &port.target {
        TargetPort::Number(number) => Some(*number),
        TargetPort::Name(name) => pod
            .ports
            .iter()
            .find(|candidate| candidate.name == *name && candidate.protocol == port.protocol)
            .map(|found| found.port),
    }
}

pub(super) fn endpoint_ports(service: &Service, numbers: &[Option<i32>]) -> Vec<EndpointPort> {
    service
        .ports
        .iter()
        .zip(numbers)
        .filter_map(|(port, number)| {
            Some(EndpointPort {
                name: port.name.clone(),
                port: (*number)?,
                protocol: port.protocol.clone(),
                app_protocol: port.app_protocol.clone(),
            })
        })
        .collect()
}

/// The host name that `pod` is listed with: only under the Service that its subdomain names.
pub(crate) fn hostname<'a>(service: &Service, pod: &'a Pod) -> Option<&'a str> {
    let named_in_service =
        pod.subdomain.as_deref() == Some(&*service.key.name) && pod.namespace == service.key.namespace;
    pod.hostname.as_deref().filter(|_| named_in_service)
}

/// `kind` is `Pod`: one copy for all addresses.
pub(super) fn pod_address(service: &Service, pod: &Pod, ip: &str, node_name: &Arc<str>, kind: &Arc<str>) -> Address {
    Address {
        ip: ip.into(),
        hostname: hostname(service, pod).map(Into::into),
        node_name: Some(Arc::clone(node_name)),
        target: Some(Box::new(TargetRef {
            kind: Arc::clone(kind),
            namespace: Arc::clone(&pod.namespace),
            name: Arc::clone(&pod.name),
            uid: pod.uid.clone(),
            rest: None,
        })),
    }
}

#[cfg(test)]
pub(super) mod properties;
#[cfg(test)]
mod tests;
