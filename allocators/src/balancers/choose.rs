//! Which pools serve a Service, and which of their addresses it gets.

use std::fmt;
use std::sync::Arc;

use super::ask::{Ask, Facts};
use super::book::AddressBook;
use super::pool::BalancerPool;
use crate::pools::Mode;
use crate::value::Value;

/// What a pool is to a Service that needs an address of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It has a free address for it.
    Offered,
    /// None of its addresses is free.
    Full,
    /// Its selector does not select the Service, or its classes do not have the Service's.
    NotSelected,
    /// `autoAssign: false`, and the Service does not ask for it.
    NotAutomatic,
    /// The Service asks for another pool.
    NotRequested,
    /// This pool, which is enforced, selects the Service: it may have no address of another.
    Overruled(Arc<str>),
    /// `mode: Drain`: it gives nothing new.
    Draining,
    /// `mode: Disabled`: as if it were not there.
    Disabled,
    /// It has none of this family, or older pools have them all.
    NoValues,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offered => f.write_str("has a free address"),
            Self::Full => f.write_str("has no free address"),
            Self::NotSelected => f.write_str("does not select this Service"),
            Self::NotAutomatic => f.write_str("gives addresses on request only"),
            Self::NotRequested => f.write_str("is not the pool that is asked for"),
            Self::Overruled(by) => write!(f, "is overruled by pool {by:?}, which is enforced for this Service"),
            Self::Draining => f.write_str("is being drained"),
            Self::Disabled => f.write_str("is disabled"),
            Self::NoValues => f.write_str("has no addresses of this family"),
        }
    }
}

/// The first enforced pool that selects the Service and gives addresses.
pub(super) fn enforced<'a>(pools: &'a [Arc<BalancerPool>], facts: &Facts) -> Option<&'a Arc<BalancerPool>> {
    let mut binding = pools
        .iter()
        .filter(|pool| pool.terms.enforce && pool.is_active() && facts.is_admitted(&pool.terms.name));
    binding.next()
}

/// Whether the pool may give the Service anything, asked for or not.
pub(super) fn serves(pools: &[Arc<BalancerPool>], pool: &BalancerPool, facts: &Facts) -> Option<Verdict> {
    match pool.terms.mode {
        Mode::Disabled => Some(Verdict::Disabled),
        _ if !facts.is_admitted(&pool.terms.name) => Some(Verdict::NotSelected),
        Mode::Drain => Some(Verdict::Draining),
        Mode::Active if pool.terms.enforce => None,
        Mode::Active => enforced(pools, facts).map(|by| Verdict::Overruled(Arc::clone(&by.terms.name))),
    }
}

impl<V: Value> AddressBook<V> {
    /// What each pool is to the Service, in the order that they are tried.
    pub(super) fn verdicts(
        &self,
        pools: &[Arc<BalancerPool>],
        facts: &Facts,
        ask: &Ask,
    ) -> Vec<(Arc<BalancerPool>, Verdict)> {
        let verdict = |pool: &BalancerPool| {
            if let Some(verdict) = serves(pools, pool, facts) {
                return verdict;
            }
            match self.part(&pool.terms.name) {
                _ if !ask.pools.is_empty() && !ask.pools.contains(&pool.terms.name) => Verdict::NotRequested,
                _ if ask.pools.is_empty() && !pool.terms.auto_assign => Verdict::NotAutomatic,
                Some(part) if part.has_values() && part.is_full() => Verdict::Full,
                Some(part) if part.has_values() => Verdict::Offered,
                _ => Verdict::NoValues,
            }
        };
        pools.iter().map(|pool| (Arc::clone(pool), verdict(pool))).collect()
    }

    /// The address that the Service gets if it takes any: one that is kept for it, else one of the first pool that has a free one.
    pub(super) fn pick(&self, pools: &[Arc<BalancerPool>], facts: &Facts, ask: &Ask) -> Option<V> {
        let service = &facts.owner.service;
        let asked = |pool: &BalancerPool| ask.pools.is_empty() || ask.pools.contains(&pool.terms.name);
        let serving = pools
            .iter()
            .filter(|pool| asked(pool) && serves(pools, pool, facts).is_none());
        let parts = || serving.clone().filter_map(|pool| self.part(&pool.terms.name));
        let promised = parts().find_map(|part| self.promised(part, service));
        promised.or_else(|| {
            let automatic = parts().filter(|part| !ask.pools.is_empty() || part.pool.terms.auto_assign);
            automatic.into_iter().find_map(|part| part.next_for(service))
        })
    }
}
