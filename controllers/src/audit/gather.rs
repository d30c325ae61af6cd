//! Reads what is audited.

use std::time::Instant;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use svcplane_webhook::ledger::{Holder, Ledger, Ranges};
use svcplane_webhook::pools::{ClusterIPPool, LoadBalancerPool, NodePortPool, Unreadable, read_load_balancer_pool};
use svcplane_webhook::service::Service;

use super::report::Subject;
use crate::books::{feed, list, pages, ranges_and_pools, readable};
use crate::wire::WireService;

/// A Service as all parts of svcplane read it.
#[derive(Debug)]
pub struct Known {
    /// For the books.
    pub holder: Holder,
    /// For the judge.
    pub service: Service,
    /// `metadata.uid`.
    pub uid: String,
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
    /// LoadBalancerPools that cannot be used. Those of the other kinds are in the books.
    pub unreadable_balancers: Vec<Unreadable>,
    /// When it was read, in seconds since 1970.
    pub now: i64,
}

/// Reads it. The error is one line.
pub async fn gather(client: &Client, ranges: Ranges) -> Result<Stored, String> {
    let (kept, pools, namespaces) = tokio::try_join!(
        kept(client, |_| {}),
        async {
            tokio::try_join!(
                list::<ClusterIPPool>(client),
                list::<NodePortPool>(client),
                list::<LoadBalancerPool>(client)
            )
        },
        list::<Namespace>(client),
    )?;
    Stored::of(ranges, kept, pools, namespaces.as_deref())
}

/// The same without pools and namespaces: what kube-apiserver's own repair goes by.
pub async fn gather_values(client: &Client, ranges: Ranges) -> Result<Stored, String> {
    // A copy of the whole manifest may stand there, and no rule on values looks at it.
    let without_annotations = |known: &mut Known| known.service.metadata.annotations.clear();
    Stored::of(
        ranges,
        kept(client, without_annotations).await?,
        (None, None, None),
        None,
    )
}

/// What holds values, and where there are any.
#[derive(Debug)]
pub struct Kept {
    /// Every Service.
    pub services: Vec<Known>,
    /// Every IPAddress, if the server has such.
    pub addresses: Option<Vec<IPAddress>>,
    /// Every ServiceCIDR, if the server has such.
    pub cidrs: Option<Vec<ServiceCIDR>>,
    /// When it was read, in seconds since 1970.
    pub now: i64,
}

/// `trim`: takes off what is not needed of a Service.
async fn kept(client: &Client, trim: impl Fn(&mut Known)) -> Result<Kept, String> {
    let kind = GroupVersionKind::gvk("", "v1", "Service");
    let services: Api<DynamicObject> =
        Api::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&kind, "services"));
    // ServiceCIDRs after Services and IPAddresses after both: what is made in between is seen from its oldest part on.
    let read = |object| {
        let mut known = known(&object)?;
        trim(&mut known);
        Ok(known)
    };
    let services = pages(&services, "services", read).await?.unwrap_or_default();
    let cidrs = list::<ServiceCIDR>(client).await?;
    let without_managed_fields = |mut address: IPAddress| {
        address.metadata.managed_fields = None;
        Ok(address)
    };
    let addresses = pages(&Api::all(client.clone()), "ipaddresses", without_managed_fields).await?;
    Ok(Kept {
        services,
        addresses,
        cidrs,
        now: Timestamp::now().as_second(),
    })
}

fn known(object: &DynamicObject) -> Result<Known, String> {
    let unreadable = |error: serde_json::Error| format!("cannot read a Service: {error}");
    let uid = object.metadata.uid.clone().unwrap_or_default();
    let text = serde_json::to_string(object).map_err(unreadable)?;
    let wire: WireService = serde_json::from_str(&text).map_err(unreadable)?;
    Ok(Known {
        holder: wire.holder(),
        service: Service::parse(&text).map_err(unreadable)?,
        uid,
    })
}

/// Pools of the three kinds, as far as the server knows them.
pub type Pools = (
    Option<Vec<ClusterIPPool>>,
    Option<Vec<NodePortPool>>,
    Option<Vec<LoadBalancerPool>>,
);

impl Stored {
    /// With the books of it.
    pub fn of(
        ranges: Ranges,
        kept: Kept,
        (cluster_ips, node_ports, balancers): Pools,
        namespaces: Option<&[Namespace]>,
    ) -> Result<Self, String> {
        let now = Instant::now();
        let (cluster_ips, node_ports) = (cluster_ips.as_deref(), node_ports.as_deref());
        let mut ledger = ranges_and_pools(ranges, kept.cidrs.as_deref(), cluster_ips, node_ports, now)?;
        feed(&mut ledger, namespaces, now);
        let holders = kept.services.iter().map(|known| known.holder.clone());
        ledger.replace_services(holders.collect(), now);
        let balancers = balancers.iter().flatten();
        let unreadable = balancers.filter_map(|pool| readable(pool, read_load_balancer_pool(pool)).err());
        Ok(Self {
            ledger,
            unreadable_balancers: unreadable.collect(),
            services: kept.services,
            addresses: kept.addresses,
            now: kept.now,
        })
    }

    /// `metadata.uid` of one of the objects; empty if it is not known.
    pub fn uid(&self, subject: &Subject) -> String {
        let uid = match subject {
            Subject::Service(service) => {
                let mut services = self.services.iter();
                services
                    .find(|known| known.holder.owner.service == *service)
                    .map(|known| known.uid.clone())
            }
            Subject::IpAddress(name) => {
                let mut addresses = self.addresses.iter().flatten();
                addresses
                    .find(|address| address.name_any() == *name)
                    .and_then(kube::ResourceExt::uid)
            }
            // No Event is told of one.
            Subject::Pool(..) => None,
        };
        uid.unwrap_or_default()
    }
}
