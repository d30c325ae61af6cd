//! What each port of a Service needs, by the rules that kube-apiserver's registry follows after admission
//! (`pkg/registry/core/service/storage`): which ports share one number, which get their old number back, and which need a new one.

use std::collections::{BTreeMap, BTreeSet};

use crate::value::NodePort;

/// A transport protocol that a Service port can have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// `TCP`.
    #[default]
    Tcp,
    /// `UDP`.
    Udp,
    /// `SCTP`.
    Sctp,
}

/// What matters of an entry of `spec.ports`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServicePort<'a> {
    /// `name`, empty if there is none.
    pub name: &'a str,
    /// `port`.
    pub port: u16,
    /// `nodePort`.
    pub node_port: Option<NodePort>,
}

/// What the type of a Service does with nodePorts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodePorts {
    /// ClusterIP or ExternalName: none is allocated. (An ExternalName Service may carry numbers all the same.)
    Unused,
    /// LoadBalancer with `allocateLoadBalancerNodePorts: false`: those that are written down, and no others.
    OnRequest,
    /// NodePort, or any other LoadBalancer: each port has one.
    Automatic,
}

/// What one port needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// None: it stays 0.
    Nothing,
    /// The number that it has in the request.
    Keep(NodePort),
    /// This number, which the apiserver fills in if the field is left empty: that of an entry with the same `port` (on creation), or the
    /// one that it had (on update).
    Given(NodePort),
    /// A number of its own.
    Choose,
    /// The one that is chosen for the entry at this index; the apiserver fills it in if the field is left empty.
    SameAs(usize),
}

