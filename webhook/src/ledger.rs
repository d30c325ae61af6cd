//! What admission knows of the cluster: the books of all values with the pools, namespaces and ranges that they depend on.
//!
//! The watches feed it (`controllers`), reviews ask it. Each is a call of a few microseconds under one lock.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use parking_lot::Mutex;
use svcplane_allocators::books::{Book, Governance, RangeSpec, Refusal, RequestError, Rules};
use svcplane_allocators::cluster_ips::{ClusterIpBooks, IpFamily, ServiceCidr};
use svcplane_allocators::freshness::{Feed, Freshness};
use svcplane_allocators::node_ports::PortRange;
use svcplane_allocators::pools::{ClusterIpHoldings, NodePortHoldings};
use svcplane_allocators::range::{Registry, ValueRange};
use svcplane_allocators::service::{Owner, ServiceKey};
use svcplane_allocators::value::NodePort;

use crate::pools::{Labels, Pool, Unreadable};

/// The one that all parts of the process share.
pub type SharedLedger = Arc<Mutex<Ledger>>;

/// A kind of object that choices rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Who holds what.
    Services,
    /// What there is. Servers from 1.33 on have them.
    ServiceCidrs,
    /// What the apiserver has reserved. Servers from 1.33 on have them.
    IpAddresses,
    /// Who may have which address.
    ClusterIpPools,
    /// Who may have which nodePort.
    NodePortPools,
    /// Their labels.
    Namespaces,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Services,
        Self::ServiceCidrs,
        Self::IpAddresses,
        Self::ClusterIpPools,
        Self::NodePortPools,
        Self::Namespaces,
    ];

    /// Servers before 1.33 do not have it.
    pub fn is_of_1_33(self) -> bool {
        matches!(self, Self::ServiceCidrs | Self::IpAddresses)
    }

    /// The plural name of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::ServiceCidrs => "servicecidrs",
            Self::IpAddresses => "ipaddresses",
            Self::ClusterIpPools => "clusterippools",
            Self::NodePortPools => "nodeportpools",
            Self::Namespaces => "namespaces",
        }
    }
}

/// A stored Service, as far as it holds values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Who it is.
    pub owner: Owner,
    /// `spec.clusterIPs`, without `None` and without what is no address.
    pub addresses: Vec<IpAddr>,
    /// Every `nodePort` and `healthCheckNodePort` that is not 0.
    pub ports: Vec<NodePort>,
}

/// One ServiceCIDR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CidrObject {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `spec.cidrs`.
    pub cidrs: Vec<IpNet>,
    /// Neither `Ready=False` nor being deleted.
    pub ready: bool,
}

/// The families that the apiserver was started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Families {
    /// Of Services that name none.
    pub primary: IpFamily,
    /// There is another one.
    pub dual: bool,
}

/// What is known of a namespace.
#[derive(Clone, Debug)]
pub(crate) struct Namespace {
    pub labels: Labels,
    /// When it was first seen.
    pub since: Instant,
}

/// What the flags say of the ranges.
#[derive(Clone, Debug)]
pub struct Ranges {
    /// `--service-cluster-ip-range`: beside the ServiceCIDRs, or instead of them on a server that has none.
    pub cidrs: Vec<IpNet>,
    /// `--service-node-port-range`.
    pub ports: PortRange,
}

/// See the head of this module.
#[derive(Debug)]
pub struct Ledger {
    pub(crate) cluster_ips: ClusterIpBooks,
    pub(crate) node_ports: Book<NodePort>,
    pub(crate) cluster_ip_pools: BTreeMap<Arc<str>, Pool<ClusterIpHoldings>>,
    pub(crate) node_port_pools: BTreeMap<Arc<str>, Pool<NodePortHoldings>>,
    pub(crate) namespaces: BTreeMap<Arc<str>, Namespace>,
    ranges: Ranges,
    has_objects: bool,
    cidrs: BTreeMap<Arc<str>, CidrObject>,
    feeds: BTreeMap<Kind, Feed>,
    unreadable: BTreeMap<(Kind, Arc<str>), Unreadable>,
}

