//! Reads what the books of admission would be fed with.

use std::time::Instant;

use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use kube::Client;
use svcplane_webhook::ledger::{Ledger, Ranges};
use svcplane_webhook::pools::{ClusterIPPool, NodePortPool};

use crate::books::{feed, list, ranges_and_pools};
use crate::wire::WireService;

/// All of it. The error is one line.
pub async fn gather(client: &Client, ranges: Ranges) -> Result<Ledger, String> {
    let (services, cidrs, addresses, cluster_ips, node_ports) = tokio::try_join!(
        list::<WireService>(client),
        list::<ServiceCIDR>(client),
        list::<IPAddress>(client),
        list::<ClusterIPPool>(client),
        list::<NodePortPool>(client),
    )?;
    let now = Instant::now();
    let (cluster_ips, node_ports) = (cluster_ips.as_deref(), node_ports.as_deref());
    let mut ledger = ranges_and_pools(ranges, cidrs.as_deref(), cluster_ips, node_ports, now)?;
    feed(&mut ledger, services.as_deref(), now);
    feed(&mut ledger, addresses.as_deref(), now);
    Ok(ledger)
}
