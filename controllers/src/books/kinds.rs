//! What the ledger keeps of each kind.

use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use svcplane_allocators::address::{parse_address, parse_cidr};
use svcplane_allocators::pools::{ClusterIpHoldings, FieldError, NodePortHoldings};
use svcplane_allocators::service::ServiceKey;
use svcplane_webhook::ledger::{CidrObject, Holder, Kind, Ledger};
use svcplane_webhook::pools::{
    ClusterIPPool, Labels, NodePortPool, Pool, Unreadable, read_cluster_ip_pool, read_node_port_pool,
};

use crate::wire::WireService;

/// A kind that choices rest on.
pub trait Booked: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static {
    /// Which one it is.
    const KIND: Kind;
    /// What is kept of an object.
    type Fact: Send;
    /// Reads it. `None`: it counts as gone.
    fn fact(&self) -> Option<Self::Fact>;
    /// It is stored like this.
    fn set(ledger: &mut Ledger, fact: Self::Fact, now: Instant);
    /// It is gone.
    fn remove(&self, ledger: &mut Ledger, now: Instant);
    /// A complete list.
    fn replace(ledger: &mut Ledger, facts: Vec<Self::Fact>, now: Instant);
}

impl Booked for WireService {
    const KIND: Kind = Kind::Services;
    type Fact = Holder;
    fn fact(&self) -> Option<Holder> {
        Some(self.holder())
    }
    fn set(ledger: &mut Ledger, fact: Holder, now: Instant) {
        ledger.set_service(fact, now);
    }
    fn remove(&self, ledger: &mut Ledger, now: Instant) {
        ledger.remove_service(&self.holder().owner.service, now);
    }
    fn replace(ledger: &mut Ledger, facts: Vec<Holder>, now: Instant) {
        ledger.replace_services(facts, now);
    }
}

impl Booked for ServiceCIDR {
    const KIND: Kind = Kind::ServiceCidrs;
    type Fact = CidrObject;
    fn fact(&self) -> Option<CidrObject> {
        let cidrs = self.spec.iter().flat_map(|spec| spec.cidrs.iter().flatten());
        let conditions = self.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let is_off = conditions
            .into_iter()
            .any(|it| it.type_ == "Ready" && it.status == "False");
        Some(CidrObject {
            name: self.name_any().into(),
            cidrs: cidrs.filter_map(|cidr| parse_cidr(cidr).ok()).collect(),
            ready: !is_off && self.metadata.deletion_timestamp.is_none(),
        })
    }
    fn set(ledger: &mut Ledger, fact: CidrObject, now: Instant) {
        ledger.set_service_cidr(fact, now);
    }
    fn remove(&self, ledger: &mut Ledger, now: Instant) {
        ledger.remove_service_cidr(&self.name_any(), now);
    }
    fn replace(ledger: &mut Ledger, facts: Vec<CidrObject>, now: Instant) {
        ledger.replace_service_cidrs(facts, now);
    }
}

impl Booked for IPAddress {
    const KIND: Kind = Kind::IpAddresses;
    type Fact = (IpAddr, Option<ServiceKey>);
    fn fact(&self) -> Option<Self::Fact> {
        let parent = Some(&self.spec.parent_ref)
            .filter(|parent| parent.group.as_deref().unwrap_or_default().is_empty() && parent.resource == "services");
        let service =
            parent.and_then(|parent| Some(ServiceKey::new(parent.namespace.as_deref()?, parent.name.as_str())));
        Some((parse_address(&self.name_any()).ok()?, service))
    }
    fn set(ledger: &mut Ledger, (address, parent): Self::Fact, now: Instant) {
        ledger.set_ip_address(address, parent, now);
    }
    fn remove(&self, ledger: &mut Ledger, now: Instant) {
        if let Ok(address) = parse_address(&self.name_any()) {
            ledger.remove_ip_address(address, now);
        }
    }
    fn replace(ledger: &mut Ledger, facts: Vec<Self::Fact>, now: Instant) {
        ledger.replace_ip_addresses(facts, now);
    }
}

impl Booked for ClusterIPPool {
    const KIND: Kind = Kind::ClusterIpPools;
    type Fact = Result<Pool<ClusterIpHoldings>, Unreadable>;
    fn fact(&self) -> Option<Self::Fact> {
        Some(readable(self, read_cluster_ip_pool(self)))
    }
    fn set(ledger: &mut Ledger, fact: Self::Fact, now: Instant) {
        match fact {
            Ok(pool) => ledger.set_cluster_ip_pool(pool, now),
            Err(pool) => ledger.set_unreadable(Self::KIND, pool, now),
        }
    }
    fn remove(&self, ledger: &mut Ledger, now: Instant) {
        ledger.remove_cluster_ip_pool(&self.name_any(), now);
    }
    fn replace(ledger: &mut Ledger, facts: Vec<Self::Fact>, now: Instant) {
        let (pools, unreadable) = sorted(facts);
        ledger.replace_cluster_ip_pools(pools, now);
        for pool in unreadable {
            ledger.set_unreadable(Self::KIND, pool, now);
        }
    }
}

