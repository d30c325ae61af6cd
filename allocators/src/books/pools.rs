//! Pools in a book: whose values are whose, which pools serve a Service, and whether a Service may have a value.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thiserror::Error;

use super::choose::Source;
use super::state::{Counts, State};
use super::{Book, Entry};
use crate::interval::Segments;
use crate::pools::{Holdings, Mode, PoolTerms, PoolVerdict, settle};
use crate::quoted::quoted;
use crate::service::ServiceKey;
use crate::value::Value;

/// What is known of one pool.
#[derive(Debug)]
pub(super) struct PoolBook<V> {
    pub terms: Arc<PoolTerms>,
    /// What it names and no older pool does.
    owned: Segments<V>,
    /// What of that the apiserver allocates now.
    pub in_play: Segments<V>,
    /// What of that lies in no range that is ready.
    pub outside: Segments<V>,
    pub counts: Counts,
    pub conflicts: Vec<(Arc<str>, bool)>,
    reserved: BTreeMap<ServiceKey, Vec<V>>,
}

impl<V: Value> PoolBook<V> {
    /// The values that are reserved for this Service, ascending.
    pub fn reserved_for(&self, service: &ServiceKey) -> impl Iterator<Item = V> + '_ {
        self.reserved.get(service).into_iter().flatten().copied()
    }
}

/// Which pools serve a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Governance {
    /// Their names, in the order that they are tried.
    pub pools: Vec<Arc<str>>,
    /// The Service may have no value but theirs.
    pub enforced: bool,
    /// Every pool and why it serves the Service or does not.
    pub verdicts: Vec<(Arc<str>, PoolVerdict)>,
}

impl Governance {
    /// Where to choose from; `None` if no pool governs.
    pub fn source(&self) -> Option<Source<'_>> {
        let source = Source::Pools {
            names: &self.pools,
            enforced: self.enforced,
        };
        (!self.pools.is_empty()).then_some(source)
    }
}

/// Why the pool that a Service asks for by annotation does not serve it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RequestError {
    /// There is none of this name.
    #[error("there is no pool {}", quoted(.0))]
    Unknown(String),
    /// It is there and does not serve the Service.
    #[error("pool {pool:?} {verdict}")]
    Unserved {
        /// Its name.
        pool: Arc<str>,
        /// Why.
        verdict: PoolVerdict,
    },
}

/// Why a Service may not have a value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// A pool reserves it.
    #[error("is reserved for Service {service} by pool {pool:?}")]
    Reserved {
        /// For whom.
        service: ServiceKey,
        /// By which pool.
        pool: Arc<str>,
    },
    /// It belongs to an enforced pool that does not select the Service.
    #[error("belongs to pool {pool:?}, which is enforced and does not select this Service")]
    Fenced {
        /// The pool.
        pool: Arc<str>,
    },
    /// Enforced pools select the Service, and the value is in none of them.
    #[error("must be from {}, enforced for this Service", listed(pools))]
    OutsidePools {
        /// Those pools.
        pools: Vec<Arc<str>>,
    },
}

fn listed(pools: &[Arc<str>]) -> String {
    let names: Vec<String> = pools.iter().map(|pool| format!("{pool:?}")).collect();
    let word = if names.len() == 1 { "pool" } else { "one of the pools" };
    format!("{word} {}", names.join(", "))
}

