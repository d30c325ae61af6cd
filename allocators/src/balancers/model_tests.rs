//! Random runs on a model of the apiserver: writes with preconditions that may be refused or whose answer may be lost, watch events that come
//! late, restarts, edits of everything. The invariants of the spec (I1 to I9) are checked by rules that are written out here anew.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rand_like::Dice;

use super::tests::{asking, ip, key, service, terms, with_spec};
use super::*;
use crate::cluster_ips::IpFamily;
use crate::few::Few;
use crate::node_ports::Protocol;
use crate::pools::{Mode, PoolSpec};
use crate::service::ServiceKey;

const NAMES: [&str; 9] = [
    "marsh/a", "marsh/b", "marsh/c", "marsh/d", "marsh/e", "fen/a", "fen/b", "fen/c", "fen/d",
];

/// A stored Service.
#[derive(Clone, Debug)]
struct Stored {
    facts: Facts,
    shown: BTreeSet<IpAddr>,
    version: u64,
}

/// What the watch has yet to tell, and what it has told.
#[derive(Clone, Debug)]
enum Told {
    Service(Box<Stored>),
    Gone(ServiceKey),
}

struct World {
    stored: BTreeMap<ServiceKey, Stored>,
    pools: Vec<BalancerPool>,
    events: VecDeque<Told>,
    /// The version of each Service that the controller knows.
    seen: BTreeMap<ServiceKey, u64>,
    balancers: Balancers,
    due: BTreeSet<ServiceKey>,
    version: u64,
    now: Instant,
    writes: usize,
}

mod rand_like {
    //! Dice from a list of numbers, so that proptest can shrink a run.

