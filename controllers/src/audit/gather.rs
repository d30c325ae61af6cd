//! Reads what is audited.

use std::time::Instant;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use svcplane_webhook::ledger::{Ledger, Ranges};
use svcplane_webhook::pools::{ClusterIPPool, NodePortPool};
use svcplane_webhook::service::Service;

use crate::books::{Booked, feed, list, pages, ranges_and_pools};
use crate::wire::WireService;

/// A Service as all parts of svcplane read it.
#[derive(Debug)]
pub struct Known {
    /// For the books.
    pub wire: WireService,
    /// For the judge.
    pub service: Service,
}

/// All of it.
#[derive(Debug)]
pub struct Stored {
    /// The books.
    pub ledger: Ledger,
    /// Every Service.
    pub services: Vec<Known>,
    /// Every IPAddress; `None` on a server that has none.
    pub addresses: Option<Vec<IPAddress>>,
    /// When it was read, in seconds since 1970.
    pub now: i64,
}

/// Reads it. The error is one line.
pub async fn gather(client: &Client, ranges: Ranges) -> Result<Stored, String> {
    let services: Api<DynamicObject> = {
        let kind = GroupVersionKind::gvk("", "v1", "Service");
        Api::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&kind, "services"))
    };
    // Addresses first: one that goes with its Service in between is no orphan, and one that comes is not missed.
    let addresses = list::<IPAddress>(client).await?;
    let (services, cidrs, cluster_ips, node_ports, namespaces) = tokio::try_join!(
        pages(&services, "services"),
        list::<ServiceCIDR>(client),
        list::<ClusterIPPool>(client),
        list::<NodePortPool>(client),
        list::<Namespace>(client),
    )?;
    let services = services.unwrap_or_default();
    let services = services.iter().map(known).collect::<Result<Vec<_>, _>>()?;
    Stored::of(
        ranges,
        services,
        addresses,
        cidrs.as_deref(),
        (cluster_ips, node_ports),
        namespaces.as_deref(),
        Timestamp::now().as_second(),
    )
}

fn known(object: &DynamicObject) -> Result<Known, String> {
    let unreadable = |error: serde_json::Error| format!("cannot read a Service: {error}");
    let text = serde_json::to_string(object).map_err(unreadable)?;
    Ok(Known {
        wire: serde_json::from_str(&text).map_err(unreadable)?,
        service: Service::parse(&text).map_err(unreadable)?,
    })
}

/// Pools of both kinds, as far as the server knows them.
pub type Pools = (Option<Vec<ClusterIPPool>>, Option<Vec<NodePortPool>>);

impl Stored {
    /// With the books of it.
    pub fn of(
        ranges: Ranges,
        services: Vec<Known>,
        addresses: Option<Vec<IPAddress>>,
        cidrs: Option<&[ServiceCIDR]>,
        (cluster_ips, node_ports): Pools,
        namespaces: Option<&[Namespace]>,
        seconds: i64,
    ) -> Result<Self, String> {
        let now = Instant::now();
        let (cluster_ips, node_ports) = (cluster_ips.as_deref(), node_ports.as_deref());
        let mut ledger = ranges_and_pools(ranges, cidrs, cluster_ips, node_ports, now)?;
        feed(&mut ledger, namespaces, now);
        let holders = services.iter().filter_map(|known| known.wire.fact());
        ledger.replace_services(holders.collect(), now);
        Ok(Self {
            ledger,
            services,
            addresses,
            now: seconds,
        })
    }
}
