//! What is known of the cluster as far as addresses depend on it, beside what is decided.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use svcplane_allocators::balancers::{BalancerPool, Balancers, Products};
use svcplane_allocators::few::Few;
use svcplane_allocators::service::ServiceKey;
use svcplane_webhook::pools::{Labels, ServedPool, Unreadable};

use super::assignment::Kept;
use super::condition::Change;
use super::neighbours::{Both, Neighbour, Neighbours, Overlap};
use super::wire::Seen;
use crate::model::Timestamp;

/// Which Services are ours.
#[derive(Clone, Debug)]
pub struct Scope {
    /// `--load-balancer-class`.
    pub classes: Vec<String>,
    /// `--load-balancer-default`: those without a class, too.
    pub without_class: bool,
    /// Whose annotations are read beside ours.
    pub products: Products,
}

impl Scope {
    /// A Service of this class (empty: of none) is ours.
    pub fn covers(&self, class: &str) -> bool {
        if class.is_empty() {
            self.without_class
        } else {
            self.classes.iter().any(|ours| ours == class)
        }
    }
}

/// A pool as it was read.
type StoredPool = Result<ServedPool, Unreadable>;

/// The newest versions that watches have told.
#[derive(Debug, Default)]
pub struct Told {
    /// Of Services.
    pub services: u64,
    /// Of pools.
    pub pools: u64,
}

/// See the head of this module. Every call says what time it is; what has to be written is due afterwards.
#[derive(Debug)]
pub struct Desk {
    scope: Scope,
    balancers: Balancers,
    pools: BTreeMap<String, (u64, StoredPool)>,
    neighbours: Neighbours,
    /// What of each pool its neighbours use.
    overlaps: BTreeMap<String, Overlap>,
    namespaces: BTreeMap<String, Labels>,
    services: BTreeMap<ServiceKey, Kept>,
    due: BTreeSet<ServiceKey>,
    /// Services that were ours and are gone, or of another type, in which case our condition is to go.
    left: BTreeSet<ServiceKey>,
    leads: bool,
    /// A list of an older state would take away what has come since.
    pub(super) told: Told,
}

impl Desk {
    /// Knows nothing yet.
    pub fn new(scope: Scope) -> Self {
        Self {
            scope,
            balancers: Balancers::default(),
            pools: BTreeMap::new(),
            neighbours: Neighbours::default(),
            overlaps: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            services: BTreeMap::new(),
            due: BTreeSet::new(),
            left: BTreeSet::new(),
            leads: false,
            told: Told::default(),
        }
    }

    /// Which Services are ours.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// What is decided.
    pub fn balancers(&self) -> &Balancers {
        &self.balancers
    }

    /// Pools that can be used.
    pub fn pools(&self) -> impl Iterator<Item = &ServedPool> {
        self.pools.values().filter_map(|(_, pool)| pool.as_ref().ok())
    }

    /// Pools that cannot.
    pub fn unreadable_pools(&self) -> impl Iterator<Item = &Unreadable> {
        self.pools.values().filter_map(|(_, pool)| pool.as_ref().err())
    }

    /// Services that are ours, each with what is stored.
    pub(super) fn services(&self) -> impl Iterator<Item = &Kept> {
        self.services.values()
    }

    /// A stored Service of type LoadBalancer. One that is older than what is known, or none of ours, changes nothing.
    pub fn see(&mut self, seen: Box<Seen>, now: Instant) {
        let key = seen.key.clone();
        let known = self.services.get(&key);
        if known.is_some_and(|kept| kept.seen.version >= seen.version) {
            return;
        }
        if !self.scope.covers(&seen.class) {
            self.drop_service(&key, now);
            return;
        }
        let facts = seen.facts(self.admitted(&seen));
        let shown: Few<IpAddr> = seen.shown.keys().collect();
        match self.services.get_mut(&key) {
            Some(kept) => {
                let wanted = self.balancers.outcome(&key).filter(|_| self.leads);
                kept.replace(seen, wanted, now);
            }
            None => {
                self.services.insert(key.clone(), Kept::new(seen, now));
            }
        }
        self.balancers.set_service(facts, shown, now);
        self.due.insert(key);
    }

    /// A Service is gone, or of another type, in this version.
    pub fn gone(&mut self, key: &ServiceKey, version: u64, now: Instant) {
        if self.services.get(key).is_some_and(|kept| kept.seen.version <= version) {
            self.drop_service(key, now);
        }
    }

    /// The complete list of Services.
    pub fn replace_services(&mut self, all: Vec<Box<Seen>>, now: Instant) {
        let listed: BTreeSet<ServiceKey> = all.iter().map(|seen| seen.key.clone()).collect();
        let lost: Vec<ServiceKey> = self
            .services
            .keys()
            .filter(|key| !listed.contains(key))
            .cloned()
            .collect();
        for key in lost {
            self.drop_service(&key, now);
        }
        for seen in all {
            self.see(seen, now);
        }
    }