    /// Takes numbers from a list, and zeros once it is used up.
    pub struct Dice<'a>(pub &'a mut dyn Iterator<Item = u32>);

    impl Dice<'_> {
        /// One of `0..sides`.
        pub fn roll(&mut self, sides: u32) -> u32 {
            self.0.next().unwrap_or_default() % sides
        }

        /// True once in so many times.
        pub fn one_in(&mut self, times: u32) -> bool {
            self.roll(times) == times - 1
        }

        /// One of these.
        pub fn pick<'b, T>(&mut self, from: &'b [T]) -> &'b T {
            &from[self.roll(u32::try_from(from.len()).unwrap()) as usize]
        }
    }
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            stored: BTreeMap::new(),
            pools: Vec::new(),
            events: VecDeque::new(),
            seen: BTreeMap::new(),
            balancers: Balancers::default(),
            due: BTreeSet::new(),
            version: 0,
            now: Instant::now(),
            writes: 0,
        };
        world.balancers.start(&BTreeMap::new(), world.now);
        world
    }

    fn step(&mut self, dice: &mut Dice<'_>) {
        match dice.roll(20) {
            0..4 => self.store(dice),
            4 => {
                let chosen = *dice.pick(&NAMES);
                let name = key(chosen);
                if self.stored.remove(&name).is_some() {
                    self.events.push_back(Told::Gone(name));
                }
            }
            5 => self.edit_pools(dice),
            6..11 => self.hear(),
            11..17 => self.write(dice),
            17 => {
                self.now += Duration::from_secs(u64::from(dice.roll(60)));
                self.balancers.advance(self.now);
            }
            18 if dice.one_in(3) => self.restart(),
            _ => {
                while !self.events.is_empty() {
                    self.hear();
                }
            }
        }
        self.due.extend(self.balancers.take_changed());
        self.check_books();
    }

    /// Creates or changes a Service.
    fn store(&mut self, dice: &mut Dice<'_>) {
        let name = *dice.pick(&NAMES);
        let before = self.stored.get(&key(name));
        self.version += 1;
        let created = before.map_or_else(|| i64::from(dice.roll(5)), |it| it.facts.owner.created);
        let mut facts = asking(service(name, created), |ask| {
            if dice.one_in(2) {
                ask.families = vec![IpFamily::IPv4, IpFamily::IPv6];
                ask.policy = *dice.pick(&[Policy::Prefer, Policy::Require]);
            }
            if dice.one_in(4) {
                ask.addresses = vec![ip(&format!("203.0.113.{}", dice.roll(12)))];
            }
            if dice.one_in(8) {
                ask.pools = vec![Arc::from(*dice.pick(&["p0", "p1", "p2"]))];
            }
        });
        if dice.one_in(2) {
            facts.share.key = Some(Arc::from(*dice.pick(&["k", "j"])));
        }
        let port = u16::try_from(80 + dice.roll(4)).unwrap();
        facts.share.ports = [(*dice.pick(&[Protocol::Tcp, Protocol::Udp]), port)].into();
        let own = Arc::make_mut(&mut facts.share.terms);
        if dice.one_in(3) {
            own.consent = Consent::All;
        }
        if dice.one_in(4) {
            own.traffic = Traffic::Local {
                selector: [("app".to_owned(), dice.pick(&["x", "y"]).to_string())].into(),
                permits_others: dice.one_in(2),
            };
        }
        // One that is being deleted, and is held by somebody's finalizer, stays so.
        facts.is_leaving = before.is_some_and(|it| it.facts.is_leaving || dice.one_in(8));
        let stored = Stored {
            shown: before.map(|it| it.shown.clone()).unwrap_or_default(),
            facts,
            version: self.version,
        };
        self.events.push_back(Told::Service(Box::new(stored.clone())));
        self.stored.insert(key(name), stored);
    }

    fn edit_pools(&mut self, dice: &mut Dice<'_>) {
        let mut pools = Vec::new();
        for name in ["p0", "p1", "p2"] {
            if dice.one_in(4) {
                continue;
            }
            let first = dice.roll(10);
            let mut spec = PoolSpec {
                ranges: vec![format!("203.0.113.{first}-203.0.113.{}", first + dice.roll(4))],
                ..PoolSpec::default()
            };
            if dice.one_in(2) {
                spec.ranges.push(format!("2001:db8::{:x}/127", 16 + first / 2 * 2));
            }
            if dice.one_in(3) {
                spec.reservations = vec![(format!("203.0.113.{first}"), dice.pick(&NAMES).to_string())];
            }
            let pool = BalancerPool {
                order: *dice.pick(&[Order::Lowest, Order::Highest, Order::Spread]),
                on_removal: *dice.pick(&[OnRemoval::Retain, OnRemoval::Retain, OnRemoval::Reassign]),
                ..with_spec(name, &spec)
            };
            pools.push(terms(pool, |terms| {
                terms.mode = *dice.pick(&[Mode::Active, Mode::Active, Mode::Active, Mode::Drain, Mode::Disabled]);
                terms.priority = i32::try_from(dice.roll(3)).unwrap();
                terms.auto_assign = !dice.one_in(5);
                terms.enforce = dice.one_in(6);
                terms.reuse_delay = Duration::from_secs(u64::from(dice.roll(2) * 30));
            }));
        }
        self.pools.clone_from(&pools);
        self.balancers
            .set_pools(pools.clone(), |service| admitted(&pools, service), self.now);
    }

    /// The watch tells the next thing.
    fn hear(&mut self) {
        match self.events.pop_front() {
            None => {}
            Some(Told::Gone(service)) => {
                self.seen.remove(&service);
                self.balancers.remove_service(&service, self.now);
            }
            Some(Told::Service(stored)) => self.learn(&stored),
        }
    }

    fn learn(&mut self, stored: &Stored) {
        let service = &stored.facts.owner.service;
        // An event that is older than our own write.
        if self.seen.get(service).is_some_and(|seen| *seen >= stored.version) {
            return;
        }
        self.seen.insert(service.clone(), stored.version);
        let facts = Facts {
            admitted: admitted(&self.pools, service),
            ..stored.facts.clone()
        };
        self.balancers.set_service(facts, stored.shown.clone(), self.now);
    }

    /// One write that is due, with its precondition; refused if somebody was faster, and sometimes without an answer.
    fn write(&mut self, dice: &mut Dice<'_>) {
        let Some(service) = self.due.pop_first() else { return };
        let Some(outcome) = self.balancers.outcome(&service) else {
            return;
        };
        let facts = self.balancers.facts(&service).unwrap();
        if facts.is_leaving {
            return;
        }
        let wanted: BTreeSet<IpAddr> = outcome.addresses.iter().copied().collect();
        let seen = self.seen.get(&service).copied();
        let Some(stored) = self.stored.get(&service).filter(|stored| Some(stored.version) == seen) else {
            // 409 or 404: what is behind it comes over the watch.
            self.due.insert(service);
            self.hear();
            return;
        };
        if stored.shown == wanted {
            return;
        }
        self.check_write(&service, &wanted);
        // Whatever becomes of the write: it may be shown from now on.
        let both: BTreeSet<IpAddr> = stored.shown.union(&wanted).copied().collect();
        self.balancers.set_shown(&service, both, self.now);
        self.writes += 1;
        self.version += 1;
        let version = self.version;
        let stored = self.stored.get_mut(&service).unwrap();
        stored.shown.clone_from(&wanted);
        stored.version = version;
        let after = stored.clone();
        self.events.push_back(Told::Service(Box::new(after)));
        if dice.one_in(4) {
            self.due.insert(service);
        } else {
            self.seen.insert(service.clone(), version);
            self.balancers.set_shown(&service, wanted, self.now);
        }
    }

    /// A new leader: it lists, imports, and only then decides.
    fn restart(&mut self) {
        self.events.clear();
        self.seen.clear();
        self.due.clear();
        self.balancers = Balancers::default();
        let pools = self.pools.clone();
        self.balancers.set_pools(pools, |_| Few::default(), self.now);
        for stored in self.stored.clone().into_values() {
            self.learn(&stored);
        }
        self.balancers.start(&BTreeMap::new(), self.now);
    }

    fn settle(&mut self) {
        let mut nothing = std::iter::empty();
        let mut dice = Dice(&mut nothing);
        loop {
            while !self.events.is_empty() {
                self.hear();
            }
            self.due.extend(self.balancers.take_changed());
            if self.due.is_empty() && self.events.is_empty() {
                return;
            }
            self.write(&mut dice);
        }
    }

    /// I1 and I2 as stored: a write shows no address that another one shows, unless the two may share it. I6: nothing is dropped that is
    /// still legal. I7: nothing is newly given that may not be.
    fn check_write(&self, service: &ServiceKey, wanted: &BTreeSet<IpAddr>) {
        let facts = self.balancers.facts(service).unwrap();
        let stored = &self.stored[service];
        for fresh in wanted.difference(&stored.shown) {
            for (other, theirs) in self
                .stored
                .iter()
                .filter(|(other, it)| *other != service && it.shown.contains(fresh))
            {
                let known = self
                    .balancers
                    .facts(other)
                    .unwrap_or_else(|| panic!("{other} shows {fresh} and is not known"));
                assert!(
                    may_share(facts, known),
                    "{fresh} of {service} is shown by {other}: {theirs:?}"
                );
            }
        }
        for gone in stored.shown.difference(wanted) {
            assert!(
                !self.is_legal(facts, *gone),
                "{service} loses {gone}, which it may keep: {facts:?} {:?}",
                self.balancers.outcome(service)
            );
        }
    }

    /// An enforced pool is for the Service, so it may have nothing else.
    fn is_fenced(&self, facts: &Facts) -> bool {
        let mut pools = self.pools.iter();
        pools.any(|pool| pool.terms.enforce && pool.is_active() && facts.admitted.contains(&pool.terms.name))
    }

    /// A Service that shows this address may keep it.
    fn is_legal(&self, facts: &Facts, address: IpAddr) -> bool {
        let ask = facts.ask.as_ref().unwrap();
        let family = IpFamily::of(address);
        let pinned = || ask.addresses.iter().any(|pin| IpFamily::of(*pin) == family);
        let pool = self.pool_at(address);
        let asked = || ask.pools.is_empty() || pool.is_some_and(|pool| ask.pools.contains(&pool.terms.name));
        let kept = match pool {
            Some(pool) => {
                let is_for =
                    facts.admitted.contains(&pool.terms.name) && (pool.terms.enforce || !self.is_fenced(facts));
                is_for || pool.on_removal == OnRemoval::Retain
            }
            // Whether it was retained or somebody else's doing is not known here.
            None => false,
        };
        let mates = self.balancers.holders(address);
        let mates = || mates.iter().filter(|other| **other != facts.owner.service);
        let outcome = self.balancers.outcome(&facts.owner.service).unwrap();
        // Both or nothing.
        let has = |family: &IpFamily| outcome.addresses.iter().any(|other| IpFamily::of(*other) == *family);
        if ask.policy == Policy::Require && !ask.families.iter().all(has) {
            return false;
        }
        // One of several is enough.
        let surplus = outcome.addresses.iter().any(|other| IpFamily::of(*other) == family);
        // Whoever has lost it to others, who are gone by now, cannot have it again if it is kept for somebody else.
        let is_kept = self.reserved_for(address).is_some_and(|it| *it != facts.owner.service);
        ask.families.contains(&family)
            && !is_kept
            && !pinned()
            && asked()
            && kept
            && !surplus
            && mates().next().is_none()
    }

    fn reserved_for(&self, address: IpAddr) -> Option<&ServiceKey> {
        let holdings = &self.pool_at(address)?.holdings;
        match address {
            IpAddr::V4(value) => holdings.ipv4.reservations.get(&value),
            IpAddr::V6(value) => holdings.ipv6.reservations.get(&value),
        }
    }

    fn pool_at(&self, address: IpAddr) -> Option<&BalancerPool> {
        let named = self
            .pools
            .iter()
            .filter(|pool| pool.is_enabled() && pool.holdings.contains(address));
        // All are of the same age, so the name decides.
        named.min_by_key(|pool| &pool.terms.name)
    }

    /// I1, I2 and I9 of the books, at every moment.
    fn check_books(&self) {
        let mut held: BTreeMap<IpAddr, Vec<&ServiceKey>> = BTreeMap::new();
        for (service, outcome) in self.balancers.services() {
            for address in outcome.iter().flat_map(|outcome| &outcome.addresses) {
                held.entry(*address).or_default().push(service);
            }
        }
        for (address, services) in &held {
            for (number, one) in services.iter().enumerate() {
                for other in &services[number + 1..] {
                    let [left, right] = [one, other].map(|it| self.balancers.facts(it).unwrap());
                    assert!(may_share(left, right), "{address}: {left:?} {right:?}");
                }
            }
        }
        for pool in &self.pools {
            for (family, values) in [
                (
                    IpFamily::IPv4,
                    self.balancers.books.ipv4.owned(&pool.terms.name).unwrap().count(),
                ),
                (
                    IpFamily::IPv6,
                    self.balancers.books.ipv6.owned(&pool.terms.name).unwrap().count(),
                ),
            ] {
                let counts = self.balancers.counts(&pool.terms.name, family).unwrap();
                assert_eq!(
                    counts.held + counts.reserved + counts.quarantined + counts.free,
                    values,
                    "{pool:?} {counts:?}"
                );
            }
        }
    }

    /// I3, I5 and I8 once everything is written and seen, and no address rests, whatever its pool's delay was at the time.
    fn check_at_rest(&mut self) {
        self.settle();
        // Whoever gets what has rested leaves something else to rest.
        for round in 0.. {
            assert!(round < 100, "addresses go round for ever");
            self.now += Duration::from_mins(2);
            self.balancers.advance(self.now);
            self.settle();
            let books = &self.balancers.books;
            if books.ipv4.next_end().is_none() && books.ipv6.next_end().is_none() {
                break;
            }
        }
        for (service, stored) in &self.stored {
            let outcome = self.balancers.outcome(service).unwrap();
            let addresses: BTreeSet<IpAddr> = outcome.addresses.iter().copied().collect();
            if !stored.facts.is_leaving {
                assert_eq!(stored.shown, addresses, "{service}");
                self.check_patience(service, outcome);
            }
        }
        let before: BTreeMap<_, _> = self
            .stored
            .keys()
            .map(|it| (it.clone(), self.balancers.outcome(it).cloned()))
            .collect();
        // What is being deleted shows for ever what it has lost, and a new leader takes it for its own.
        let shows_what_it_lost = |(service, stored): (&ServiceKey, &Stored)| {
            let kept = self.balancers.outcome(service).map(|it| it.addresses.as_slice());
            stored
                .shown
                .iter()
                .any(|address| !kept.is_some_and(|kept| kept.contains(address)))
        };
        if self.stored.iter().any(shows_what_it_lost) {
            return;
        }
        let writes = self.writes;
        let cast_out = self.balancers.cast_out.clone();
        self.restart();
        for (service, outcome) in &before {
            let stored = &self.stored[service];
            if !stored.facts.is_leaving && stored.shown.is_disjoint(&cast_out) {
                assert_eq!(
                    self.balancers.outcome(service),
                    outcome.as_ref(),
                    "{service} after a restart"
                );
            }
        }
        self.settle();
        assert_eq!(self.writes, writes, "a restart writes nothing");
    }

    /// I8: nobody who takes any address waits while one is free for it.
    fn check_patience(&self, service: &ServiceKey, outcome: &Outcome) {
        let facts = self.balancers.facts(service).unwrap();
        let ask = facts.ask.as_ref().unwrap();
        let takes_any = ask.addresses.is_empty() && facts.share.key.is_none() && ask.policy != Policy::Require;
        if !takes_any {
            return;
        }
        for family in &ask.families {
            if outcome.addresses.iter().any(|it| IpFamily::of(*it) == *family) {
                continue;
            }
            let fenced = self.is_fenced(facts);
            for address in (0..16).flat_map(|last| {
                [
                    ip(&format!("203.0.113.{last}")),
                    ip(&format!("2001:db8::{:x}", 16 + last)),
                ]
            }) {
                let Some(pool) = self.pool_at(address).filter(|_| IpFamily::of(address) == *family) else {
                    continue;
                };
                let holders = self.balancers.holders(address);
                let reserved = [(
                    "4",
                    &pool
                        .holdings
                        .ipv4
                        .reservations
                        .keys()
                        .map(|it| IpAddr::V4(*it))
                        .collect::<Vec<_>>(),
                )];
                let is_open = pool.is_active()
                    && facts.admitted.contains(&pool.terms.name)
                    && (ask.pools.contains(&pool.terms.name) || (ask.pools.is_empty() && pool.terms.auto_assign))
                    && (!fenced || pool.terms.enforce)
                    && holders.is_empty()
                    && !reserved[0].1.contains(&address);
                assert!(
                    !is_open,
                    "{service} waits ({outcome:?}) and {address} of {pool:?} is free"
                );
            }
        }
    }
}

