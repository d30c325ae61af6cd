//! Pools that were stored while no webhook could refuse them.

use svcplane_webhook::ledger::Kind;
use svcplane_webhook::pools::Unreadable;

use super::gather::Stored;
use super::report::{Finding, Subject};

/// Those whose spec cannot be used.
pub fn findings(stored: &Stored) -> Vec<Finding> {
    let cluster_ips = stored.ledger.unreadable(Kind::ClusterIpPools);
    let node_ports = stored.ledger.unreadable(Kind::NodePortPools);
    let pools = cluster_ips
        .map(|pool| ("ClusterIPPool", pool))
        .chain(node_ports.map(|pool| ("NodePortPool", pool)))
        .chain(
            stored
                .unreadable_balancers
                .iter()
                .map(|pool| ("LoadBalancerPool", pool)),
        );
    let of = |(kind, pool): (&'static str, &Unreadable)| {
        let subject = Subject::Pool(kind, pool.name.to_string());
        Finding::error("InvalidPool", subject, "spec", pool.complaint())
    };
    pools.map(of).collect()
}
