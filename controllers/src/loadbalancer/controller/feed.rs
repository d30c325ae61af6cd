//! From the watches onto the desk.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use svcplane_allocators::balancers::Products;
use svcplane_allocators::service::ServiceKey;
use svcplane_webhook::pools::{Labels, LoadBalancerPool, ServedPool, Unreadable, read_load_balancer_pool};

use super::super::desk::Desk;
use super::super::neighbours::{Both, Neighbour};
use super::super::wire::{BalancedService, NeighbourNode, Seen};
use super::LoadBalancers;
use crate::books::readable;

/// A kind that addresses depend on.
pub trait Fed: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static {
    /// The name of its watch.
    const NAME: &'static str;
    /// What is kept of an object: a list holds these, which are a fraction of the objects.
    type Fact: Send;
    /// Reads it.
    fn fact(self, products: Products) -> Self::Fact;
    /// It is stored like this.
    fn set(desk: &mut Desk, fact: Self::Fact, now: Instant);
    /// It is gone.
    fn remove(self, desk: &mut Desk, now: Instant);
    /// A watch has told this version.
    fn told(_desk: &mut Desk, _version: u64) {}
    /// A complete list.
    fn replace(desk: &mut Desk, all: Vec<Self::Fact>, now: Instant);
}

impl Fed for BalancedService {
    const NAME: &'static str = "loadbalancer-services";
    /// One of another type by its name and version alone.
    type Fact = Result<Box<Seen>, (ServiceKey, u64)>;

    fn fact(self, products: Products) -> Self::Fact {
        let seen = self.read(products).map(Box::new);
        seen.ok_or_else(|| (self.key(), self.version()))
    }

    fn set(desk: &mut Desk, fact: Self::Fact, now: Instant) {
        match fact {
            Ok(seen) => desk.see(seen, now),
            Err((key, version)) => desk.gone(&key, version, now),
        }
    }

    fn remove(self, desk: &mut Desk, now: Instant) {
        desk.gone(&self.key(), self.version(), now);
    }

    fn told(desk: &mut Desk, version: u64) {
        desk.told.services = desk.told.services.max(version);
    }

    fn replace(desk: &mut Desk, all: Vec<Self::Fact>, now: Instant) {
        let mut seen: Vec<Box<Seen>> = all.into_iter().filter_map(Result::ok).collect();
        seen.retain(|seen| desk.scope().covers(&seen.class));
        desk.replace_services(seen, now);
    }
}

impl Fed for LoadBalancerPool {
    const NAME: &'static str = "loadbalancerpools";
    type Fact = (String, u64, Result<ServedPool, Unreadable>);

    fn fact(self, _: Products) -> Self::Fact {
        let pool = readable(&self, read_load_balancer_pool(&self));
        (self.name_any(), version(&self), pool)
    }

    fn set(desk: &mut Desk, (name, version, pool): Self::Fact, now: Instant) {
        desk.set_pool(&name, version, Some(pool), now);
    }

    fn remove(self, desk: &mut Desk, now: Instant) {
        desk.set_pool(&self.name_any(), version(&self), None, now);
    }

    fn told(desk: &mut Desk, version: u64) {
        desk.told.pools = desk.told.pools.max(version);
    }

    fn replace(desk: &mut Desk, all: Vec<Self::Fact>, now: Instant) {
        let pools = all.into_iter().map(|(name, version, pool)| (name, (version, pool)));
        desk.replace_pools(pools.collect(), now);
    }
}

impl Fed for Namespace {
    const NAME: &'static str = "loadbalancer-namespaces";
    type Fact = (String, Labels);

    fn fact(self, _: Products) -> Self::Fact {
        (self.name_any(), self.metadata.labels.unwrap_or_default())
    }

    fn set(desk: &mut Desk, (name, labels): Self::Fact, now: Instant) {
        desk.set_namespace(&name, Some(&labels), now);
    }

    fn remove(self, desk: &mut Desk, now: Instant) {
        desk.set_namespace(&self.name_any(), None, now);
    }

    fn replace(desk: &mut Desk, all: Vec<Self::Fact>, now: Instant) {
        desk.replace_namespaces(all.into_iter().collect(), now);
    }
}

impl Fed for NeighbourNode {
    const NAME: &'static str = "loadbalancer-nodes";
    type Fact = Vec<(Neighbour, Both)>;

    fn fact(self, _: Products) -> Self::Fact {
        self.uses()
    }

    fn set(desk: &mut Desk, uses: Self::Fact, now: Instant) {
        desk.set_neighbours(uses, now);
    }

    fn remove(self, desk: &mut Desk, now: Instant) {
        let gone = self
            .uses()
            .into_iter()
            .map(|(neighbour, _)| (neighbour, Both::default()));
        desk.set_neighbours(gone.collect(), now);
    }

    fn replace(desk: &mut Desk, all: Vec<Self::Fact>, now: Instant) {
        let uses = all.into_iter().flatten().collect();
        desk.replace_neighbours(uses, |it| !matches!(it, Neighbour::ServiceCidr(_)), now);
    }
}

impl Fed for ServiceCIDR {
    const NAME: &'static str = "loadbalancer-servicecidrs";
    type Fact = (Neighbour, Both);

    fn fact(self, _: Products) -> Self::Fact {
        let spec = self.spec.iter().flat_map(|spec| spec.cidrs.iter().flatten());
        let uses = Both::named(spec.map(String::as_str));
        (Neighbour::ServiceCidr(self.name_any().into()), uses)
    }

    fn set(desk: &mut Desk, fact: Self::Fact, now: Instant) {
        desk.set_neighbours(vec![fact], now);
    }

    fn remove(self, desk: &mut Desk, now: Instant) {
        let neighbour = Neighbour::ServiceCidr(self.name_any().into());
        desk.set_neighbours(vec![(neighbour, Both::default())], now);
    }

    fn replace(desk: &mut Desk, all: Vec<Self::Fact>, now: Instant) {
        desk.replace_neighbours(all, |it| matches!(it, Neighbour::ServiceCidr(_)), now);
    }
}

fn version<K: Resource>(object: &K) -> u64 {
    let text = object.meta().resource_version.as_deref();
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Takes the events of one kind; a list as a whole.
pub struct Intake<K: Fed> {
    controller: Arc<LoadBalancers>,
    products: Products,
    listed: Vec<K::Fact>,
    /// Of what was listed.
    newest: u64,
}

impl<K: Fed> Intake<K> {
    /// Onto the desk of this controller.
    pub fn new(controller: Arc<LoadBalancers>) -> Self {
        let products = controller.desk().lock().scope().products;
        Self {
            controller,
            products,
            listed: Vec::new(),
            newest: 0,
        }
    }

    /// Takes one event.
    pub fn event(&mut self, event: Event<K>) {
        let now = Instant::now();
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(object) => {
                self.newest = self.newest.max(version(&object));
                self.listed.push(object.fact(self.products));
            }
            Event::InitDone => {
                let (all, newest) = (std::mem::take(&mut self.listed), self.newest);
                self.controller.apply(|desk| {
                    K::told(desk, newest);
                    K::replace(desk, all, now);
                });
            }
            Event::Apply(object) => {
                let (version, fact) = (version(&object), object.fact(self.products));
                self.controller.apply(|desk| {
                    K::told(desk, version);
                    K::set(desk, fact, now);
                });
            }
            Event::Delete(object) => {
                let version = version(&object);
                self.controller.apply(|desk| {
                    K::told(desk, version);
                    object.remove(desk, now);
                });
            }
        }
    }
}