impl Ledger {
    /// Knows the ranges and nothing else yet.
    pub fn new(ranges: Ranges, now: Instant) -> Self {
        let mut node_ports = Book::new(Rules::NODE_PORTS);
        let range = ValueRange::node_ports(ranges.ports);
        node_ports.set_ranges([RangeSpec { range, ready: true }], now);
        let mut ledger = Self {
            cluster_ips: ClusterIpBooks::default(),
            node_ports,
            cluster_ip_pools: BTreeMap::new(),
            node_port_pools: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            ranges,
            has_objects: true,
            cidrs: BTreeMap::new(),
            feeds: Kind::ALL.map(|kind| (kind, Feed::default())).into(),
            unreadable: BTreeMap::new(),
        };
        ledger.lay_out_ranges(now);
        ledger
    }

    /// The server is older than 1.33: the flag says which ranges there are, and Services alone who has what.
    pub fn without_objects(&mut self, now: Instant) {
        self.has_objects = false;
        self.feeds.retain(|kind, _| !kind.is_of_1_33());
        self.lay_out_ranges(now);
    }

    /// What must be watched.
    pub fn kinds(&self) -> Vec<Kind> {
        self.feeds.keys().copied().collect()
    }

    /// The first complete list of this kind, or one after a gap, has arrived; or its watch has shown that it is at work.
    pub fn heard(&mut self, kind: Kind, complete: bool, now: Instant) {
        if let Some(feed) = self.feeds.get_mut(&kind) {
            if complete {
                feed.listed(now);
            } else {
                feed.heard(now);
            }
        }
    }

    /// The watch of this kind is broken.
    pub fn broke(&mut self, kind: Kind, now: Instant) {
        if let Some(feed) = self.feeds.get_mut(&kind) {
            feed.broke(now);
        }
    }