    fn drop_service(&mut self, key: &ServiceKey, now: Instant) {
        if let Some(kept) = self.services.remove(key) {
            self.balancers.remove_service(key, now);
            self.due.remove(key);
            if self.leads && kept.seen.condition.is_some() {
                self.left.insert(key.clone());
                self.due.insert(key.clone());
            }
        }
    }

    /// Whether a Service was ours and is not any more. It is asked once.
    pub fn has_left(&mut self, key: &ServiceKey) -> bool {
        self.left.remove(key) && !self.services.contains_key(key)
    }

    /// A pool in this version; `None` = it is gone.
    pub fn set_pool(&mut self, name: &str, version: u64, pool: Option<StoredPool>, now: Instant) {
        if self.pools.get(name).is_some_and(|(known, _)| *known > version) {
            return;
        }
        let is_other = match pool {
            Some(pool) => {
                let unchanged = self.pools.get(name).is_some_and(|(_, known)| *known == pool);
                self.pools.insert(name.to_owned(), (version, pool));
                if unchanged {
                    return;
                }
                true
            }
            None => self.pools.remove(name).is_some(),
        };
        if is_other {
            self.lay_out_pools(now);
        }
    }

    /// The complete list of pools.
    pub fn replace_pools(&mut self, pools: BTreeMap<String, (u64, StoredPool)>, now: Instant) {
        if self.pools != pools {
            self.pools = pools;
            self.lay_out_pools(now);
        }
    }

    /// What somebody in the cluster uses.
    pub fn set_neighbours(&mut self, uses: Vec<(Neighbour, Both)>, now: Instant) {
        let mut is_news = false;
        for (neighbour, uses) in uses {
            is_news |= self.neighbours.set(neighbour, uses);
        }
        if is_news {
            self.look_around(now);
        }
    }

    /// What all in the cluster of a kind use.
    pub fn replace_neighbours(
        &mut self,
        uses: Vec<(Neighbour, Both)>,
        is_of_kind: impl Fn(&Neighbour) -> bool,
        now: Instant,
    ) {
        let listed = uses.iter().map(|(neighbour, _)| neighbour.clone()).collect();
        self.neighbours.retain(&listed, &is_of_kind);
        self.neighbours.knows_nodes |= is_of_kind(&Neighbour::Node("".into()));
        for (neighbour, uses) in uses {
            self.neighbours.set(neighbour, uses);
        }
        self.look_around(now);
    }

    /// Pools are laid out anew if others of their addresses are used.
    fn look_around(&mut self, now: Instant) {
        let overlap = |served: &ServedPool| {
            let name = served.pool.terms.name.to_string();
            (name, self.neighbours.overlap(&served.pool.holdings))
        };
        let overlaps: BTreeMap<String, Overlap> = self.pools().map(overlap).collect();
        if overlaps != self.overlaps {
            self.lay_out_pools(now);
        }
    }

    /// What of a pool others in the cluster use; `None` if it is not known what Nodes use.
    pub fn overlap(&self, pool: &str) -> Option<&Overlap> {
        self.overlaps.get(pool).filter(|_| self.neighbours.knows_nodes)
    }

    fn lay_out_pools(&mut self, now: Instant) {
        let (mut pools, mut overlaps) = (Vec::new(), BTreeMap::new());
        for served in self.pools() {
            let overlap = self.neighbours.overlap(&served.pool.holdings);
            pools.push(BalancerPool {
                holdings: overlap.rest_of(&served.pool.holdings),
                withheld: overlap.withheld.clone(),
                ..served.pool.clone()
            });
            overlaps.insert(served.pool.terms.name.to_string(), overlap);
        }
        self.overlaps = overlaps;
        let mut admitted: BTreeMap<ServiceKey, Few<Arc<str>>> = BTreeMap::new();
        for (key, kept) in &self.services {
            admitted.insert(key.clone(), self.admitted(&kept.seen));
        }
        let of = |key: &ServiceKey| admitted.get(key).cloned().unwrap_or_default();
        self.balancers.set_pools(pools, of, now);
        // The same addresses, to be treated otherwise.
        let balancers = &self.balancers;
        let is_outdated = |kept: &&Kept| {
            let mut shown = kept.seen.shown.addresses.iter();
            shown.any(|(address, mode)| balancers.ip_mode(*address).is_some_and(|wanted| wanted != *mode))
        };
        let outdated = self.services.values().filter(is_outdated);
        self.due.extend(outdated.map(|kept| kept.seen.key.clone()));
    }

