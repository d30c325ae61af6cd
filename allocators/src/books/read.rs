//! What can be asked of a book.

use std::sync::Arc;
use std::time::Instant;

use super::Book;
use super::state::{Counts, State};
use crate::interval::Segments;
use crate::service::{Owner, ServiceKey};
use crate::value::Value;

/// All that is known of one value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// Its state.
    pub state: State,
    /// The stored Services that list it, the oldest first, which keeps it. More than one: a conflict.
    pub owners: Vec<Arc<Owner>>,
    /// The Service that its IPAddress names.
    pub parent: Option<ServiceKey>,
    /// The Service that it is chosen for, if its name is known.
    pub pending_for: Option<ServiceKey>,
    /// The Service that it is reserved for.
    pub reserved_for: Option<ServiceKey>,
    /// The pool that it belongs to.
    pub pool: Option<Arc<str>>,
}

/// One range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeView {
    /// `10.96.0.0/12`, `30000-32767`.
    pub text: Arc<str>,
    /// The apiserver allocates from it.
    pub ready: bool,
    /// It was ready long enough to choose from.
    pub settled: bool,
    /// Its values by state.
    pub counts: Counts,
    /// Nothing is chosen from it now, because too many choices were not stored.
    pub resting: bool,
    /// How often that has happened.
    pub rests: u64,
}

/// One pool's part in this book.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolView {
    /// Its name.
    pub name: Arc<str>,
    /// The values that it can give, by state: those in a range that is ready and in no older pool.
    pub counts: Counts,
    /// A value of its that lies in no range that is ready.
    pub outside: Option<String>,
    /// Pools that name a value of its too, and whether they are older and so have it.
    pub conflicts: Vec<(Arc<str>, bool)>,
}

/// Integers of a pool's status for one family. They are of stored objects alone, so that every replica counts the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStatus {
    /// Values that it can give.
    pub total: u64,
    /// Held by a Service.
    pub used: u64,
    /// Kept by `spec.reservations`, and not held.
    pub reserved: u64,
    /// The others.
    pub available: u64,
}

impl PoolView {
    /// What its status says.
    pub fn status(&self) -> PoolStatus {
        let Counts {
            capacity,
            used,
            reserved,
            ..
        } = self.counts;
        PoolStatus {
            total: capacity,
            used,
            reserved,
            available: capacity.saturating_sub(used).saturating_sub(reserved),
        }
    }
}

impl<V: Value> Book<V> {
    /// All that is known of a value.
    pub fn holding(&self, value: V) -> Holding {
        let pool = self.pool_at(value).and_then(|index| self.pools.get(index));
        let pool = pool.map(|pool| Arc::clone(&pool.terms.name));
        let Some(entry) = self.entries.get(&value) else {
            return Holding {
                pool,
                ..Holding::default()
            };
        };
        Holding {
            state: entry.state(),
            owners: entry.owners.clone(),
            parent: entry.object.as_ref().and_then(|object| object.parent.clone()),
            pending_for: entry.pending.as_ref().and_then(|pending| pending.key.service()),
            reserved_for: entry.reserved.clone(),
            pool,
        }
    }

    /// How many values that were chosen here the watches have shown as stored, for the Service that they were chosen for.
    pub fn stored_choices(&self) -> u64 {
        self.stored_choices
    }

    /// The value lies in a range that is ready and is one that can be given.
    pub fn is_in_range(&self, value: V) -> bool {
        let mut ready = self.ranges.iter().filter(|range| range.ready.is_some());
        ready.any(|range| range.range.place(value).is_some())
    }

    /// The value lies in a range and is one that can be given, whether the range is ready or not.
    pub fn is_in_any_range(&self, value: V) -> bool {
        self.ranges.iter().any(|range| range.range.place(value).is_some())
    }

    /// The range that gives this value, and whether it is of its upper band, which random choices take first.
    pub fn band_of(&self, value: V) -> Option<(Arc<str>, bool)> {
        let mut places = self.ranges.iter();
        let (range, place) = places.find_map(|range| Some((&range.range, range.range.place(value)?)))?;
        Some((Arc::clone(range.text()), range.upper().contains(&place)))
    }

    /// The range whose network has this value as one that is never given: its first address, or the last one of IPv4. `None` if a range gives it.
    pub fn withheld_by(&self, value: V) -> Option<Arc<str>> {
        if self.is_in_any_range(value) {
            return None;
        }
        let mut with = self.ranges.iter().filter(|range| range.range.whole().contains(value));
        with.next().map(|range| Arc::clone(range.range.text()))
    }

    /// The ranges that are ready, as they were written.
    pub fn ready_ranges(&self) -> Vec<Arc<str>> {
        let ready = self.ranges.iter().filter(|range| range.ready.is_some());
        ready.map(|range| Arc::clone(range.range.text())).collect()
    }

    /// Up to `count` free values of the same range from this one on, around its end: what to suggest instead of a value that is taken.
    pub fn free_near(&self, value: V, count: usize) -> Vec<V> {
        let mut with = self.ranges.iter().filter(|range| range.ready.is_some());
        let Some((range, start)) = with.find_map(|range| Some((range, range.range.place(value)?))) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for part in [start..range.range.len(), 0..start] {
            let mut from = part.start;
            while found.len() < count
                && let Some(place) = range.slots.next_free(from..part.end)
            {
                found.extend(range.range.value(place));
                from = place + 1;
            }
        }
        found
    }

    /// The values that more than one stored Service lists, with the Services, the oldest first.
    pub fn conflicts(&self) -> Vec<(V, Vec<Arc<Owner>>)> {
        let entries = self.entries.iter().filter(|(_, entry)| entry.owners.len() > 1);
        let mut conflicts: Vec<_> = entries.map(|(value, entry)| (*value, entry.owners.clone())).collect();
        conflicts.sort_unstable_by_key(|(value, _)| *value);
        conflicts
    }

    /// All values that are not free, ascending, with their states.
    pub fn taken(&self) -> Vec<(V, State)> {
        let entries = self.entries.iter().map(|(value, entry)| (*value, entry.state()));
        let mut taken: Vec<_> = entries.collect();
        taken.sort_unstable_by_key(|(value, _)| *value);
        taken
    }

    /// The ranges at `now`, in the order that they were set.
    pub fn ranges(&self, now: Instant) -> impl Iterator<Item = RangeView> + '_ {
        self.ranges.iter().map(move |range| RangeView {
            text: Arc::clone(range.range.text()),
            ready: range.ready.is_some(),
            settled: range.has_settled(self.rules.settle, now),
            counts: range.counts,
            resting: range.breaker.is_open(now),
            rests: range.breaker.trips(),
        })
    }

    /// The first of these values that lie in no range that is ready.
    pub fn outside(&self, values: &Segments<V>) -> Option<String> {
        let outside = values.minus(&self.ready_networks());
        outside.first().map(ToString::to_string)
    }

    /// The pools, in the order that they are tried: by priority, then name.
    pub fn pools(&self) -> impl Iterator<Item = PoolView> + '_ {
        self.pools.iter().map(|pool| PoolView {
            name: Arc::clone(&pool.terms.name),
            counts: pool.counts,
            outside: pool.outside.first().map(ToString::to_string),
            conflicts: pool.conflicts.clone(),
        })
    }
}