/// Pool `p2` is for `marsh` alone.
fn admitted(pools: &[BalancerPool], service: &ServiceKey) -> Few<Arc<str>> {
    let names = pools.iter().map(|pool| Arc::clone(&pool.terms.name));
    names
        .filter(|name| **name != *"p2" || &*service.namespace == "marsh")
        .collect()
}

/// The rule of spec 1.3, for a pair.
fn may_share(left: &Facts, right: &Facts) -> bool {
    let (one, two) = (&left.share, &right.share);
    let ports: BTreeSet<_> = one.ports.iter().collect();
    let namespaces = one.terms.namespace == two.terms.namespace
        || (one.terms.consent.covers(&two.terms.namespace) && two.terms.consent.covers(&one.terms.namespace));
    let traffic = match (&one.terms.traffic, &two.terms.traffic) {
        (Traffic::Cluster, Traffic::Cluster) => true,
        (
            Traffic::Local {
                selector: a,
                permits_others: p,
            },
            Traffic::Local {
                selector: b,
                permits_others: q,
            },
        ) => a == b || (*p && *q),
        _ => false,
    };
    one.key.is_some()
        && one.key == two.key
        && two.ports.iter().all(|port| !ports.contains(port))
        && namespaces
        && traffic
}

proptest! {
    #[test]
    fn whatever_happens_the_invariants_hold(numbers in proptest::collection::vec(any::<u32>(), 0..1500)) {
        let mut numbers = numbers.into_iter().peekable();
        let mut world = World::new();
        while numbers.peek().is_some() {
            world.step(&mut Dice(&mut numbers));
        }
        world.check_at_rest();
    }
}

/// One long life instead of many short ones. `BALANCER_STEPS` says how long.
#[test]
fn a_long_run_keeps_the_invariants() {
    let steps = std::env::var("BALANCER_STEPS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(5_000);
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut numbers = std::iter::from_fn(|| Some(runner.rng().next_u32()));
    let mut world = World::new();
    for step in 1..=steps {
        world.step(&mut Dice(&mut numbers));
        if step % 500 == 0 {
            world.check_at_rest();
        }
    }
    assert!(world.writes > steps / 50, "{} writes", world.writes);
}
