//! One Service: what it is to have. A held address that is still legal stays; what is asked for replaces it only once it is to be had.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use super::ask::{Ask, Facts, Outcome, Policy};
use super::choose::is_for;
use super::engine::Balancers;
use super::pool::OnRemoval;
use super::reason::Reason;
use super::trouble::{Trouble, foreign, joined, listed, of_both, stand_still, with_held};
use super::wait::Wait;
use crate::cluster_ips::IpFamily;
use crate::few::Few;
use crate::service::ServiceKey;

/// What one family comes to.
#[derive(Debug, Default)]
struct Part {
    addresses: Vec<IpAddr>,
    /// What it would keep if nothing new could be had.
    held: Vec<IpAddr>,
    troubles: Vec<Trouble>,
}

/// How a Service stands with an address that it holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its pool is for the Service.
    Fine,
    /// It is not, or there is none, and the address stays.
    Retained,
    /// The same, and the address goes.
    Lost,
}

impl Balancers {
    /// Decides on a Service and brings the books to that.
    pub(super) fn decide(&mut self, key: &ServiceKey, now: Instant) {
        let Some(known) = self.services.get(key) else { return };
        let facts = Arc::clone(&known.facts);
        let (held, shown) = (known.held().to_vec(), known.shown.clone());
        let (outcome, waits) = match &facts.ask {
            _ if facts.is_leaving => {
                // Nothing more is written to it, so what it does not show by now it never will.
                let kept = held.iter().copied().filter(|address| shown.contains(address));
                let why = "the Service is being deleted";
                (stand_still(kept.collect(), Reason::Paused, why), BTreeSet::new())
            }
            Err(wrong) => (stand_still(held.clone(), wrong.reason, &wrong.message), BTreeSet::new()),
            Ok(ask) => match foreign(ask) {
                Some(why) => (
                    stand_still(held.clone(), Reason::FamilyUnavailable, &why),
                    BTreeSet::new(),
                ),
                None => self.plan(&facts, ask, &held, &shown),
            },
        };
        for address in held.iter().filter(|address| !outcome.addresses.contains(address)) {
            self.books.leave(*address, key, now);
        }
        let fresh = outcome.addresses.iter().filter(|address| !held.contains(address));
        for address in fresh {
            self.books.join(*address, &facts);
        }
        self.waiting.set(&facts.owner, waits);
        if let Some(known) = self.services.get_mut(key)
            && known.outcome.as_ref() != Some(&outcome)
        {
            known.outcome = Some(outcome);
            self.changed.insert(key.clone());
        }
    }

    fn plan(&self, facts: &Facts, ask: &Ask, held: &[IpAddr], shown: &Few<IpAddr>) -> (Outcome, BTreeSet<Wait>) {
        let mut parts: Vec<Part> = ask
            .families
            .iter()
            .map(|family| {
                let held = held.iter().copied().filter(|it| IpFamily::of(*it) == *family);
                self.family(facts, ask, *family, held.collect(), shown)
            })
            .collect();
        let lacks_one = parts.iter().any(|part| part.addresses.is_empty());
        let mut waits = BTreeSet::new();
        if ask.policy == Policy::Require && lacks_one {
            // Nothing new is taken, and nothing is given up for it. What could be had now may be another's later.
            waits.extend(facts.share.key.clone().map(Wait::Key));
            for part in &mut parts {
                waits.extend(self.firm(facts, ask, part).map(Wait::Address));
                if part.addresses.iter().any(|address| !part.held.contains(address)) {
                    part.addresses.clone_from(&part.held);
                }
            }
        }
        let addresses: Vec<IpAddr> = parts.iter().flat_map(|part| &part.addresses).copied().collect();
        let only_lacking = parts
            .iter()
            .all(|part| part.addresses.is_empty() || part.troubles.is_empty());
        let mut troubles: Vec<Trouble> = parts.into_iter().flat_map(|part| part.troubles).collect();
        waits.extend(troubles.iter().flat_map(|trouble| trouble.waits.iter().cloned()));
        if ask.policy == Policy::Require && lacks_one {
            troubles = of_both(troubles);
        }
        if !troubles.is_empty() {
            // What it is about to lose it may have again if the others go first.
            let losing = shown.iter().filter(|address| !addresses.contains(address));
            waits.extend(losing.map(|address| Wait::Address(*address)));
        }
        let pinned = ask.addresses.iter().any(|pin| !addresses.contains(pin));
        let got_a_pin = ask.addresses.iter().any(|pin| addresses.contains(pin));
        let outcome = match troubles.first() {
            None => self.content(facts, addresses),
            Some(first) => {
                let degraded = ask.policy == Policy::Prefer && only_lacking && !pinned && !addresses.is_empty();
                let words = joined(troubles.iter().map(|trouble| &trouble.message), "; ");
                Outcome {
                    satisfied: degraded,
                    reason: if degraded || (got_a_pin && ask.policy != Policy::Require) {
                        Reason::PartiallyAssigned
                    } else {
                        first.reason
                    },
                    message: with_held(&addresses, &words),
                    addresses,
                }
            }
        };
        (outcome, waits)
    }

