//! The rules of `compute` and `repack` once more, as slowly and plainly as they are stated: expand, then group by sets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::fixtures::{subset, target};
use crate::model::{Address, EndpointPort, IpFamily, Phase, Pod, Service, Subset, TargetPort};

type Identity = (String, String);
type Placed = (Address, bool);

/// A subset for every Pod and Service port, repacked.
pub fn compute(service: &Service, pods: &[Arc<Pod>]) -> Vec<Subset> {
    let mut pairs = Vec::new();
    for pod in pods {
        let family = match service.family {
            Some(family) => family,
            None if pod.ips.first().is_some_and(IpAddr::is_ipv6) => IpFamily::V6,
            None => IpFamily::V4,
        };
        let ip = pod.ips.iter().find(|ip| ip.is_ipv6() == (family == IpFamily::V6));
        let finished = pod.phase == Phase::Finished;
        let leaving = pod.terminating && !service.publish_not_ready;
        let (Some(ip), Some(node), false, false) = (ip, &pod.node_name, finished, leaving) else {
            continue;
        };
        let hostname = (pod.subdomain.as_deref() == Some(&*service.key.name)).then(|| pod.hostname.clone());
        let address = Address {
            ip: format!("{ip}").into(),
            hostname: hostname.flatten(),
            node_name: Some(node.clone()),
            target: Some(Box::new(target(&pod.uid.to_string()))),
        };
        let list = |ports: Vec<EndpointPort>| {
            let ready = pod.ready || service.publish_not_ready;
            let (yes, no) = if ready {
                (vec![address.clone()], vec![])
            } else {
                (vec![], vec![address.clone()])
            };
            subset(&yes, &no, &ports)
        };
        if service.ports.is_empty() && service.cluster_ip_none {
            pairs.push(list(vec![]));
        }
        for port in &service.ports {
            let number = match &port.target {
                TargetPort::Number(number) => Some(*number),
                TargetPort::Name(name) => {
                    let mut found = None;
                    for candidate in &pod.ports {
                        if found.is_none() && candidate.name == *name && candidate.protocol == port.protocol {
                            found = Some(candidate.port);
                        }
                    }
                    found
                }
            };
            if let Some(number) = number {
                pairs.push(list(vec![EndpointPort {
                    name: port.name.clone(),
                    port: number,
                    protocol: port.protocol.clone(),
                    app_protocol: port.app_protocol.clone(),
                }]));
            }
        }
    }
    repack(&pairs)
}

/// Every (port, address, state), then ports grouped by what they serve.
pub fn repack(subsets: &[Subset]) -> Vec<Subset> {
    let mut first_seen: BTreeMap<Identity, Address> = BTreeMap::new();
    let mut by_port: BTreeMap<Option<EndpointPort>, BTreeMap<Identity, bool>> = BTreeMap::new();
    for subset in subsets {
        let mut ports: Vec<Option<EndpointPort>> = subset.ports.iter().cloned().map(Some).collect();
        if ports.is_empty() {
            ports.push(None);
        }
        for port in ports {
            let port = port.filter(|port| port.port > 0);
            for (list, ready) in [(&subset.addresses, true), (&subset.not_ready_addresses, false)] {
                for address in list {
                    let uid = address.target.as_ref().map(|target| target.uid.to_string());
                    let identity = (address.ip.to_string(), uid.unwrap_or_default());
                    first_seen.entry(identity.clone()).or_insert_with(|| address.clone());
                    let state = by_port.entry(port.clone()).or_default().entry(identity).or_insert(true);
                    *state = *state && ready;
                }
            }
        }
    }
    let mut by_set: BTreeMap<BTreeSet<Placed>, BTreeSet<EndpointPort>> = BTreeMap::new();
    for (port, states) in by_port {
        let set = states
            .into_iter()
            .map(|(identity, ready)| (first_seen[&identity].clone(), ready))
            .collect();
        by_set.entry(set).or_default().extend(port);
    }
    let mut packed: Vec<Subset> = by_set
        .into_iter()
        .map(|(set, ports)| {
            let list = |wanted: bool| -> Vec<Address> {
                let mut list: Vec<Address> = set
                    .iter()
                    .filter(|(_, ready)| *ready == wanted)
                    .map(|(address, _)| address.clone())
                    .collect();
                list.sort_by_key(|address| {
                    let uid = address.target.as_ref().map(|target| target.uid.to_string());
                    (address.ip.to_string(), uid)
                });
                list
            };
            subset(&list(true), &list(false), &ports.into_iter().collect::<Vec<_>>())
        })
        .collect();
    packed.sort_by(|a, b| a.ports.cmp(&b.ports));
    packed
}
