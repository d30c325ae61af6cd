//! A term begins and ends: whose the addresses are that Services show when nobody knows more than is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use super::ask::{Facts, Outcome};
use super::engine::{Balancers, Known};
use super::families::{Books, at};
use super::reason::Reason;
use super::wait::Waiting;
use crate::service::{Owner, ServiceKey};

impl Balancers {
    /// Begins to decide. What Services show is theirs, as far as they may have it; of two that cannot share, the one that others share it with
    /// by its key keeps it, else the older. Then those who ask for an address get it, and then the others, the oldest first.
    ///
    /// `claims`: what is to be had by Services whose status shows the doing of somebody else. They have it if nobody shows it and they may;
    /// what they show is nobody's while they do.
    pub fn start(&mut self, claims: &BTreeMap<ServiceKey, BTreeSet<IpAddr>>, now: Instant) {
        self.is_started = true;
        self.show_anew();
        self.waiting = Waiting::default();
        let company = self.company();
        let order = |known: &Known| (!is_in_company(known, &company), known.facts.owner.clone());
        let ages: BTreeSet<(bool, Owner)> = self.services.values().map(order).collect();
        for (_, owner) in ages.iter().filter(|(_, owner)| !claims.contains_key(&owner.service)) {
            self.adopt_shown(&owner.service);
        }
        for (_, owner) in &ages {
            if let Some(claim) = claims.get(&owner.service) {
                self.adopt(&owner.service, claim.iter().copied(), |books, address, facts| {
                    books.may_join(address, facts).is_ok()
                });
            }
        }
        self.decide_all(now);
        self.changed = self.services.keys().cloned().collect();
    }

    /// Decides nothing any more.
    pub fn stop(&mut self) {
        self.is_started = false;
        self.changed.clear();
        self.waiting = Waiting::default();
        self.show_anew();
    }

    /// Nothing is decided, and the books have what Services show.
    fn show_anew(&mut self) {
        self.books.ipv4.forget_holders();
        self.books.ipv6.forget_holders();
        for (key, known) in &mut self.services {
            known.outcome = None;
            for address in &known.shown {
                at!(self.books, *address, show(key));
            }
        }
    }

    /// How many show each address under each key.
    fn company(&self) -> Company {
        let mut company = Company::new();
        for known in self.services.values() {
            let Some(key) = &known.facts.share.key else { continue };
            for address in &known.shown {
                *company.entry((*address, Arc::clone(key))).or_default() += 1;
            }
        }
        company
    }

    fn adopt_shown(&mut self, key: &ServiceKey) {
        if let Some(known) = self.services.get(key) {
            let shown = known.shown.clone();
            self.adopt(key, shown, may_keep);
        }
    }

    /// A Service that comes later may have what it shows only as if it asked for it.
    pub(super) fn adopt_late(&mut self, key: &ServiceKey) {
        let Some(known) = self.services.get(key) else { return };
        let shown = known.shown.clone();
        self.adopt(key, shown, |books, address, facts| {
            let serving = books.pool_at(address);
            serving.is_some_and(|pool| facts.is_admitted(&pool.terms.name)) && books.may_join(address, facts).is_ok()
        });
    }

    /// Of these addresses, those that a Service may have are its own.
    fn adopt(
        &mut self,
        key: &ServiceKey,
        addresses: impl IntoIterator<Item = IpAddr>,
        may: impl Fn(&Books, IpAddr, &Facts) -> bool,
    ) {
        let Some(known) = self.services.get_mut(key) else {
            return;
        };
        let facts = Arc::clone(&known.facts);
        let mut own = Vec::new();
        for address in addresses {
            if may(&self.books, address, &facts) {
                self.books.join(address, &facts);
                own.push(address);
            }
        }
        known.outcome = Some(Outcome {
            addresses: own,
            satisfied: false,
            reason: Reason::Paused,
            message: String::new(),
        });
    }

    /// Everybody, those who ask for an address before the others, each the oldest first.
    pub(super) fn decide_all(&mut self, now: Instant) {
        if !self.is_started {
            return;
        }
        let order = |known: &Known| {
            let pins = known.facts.ask.as_ref().is_ok_and(|ask| !ask.addresses.is_empty());
            (!pins, known.facts.owner.clone())
        };
        let all: BTreeSet<(bool, Owner)> = self.services.values().map(order).collect();
        for (_, owner) in all {
            self.decide(&owner.service, now);
        }
        self.settle(now);
    }
}

/// By address and sharing key.
type Company = BTreeMap<(IpAddr, Arc<str>), usize>;

/// Others show an address of this Service under its key: whoever shows it without the key has left their rule while nobody led, and they stay.
fn is_in_company(known: &Known, company: &Company) -> bool {
    let key = known.facts.share.key.as_ref();
    key.is_some_and(|key| {
        let mut shown = known.shown.iter();
        shown.any(|address| {
            company
                .get(&(*address, Arc::clone(key)))
                .is_some_and(|count| *count > 1)
        })
    })
}

/// A Service shows this address: whether those who are to have it let it.
pub(super) fn may_keep(books: &Books, address: IpAddr, facts: &Facts) -> bool {
    at!(books, address, may_keep(&facts.share)).is_ok()
}