    /// How well each kind is known.
    pub fn freshness(&self, now: Instant) -> impl Iterator<Item = (Kind, Freshness)> + '_ {
        self.feeds.iter().map(move |(kind, feed)| (*kind, feed.freshness(now)))
    }

    /// The first kind that is not known well enough to choose by, if there is one.
    pub fn waits_for(&self, now: Instant) -> Option<(Kind, Freshness)> {
        self.freshness(now).find(|(_, freshness)| *freshness != Freshness::Live)
    }

    /// The replicas that serve admission; see [`Book::set_members`].
    pub fn set_members(&mut self, me: &str, all: &[Arc<str>], now: Instant) {
        self.cluster_ips.set_members(me, all, now);
        self.node_ports.set_members(me, all, now);
    }

    /// A stored Service.
    pub fn set_service(&mut self, holder: Holder, now: Instant) {
        self.cluster_ips.set_service(&holder.owner, &holder.addresses, now);
        self.node_ports.set_service(holder.owner, holder.ports, now);
    }

    /// This Service is gone.
    pub fn remove_service(&mut self, service: &ServiceKey, now: Instant) {
        self.cluster_ips.remove_service(service, now);
        self.node_ports.remove_service(service, now);
    }

    /// A complete list of Services.
    pub fn replace_services(&mut self, holders: Vec<Holder>, now: Instant) {
        let addresses: Vec<_> = holders
            .iter()
            .map(|holder| (holder.owner.clone(), holder.addresses.clone()))
            .collect();
        self.cluster_ips.replace_services(&addresses, now);
        let ports = holders.into_iter().map(|holder| (holder.owner, holder.ports));
        self.node_ports.replace_services(ports, now);
    }

    /// An IPAddress and the Service that it names, if it names one.
    pub fn set_ip_address(&mut self, address: IpAddr, parent: Option<ServiceKey>, now: Instant) {
        self.cluster_ips.set_ip_address(address, parent, now);
    }

    /// This IPAddress is gone.
    pub fn remove_ip_address(&mut self, address: IpAddr, now: Instant) {
        self.cluster_ips.remove_ip_address(address, now);
    }

    /// A complete list of IPAddresses.
    pub fn replace_ip_addresses(&mut self, addresses: Vec<(IpAddr, Option<ServiceKey>)>, now: Instant) {
        self.cluster_ips.replace_ip_addresses(addresses, now);
    }

    /// A ServiceCIDR.
    pub fn set_service_cidr(&mut self, object: CidrObject, now: Instant) {
        if self.cidrs.get(&object.name) != Some(&object) {
            self.cidrs.insert(Arc::clone(&object.name), object);
            self.lay_out_ranges(now);
        }
    }

    /// This ServiceCIDR is gone.
    pub fn remove_service_cidr(&mut self, name: &str, now: Instant) {
        if self.cidrs.remove(name).is_some() {
            self.lay_out_ranges(now);
        }
    }

    /// A complete list of ServiceCIDRs.
    pub fn replace_service_cidrs(&mut self, objects: Vec<CidrObject>, now: Instant) {
        self.cidrs = objects
            .into_iter()
            .map(|object| (Arc::clone(&object.name), object))
            .collect();
        self.lay_out_ranges(now);
    }

    fn lay_out_ranges(&mut self, now: Instant) {
        let registry = if self.has_objects {
            Registry::IpAddresses
        } else {
            Registry::Bitmap
        };
        let given = self.ranges.cidrs.iter().map(|cidr| ServiceCidr {
            cidr: *cidr,
            ready: true,
        });
        let objects = self.cidrs.values().flat_map(|object| {
            let ready = object.ready;
            object.cidrs.iter().map(move |cidr| ServiceCidr { cidr: *cidr, ready })
        });
        // On a server with ServiceCIDRs the flag only says which family comes first.
        let cidrs: Vec<_> = if self.has_objects {
            objects.collect()
        } else {
            given.collect()
        };
        for (cidr, error) in self.cluster_ips.set_service_cidrs(cidrs, registry, now) {
            tracing::warn!(%cidr, %error, "the apiserver gives no address of this range");
        }
    }

    /// A pool of this kind that cannot be used.
    pub fn set_unreadable(&mut self, kind: Kind, pool: Unreadable, now: Instant) {
        match kind {
            Kind::NodePortPools => self.remove_node_port_pool(&pool.name, now),
            _ => self.remove_cluster_ip_pool(&pool.name, now),
        }
        self.unreadable.insert((kind, Arc::clone(&pool.name)), pool);
    }

    /// The pools of this kind that cannot be used, by name.
    pub fn unreadable(&self, kind: Kind) -> impl Iterator<Item = &Unreadable> {
        let of = self.unreadable.iter().filter(move |((of, _), _)| *of == kind);
        of.map(|(_, pool)| pool)
    }

    fn is_readable(&mut self, kind: Kind, name: &str) {
        self.unreadable.remove(&(kind, name.into()));
    }

    /// A ClusterIPPool.
    pub fn set_cluster_ip_pool(&mut self, pool: Pool<ClusterIpHoldings>, now: Instant) {
        self.is_readable(Kind::ClusterIpPools, &pool.terms.name);
        if self.cluster_ip_pools.get(&pool.terms.name) != Some(&pool) {
            self.cluster_ip_pools.insert(Arc::clone(&pool.terms.name), pool);
            self.lay_out_cluster_ip_pools(now);
        }
    }

    /// This ClusterIPPool is gone.
    pub fn remove_cluster_ip_pool(&mut self, name: &str, now: Instant) {
        self.is_readable(Kind::ClusterIpPools, name);
        if self.cluster_ip_pools.remove(name).is_some() {
            self.lay_out_cluster_ip_pools(now);
        }
    }

    /// A complete list of ClusterIPPools.
    pub fn replace_cluster_ip_pools(&mut self, pools: Vec<Pool<ClusterIpHoldings>>, now: Instant) {
        self.unreadable.retain(|(kind, _), _| *kind != Kind::ClusterIpPools);
        self.cluster_ip_pools = by_name(pools);
        self.lay_out_cluster_ip_pools(now);
    }

    fn lay_out_cluster_ip_pools(&mut self, now: Instant) {
        let pools = self.cluster_ip_pools.values();
        let pools: Vec<_> = pools
            .map(|pool| (Arc::clone(&pool.terms), pool.holdings.clone()))
            .collect();
        self.cluster_ips.set_pools(&pools, now);
    }

    /// A NodePortPool.
    pub fn set_node_port_pool(&mut self, pool: Pool<NodePortHoldings>, now: Instant) {
        self.is_readable(Kind::NodePortPools, &pool.terms.name);
        if self.node_port_pools.get(&pool.terms.name) != Some(&pool) {
            self.node_port_pools.insert(Arc::clone(&pool.terms.name), pool);
            self.lay_out_node_port_pools(now);
        }
    }

    /// This NodePortPool is gone.
    pub fn remove_node_port_pool(&mut self, name: &str, now: Instant) {
        self.is_readable(Kind::NodePortPools, name);
        if self.node_port_pools.remove(name).is_some() {
            self.lay_out_node_port_pools(now);
        }
    }

    /// A complete list of NodePortPools.
    pub fn replace_node_port_pools(&mut self, pools: Vec<Pool<NodePortHoldings>>, now: Instant) {
        self.unreadable.retain(|(kind, _), _| *kind != Kind::NodePortPools);
        self.node_port_pools = by_name(pools);
        self.lay_out_node_port_pools(now);
    }

    fn lay_out_node_port_pools(&mut self, now: Instant) {
        let pools = self.node_port_pools.values();
        let pools = pools.map(|pool| (Arc::clone(&pool.terms), &pool.holdings));
        self.node_ports.set_pools(pools, now);
    }

    /// A namespace.
    pub fn set_namespace(&mut self, name: &str, labels: Labels, now: Instant) {
        let since = self.namespaces.get(name).map_or(now, |known| known.since);
        self.namespaces.insert(name.into(), Namespace { labels, since });
    }

    /// This namespace is gone.
    pub fn remove_namespace(&mut self, name: &str) {
        self.namespaces.remove(name);
    }

    /// A complete list of namespaces.
    pub fn replace_namespaces(&mut self, namespaces: Vec<(Arc<str>, Labels)>, now: Instant) {
        let earlier = std::mem::take(&mut self.namespaces);
        for (name, labels) in namespaces {
            let since = earlier.get(&name).map_or(now, |known| known.since);
            self.namespaces.insert(name, Namespace { labels, since });
        }
    }

    /// The families of the cluster, once they are known. Flags of the apiserver decide alone. The ServiceCIDR `kubernetes` shows those that it was
    /// started with first, so a flag of ours wins: a cluster may have gone from two families to one.
    pub fn families(&self) -> Option<Families> {
        let shown = self.cidrs.get("kubernetes").map(|object| &object.cidrs);
        let cidrs = Some(&self.ranges.cidrs).filter(|given| !given.is_empty()).or(shown)?;
        let primary = IpFamily::of(cidrs.first()?.addr());
        Some(Families {
            primary,
            dual: cidrs.len() > 1,
        })
    }

    /// Whether a Service with these labels may have this ClusterIP; see [`Book::judge`].
    ///
    /// # Errors
    /// Why it may not.
    pub fn judge_cluster_ip(
        &self,
        service: &ServiceKey,
        labels: &Labels,
        address: IpAddr,
    ) -> Result<Option<Arc<str>>, Refusal> {
        let selects = |name: &str| {
            selects(
                &self.namespaces,
                self.cluster_ip_pools.get(name),
                &service.namespace,
                labels,
            )
        };
        self.cluster_ips.judge(address, service, selects)
    }

    /// The same for a nodePort.
    ///
    /// # Errors
    /// Why it may not.
    pub fn judge_node_port(
        &self,
        service: &ServiceKey,
        labels: &Labels,
        port: NodePort,
    ) -> Result<Option<Arc<str>>, Refusal> {
        let selects = |name: &str| {
            selects(
                &self.namespaces,
                self.node_port_pools.get(name),
                &service.namespace,
                labels,
            )
        };
        self.node_ports.judge(port, service, selects)
    }

    /// Which ClusterIPPools serve a Service with these labels in one family, and why others do not; see [`Book::govern`].
    ///
    /// # Errors
    /// It asks for a pool that does not serve it.
    pub fn govern_cluster_ips(
        &self,
        family: IpFamily,
        service: &ServiceKey,
        labels: &Labels,
        requested: Option<&str>,
    ) -> Result<Governance, RequestError> {
        let of_service = (&*service.namespace, labels);
        let selects = |name: &str| self.mismatch_of_cluster_ip_pool(name, of_service).is_none();
        match family {
            IpFamily::IPv4 => self.cluster_ips.ipv4.govern(selects, requested),
            IpFamily::IPv6 => self.cluster_ips.ipv6.govern(selects, requested),
        }
    }

    /// The same of NodePortPools.
    ///
    /// # Errors
    /// As [`Ledger::govern_cluster_ips`].
    pub fn govern_node_ports(
        &self,
        service: &ServiceKey,
        labels: &Labels,
        requested: Option<&str>,
    ) -> Result<Governance, RequestError> {
        let of_service = (&*service.namespace, labels);
        let selects = |name: &str| self.mismatch_of_node_port_pool(name, of_service).is_none();
        self.node_ports.govern(selects, requested)
    }

    /// Which part of this ClusterIPPool's selector does not match a Service of this namespace with these labels.
    pub fn mismatch_of_cluster_ip_pool(&self, pool: &str, of_service: (&str, &Labels)) -> Option<&'static str> {
        mismatch(&self.namespaces, self.cluster_ip_pools.get(pool), of_service)
    }

    /// The same of a NodePortPool.
    pub fn mismatch_of_node_port_pool(&self, pool: &str, of_service: (&str, &Labels)) -> Option<&'static str> {
        mismatch(&self.namespaces, self.node_port_pools.get(pool), of_service)
    }

    /// The first of these addresses that lie in no range that is ready.
    pub(crate) fn cluster_ips_outside(&self, holdings: &ClusterIpHoldings) -> Option<String> {
        let ipv4 = self.cluster_ips.ipv4.outside(&holdings.ipv4.values);
        ipv4.or_else(|| self.cluster_ips.ipv6.outside(&holdings.ipv6.values))
    }

    /// The first of these nodePorts that lie outside of the range.
    pub(crate) fn node_ports_outside(&self, holdings: &NodePortHoldings) -> Option<String> {
        self.node_ports.outside(&holdings.values)
    }

    /// How many ServiceCIDRs the family has.
    pub(crate) fn ranges_of(&self, family: IpFamily, now: Instant) -> usize {
        match family {
            IpFamily::IPv4 => self.cluster_ips.ipv4.ranges(now).count(),
            IpFamily::IPv6 => self.cluster_ips.ipv6.ranges(now).count(),
        }
    }

    /// Ends what is over at `now`; call it once a second or so.
    pub fn advance(&mut self, now: Instant) {
        self.cluster_ips.advance(now);
        self.node_ports.advance(now);
    }

    /// The ClusterIPPools that can be used.
    pub fn cluster_ip_pools(&self) -> impl Iterator<Item = &Pool<ClusterIpHoldings>> {
        self.cluster_ip_pools.values()
    }

    /// The NodePortPools that can be used.
    pub fn node_port_pools(&self) -> impl Iterator<Item = &Pool<NodePortHoldings>> {
        self.node_port_pools.values()
    }

    /// The books of addresses, to read.
    pub fn cluster_ips(&self) -> &ClusterIpBooks {
        &self.cluster_ips
    }

    /// The book of nodePorts, to read.
    pub fn node_ports(&self) -> &Book<NodePort> {
        &self.node_ports
    }
}