    /// What of the part the Service asks for by name or by its key, or what rests after its own use: whether it is to be had may change while another family is missing.
    fn firm<'a>(&'a self, facts: &'a Facts, ask: &'a Ask, part: &'a Part) -> impl Iterator<Item = IpAddr> + 'a {
        let is_firm = |address: &IpAddr| {
            let group = self.books.group(*address);
            ask.addresses.contains(address)
                || group.is_some_and(|group| group.key() == facts.share.key.as_ref())
                || self.books.promised_to(*address) == Some(&facts.owner.service)
        };
        part.addresses.iter().copied().filter(is_firm)
    }

    fn content(&self, facts: &Facts, addresses: Vec<IpAddr>) -> Outcome {
        let retained = addresses.iter().copied();
        let retained: Vec<IpAddr> = retained
            .filter(|it| self.standing(*it, facts) == Standing::Retained)
            .collect();
        let (reason, message) = if retained.is_empty() {
            (Reason::Assigned, listed(&addresses))
        } else {
            let message = format!(
                "{}; kept although no pool gives {} to this Service any more",
                listed(&addresses),
                listed(&retained)
            );
            (Reason::Retained, message)
        };
        Outcome {
            addresses,
            satisfied: true,
            reason,
            message,
        }
    }

    pub(super) fn standing(&self, address: IpAddr, facts: &Facts) -> Standing {
        match self.books.pool_at(address) {
            Some(pool) if is_for(&self.pools, pool, facts) => Standing::Fine,
            Some(pool) if pool.on_removal == OnRemoval::Reassign => Standing::Lost,
            None if self.cast_out.contains(&address) => Standing::Lost,
            _ => Standing::Retained,
        }
    }

    fn family(&self, facts: &Facts, ask: &Ask, family: IpFamily, mut held: Vec<IpAddr>, shown: &Few<IpAddr>) -> Part {
        held.retain(|address| self.standing(*address, facts) != Standing::Lost);
        let mut part = Part {
            held,
            ..Part::default()
        };
        let pins: Vec<IpAddr> = ask
            .addresses
            .iter()
            .copied()
            .filter(|pin| IpFamily::of(*pin) == family)
            .collect();
        if pins.is_empty() {
            let fitting = part
                .held
                .iter()
                .copied()
                .filter(|address| self.is_from(*address, &ask.pools));
            part.addresses = self.without_surplus(fitting.collect(), facts);
            if part.addresses.is_empty() {
                match self.any(facts, ask, family, shown) {
                    Ok(addresses) => part.addresses = addresses,
                    Err(trouble) => part.troubles.push(trouble),
                }
            }
        }
        for pin in pins {
            if part.held.contains(&pin) {
                part.addresses.push(pin);
                continue;
            }
            match self.may_take(facts, ask, pin) {
                Ok(()) => part.addresses.push(pin),
                Err(trouble) => part.troubles.push(trouble),
            }
        }
        if part.addresses.is_empty() {
            // What is asked for is not to be had: better the old one than none.
            part.addresses.clone_from(&part.held);
        }
        part
    }

    /// It lies in one of these pools, if any are named.
    pub(super) fn is_from(&self, address: IpAddr, pools: &[Arc<str>]) -> bool {
        pools.is_empty()
            || self
                .books
                .pool_at(address)
                .is_some_and(|pool| pools.contains(&pool.terms.name))
    }

    /// One address of a family is enough, unless others share more.
    fn without_surplus(&self, held: Vec<IpAddr>, facts: &Facts) -> Vec<IpAddr> {
        let service = &facts.owner.service;
        let is_shared = |address: &IpAddr| {
            let group = self.books.group(*address);
            group.is_some_and(|group| group.members().any(|member| member != service))
        };
        if held.iter().any(is_shared) {
            return held.into_iter().filter(is_shared).collect();
        }
        held.into_iter().take(1).collect()
    }
}
