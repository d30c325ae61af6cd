//! From the watches onto the desk.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use svcplane_webhook::pools::{Labels, LoadBalancerPool, ServedPool, Unreadable, read_load_balancer_pool};

use super::super::desk::Desk;
use super::super::neighbours::{Both, Neighbour};
use super::super::wire::{BalancedService, NeighbourNode};
use super::LoadBalancers;
use crate::books::readable;

/// A kind that addresses depend on.
pub trait Fed: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static {
    /// The name of its watch.
    const NAME: &'static str;
    /// It is stored like this.
    fn set(self, desk: &mut Desk, now: Instant);
    /// It is gone.
    fn remove(self, desk: &mut Desk, now: Instant);
    /// A complete list.
    fn replace(desk: &mut Desk, all: Vec<Self>, now: Instant);
}

impl Fed for BalancedService {
    const NAME: &'static str = "loadbalancer-services";

    fn set(self, desk: &mut Desk, now: Instant) {
        match self.read(desk.scope().products) {
            Some(seen) => desk.see(seen, now),
            None => desk.gone(&self.key(), self.version(), now),
        }
    }

    fn remove(self, desk: &mut Desk, now: Instant) {
        desk.gone(&self.key(), self.version(), now);
    }

    fn replace(desk: &mut Desk, all: Vec<Self>, now: Instant) {
        let products = desk.scope().products;
        let seen = all.iter().filter_map(|service| service.read(products));
        let ours = seen.filter(|seen| desk.scope().covers(&seen.class)).collect();
        desk.replace_services(ours, now);
    }
}

impl Fed for LoadBalancerPool {
    const NAME: &'static str = "loadbalancerpools";

    fn set(self, desk: &mut Desk, now: Instant) {
        desk.set_pool(&self.name_any(), version(&self), Some(pool(&self)), now);
    }

    fn remove(self, desk: &mut Desk, now: Instant) {
        desk.set_pool(&self.name_any(), version(&self), None, now);
    }

    fn replace(desk: &mut Desk, all: Vec<Self>, now: Instant) {
        let pools = all.iter().map(|it| (it.name_any(), (version(it), pool(it))));
        desk.replace_pools(pools.collect(), now);
    }
}

impl Fed for Namespace {
    const NAME: &'static str = "loadbalancer-namespaces";

    fn set(self, desk: &mut Desk, now: Instant) {
        desk.set_namespace(&self.name_any(), Some(self.labels()), now);
    }

    fn remove(self, desk: &mut Desk, now: Instant) {
        desk.set_namespace(&self.name_any(), None, now);
    }

    fn replace(desk: &mut Desk, all: Vec<Self>, now: Instant) {
        let labels: BTreeMap<String, Labels> = all.iter().map(|it| (it.name_any(), it.labels().clone())).collect();
        desk.replace_namespaces(labels, now);
    }
}

impl Fed for NeighbourNode {
    const NAME: &'static str = "loadbalancer-nodes";

    fn set(self, desk: &mut Desk, now: Instant) {
        desk.set_neighbours(self.uses(), now);
    }

    fn remove(self, desk: &mut Desk, now: Instant) {
        let gone = self
            .uses()
            .into_iter()
            .map(|(neighbour, _)| (neighbour, Both::default()));
        desk.set_neighbours(gone.collect(), now);
    }

    fn replace(desk: &mut Desk, all: Vec<Self>, now: Instant) {
        let uses = all.iter().flat_map(Self::uses).collect();
        desk.replace_neighbours(uses, |it| !matches!(it, Neighbour::ServiceCidr(_)), now);
    }
}

impl Fed for ServiceCIDR {
    const NAME: &'static str = "loadbalancer-servicecidrs";

    fn set(self, desk: &mut Desk, now: Instant) {
        desk.set_neighbours(vec![cidrs(&self)], now);
    }

    fn remove(self, desk: &mut Desk, now: Instant) {
        let (neighbour, _) = cidrs(&self);
        desk.set_neighbours(vec![(neighbour, Both::default())], now);
    }

    fn replace(desk: &mut Desk, all: Vec<Self>, now: Instant) {
        let uses = all.iter().map(cidrs).collect();
        desk.replace_neighbours(uses, |it| matches!(it, Neighbour::ServiceCidr(_)), now);
    }
}

fn cidrs(object: &ServiceCIDR) -> (Neighbour, Both) {
    let spec = object.spec.iter().flat_map(|spec| spec.cidrs.iter().flatten());
    let neighbour = Neighbour::ServiceCidr(object.name_any().into());
    (neighbour, Both::named(spec.map(String::as_str)))
}

fn pool(object: &LoadBalancerPool) -> Result<ServedPool, Unreadable> {
    readable(object, read_load_balancer_pool(object))
}

fn version(pool: &LoadBalancerPool) -> u64 {
    let text = pool.metadata.resource_version.as_deref();
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Takes the events of one kind; a list as a whole.
pub struct Intake<K> {
    controller: Arc<LoadBalancers>,
    listed: Vec<K>,
}

impl<K: Fed> Intake<K> {
    /// Onto the desk of this controller.
    pub fn new(controller: Arc<LoadBalancers>) -> Self {
        Self {
            controller,
            listed: Vec::new(),
        }
    }

    /// Takes one event.
    pub fn event(&mut self, event: Event<K>) {
        let now = Instant::now();
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(object) => self.listed.push(object),
            Event::InitDone => {
                let all = std::mem::take(&mut self.listed);
                self.controller.apply(|desk| K::replace(desk, all, now));
            }
            Event::Apply(object) => self.controller.apply(|desk| object.set(desk, now)),
            Event::Delete(object) => self.controller.apply(|desk| object.remove(desk, now)),
        }
    }
}
