//! Every address of one family that is not free, and the gaps between them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use super::free::Gaps;
use super::group::Group;
use super::part::{AddressCounts, Mark, Part};
use super::pool::BalancerPool;
use super::share::{Refusal, Share};
use crate::few::Few;
use crate::interval::Segments;
use crate::pools::{Holdings, settle};
use crate::service::ServiceKey;
use crate::value::Value;

/// Those at one address.
#[derive(Clone, Debug, Default)]
struct Cell {
    /// Who is to have it.
    group: Group,
    /// Whose status shows it. One that is not in the group is about to let go, and until the apiserver knows nobody else may come.
    showing: Few<ServiceKey>,
}

/// An address that rests.
#[derive(Clone, Debug)]
pub(super) struct Rest {
    pub until: Instant,
    pub former: ServiceKey,
}

/// Why a Service may not take an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Blocked {
    /// Those who have it.
    By(Refusal),
    /// One who shows it still and is to let go.
    Leaving(ServiceKey),
    /// A pool keeps it for another one.
    Reserved(ServiceKey),
    /// It rests after use by this one.
    Resting(ServiceKey),
}

/// The books of one family.
#[derive(Debug)]
pub struct AddressBook<V> {
    parts: BTreeMap<Arc<str>, Part<V>>,
    /// Which pool has the addresses from this one to that one.
    owners: BTreeMap<V, (V, Arc<str>)>,
    cells: BTreeMap<V, Cell>,
    reserved: BTreeMap<V, ServiceKey>,
    pub(super) resting: BTreeMap<V, Rest>,
    pub(super) rests: BTreeSet<(Instant, V)>,
    pub(super) formers: BTreeMap<ServiceKey, BTreeSet<V>>,
    marks: BTreeMap<V, Mark>,
    shared: BTreeMap<Arc<str>, BTreeSet<V>>,
    /// Addresses that others may have been waiting for, since this was last taken.
    pub(super) stirred: Vec<V>,
}

impl<V> Default for AddressBook<V> {
    fn default() -> Self {
        Self {
            parts: BTreeMap::new(),
            owners: BTreeMap::new(),
            cells: BTreeMap::new(),
            reserved: BTreeMap::new(),
            resting: BTreeMap::new(),
            rests: BTreeSet::new(),
            formers: BTreeMap::new(),
            marks: BTreeMap::new(),
            shared: BTreeMap::new(),
            stirred: Vec::new(),
        }
    }
}

