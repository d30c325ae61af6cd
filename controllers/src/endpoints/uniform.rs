//! The usual case at little cost: all Pods that count resolve every port alike, so that there is one subset.
//!
//! Says the same as [`compute`](super::compute) and [`truncate`](super::truncate), but keeps a Pod and a sort key per address and builds the
//! addresses only once it is known that they are to be written. Where Pods differ in their ports, or anything else is out of the ordinary,
//! it has no answer.

use std::net::IpAddr;
use std::sync::Arc;

use super::CAPACITY;
use super::compute::{POD, endpoint_ports, hostname, listed, lists_nothing, pod_address, resolve, resolves_none};
use super::ip_text::{IpText, rank};
use crate::model::{Address, EndpointPort, Pod, Service, Subset, Uid};

/// One subset, truncated.
#[derive(Clone, Debug)]
pub(super) struct Uniform<'a> {
    service: &'a Service,
    /// In canonical order.
    ports: Vec<EndpointPort>,
    /// In canonical order.
    ready: Vec<Entry<'a>>,
    /// In canonical order.
    not_ready: Vec<Entry<'a>>,
    truncated: bool,
}

/// An address to be.
#[derive(Clone, Copy, Debug)]
struct Entry<'a> {
    ip: IpAddr,
    pod: &'a Pod,
    node_name: &'a Arc<str>,
}

impl<'a> Uniform<'a> {
    /// What `service` is to list, if it is one subset. `pods` are all that its selector matches.
    pub fn of(service: &'a Service, pods: &'a [Arc<Pod>]) -> Option<Self> {
        if lists_nothing(service) {
            return None;
        }
        let mut numbers: Option<Vec<Option<i32>>> = None;
        let mut entries = Vec::with_capacity(pods.len());
        for pod in pods {
            let Ok((ip, node_name)) = listed(service, pod) else {
                continue;
            };
            let resolved = || service.ports.iter().map(|port| resolve(port, pod));
            if resolves_none(resolved()) {
                continue;
            }
            let alike = numbers.get_or_insert_with(|| resolved().collect());
            if !resolved().eq(alike.iter().copied()) {
                return None;
            }
            entries.push(Entry { ip, pod, node_name });
        }
        let mut ports = endpoint_ports(service, &numbers?);
        ports.sort_unstable();
        if !are_distinct_ports(&ports) {
            return None;
        }
        sort(&mut entries);
        if entries
            .windows(2)
            .any(|pair| matches!(pair, [a, b] if a.identity() == b.identity()))
        {
            return None;
        }
        Some(Self::divided(service, ports, entries))
    }

    /// Ready ones go before not ready ones, and the first of each stay.
    fn divided(service: &'a Service, ports: Vec<EndpointPort>, entries: Vec<Entry<'a>>) -> Self {
        let truncated = entries.len() > CAPACITY;
        let is_ready = |entry: &Entry<'_>| entry.pod.ready || service.publish_not_ready;
        let (mut ready, mut not_ready): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_ready);
        ready.truncate(CAPACITY);
        not_ready.truncate(CAPACITY - ready.len());
        Self {
            service,
            ports,
            ready,
            not_ready,
            truncated,
        }
    }

    /// Whether addresses were left out.
    pub fn truncated(&self) -> bool {
        self.truncated
    }

    /// The last address, if there is no room for those that are not ready and not even for all that are.
    pub fn cut(&self) -> Option<IpAddr> {
        let full = self.truncated && self.ready.len() == CAPACITY;
        self.ready.last().filter(|_| full).map(|entry| entry.ip)
    }

    /// Whether `stored` says the same, in whatever order of ports; `None` = it has another form, and the long way must tell.
    pub fn is_said_by(&self, stored: &[Subset]) -> Option<bool> {
        let [stored] = stored else { return None };
        let mut ports = stored.ports.clone();
        ports.sort_unstable();
        let same = self.ports == ports
            && self.are(&self.ready, &stored.addresses)
            && self.are(&self.not_ready, &stored.not_ready_addresses);
        if same {
            return Some(true);
        }
        // Of two that are in canonical form, one that looks different says something else.
        (are_distinct_ports(&ports) && is_in_order(stored)).then_some(false)
    }

    fn are(&self, entries: &[Entry<'_>], addresses: &[Address]) -> bool {
        entries.len() == addresses.len()
            && entries
                .iter()
                .zip(addresses)
                .all(|(entry, address)| self.is(entry, address))
    }

    fn is(&self, entry: &Entry<'_>, address: &Address) -> bool {
        let Some(target) = &address.target else {
            return false;
        };
        // Whatever else `Address` has, `pod_address` sets.
        let Address {
            ip,
            hostname: host,
            node_name,
            target: _,
        } = address;
        IpText::of(entry.ip).as_str() == &**ip
            && host.as_deref() == hostname(self.service, entry.pod)
            && node_name.as_ref() == Some(entry.node_name)
            && target.uid == entry.pod.uid
            && target.name == entry.pod.name
            && target.namespace == entry.pod.namespace
            && *target.kind == *POD
            && target.rest.is_none()
    }

    /// The subsets, built.
    pub fn into_subsets(self) -> Vec<Subset> {
        let kind: Arc<str> = Arc::from(POD);
        let build = |entries: Vec<Entry<'_>>| -> Vec<Address> {
            let entries = entries.into_iter();
            entries
                .map(|entry| {
                    pod_address(
                        self.service,
                        entry.pod,
                        IpText::of(entry.ip).as_str(),
                        entry.node_name,
                        &kind,
                    )
                })
                .collect()
        };
        vec![Subset {
            addresses: build(self.ready),
            not_ready_addresses: build(self.not_ready),
            ports: self.ports,
        }]
    }
}

impl<'a> Entry<'a> {
    /// As `repack` tells addresses apart.
    fn identity(&self) -> (IpAddr, Option<&'a Uid>) {
        (self.ip, Some(&self.pod.uid).filter(|uid| !uid.is_empty()))
    }
}

/// In the order of `repack`: by the text of the address, then by the uid.
fn sort(entries: &mut [Entry<'_>]) {
    if entries.iter().all(|entry| entry.ip.is_ipv4()) {
        let order = |entry: &Entry<'_>| match entry.ip {
            IpAddr::V4(ip) => rank(ip),
            IpAddr::V6(_) => 0,
        };
        entries.sort_unstable_by(|a, b| {
            let ties = || a.identity().1.cmp(&b.identity().1);
            order(a).cmp(&order(b)).then_with(ties)
        });
    } else {
        entries.sort_by_cached_key(|entry| (IpText::of(entry.ip), entry.identity().1));
    }
}

/// Sorted ports of which none repeats and each is a port.
fn are_distinct_ports(sorted: &[EndpointPort]) -> bool {
    sorted.iter().all(|port| port.port > 0) && sorted.windows(2).all(|pair| matches!(pair, [a, b] if a != b))
}

/// All addresses differ in identity and each list is in canonical order.
fn is_in_order(subset: &Subset) -> bool {
    let identity = super::repack::identity;
    let ascending = |list: &[Address]| {
        list.windows(2)
            .all(|pair| matches!(pair, [a, b] if identity(a) < identity(b)))
    };
    let mut others = subset.not_ready_addresses.iter().peekable();
    ascending(&subset.addresses)
        && ascending(&subset.not_ready_addresses)
        && subset.addresses.iter().all(|address| {
            while others.next_if(|other| identity(other) < identity(address)).is_some() {}
            others.peek().is_none_or(|other| identity(other) != identity(address))
        })
}

#[cfg(test)]
mod tests;