/// For each entry of `spec.ports` of a new Service. Entries of one `port` number, such as DNS over TCP and over UDP, share a nodePort.
pub fn needs_on_create(uses: NodePorts, ports: &[ServicePort<'_>]) -> Vec<Need> {
    let mut requested: BTreeMap<u16, NodePort> = BTreeMap::new();
    for entry in ports {
        if let Some(number) = entry.node_port {
            requested.entry(entry.port).or_insert(number);
        }
    }
    let mut chosen: BTreeMap<u16, usize> = BTreeMap::new();
    let need = |(index, entry): (usize, &ServicePort<'_>)| match (entry.node_port, uses) {
        (Some(number), _) => Need::Keep(number),
        (None, NodePorts::Unused | NodePorts::OnRequest) => Need::Nothing,
        (None, NodePorts::Automatic) => match requested.get(&entry.port) {
            Some(number) => Need::Given(*number),
            None => match *chosen.entry(entry.port).or_insert(index) {
                first if first == index => Need::Choose,
                first => Need::SameAs(first),
            },
        },
    };
    ports.iter().enumerate().map(need).collect()
}

/// For each entry of `spec.ports` of a changed Service. An entry without a number gets that of the old entry of the same **name**, so
/// that `port`, `protocol` and `targetPort` may change and a new name means a new number; unless an old number is named by the request,
/// then whoever names it has it. Entries of one `port` number do not share here.
pub fn needs_on_update(old: (NodePorts, &[ServicePort<'_>]), new: (NodePorts, &[ServicePort<'_>])) -> Vec<Need> {
    let numbers = |ports: &[ServicePort<'_>]| {
        ports
            .iter()
            .filter_map(|entry| entry.node_port)
            .collect::<BTreeSet<_>>()
    };
    let (held, named) = (numbers(old.1), numbers(new.1));
    let still_named = |number: &NodePort| held.contains(number) && named.contains(number);
    let carries_over = old.0 == NodePorts::Automatic && new.0 == NodePorts::Automatic;
    let by_name: BTreeMap<&str, Option<NodePort>> = old.1.iter().map(|entry| (entry.name, entry.node_port)).collect();
    let need = |entry: &ServicePort<'_>| match (entry.node_port, new.0) {
        (Some(number), _) => Need::Keep(number),
        (None, NodePorts::Unused | NodePorts::OnRequest) => Need::Nothing,
        (None, NodePorts::Automatic) => {
            let had = by_name.get(entry.name).copied().flatten();
            had.filter(|number| carries_over && !still_named(number))
                .map_or(Need::Choose, Need::Given)
        }
    };
    new.1.iter().map(need).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use NodePorts::{Automatic, OnRequest, Unused};

    fn number(number: u16) -> NodePort {
        NodePort::new(number).unwrap()
    }

    /// Name, port, nodePort.
    type Entries<'a> = &'a [(&'a str, u16, u16)];

    fn ports<'a>(entries: Entries<'a>) -> Vec<ServicePort<'a>> {
        let port = |(name, port, node_port): &(&'a str, u16, u16)| ServicePort {
            name,
            port: *port,
            node_port: NodePort::new(*node_port),
        };
        entries.iter().map(port).collect()
    }

    /// spec/allocation.md 2.2.
    #[test]
    fn a_new_services_entries_of_one_port_share_a_number() {
        let (keep, given) = (|n| Need::Keep(number(n)), |n| Need::Given(number(n)));
        let cases: [(NodePorts, Entries<'_>, &[Need]); 10] = [
            (Automatic, &[], &[]),
            (
                Automatic,
                &[("http", 80, 0), ("https", 443, 0)],
                &[Need::Choose, Need::Choose],
            ),
            (
                Automatic,
                &[("dns", 53, 0), ("web", 80, 0), ("dns-udp", 53, 0)],
                &[Need::Choose, Need::Choose, Need::SameAs(0)],
            ),
            (
                Automatic,
                &[("dns", 53, 0), ("dns-udp", 53, 31_053)],
                &[given(31_053), keep(31_053)],
            ),
            (
                Automatic,
                &[("dns", 53, 31_053), ("dns-udp", 53, 0)],
                &[keep(31_053), given(31_053)],
            ),
            // Two different numbers written down are two numbers; the third entry gets the first of them.
            (
                Automatic,
                &[("a", 53, 31_001), ("b", 53, 31_002), ("c", 53, 0)],
                &[keep(31_001), keep(31_002), given(31_001)],
            ),
            (
                OnRequest,
                &[("dns", 53, 0), ("dns-udp", 53, 31_053)],
                &[Need::Nothing, keep(31_053)],
            ),
            (OnRequest, &[("dns", 53, 0)], &[Need::Nothing]),
            (Unused, &[("dns", 53, 0)], &[Need::Nothing]),
            (Unused, &[("dns", 53, 31_053)], &[keep(31_053)]),
        ];
        for (uses, entries, needs) in cases {
            assert_eq!(needs_on_create(uses, &ports(entries)), needs, "{uses:?} {entries:?}");
        }
    }

    /// spec/allocation.md 2.3, field-bugs B47 (by name, DESIGN 8) and B48.
    #[test]
    fn a_changed_services_entries_keep_their_number_by_name() {
        let (keep, given) = (|n| Need::Keep(number(n)), |n| Need::Given(number(n)));
        let both = [("http", 80, 31_080), ("https", 443, 31_043)];
        let cases: [(NodePorts, Entries<'_>, NodePorts, Entries<'_>, &[Need]); 11] = [
            (
                Automatic,
                &both,
                Automatic,
                &[("https", 443, 0), ("http", 80, 0)],
                &[given(31_043), given(31_080)],
            ),
            (
                Automatic,
                &both,
                Automatic,
                &[("http", 8080, 0), ("https", 443, 0)],
                &[given(31_080), given(31_043)],
            ),
            (
                Automatic,
                &both,
                Automatic,
                &[("web", 80, 0), ("https", 443, 0)],
                &[Need::Choose, given(31_043)],
            ),
            (
                Automatic,
                &both,
                Automatic,
                &[("http", 80, 31_043), ("https", 443, 0)],
                &[keep(31_043), Need::Choose],
            ),
            (
                Automatic,
                &both,
                Automatic,
                &[("http", 80, 31_090), ("https", 443, 0)],
                &[keep(31_090), given(31_043)],
            ),
            (
                Automatic,
                &[("", 80, 31_080)],
                Automatic,
                &[("", 81, 0)],
                &[given(31_080)],
            ),
            // No sharing on update.
            (
                Automatic,
                &[("a", 80, 31_080)],
                Automatic,
                &[("dns", 53, 0), ("dns-udp", 53, 0)],
                &[Need::Choose, Need::Choose],
            ),
            (Unused, &[("", 80, 0)], Automatic, &[("", 80, 0)], &[Need::Choose]),
            // Numbers that an ExternalName Service carries are not carried over by the apiserver.
            (Unused, &[("", 80, 31_080)], Automatic, &[("", 80, 0)], &[Need::Choose]),
            (
                Automatic,
                &[("", 80, 31_021)],
                OnRequest,
                &[("", 80, 0)],
                &[Need::Nothing],
            ),
            (OnRequest, &[("", 80, 0)], Automatic, &[("", 80, 0)], &[Need::Choose]),
        ];
        for (before, old, after, new, needs) in cases {
            let got = needs_on_update((before, &ports(old)), (after, &ports(new)));
            assert_eq!(got, needs, "{old:?} -> {new:?}");
        }
    }
}
