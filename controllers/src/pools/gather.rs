//! Reads what the books of admission would be fed with.

use std::time::Instant;

use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use kube::Client;
use svcplane_webhook::ledger::{Ledger, Ranges};
use svcplane_webhook::pools::{ClusterIPPool, NodePortPool};

use crate::books::{feed, list_if_permitted, ranges_and_pools};
use crate::wire::WireService;

/// All of it. The error is one line, and names everything that may not be read.
pub async fn gather(client: &Client, ranges: Ranges) -> Result<Ledger, String> {
    let (services, cidrs, addresses, cluster_ips, node_ports) = tokio::try_join!(
        list_if_permitted::<WireService>(client),
        list_if_permitted::<ServiceCIDR>(client),
        list_if_permitted::<IPAddress>(client),
        list_if_permitted::<ClusterIPPool>(client),
        list_if_permitted::<NodePortPool>(client),
    )?;
    let mut refused = Vec::new();
    let services = permitted(services, &mut refused);
    let cidrs = permitted(cidrs, &mut refused);
    let addresses = permitted(addresses, &mut refused);
    let cluster_ips = permitted(cluster_ips, &mut refused);
    let node_ports = permitted(node_ports, &mut refused);
    if !refused.is_empty() {
        return Err(refused.join("; "));
    }
    let now = Instant::now();
    let (cluster_ips, node_ports) = (cluster_ips.as_deref(), node_ports.as_deref());
    let mut ledger = ranges_and_pools(ranges, cidrs.as_deref(), cluster_ips, node_ports, now)?;
    feed(&mut ledger, services.as_deref(), now);
    feed(&mut ledger, addresses.as_deref(), now);
    Ok(ledger)
}

fn permitted<T>(listed: Result<Option<T>, String>, refused: &mut Vec<String>) -> Option<T> {
    listed.unwrap_or_else(|why| {
        refused.push(why);
        None
    })
}