impl Booked for NodePortPool {
    const KIND: Kind = Kind::NodePortPools;
    type Fact = Result<Pool<NodePortHoldings>, Unreadable>;
    fn fact(&self) -> Option<Self::Fact> {
        Some(readable(self, read_node_port_pool(self)))
    }
    fn set(ledger: &mut Ledger, fact: Self::Fact, now: Instant) {
        match fact {
            Ok(pool) => ledger.set_node_port_pool(pool, now),
            Err(pool) => ledger.set_unreadable(Self::KIND, pool, now),
        }
    }
    fn remove(&self, ledger: &mut Ledger, now: Instant) {
        ledger.remove_node_port_pool(&self.name_any(), now);
    }
    fn replace(ledger: &mut Ledger, facts: Vec<Self::Fact>, now: Instant) {
        let (pools, unreadable) = sorted(facts);
        ledger.replace_node_port_pools(pools, now);
        for pool in unreadable {
            ledger.set_unreadable(Self::KIND, pool, now);
        }
    }
}

impl Booked for Namespace {
    const KIND: Kind = Kind::Namespaces;
    type Fact = (Arc<str>, Labels);
    fn fact(&self) -> Option<Self::Fact> {
        Some((self.name_any().into(), self.labels().clone()))
    }
    fn set(ledger: &mut Ledger, (name, labels): Self::Fact, now: Instant) {
        ledger.set_namespace(&name, labels, now);
    }
    fn remove(&self, ledger: &mut Ledger, _: Instant) {
        ledger.remove_namespace(&self.name_any());
    }
    fn replace(ledger: &mut Ledger, facts: Vec<Self::Fact>, now: Instant) {
        ledger.replace_namespaces(facts, now);
    }
}

/// A pool that was stored while the webhook was away may be wrong.
pub fn readable<K: Resource<DynamicType = ()>, P>(
    object: &K,
    read: Result<P, Vec<FieldError>>,
) -> Result<P, Unreadable> {
    read.map_err(|errors| {
        let pool = Unreadable::of(object, &errors);
        tracing::error!(kind = %K::kind(&()), name = %pool.name, errors = pool.faults, "the pool cannot be used");
        pool
    })
}

/// Those that can be used, and those that cannot.
fn sorted<H>(facts: Vec<Result<Pool<H>, Unreadable>>) -> (Vec<Pool<H>>, Vec<Unreadable>) {
    let (mut pools, mut unreadable) = (Vec::new(), Vec::new());
    for fact in facts {
        match fact {
            Ok(pool) => pools.push(pool),
            Err(pool) => unreadable.push(pool),
        }
    }
    (pools, unreadable)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use svcplane_webhook::ledger::Ranges;

    use super::*;

    fn pool(name: &str, range: &str) -> ClusterIPPool {
        let object = json!({"apiVersion": "svcplane.io/v1alpha1", "kind": "ClusterIPPool",
            "metadata": {"name": name, "generation": 3, "creationTimestamp": "2026-01-02T03:04:05Z"}, "spec": {"ranges": [range]}});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_pool_that_cannot_be_used_is_known_until_it_can_or_is_gone() {
        let now = Instant::now();
        let ranges = Ranges {
            cidrs: Vec::new(),
            ports: "30000-32767".parse().unwrap(),
        };
        let mut ledger = Ledger::new(ranges, now);
        let state = |ledger: &Ledger| {
            let (good, bad) = (ledger.cluster_ip_pools(), ledger.unreadable(Kind::ClusterIpPools));
            let good: Vec<_> = good.map(|pool| pool.terms.name.to_string()).collect();
            let bad: Vec<_> = bad.map(|pool| pool.name.to_string()).collect();
            (good, bad)
        };
        let known = |good: &[&str], bad: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
            (owned(good), owned(bad))
        };
        let (good, bad) = (pool("a", "10.96.7.0/28"), pool("a", "10.96.7.9-10.96.7.0"));
        let set = |ledger: &mut Ledger, pool: &ClusterIPPool| ClusterIPPool::set(ledger, pool.fact().unwrap(), now);
        set(&mut ledger, &good);
        assert_eq!(state(&ledger), known(&["a"], &[]));
        set(&mut ledger, &bad);
        assert_eq!(state(&ledger), known(&[], &["a"]));
        set(&mut ledger, &good);
        assert_eq!(state(&ledger), known(&["a"], &[]));
        let listed = [pool("b", "10.96.8.9-10.96.8.0"), pool("c", "10.96.9.0/28")];
        ClusterIPPool::replace(&mut ledger, listed.iter().filter_map(Booked::fact).collect(), now);
        assert_eq!(state(&ledger), known(&["c"], &["b"]));
        listed[0].remove(&mut ledger, now);
        assert_eq!(state(&ledger), known(&["c"], &[]));
    }
}
