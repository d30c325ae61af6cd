//! The state machine: what is told to it, and what it wants shown.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use super::ask::{Facts, Outcome};
use super::families::{Books, at};
use super::group::Group;
use super::pool::{BalancerPool, OnRemoval};
use super::term::may_keep;
use super::wait::{Wait, Waiting};
use crate::cluster_ips::IpFamily;
use crate::few::Few;
use crate::service::ServiceKey;

/// One Service.
#[derive(Debug)]
pub(super) struct Known {
    pub facts: Arc<Facts>,
    /// What its status shows.
    pub shown: Few<IpAddr>,
    /// `None` before it was first decided on.
    pub outcome: Option<Outcome>,
}

impl Known {
    /// What it is to have.
    pub fn held(&self) -> &[IpAddr] {
        self.outcome
            .as_ref()
            .map_or(&[], |outcome| outcome.addresses.as_slice())
    }
}

/// See the head of [`balancers`](super).
///
/// It is fed all the time and decides nothing before [`start`](Self::start); what it sees till then it remembers: which addresses rest after
/// use, and which their pool has given up. Each call brings everything to where it belongs: [`take_changed`](Self::take_changed) then names
/// the Services whose [`outcome`](Self::outcome) is another.
#[derive(Debug, Default)]
pub struct Balancers {
    pub(super) books: Books,
    /// By priority, then name.
    pub(super) pools: Vec<Arc<BalancerPool>>,
    pub(super) services: BTreeMap<ServiceKey, Known>,
    pub(super) waiting: Waiting,
    /// Addresses in use that their pool has given up with `onRemoval: Reassign`.
    pub(super) cast_out: BTreeSet<IpAddr>,
    pub(super) changed: BTreeSet<ServiceKey>,
    pub(super) is_started: bool,
}

impl Balancers {
    /// All pools that there are. `admitted`: those that are for a Service.
    pub fn set_pools(
        &mut self,
        mut pools: Vec<BalancerPool>,
        admitted: impl Fn(&ServiceKey) -> Few<Arc<str>>,
        now: Instant,
    ) {
        pools.sort_by(|left, right| {
            (left.terms.priority, &left.terms.name).cmp(&(right.terms.priority, &right.terms.name))
        });
        let pools: Vec<Arc<BalancerPool>> = pools.into_iter().map(Arc::new).collect();
        let in_use = self.services.values();
        let in_use: BTreeSet<IpAddr> = in_use
            .flat_map(|known| known.held().iter().chain(&known.shown))
            .copied()
            .collect();
        self.cast_out.retain(|address| in_use.contains(address));
        let before: Vec<(IpAddr, Option<Arc<BalancerPool>>)> = in_use
            .into_iter()
            .map(|address| (address, self.books.pool_at(address).cloned()))
            .collect();
        self.books
            .ipv4
            .set_pools(pools.iter().map(|pool| (pool, &pool.holdings.ipv4)));
        self.books
            .ipv6
            .set_pools(pools.iter().map(|pool| (pool, &pool.holdings.ipv6)));
        self.pools = pools;
        for (address, had) in before {
            if self.books.pool_at(address).is_some() {
                self.cast_out.remove(&address);
            } else if let Some(had) = had {
                let now_there = self.pools.iter().find(|pool| pool.terms.name == had.terms.name);
                if now_there.unwrap_or(&had).on_removal == OnRemoval::Reassign {
                    self.cast_out.insert(address);
                }
            }
        }
        for (key, known) in &mut self.services {
            let admitted = admitted(key);
            if known.facts.admitted != admitted {
                Arc::make_mut(&mut known.facts).admitted = admitted;
            }
        }
        self.decide_all(now);
    }

    /// A stored Service of ours, and what its status shows.
    pub fn set_service(&mut self, facts: Facts, shown: impl Into<Few<IpAddr>>, now: Instant) {
        let shown = shown.into();
        let key = facts.owner.service.clone();
        let known = self.services.get(&key);
        // Made again under its name: nothing of the old one is its own.
        if known.is_some_and(|known| known.facts.owner != facts.owner) {
            self.remove_service(&key, now);
        }
        let facts = Arc::new(facts);
        match self.services.get_mut(&key) {
            Some(known) if known.facts == facts => self.set_shown(&key, shown, now),
            Some(known) => {
                let before = std::mem::replace(&mut known.facts, Arc::clone(&facts));
                let mut stood_back = BTreeSet::new();
                if before.share != facts.share {
                    stood_back = self.share_anew(&key, now);
                }
                self.note_shown(&key, shown, now);
                self.decide_on(&key, now);
                for other in stood_back {
                    self.decide_on(&other, now);
                }
            }
            None => {
                let known = Known {
                    facts,
                    shown: Few::default(),
                    outcome: None,
                };
                self.services.insert(key.clone(), known);
                self.note_shown(&key, shown, now);
                if self.is_started {
                    self.adopt_late(&key);
                }
                self.decide_on(&key, now);
            }
        }
    }

    /// The status of a Service shows these.
    pub fn set_shown(&mut self, key: &ServiceKey, shown: impl Into<Few<IpAddr>>, now: Instant) {
        self.note_shown(key, shown.into(), now);
        self.settle(now);
    }