/// For how long the labels of a new namespace may not have reached every replica.
pub(crate) const NEW_NAMESPACE: Duration = Duration::from_secs(2);

/// Is this pool, if there is one, for a Service with these labels?
pub(crate) fn selects<H>(
    namespaces: &BTreeMap<Arc<str>, Namespace>,
    pool: Option<&Pool<H>>,
    namespace: &str,
    labels: &Labels,
) -> bool {
    mismatch(namespaces, pool, (namespace, labels)).is_none()
}

/// Which field of the pool keeps it from being for such a Service. Nothing is known of the labels of an unknown namespace.
fn mismatch<H>(
    namespaces: &BTreeMap<Arc<str>, Namespace>,
    pool: Option<&Pool<H>>,
    (namespace, labels): (&str, &Labels),
) -> Option<&'static str> {
    let none = Labels::new();
    let of_namespace = namespaces.get(namespace).map_or(&none, |known| &known.labels);
    match pool {
        Some(pool) => pool.selection.mismatch(namespace, of_namespace, labels),
        None => Some("metadata.name"),
    }
}

fn by_name<H>(pools: Vec<Pool<H>>) -> BTreeMap<Arc<str>, Pool<H>> {
    pools
        .into_iter()
        .map(|pool| (Arc::clone(&pool.terms.name), pool))
        .collect()
}
