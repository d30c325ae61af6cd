//! What there is to show.

use std::time::Instant;

use serde::Serialize;
use svcplane_allocators::books::{Book, PoolView};
use svcplane_allocators::cluster_ips::IpFamily;
use svcplane_allocators::pools::{Mode, PoolTerms};
use svcplane_allocators::value::Value;
use svcplane_webhook::ledger::Ledger;

use super::replicas::Replica;
use crate::loadbalancer::Desk;

/// Ranges and pools.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// ServiceCIDRs, and the range of nodePorts.
    pub ranges: Vec<Filled>,
    /// Pools of all kinds; one of two families twice.
    pub pools: Vec<FilledPool>,
    /// What each replica keeps in memory, if they were asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Vec<Replica>>,
}

/// How full something is.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Filled {
    /// `10.96.0.0/16`, `30000-32767`, or the name of a pool.
    pub name: String,
    /// `IPv4`, `IPv6` or `nodePort`.
    pub values: &'static str,
    /// The apiserver allocates from it.
    pub ready: bool,
    /// Values that can be given.
    pub total: u64,
    /// Held by a Service.
    pub used: u64,
    /// Kept by `spec.reservations`, and not held.
    pub reserved: u64,
    /// The others.
    pub free: u64,
}

/// How full a pool is, and what is odd about it.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FilledPool {
    /// Its kind.
    pub kind: &'static str,
    /// Its numbers.
    #[serde(flatten)]
    pub filled: Filled,
    /// `Active`, `Drain` or `Disabled`.
    pub mode: &'static str,
    /// `spec.enforce`.
    pub enforce: bool,
    /// `spec.priority`.
    pub priority: i32,
    /// Values that lie in no range that is ready, so that they are not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outside: Option<String>,
    /// Pools that have values of its.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overlaps: Vec<String>,
}

impl Report {
    /// Of these books.
    pub fn of(ledger: &Ledger, desk: Option<&Desk>, replicas: Option<Vec<Replica>>) -> Self {
        let (addresses, ports) = (ledger.cluster_ips(), ledger.node_ports());
        let mut ranges = filled(&addresses.ipv4, "IPv4");
        ranges.extend(filled(&addresses.ipv6, "IPv6"));
        ranges.extend(filled(ports, "nodePort"));
        let mut pools = Vec::new();
        for pool in ledger.cluster_ip_pools() {
            for (named, book, values) in [
                (
                    !pool.holdings.ipv4.values.is_empty(),
                    view(&addresses.ipv4, &pool.terms),
                    "IPv4",
                ),
                (
                    !pool.holdings.ipv6.values.is_empty(),
                    view(&addresses.ipv6, &pool.terms),
                    "IPv6",
                ),
            ] {
                pools.extend(
                    book.filter(|_| named)
                        .map(|view| of_pool("ClusterIPPool", &pool.terms, view, values)),
                );
            }
        }
        for pool in ledger.node_port_pools() {
            let view = view(ports, &pool.terms);
            pools.extend(view.map(|view| of_pool("NodePortPool", &pool.terms, view, "nodePort")));
        }
        pools.extend(desk.into_iter().flat_map(of_load_balancers));
        Self {
            ranges,
            pools,
            replicas,
        }
    }
}

/// One of two families twice.
fn of_load_balancers(desk: &Desk) -> Vec<FilledPool> {
    let (balancers, mut pools) = (desk.balancers(), Vec::new());
    for pool in balancers.pools() {
        let terms = &pool.terms;
        let overlaps = balancers.conflicts(&terms.name);
        for (family, values) in [(IpFamily::IPv4, "IPv4"), (IpFamily::IPv6, "IPv6")] {
            let Some(counts) = balancers.counts(&terms.name, family).filter(|it| it.total() > 0) else {
                continue;
            };
            pools.push(FilledPool {
                kind: "LoadBalancerPool",
                filled: Filled {
                    name: terms.name.to_string(),
                    values,
                    ready: pool.is_enabled(),
                    total: counts.total(),
                    used: counts.held,
                    reserved: counts.reserved,
                    free: counts.free,
                },
                mode: mode(terms),
                enforce: terms.enforce,
                priority: terms.priority,
                outside: None,
                overlaps: overlaps.iter().map(|(name, _)| name.to_string()).collect(),
            });
        }
    }
    pools
}

fn filled<V: Value>(book: &Book<V>, values: &'static str) -> Vec<Filled> {
    let ranges = book.ranges(Instant::now()).map(|range| Filled {
        name: range.text.to_string(),
        values,
        ready: range.ready,
        total: range.counts.capacity,
        used: range.counts.used,
        reserved: range.counts.reserved,
        free: range.counts.free,
    });
    ranges.collect()
}

fn view<V: Value>(book: &Book<V>, terms: &PoolTerms) -> Option<PoolView> {
    book.pools().find(|view| view.name == terms.name)
}

fn of_pool(kind: &'static str, terms: &PoolTerms, view: PoolView, values: &'static str) -> FilledPool {
    let status = view.status();
    FilledPool {
        kind,
        filled: Filled {
            name: terms.name.to_string(),
            values,
            ready: view.outside.is_none() && terms.mode != Mode::Disabled,
            total: status.total,
            used: status.used,
            reserved: status.reserved,
            free: status.available,
        },
        mode: mode(terms),
        enforce: terms.enforce,
        priority: terms.priority,
        outside: view.outside,
        overlaps: view.conflicts.into_iter().map(|(name, _)| name.to_string()).collect(),
    }
}

fn mode(terms: &PoolTerms) -> &'static str {
    match terms.mode {
        Mode::Active => "Active",
        Mode::Drain => "Drain",
        Mode::Disabled => "Disabled",
    }
}