impl<V: Value> Book<V> {
    /// All pools that there are, each with its values of this kind.
    pub fn set_pools<'a>(&mut self, pools: impl IntoIterator<Item = (Arc<PoolTerms>, &'a Holdings<V>)>, now: Instant) {
        self.advance(now);
        let reserved = self.entries.iter().filter(|(_, entry)| entry.reserved.is_some());
        for value in reserved.map(|(value, _)| *value).collect::<Vec<_>>() {
            self.change(value, |entry| entry.reserved = None);
        }
        let mut pools: Vec<_> = pools.into_iter().collect();
        pools.sort_by(|(left, _), (right, _)| (left.priority, &left.name).cmp(&(right.priority, &right.name)));
        let settled = settle(pools.iter().map(|(terms, holdings)| (&**terms, *holdings)));
        let mut reservations = Vec::new();
        self.pools.clear();
        for ((terms, holdings), settled) in pools.into_iter().zip(settled) {
            let owned = holdings
                .reservations
                .iter()
                .filter(|(value, _)| settled.owned.contains(**value));
            let mut reserved: BTreeMap<ServiceKey, Vec<V>> = BTreeMap::new();
            for (value, service) in owned {
                reserved.entry(service.clone()).or_default().push(*value);
                reservations.push((*value, service.clone()));
            }
            self.pools.push(PoolBook {
                terms,
                owned: settled.owned,
                in_play: Segments::default(),
                outside: Segments::default(),
                counts: Counts::default(),
                conflicts: settled.conflicts,
                reserved,
            });
        }
        self.lay_out_pools();
        for (value, service) in reservations {
            self.change(value, |entry| entry.reserved = Some(service));
        }
    }

    /// Works out where the values of each pool lie, and counts them, after a change of pools or ranges.
    pub(super) fn lay_out_pools(&mut self) {
        self.menus.clear();
        let (ready, networks) = (self.ready_values(), self.ready_networks());
        self.pool_index.clear();
        for (index, pool) in self.pools.iter_mut().enumerate() {
            pool.in_play = pool.owned.intersection(&ready);
            pool.outside = pool.owned.minus(&networks);
            pool.counts = Counts::all_free(pool.in_play.count());
            self.pool_index
                .extend(pool.in_play.as_slice().iter().map(|part| (*part, index)));
        }
        self.pool_index.sort_unstable();
        self.pooled = self
            .pools
            .iter()
            .flat_map(|pool| pool.owned.as_slice())
            .copied()
            .collect();
        let taken = self.entries.iter().map(|(value, entry)| (*value, Entry::state(entry)));
        for (value, state) in taken.collect::<Vec<_>>() {
            if let Some(pool) = self.pool_at(value).and_then(|index| self.pools.get_mut(index)) {
                pool.counts.shift(State::Free, state);
            }
        }
    }

    /// Which pools serve a Service: those that select it, lower `priority` first, then by name; if an enforced one does, only enforced
    /// ones. `selects` says which pools' selectors select it, `requested` which pool it asks for by annotation. A pool that is being
    /// drained serves nobody, and its enforcement binds those whom it selects no longer.
    pub fn govern(&self, selects: impl Fn(&str) -> bool, requested: Option<&str>) -> Result<Governance, RequestError> {
        let enforced = self.enforced_for(&selects);
        let verdict = |pool: &PoolBook<V>| match pool.terms.mode {
            Mode::Disabled => PoolVerdict::Disabled,
            _ if !selects(&pool.terms.name) => PoolVerdict::NotSelected,
            Mode::Drain => PoolVerdict::Draining,
            Mode::Active => match enforced.first() {
                _ if pool.owned.is_empty() => PoolVerdict::NoValues,
                Some(by) if !pool.terms.enforce => PoolVerdict::Overruled(Arc::clone(by)),
                _ if requested.is_some_and(|name| *name != *pool.terms.name) => PoolVerdict::NotRequested,
                _ if requested.is_none() && !pool.terms.auto_assign => PoolVerdict::NotAutomatic,
                _ => PoolVerdict::Offered,
            },
        };
        let verdicts: Vec<_> = self
            .pools
            .iter()
            .map(|pool| (Arc::clone(&pool.terms.name), verdict(pool)))
            .collect();
        if let Some(name) = requested {
            match verdicts.iter().find(|(pool, _)| **pool == *name) {
                None => return Err(RequestError::Unknown(name.into())),
                // Another family's pool: the request is about that family.
                Some((_, PoolVerdict::Offered | PoolVerdict::NoValues)) => {}
                Some((pool, verdict)) => {
                    return Err(RequestError::Unserved {
                        pool: Arc::clone(pool),
                        verdict: verdict.clone(),
                    });
                }
            }
        }
        let offered = verdicts.iter().filter(|(_, verdict)| *verdict == PoolVerdict::Offered);
        Ok(Governance {
            pools: offered.map(|(pool, _)| Arc::clone(pool)).collect(),
            enforced: !enforced.is_empty(),
            verdicts,
        })
    }

    /// Some values are only for those whom a pool selects, or for whom it reserves them. The apiserver does not know, and would give them to anybody.
    pub fn keeps_values_for_some(&self) -> bool {
        let keeps = |pool: &PoolBook<V>| (pool.terms.enforce && !pool.owned.is_empty()) || !pool.reserved.is_empty();
        self.pools.iter().any(keeps)
    }

    /// Whether a Service may have this value, for a validating call and only where the value has changed. The name of the pool that the
    /// value is from, if it is being drained: a Warning.
    pub fn judge(
        &self,
        value: V,
        service: &ServiceKey,
        selects: impl Fn(&str) -> bool,
    ) -> Result<Option<Arc<str>>, Refusal> {
        let pool = self.pools.iter().find(|pool| pool.owned.contains(value));
        if let Some(pool) = pool {
            let reserved = self.entries.get(&value).and_then(|entry| entry.reserved.as_ref());
            if let Some(other) = reserved.filter(|other| *other != service) {
                return Err(Refusal::Reserved {
                    service: other.clone(),
                    pool: Arc::clone(&pool.terms.name),
                });
            }
            if pool.terms.enforce && !selects(&pool.terms.name) {
                return Err(Refusal::Fenced {
                    pool: Arc::clone(&pool.terms.name),
                });
            }
        }
        let enforced = self.enforced_for(&selects);
        let from_enforced = pool.is_some_and(|pool| pool.terms.enforce);
        if !enforced.is_empty() && !from_enforced {
            return Err(Refusal::OutsidePools { pools: enforced });
        }
        let draining = pool.filter(|pool| pool.terms.mode == Mode::Drain);
        Ok(draining.map(|pool| Arc::clone(&pool.terms.name)))
    }

    /// The pools that bind a Service, by priority, then name.
    fn enforced_for(&self, selects: impl Fn(&str) -> bool) -> Vec<Arc<str>> {
        let binds = |pool: &&PoolBook<V>| {
            pool.terms.enforce && pool.terms.mode == Mode::Active && !pool.owned.is_empty() && selects(&pool.terms.name)
        };
        let pools = self.pools.iter().filter(binds);
        pools.map(|pool| Arc::clone(&pool.terms.name)).collect()
    }

    /// How long the pool of this value holds it back after use.
    pub(super) fn reuse_delay(&self, value: V) -> Duration {
        let pool = self.pool_at(value).and_then(|index| self.pools.get(index));
        pool.map_or(Duration::ZERO, |pool| pool.terms.reuse_delay)
    }
}
