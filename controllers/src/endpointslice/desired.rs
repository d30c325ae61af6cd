//! From a Service and its Pods to the endpoints of its slices.

use std::collections::HashMap;
use std::sync::Arc;

use crate::endpoints::{Unlisted, hostname, may_be_endpoint, resolve};
use crate::model::{
    Conditions, Distribution, Extra, Hints, IpFamily, NodeTable, Phase, Pod, PodEndpoint, Service, SlicePort, boxed,
};

/// The ports of one set of slices: what a Pod resolves of its Service's ports, in ascending order.
pub type Group = Arc<[SlicePort]>;

/// Says of each Pod where it is listed in the slices of one family of one Service, and how.
#[derive(Debug)]
pub struct Desired<'a> {
    service: &'a Service,
    family: IpFamily,
    nodes: &'a NodeTable,
    /// Pods that resolve to the same numbers share one group.
    groups: HashMap<Box<[Option<i32>]>, Group, ahash::RandomState>,
    numbers: Vec<Option<i32>>,
}

impl<'a> Desired<'a> {
    /// For the slices of `service` that hold addresses of `family`.
    pub fn new(service: &'a Service, family: IpFamily, nodes: &'a NodeTable) -> Self {
        Self {
            service,
            family,
            nodes,
            groups: HashMap::default(),
            numbers: Vec::new(),
        }
    }

    /// Where `pod`, which the Service's selector matches, is listed and how; `None` = it is not.
    ///
    /// * Finished Pods and those without an address of the family are not; Pods being deleted are.
    /// * A Pod whose Node is not known is not, unless the Service publishes not-ready addresses; it is when the Node appears. Upstream
    ///   fails and tries again, ever more seldom.
    /// * An address that the apiserver refuses in slices does not count.
    /// * A port that the Pod cannot resolve is missing for that Pod alone; a Pod that resolves none is listed without ports.
    pub fn endpoint(&mut self, pod: &Pod) -> Option<(Group, PodEndpoint)> {
        self.verdict(pod).ok()
    }

    /// The same, or why it is not listed.
    pub fn verdict(&mut self, pod: &Pod) -> Result<(Group, PodEndpoint), Unlisted> {
        if pod.phase == Phase::Finished {
            return Err(Unlisted::Finished);
        }
        let node = pod.node_name.as_ref().and_then(|name| self.nodes.get(name));
        if node.is_none() && !self.service.publish_not_ready {
            let bound = pod.node_name.is_some();
            return Err(if bound { Unlisted::UnknownNode } else { Unlisted::NoNode });
        }
        let of_family = || pod.ips.iter().copied().filter(|ip| IpFamily::of(*ip) == self.family);
        let mut ips = of_family().filter(|ip| may_be_endpoint(*ip));
        let no_ip = || of_family().next().map_or(Unlisted::NoAddress, Unlisted::Refused);
        let ip = ips.next().ok_or_else(no_ip)?;
        let zone = node.and_then(|node| node.zone.clone());
        let conditions = Conditions {
            ready: self.service.publish_not_ready || (pod.ready && !pod.terminating),
            serving: pod.ready,
            terminating: pod.terminating,
        };
        let extra = Extra {
            more_ips: ips.collect(),
            hostname: hostname(self.service, pod).map(Into::into),
            hints: self.hints(conditions, zone.as_ref(), pod.node_name.as_ref()),
        };
        let endpoint = PodEndpoint {
            ip,
            conditions,
            name: Arc::clone(&pod.name),
            uid: pod.uid.clone(),
            node: pod.node_name.clone(),
            zone,
            extra: boxed(extra),
        };
        Ok((self.group(pod), endpoint))
    }

    /// The hints of `spec.trafficDistribution`; those of topology mode `Auto` are given later, when all endpoints are known.
    fn hints(&self, conditions: Conditions, zone: Option<&Arc<str>>, node: Option<&Arc<str>>) -> Hints {
        let distribution = self.service.distribution;
        if !conditions.ready || matches!(distribution, Distribution::Anywhere | Distribution::Auto) {
            return Hints::default();
        }
        let node = node.filter(|_| distribution == Distribution::SameNode);
        Hints {
            zones: zone.cloned().into_iter().collect(),
            nodes: node.cloned().into_iter().collect(),
        }
    }

    fn group(&mut self, pod: &Pod) -> Group {
        let ports = &self.service.ports;
        self.numbers.clear();
        self.numbers.extend(ports.iter().map(|port| resolve(port, pod)));
        if let Some(group) = self.groups.get(self.numbers.as_slice()) {
            return Arc::clone(group);
        }
        let resolved = ports.iter().zip(&self.numbers).filter_map(|(port, number)| {
            Some(SlicePort {
                name: Arc::clone(&port.name),
                protocol: port.protocol.clone(),
                port: Some((*number)?),
                app_protocol: port.app_protocol.clone(),
            })
        });
        let mut resolved: Vec<SlicePort> = resolved.collect();
        resolved.sort_unstable();
        let group: Group = resolved.into();
        self.groups.insert(self.numbers.as_slice().into(), Arc::clone(&group));
        group
    }
}

#[cfg(test)]
mod tests;