    /// The labels of a namespace; `None` = it is gone.
    pub fn set_namespace(&mut self, name: &str, labels: Option<&Labels>, now: Instant) {
        let before = match labels {
            Some(labels) => self.namespaces.insert(name.to_owned(), labels.clone()),
            None => self.namespaces.remove(name),
        };
        if before.as_ref() != labels {
            self.admit_anew(|key| &*key.namespace == name, now);
        }
    }

    /// The labels of all namespaces.
    pub fn replace_namespaces(&mut self, namespaces: BTreeMap<String, Labels>, now: Instant) {
        if self.namespaces != namespaces {
            self.namespaces = namespaces;
            self.admit_anew(|_| true, now);
        }
    }

    fn admit_anew(&mut self, concerns: impl Fn(&ServiceKey) -> bool, now: Instant) {
        let concerned = self.services.iter().filter(|(key, _)| concerns(key));
        let admitted: Vec<_> = concerned
            .map(|(key, kept)| (key.clone(), self.admitted(&kept.seen)))
            .collect();
        for (key, admitted) in admitted {
            self.balancers.set_admitted(&key, admitted, now);
        }
    }

    /// The pools that are for a Service.
    fn admitted(&self, seen: &Seen) -> Few<Arc<str>> {
        let is_for = self.judge_of(seen);
        self.pools()
            .filter(|served| is_for(served))
            .map(|served| Arc::clone(&served.pool.terms.name))
            .collect()
    }

    /// Says of any pool whether it is for this Service.
    pub fn judge_of(&self, seen: &Seen) -> impl Fn(&ServedPool) -> bool {
        static NONE: Labels = Labels::new();
        let of_namespace = self.namespaces.get(&*seen.key.namespace).unwrap_or(&NONE);
        let labels = seen.labels.iter();
        let labels: Labels = labels
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect();
        move |served| served.admits(&seen.class, &seen.key.namespace, of_namespace, &labels)
    }

    /// This replica leads: what is known is complete and fresh.
    pub fn begin(&mut self, now: Instant) {
        self.leads = true;
        let mut claims = BTreeMap::new();
        for (key, kept) in &mut self.services {
            let claim = kept.claim();
            kept.begin(claim.as_ref(), now);
            claims.extend(claim.map(|claim| (key.clone(), claim)));
        }
        self.balancers.start(&claims, now);
        self.due = self.services.keys().cloned().collect();
    }

    /// It leads no more.
    pub fn end(&mut self) {
        self.leads = false;
        self.balancers.stop();
        self.due.clear();
        self.left.clear();
    }

    /// This replica decides.
    pub fn leads(&self) -> bool {
        self.leads
    }

    /// How many addresses of each pool their Services have although it does not give them to them any more.
    pub fn retained(&self) -> BTreeMap<Arc<str>, u64> {
        let mut retained = BTreeMap::new();
        for (key, outcome) in self.balancers.services() {
            let addresses = outcome.iter().flat_map(|outcome| &outcome.addresses);
            for pool in addresses.filter_map(|address| self.balancers.others_pool_of(*address, key)) {
                *retained.entry(Arc::clone(&pool.terms.name)).or_default() += 1;
            }
        }
        retained
    }

    /// Lets time go on.
    pub fn advance(&mut self, now: Instant) {
        if self.balancers.next_end().is_some_and(|end| end <= now) {
            self.balancers.advance(now);
        }
    }

    /// The Services that may have to be written, since this was last asked.
    pub fn take_due(&mut self) -> BTreeSet<ServiceKey> {
        let changed = self.balancers.take_changed();
        let due = std::mem::take(&mut self.due);
        if self.leads {
            due.into_iter().chain(changed).collect()
        } else {
            BTreeSet::new()
        }
    }

    /// What is to be written to a Service now, if anything is. It counts as sent.
    pub fn plan(&mut self, key: &ServiceKey, wall: Timestamp, now: Instant) -> Option<Change> {
        if !self.leads {
            return None;
        }
        let (kept, outcome) = (self.services.get_mut(key)?, self.balancers.outcome(key)?);
        let balancers = &self.balancers;
        let change = kept.plan(outcome, |address| balancers.ip_mode(address), wall, now)?;
        if change.of_addresses {
            // From the moment that it is sent nobody else may have what it shows.
            let shown = kept.seen.shown.keys();
            let may_show: Few<IpAddr> = shown.chain(outcome.addresses.iter().copied()).collect();
            self.balancers.set_shown(key, may_show, now);
        }
        Some(change)
    }

    /// What is stored of a Service of ours.
    pub(super) fn kept(&self, key: &ServiceKey) -> Option<&Kept> {
        self.services.get(key)
    }

    /// The same, to note something.
    pub(super) fn kept_mut(&mut self, key: &ServiceKey) -> Option<&mut Kept> {
        self.services.get_mut(key)
    }
}
