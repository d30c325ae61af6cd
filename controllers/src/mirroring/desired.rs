//! From hand-made Endpoints to the slices that mirror them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::endpoints::repack;
use crate::model::{Address, EndpointPort, EndpointsObject, IpFamily, OtherEndpoint, Service, SlicePort, Subset};
use crate::wire::parse_ip;

/// Label on Endpoints that must not be mirrored, with the value `true` exactly.
pub const SKIP_LABEL: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Annotation on Endpoints that old leader elections use as a lock.
pub const LEADER_ANNOTATION: &str = "control-plane.alpha.kubernetes.io/leader";

/// Whether these Endpoints are mirrored. Who wrote them does not matter.
pub fn is_mirrored(service: &Service, endpoints: &EndpointsObject) -> bool {
    unmirrored(service, endpoints).is_none()
}

/// What stands in the way of mirroring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmirrored {
    /// The Service has a selector.
    Selector,
    /// [`SKIP_LABEL`] on the Endpoints.
    SkipLabel,
    /// [`LEADER_ANNOTATION`] on the Endpoints.
    LeaderAnnotation,
}

/// What stands in the way of mirroring these Endpoints.
pub fn unmirrored(service: &Service, endpoints: &EndpointsObject) -> Option<Unmirrored> {
    if service.selector.is_some() {
        return Some(Unmirrored::Selector);
    }
    if endpoints.labels.get(SKIP_LABEL).is_some_and(|value| &**value == "true") {
        return Some(Unmirrored::SkipLabel);
    }
    let leader = endpoints.annotations.contains_key(LEADER_ANNOTATION);
    leader.then_some(Unmirrored::LeaderAnnotation)
}

/// What is to be mirrored of one Endpoints object.
#[derive(Debug, Default)]
pub struct Mirrored {
    /// One slice each.
    pub slices: Vec<Mirror>,
    /// What is left out.
    pub skipped: Skipped,
}

/// Family, ports and endpoints of one slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// `addressType`.
    pub family: IpFamily,
    /// `ports` in ascending order.
    pub ports: Arc<[SlicePort]>,
    /// `endpoints`, never empty.
    pub endpoints: Vec<OtherEndpoint>,
}

/// What is left out, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Addresses that are no IP addresses.
    pub invalid: usize,
    /// Addresses beyond the limit of their subset.
    pub over_limit: usize,
    /// Names of ports that stand twice among the ports of one set of addresses: the apiserver refuses a slice with them.
    pub doubled_ports: Vec<Arc<str>>,
}

/// What is to be mirrored of `endpoints`: a slice for each canonical subset (see [`repack`]) and family that has addresses, with at most
/// `max` addresses of both families together, ready ones first.
///
/// As upstream, but for a subset in which a port name stands twice: upstream's slice is refused, and nothing is mirrored any more.
pub fn mirror(endpoints: &EndpointsObject, max: usize) -> Mirrored {
    let mut mirrored = Mirrored::default();
    for subset in repack(endpoints.subsets.clone()) {
        if let Some(name) = doubled(&subset.ports) {
            mirrored.skipped.doubled_ports.push(name);
            continue;
        }
        let mut ports: Vec<SlicePort> = subset.ports.iter().map(slice_port).collect();
        ports.sort_unstable();
        let ports: Arc<[SlicePort]> = ports.into();
        for (family, endpoints) in by_family(&subset, max, &mut mirrored.skipped) {
            let ports = Arc::clone(&ports);
            mirrored.slices.push(Mirror {
                family,
                ports,
                endpoints,
            });
        }
    }
    mirrored
}

fn by_family(subset: &Subset, max: usize, skipped: &mut Skipped) -> BTreeMap<IpFamily, Vec<OtherEndpoint>> {
    let ready = subset.addresses.iter().map(|address| (address, true));
    let not_ready = subset.not_ready_addresses.iter().map(|address| (address, false));
    let mut families: BTreeMap<IpFamily, Vec<OtherEndpoint>> = BTreeMap::new();
    let mut places = HashMap::<Identity, usize, ahash::RandomState>::default();
    let (mut taken, mut all) = (0, ready.chain(not_ready));
    while taken < max {
        let Some((address, ready)) = all.next() else { break };
        let Some(ip) = parse_ip(&address.ip) else {
            skipped.invalid += 1;
            continue;
        };
        taken += 1;
        let endpoint = endpoint(address, &ip.to_string(), ready);
        let list = families.entry(IpFamily::of(ip)).or_default();
        let place = *places.entry(identity(&endpoint)).or_insert(list.len());
        match list.get_mut(place) {
            Some(earlier) => *earlier = endpoint,
            None => list.push(endpoint),
        }
    }
    skipped.over_limit += all.count();
    families
}

/// Upstream's: of two endpoints with the same address, hostname and name of the target the later one stands.
type Identity = (Box<[Box<str>]>, Option<Box<str>>, Option<(Arc<str>, Arc<str>)>);

fn identity(endpoint: &OtherEndpoint) -> Identity {
    let target = endpoint.target.as_ref();
    (
        endpoint.addresses.clone(),
        endpoint.hostname.clone(),
        target.map(|target| (Arc::clone(&target.namespace), Arc::clone(&target.name))),
    )
}

fn endpoint(address: &Address, ip: &str, ready: bool) -> OtherEndpoint {
    OtherEndpoint {
        addresses: [ip.into()].into(),
        ready: Some(ready),
        hostname: address.hostname.clone(),
        node: address.node_name.clone(),
        target: address.target.clone(),
        ..OtherEndpoint::default()
    }
}

fn slice_port(port: &EndpointPort) -> SlicePort {
    SlicePort {
        name: Arc::clone(&port.name),
        protocol: port.protocol.clone(),
        port: Some(port.port),
        app_protocol: port.app_protocol.clone(),
    }
}

/// A name that two ports have. They are in order.
fn doubled(ports: &[EndpointPort]) -> Option<Arc<str>> {
    ports.windows(2).find_map(|pair| match pair {
        [one, other] if one.name == other.name => Some(Arc::clone(&one.name)),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