impl<V: Value> AddressBook<V> {
    /// All pools that there are, each with its addresses of this family. Who has an address keeps it.
    pub(super) fn set_pools<'a>(
        &mut self,
        pools: impl Iterator<Item = (&'a Arc<BalancerPool>, &'a Holdings<V>)> + Clone,
    ) {
        let settled = settle(pools.clone().map(|(pool, holdings)| (&*pool.terms, holdings)));
        self.parts.clear();
        self.owners.clear();
        self.reserved.clear();
        self.marks.clear();
        for ((pool, holdings), settled) in pools.zip(settled) {
            let name = &pool.terms.name;
            let owned = &settled.owned;
            let spans = owned.as_slice().iter();
            self.owners
                .extend(spans.map(|span| (span.first(), (span.last(), Arc::clone(name)))));
            let mut reserved: BTreeMap<ServiceKey, BTreeSet<V>> = BTreeMap::new();
            for (value, service) in holdings
                .reservations
                .iter()
                .filter(|(value, _)| owned.contains(**value))
            {
                reserved.entry(service.clone()).or_default().insert(*value);
                self.reserved.insert(*value, service.clone());
            }
            let part = Part {
                pool: Arc::clone(pool),
                free: Gaps::of(owned),
                counts: AddressCounts {
                    free: owned.count(),
                    ..AddressCounts::default()
                },
                settled,
                reserved,
            };
            self.parts.insert(Arc::clone(name), part);
        }
        let taken = self.cells.keys().chain(self.reserved.keys()).chain(self.resting.keys());
        for value in taken.copied().collect::<BTreeSet<_>>() {
            self.recount(value);
        }
    }

    /// The pool that has this address.
    pub(super) fn part_at(&self, value: V) -> Option<&Part<V>> {
        let (_, (last, name)) = self.owners.range(..=value).next_back()?;
        self.parts.get(name).filter(|_| value <= *last)
    }

    /// The pool of this name.
    pub(super) fn part(&self, name: &str) -> Option<&Part<V>> {
        self.parts.get(name)
    }

    /// How many of the pool's addresses are in which state.
    pub fn counts(&self, pool: &str) -> Option<AddressCounts> {
        self.parts.get(pool).map(|part| part.counts)
    }

    /// The pools that name an address of the pool's too, and whether they are older and so have it.
    pub fn conflicts(&self, pool: &str) -> &[(Arc<str>, bool)] {
        self.parts
            .get(pool)
            .map_or(&[], |part| part.settled.conflicts.as_slice())
    }

    /// What the pool has beside older ones.
    pub fn owned(&self, pool: &str) -> Option<&Segments<V>> {
        self.parts.get(pool).map(|part| &part.settled.owned)
    }

    /// Everybody at this address: who is to have it, and who shows it.
    pub fn holders(&self, value: V) -> BTreeSet<ServiceKey> {
        let cell = self.cells.get(&value).into_iter();
        cell.flat_map(|cell| cell.group.members().chain(&cell.showing))
            .cloned()
            .collect()
    }

    /// Nobody has it, shows it, is promised it or has just let go of it, and a pool has it.
    pub(super) fn is_free(&self, value: V) -> bool {
        self.part_at(value).is_some_and(|part| part.free.contains(value))
    }

    /// The only one who may have it now that nobody has it: a pool keeps it for that one, or it rests after its use.
    pub(super) fn promised_to(&self, value: V) -> Option<&ServiceKey> {
        let former = self.resting.get(&value).map(|rest| &rest.former);
        let promised = self.reserved.get(&value).or(former);
        promised.filter(|_| !self.cells.contains_key(&value))
    }

    /// Those who are to have it and do not show it yet.
    pub(super) fn newcomers(&self, value: V) -> Vec<ServiceKey> {
        let cell = self.cells.get(&value).into_iter();
        let new = cell.flat_map(|cell| cell.group.members().filter(|it| !cell.showing.contains(*it)));
        new.cloned().collect()
    }

    /// Those who are to have it.
    pub(super) fn group(&self, value: V) -> Option<&Group> {
        self.cells.get(&value).map(|cell| &cell.group)
    }

    /// The addresses that are shared under this key, ascending.
    pub(super) fn shared(&self, key: &str) -> impl Iterator<Item = V> + '_ {
        self.shared.get(key).into_iter().flatten().copied()
    }

    /// Whether a Service that is not there may come, whatever pool has the address.
    pub(super) fn may_join(&self, value: V, service: &ServiceKey, share: &Share) -> Result<(), Blocked> {
        if let Some(cell) = self.cells.get(&value) {
            let leaving = cell
                .showing
                .iter()
                .find(|other| *other != service && !cell.group.has(other));
            if let Some(leaving) = leaving {
                return Err(Blocked::Leaving(leaving.clone()));
            }
            cell.group.admits(share).map_err(Blocked::By)?;
            if !cell.group.is_empty() {
                return Ok(());
            }
        }
        match (self.reserved.get(&value), self.resting.get(&value)) {
            (Some(other), _) if other != service => Err(Blocked::Reserved(other.clone())),
            (_, Some(rest)) if rest.former != *service => Err(Blocked::Resting(rest.former.clone())),
            _ => Ok(()),
        }
    }

    /// Whether a Service that shows the address may have it after a start: its own claim is older than reservations and rests.
    pub(super) fn may_keep(&self, value: V, share: &Share) -> Result<(), Refusal> {
        self.cells.get(&value).map_or(Ok(()), |cell| cell.group.admits(share))
    }

    /// A Service is to have an address. It has been found that it may.
    pub(super) fn join(&mut self, value: V, service: &ServiceKey, share: Share) {
        self.end_rest(value);
        if let Some(key) = &share.key {
            self.shared.entry(Arc::clone(key)).or_default().insert(value);
        }
        self.cells.entry(value).or_default().group.add(service, share);
        self.recount(value);
        self.stirred.push(value);
    }

    /// A Service is not to have it any more.
    pub(super) fn leave(&mut self, value: V, service: &ServiceKey, now: Instant) {
        let Some(cell) = self.cells.get_mut(&value) else { return };
        let key = cell.group.key().cloned();
        cell.group.remove(service);
        if let Some(key) = key.filter(|_| cell.group.is_empty())
            && let Some(values) = self.shared.get_mut(&key)
        {
            values.remove(&value);
            if values.is_empty() {
                self.shared.remove(&key);
            }
        }
        self.tidy(value, service, now);
    }

    /// The status of a Service shows the address.
    pub(super) fn show(&mut self, value: V, service: &ServiceKey) {
        self.cells.entry(value).or_default().showing.insert(service.clone());
        self.recount(value);
    }

    /// It does not any more.
    pub(super) fn hide(&mut self, value: V, service: &ServiceKey, now: Instant) {
        let Some(cell) = self.cells.get_mut(&value) else { return };
        cell.showing.remove(service);
        self.tidy(value, service, now);
    }

    /// Somebody has let go of something there.
    fn tidy(&mut self, value: V, former: &ServiceKey, now: Instant) {
        let is_over = |cell: &Cell| cell.group.is_empty() && cell.showing.is_empty();
        if self.cells.get(&value).is_some_and(is_over) {
            self.cells.remove(&value);
            let delay = self.part_at(value).map(|part| part.pool.terms.reuse_delay);
            if let Some(until) = delay
                .filter(|delay| !delay.is_zero())
                .and_then(|delay| now.checked_add(delay))
            {
                self.end_rest(value);
                let former = former.clone();
                self.formers.entry(former.clone()).or_default().insert(value);
                self.resting.insert(value, Rest { until, former });
                self.rests.insert((until, value));
            }
        }
        self.recount(value);
        self.stirred.push(value);
    }

    /// The addresses that somebody may have waited for, since this was last asked.
    pub(super) fn take_stirred(&mut self) -> Vec<V> {
        std::mem::take(&mut self.stirred)
    }

    /// Nobody holds or shows anything.
    pub(super) fn forget_holders(&mut self) {
        let held = std::mem::take(&mut self.cells);
        self.shared.clear();
        self.stirred.clear();
        for value in held.into_keys() {
            self.recount(value);
        }
    }

    /// What of the pool is kept for this Service: what is reserved for it, or what it has had lately.
    pub(super) fn promised(&self, part: &Part<V>, service: &ServiceKey) -> Option<V> {
        let reserved = part.reserved.get(service).into_iter().flatten();
        let former = self.formers.get(service).into_iter().flatten();
        let owned = former.filter(|value| part.settled.owned.contains(**value));
        let is_its_own =
            |value: &V| !self.cells.contains_key(value) && self.reserved.get(value).is_none_or(|it| it == service);
        reserved.chain(owned).copied().find(is_its_own)
    }

    /// Brings the pool's gaps and counts to what is known of the address.
    pub(super) fn recount(&mut self, value: V) {
        let mark = if self.cells.contains_key(&value) {
            Some(Mark::Held)
        } else if self.reserved.contains_key(&value) {
            Some(Mark::Reserved)
        } else {
            self.resting.get(&value).map(|_| Mark::Quarantined)
        };
        let Some((_, (last, name))) = self.owners.range(..=value).next_back() else {
            return;
        };
        let Some(part) = self.parts.get_mut(name).filter(|_| value <= *last) else {
            return;
        };
        let before = match mark {
            Some(mark) => self.marks.insert(value, mark),
            None => self.marks.remove(&value),
        };
        if before == mark {
            return;
        }
        let counts = &mut part.counts;
        match before {
            Some(before) => *counts.of(before) = counts.of(before).saturating_sub(1),
            None => counts.free = counts.free.saturating_sub(1),
        }
        if let Some(mark) = mark {
            *counts.of(mark) = counts.of(mark).saturating_add(1);
            part.free.remove(value);
        } else {
            counts.free = counts.free.saturating_add(1);
            part.free.insert(value);
        }
    }
}