    /// Other pools than before are for this Service.
    pub fn set_admitted(&mut self, key: &ServiceKey, admitted: Few<Arc<str>>, now: Instant) {
        if let Some(known) = self.services.get_mut(key)
            && known.facts.admitted != admitted
        {
            Arc::make_mut(&mut known.facts).admitted = admitted;
            self.decide_on(key, now);
        }
    }

    /// This Service is gone, or is none of ours any more.
    pub fn remove_service(&mut self, key: &ServiceKey, now: Instant) {
        self.waiting.remove(key);
        self.changed.remove(key);
        let Some(known) = self.services.remove(key) else { return };
        for address in known.held() {
            self.books.leave(*address, key, now);
        }
        for address in known.shown {
            at!(self.books, address, hide(key, now));
        }
        self.settle(now);
    }

    /// Lets time go on.
    pub fn advance(&mut self, now: Instant) {
        self.books.ipv4.advance(now);
        self.books.ipv6.advance(now);
        self.settle(now);
    }

    /// When [`advance`](Self::advance) will next have something to do.
    pub fn next_end(&self) -> Option<Instant> {
        let ends = [self.books.ipv4.next_end(), self.books.ipv6.next_end()];
        ends.into_iter().flatten().min()
    }

    /// The Services whose outcome has changed since this was last asked.
    pub fn take_changed(&mut self) -> BTreeSet<ServiceKey> {
        std::mem::take(&mut self.changed)
    }

    /// A Service's own share has changed: it stays where the others let it. Those who have not shown an address yet stand back for one who
    /// has; they are named, and are to be decided on anew.
    fn share_anew(&mut self, key: &ServiceKey, now: Instant) -> BTreeSet<ServiceKey> {
        let mut stood_back = BTreeSet::new();
        let Some(known) = self.services.get(key) else {
            return stood_back;
        };
        let (facts, shown) = (Arc::clone(&known.facts), known.shown.clone());
        let (held, mut stays) = (known.held().to_vec(), Vec::new());
        let letting_go = shown.iter().copied().filter(|address| !held.contains(address));
        for address in held.iter().copied().chain(letting_go) {
            self.books.leave(address, key, now);
            // It comes as anew to what it does not show yet: somebody who does may be about to let go.
            let mut may = if shown.contains(&address) {
                may_keep(&self.books, address, &facts)
            } else {
                self.books.may_join(address, &facts).is_ok()
            };
            if !may && shown.contains(&address) {
                for newcomer in at!(self.books, address, newcomers()) {
                    self.stand_back(&newcomer, address, now);
                    stood_back.insert(newcomer);
                }
                may = may_keep(&self.books, address, &facts);
            }
            if may && held.contains(&address) {
                self.books.join(address, &facts);
                stays.push(address);
            }
        }
        if let Some(outcome) = self.services.get_mut(key).and_then(|known| known.outcome.as_mut()) {
            outcome.addresses = stays;
        }
        stood_back
    }

    fn stand_back(&mut self, key: &ServiceKey, address: IpAddr, now: Instant) {
        self.books.leave(address, key, now);
        if let Some(outcome) = self.services.get_mut(key).and_then(|known| known.outcome.as_mut()) {
            outcome.addresses.retain(|held| *held != address);
            self.changed.insert(key.clone());
        }
    }

    fn note_shown(&mut self, key: &ServiceKey, shown: Few<IpAddr>, now: Instant) {
        let Some(known) = self.services.get_mut(key) else {
            return;
        };
        let before = std::mem::replace(&mut known.shown, shown);
        for address in known.shown.difference(&before) {
            at!(self.books, *address, show(key));
        }
        for address in before.difference(&known.shown) {
            at!(self.books, *address, hide(key, now));
        }
    }

    fn decide_on(&mut self, key: &ServiceKey, now: Instant) {
        if self.is_started {
            self.decide(key, now);
            self.settle(now);
        }
    }

    /// Gives what has become free to those who wait for it.
    pub(super) fn settle(&mut self, now: Instant) {
        if !self.is_started {
            self.books.ipv4.take_stirred();
            self.books.ipv6.take_stirred();
            return;
        }
        let mut due: VecDeque<Wait> = VecDeque::new();
        loop {
            let ipv4 = self.books.ipv4.take_stirred().into_iter().map(IpAddr::V4);
            let ipv6 = self.books.ipv6.take_stirred().into_iter().map(IpAddr::V6);
            for address in ipv4.chain(ipv6).collect::<BTreeSet<_>>() {
                due.push_back(Wait::Address(address));
                // Somebody has come to those who share there, or has left them.
                let key = self.books.group(address).and_then(Group::key);
                due.extend(key.cloned().map(Wait::Key));
                // Who has a reservation waits for nothing while no pool serves it otherwise.
                if let Some(service) = self.books.promised_to(address).cloned() {
                    self.decide(&service, now);
                }
                if at!(self.books, address, is_free())
                    && let Some(pool) = self.books.pool_at(address)
                {
                    due.push_back(Wait::Pool(IpFamily::of(address), Arc::clone(&pool.terms.name)));
                }
            }
            let Some(wait) = due.pop_front() else { return };
            let mut last = None;
            while let Some(next) = self.waiting.next(&wait, last.as_ref()) {
                if matches!(&wait, Wait::Pool(family, pool) if self.books.is_full(*family, pool)) {
                    break;
                }
                self.decide(&next.service, now);
                last = Some(next);
            }
        }
    }
}
