//! Which pools serve a Service, and which of their addresses it gets.

use std::sync::Arc;

use super::ask::{Ask, Facts};
use super::book::AddressBook;
use super::pool::BalancerPool;
use crate::pools::{Mode, PoolVerdict};
use crate::value::Value;

/// The first enforced pool that selects the Service and gives addresses.
pub(super) fn enforced<'a>(pools: &'a [Arc<BalancerPool>], facts: &Facts) -> Option<&'a Arc<BalancerPool>> {
    let mut fences = pools.iter().filter(|pool| pool.is_fence());
    fences.find(|pool| facts.is_admitted(&pool.terms.name))
}

/// Whether the pool may give the Service anything, asked for or not.
pub(super) fn serves(pools: &[Arc<BalancerPool>], pool: &BalancerPool, facts: &Facts) -> Option<PoolVerdict> {
    let overruled = || {
        let by = enforced(pools, facts).filter(|_| !pool.terms.enforce)?;
        Some(PoolVerdict::Overruled(Arc::clone(&by.terms.name)))
    };
    match pool.terms.mode {
        Mode::Disabled => Some(PoolVerdict::Disabled),
        _ if !facts.is_admitted(&pool.terms.name) => Some(PoolVerdict::NotSelected),
        Mode::Drain => overruled().or(Some(PoolVerdict::Draining)),
        Mode::Active => overruled(),
    }
}

/// Whether what the Service has of the pool is rightly its own. One that is being drained gives nothing new, and that is all.
pub(super) fn is_for(pools: &[Arc<BalancerPool>], pool: &BalancerPool, facts: &Facts) -> bool {
    matches!(serves(pools, pool, facts), None | Some(PoolVerdict::Draining))
}

impl<V: Value> AddressBook<V> {
    /// What each pool is to the Service, in the order that they are tried.
    pub(super) fn verdicts(
        &self,
        pools: &[Arc<BalancerPool>],
        facts: &Facts,
        ask: &Ask,
    ) -> Vec<(Arc<BalancerPool>, PoolVerdict)> {
        let verdict = |pool: &BalancerPool| {
            if let Some(verdict) = serves(pools, pool, facts) {
                return verdict;
            }
            match self.part(&pool.terms.name) {
                _ if !ask.pools.is_empty() && !ask.pools.contains(&pool.terms.name) => PoolVerdict::NotRequested,
                _ if ask.pools.is_empty() && !pool.terms.auto_assign => PoolVerdict::NotAutomatic,
                Some(part) if part.has_values() && part.is_full() => PoolVerdict::Full,
                Some(part) if part.has_values() => PoolVerdict::Offered,
                _ => PoolVerdict::NoValues,
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
