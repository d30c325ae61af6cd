//! Choosing a value at admission.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use thiserror::Error;

use super::members::mix;
use super::menu::Menu;
use super::state::{Pending, Rest, State};
use super::{Book, KEPT, SOFTLY};
use crate::interval::Segments;
use crate::range::ValueRange;
use crate::service::{ChoiceKey, Field, Requester};
use crate::slots::scale;
use crate::value::Value;

/// Fewer free values than this in a range are left to the apiserver, which cannot collide with itself.
const FEW: u64 = 64;
/// Of a range's values one in so many may be pending.
const PENDING_SHARE: u64 = 4;

/// Where a value may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// No pool governs the Service: anything in the ranges that is in no pool.
    Ranges,
    /// The same where pools keep values for others: left to itself, the apiserver would give one of those, so the last values are given too.
    Outside,
    /// These pools, tried in this order.
    Pools {
        /// Names, as [`Book::govern`] gives them.
        names: &'a [Arc<str>],
        /// The Service may have no other value, so the last ones are given too.
        enforced: bool,
    },
}

/// A value that was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice<V> {
    /// The value.
    pub value: V,
    /// The pool that it is from.
    pub pool: Option<Arc<str>>,
}

/// Why nothing was chosen. The field stays empty then and the apiserver allocates, unless an enforced pool governs: then the Service may have
/// nothing else, and only [`NotChosen::NoRange`] and [`NotChosen::Full`] occur. Of several ranges the greatest reason is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum NotChosen {
    /// No range is ready that has such values.
    #[error("no range is ready")]
    NoRange,
    /// Every value is taken.
    #[error("range is full")]
    Full,
    /// Fewer than 64 values are free, and no enforced pool governs.
    #[error("fewer than 64 values are free: left to the apiserver")]
    NearlyFull,
    /// A quarter of the range waits to be stored.
    #[error("too many choices are not stored yet")]
    TooManyPending,
    /// Too many choices of the last minute were never stored.
    #[error("too many of the last choices were not stored")]
    Resting,
}

/// A value, and the range that it is from.
type Found<V> = (V, Option<Arc<str>>);

impl<V: Value> Book<V> {
    /// Chooses a value and keeps it for this request: hard for 5 s, for 40 s as long as others are free. A named Service that asks again
    /// gets the same one. `random` is uniform over all of `u64`.
    pub fn choose(
        &mut self,
        key: &ChoiceKey,
        source: Source<'_>,
        random: u64,
        now: Instant,
    ) -> Result<Choice<V>, NotChosen> {
        let (value, range) = self.find(key, source, random, now)?;
        if let Some(other) = self.unpend(value)
            && other.key != *key
        {
            self.note(&other, false, now);
        }
        let pending = Pending {
            key: key.clone(),
            until: now + KEPT,
            confirmed: false,
            ours: true,
            range,
        };
        self.pend(value, pending);
        Ok(self.choice(value))
    }

    /// What [`Book::choose`] would give, for a dry run: nothing is kept.
    pub fn peek(
        &mut self,
        key: &ChoiceKey,
        source: Source<'_>,
        random: u64,
        now: Instant,
    ) -> Result<Choice<V>, NotChosen> {
        let (value, _) = self.find(key, source, random, now)?;
        Ok(self.choice(value))
    }

    /// Does `choices`, which give none of these values: the request itself names them, and they may be free for all that is known here.
    pub fn apart_from<T>(&mut self, named: &BTreeSet<V>, now: Instant, choices: impl FnOnce(&mut Self) -> T) -> T {
        self.advance(now);
        let free: Vec<V> = named
            .iter()
            .copied()
            .filter(|value| self.state(*value) != State::Used)
            .collect();
        let mut before = Vec::new();
        for value in &free {
            before.extend(self.unpend(*value).map(|pending| (*value, pending)));
            let held = Pending {
                key: ChoiceKey {
                    namespace: "".into(),
                    requester: Requester::Generated {
                        prefix: "".into(),
                        user: "".into(),
                    },
                    field: Field::ClusterIp,
                },
                until: now + KEPT,
                confirmed: true,
                ours: false,
                range: None,
            };
            self.pend(*value, held);
        }
        let done = choices(self);
        for value in free {
            self.unpend(value);
        }
        for (value, pending) in before {
            // Whoever was about to get it has another now, or names it.
            if !self.asked.contains_key(&pending.key) {
                self.pend(value, pending);
            }
        }
        done
    }

    /// Takes back a choice that has not left the process, as when the other family has none.
    pub fn withdraw(&mut self, key: &ChoiceKey, value: V, now: Instant) {
        self.advance(now);
        let pending = self.entries.get(&value).and_then(|entry| entry.pending.as_ref());
        if pending.is_some_and(|pending| pending.key == *key) {
            self.unpend(value);
        }
    }

    /// Whatever was chosen for this must not be given to it again: an update is tried again after a conflict, and the apiserver may have
    /// reserved the value in the first round, for good as far as anybody can see.
    pub fn renounce(&mut self, key: &ChoiceKey, now: Instant) {
        self.advance(now);
        let Some(value) = self.asked.get(key).copied() else {
            return;
        };
        self.unpend(value);
        // An address that was reserved is shown by its IPAddress by then.
        let until = now + self.rules.unconfirmed.max(self.rules.after_release);
        self.quarantine(value, until, Rest::Renounced);
    }

    /// The validating call has seen this value in the final object: the apiserver has reserved it. What another replica chose is kept
    /// here too from now on.
    pub fn confirm(&mut self, key: &ChoiceKey, value: V, now: Instant) {
        self.advance(now);
        if matches!(self.state(value), State::Used) {
            return;
        }
        let Some(range) = self.range_text(value) else {
            return;
        };
        let (mut range, mut ours) = (Some(range), false);
        if let Some(pending) = self.unpend(value) {
            let same = match key.service() {
                Some(service) => pending.key.may_be(&service),
                None => pending.key == *key,
            };
            self.note(&pending, same, now);
            (range, ours) = (pending.range, pending.ours);
        }
        let pending = Pending {
            key: key.clone(),
            until: now + KEPT,
            confirmed: true,
            ours,
            range,
        };
        self.pend(value, pending);
    }

    fn choice(&self, value: V) -> Choice<V> {
        let pool = self.pool_at(value).and_then(|index| self.pools.get(index));
        Choice {
            value,
            pool: pool.map(|pool| Arc::clone(&pool.terms.name)),
        }
    }

    fn find(&mut self, key: &ChoiceKey, source: Source<'_>, random: u64, now: Instant) -> Result<Found<V>, NotChosen> {
        self.advance(now);
        let own = self.kept(key, source).or_else(|| self.reserved(key, source, now));
        if let Some(found) = own.or_else(|| self.left_by(key, source, now)) {
            return Ok(found);
        }
        let (pools, enforced) = match source {
            Source::Ranges => (vec![None], false),
            Source::Outside => (vec![None], true),
            Source::Pools { names, enforced } => (self.indices(names).map(Some).collect(), enforced),
        };
        let (count, mut why) = (self.ranges.len(), NotChosen::NoRange);
        // Upstream goes through the ranges in random order too.
        let first = usize::try_from(scale(mix(random), count as u64)).unwrap_or(0);
        for pool in &pools {
            for index in (first..count).chain(0..first) {
                match self.pick_in(index, *pool, enforced, random, now) {
                    Ok(found) => return Ok(found),
                    Err(reason) => why = why.max(reason),
                }
            }
        }
        if !enforced {
            return Err(why);
        }
        let stolen = self
            .forgotten(source, false, now)
            .or_else(|| self.rested(source, &Rest::Unstored, now))
            .or_else(|| self.rested(source, &Rest::Renounced, now))
            .or_else(|| self.forgotten(source, true, now));
        stolen.ok_or(why)
    }

    /// What is pending for this Service already.
    fn kept(&self, key: &ChoiceKey, source: Source<'_>) -> Option<Found<V>> {
        let value = *self.asked.get(key)?;
        let pending = self.entries.get(&value)?.pending.as_ref()?;
        self.is_from(source, value).then(|| (value, pending.range.clone()))
    }

    /// What a pool reserves for this Service. Its own value need not rest, unless an IPAddress still says that it is taken.
    fn reserved(&self, key: &ChoiceKey, source: Source<'_>, now: Instant) -> Option<Found<V>> {
        let (Source::Pools { names, .. }, Some(service)) = (source, key.service()) else {
            return None;
        };
        let pools = self.indices(names).filter_map(|index| self.pools.get(index));
        let mut values = pools.flat_map(|pool| pool.reserved_for(&service)).filter(|value| {
            let entry = self.entries.get(value);
            let usable = entry.is_some_and(|entry| {
                entry.object.is_none() && matches!(entry.state(), State::Reserved | State::Quarantined)
            });
            usable && self.pool_at(*value).is_some()
        });
        values.find_map(|value| self.in_settled_range(value, now))
    }

    /// What this Service, or an earlier one of its name, has let go of and its pool keeps back from all others (`reuseDelay`). It need not
    /// rest longer than the apiserver takes to release it.
    fn left_by(&self, key: &ChoiceKey, source: Source<'_>, now: Instant) -> Option<Found<V>> {
        let service = key.service()?;
        let mut left = self.left.get(&service)?.iter().copied().filter(|value| {
            let free_again = matches!(self.rest(*value), Some(Rest::Used(_, again)) if *again <= now);
            free_again && self.only_rests(*value) && self.is_from(source, *value)
        });
        left.find_map(|value| self.in_settled_range(value, now))
    }

    /// Nothing but its quarantine keeps it from being given.
    fn only_rests(&self, value: V) -> bool {
        let entry = self.entries.get(&value);
        entry.is_some_and(|entry| {
            entry.state() == State::Quarantined && entry.object.is_none() && entry.reserved.is_none()
        })
    }

    fn in_settled_range(&self, value: V, now: Instant) -> Option<Found<V>> {
        let mut ranges = self.ranges.iter().filter(|range| range.range.place(value).is_some());
        let range = ranges.find(|range| range.has_settled(self.rules.settle, now))?;
        Some((value, Some(Arc::clone(range.range.text()))))
    }

    fn pick_in(
        &mut self,
        index: usize,
        pool: Option<usize>,
        enforced: bool,
        random: u64,
        now: Instant,
    ) -> Result<Found<V>, NotChosen> {
        let settle = self.rules.settle;
        let menu = self.menu(index, pool, now).ok_or(NotChosen::NoRange)?;
        let range = self.ranges.get(index).ok_or(NotChosen::NoRange)?;
        if !range.has_settled(settle, now) || menu.is_empty() {
            return Err(NotChosen::NoRange);
        }
        // Whoever may have no other value would be refused, because of what became of other Services.
        if !enforced {
            if range.breaker.is_open(now) {
                return Err(NotChosen::Resting);
            }
            if range.counts.pending >= (range.counts.capacity / PENDING_SHARE).max(1) {
                return Err(NotChosen::TooManyPending);
            }
            if range.counts.free < FEW {
                return Err(NotChosen::NearlyFull);
            }
        }
        let place = menu.pick(&range.slots, random).ok_or(NotChosen::Full)?;
        let value = range.range.value(place).ok_or(NotChosen::Full)?;
        Ok((value, Some(Arc::clone(range.range.text()))))
    }

    /// The oldest choice that is kept softly: its request has most likely come to nothing. If it has passed validation, that is less likely.
    fn forgotten(&self, source: Source<'_>, confirmed: bool, now: Instant) -> Option<Found<V>> {
        let soft = self
            .pending_until
            .iter()
            .take_while(|(until, _)| *until <= now + SOFTLY);
        soft.filter(|(_, value)| self.is_from(source, *value))
            .find_map(|(_, value)| {
                let pending = self.entries.get(value)?.pending.as_ref()?;
                (pending.confirmed == confirmed).then(|| (*value, pending.range.clone()))
            })
    }

    /// Of the values that rest for this reason, because requests came to nothing or gave them up, the one that has rested longest. The apiserver
    /// may refuse it, which is no worse than to be refused here.
    fn rested(&self, source: Source<'_>, reason: &Rest, now: Instant) -> Option<Found<V>> {
        let resting = self.quarantined_until.iter().filter(|(_, why)| *why == reason);
        let mut values = resting.map(|((_, value), _)| *value);
        values.find_map(|value| {
            let usable = self.only_rests(value) && self.is_from(source, value);
            usable.then(|| self.in_settled_range(value, now)).flatten()
        })
    }

    fn indices<'a>(&'a self, names: &'a [Arc<str>]) -> impl Iterator<Item = usize> + 'a {
        let find = |name: &Arc<str>| self.pools.iter().position(|pool| pool.terms.name == *name);
        names.iter().filter_map(find)
    }

    fn is_from(&self, source: Source<'_>, value: V) -> bool {
        let pool = self.pool_at(value).and_then(|index| self.pools.get(index));
        match source {
            Source::Ranges | Source::Outside => {
                pool.is_none() && !self.pooled.contains(value) && self.is_in_range(value)
            }
            Source::Pools { names, .. } => pool.is_some_and(|pool| names.contains(&pool.terms.name)),
        }
    }

    fn menu(&mut self, index: usize, pool: Option<usize>, now: Instant) -> Option<Arc<Menu>> {
        if self.menus_until.is_some_and(|until| until <= now) {
            self.menus.clear();
        }
        if self.menus.is_empty() {
            self.menus_until = self.members.next_handover(now);
        }
        if let Some(menu) = self.menus.get(&(index, pool)) {
            return Some(Arc::clone(menu));
        }
        let range = &self.ranges.get(index)?.range;
        let usable: Segments<V> = range.usable().into_iter().collect();
        let values = match pool {
            None => usable.minus(&self.pooled),
            Some(pool) => usable.intersection(&self.pools.get(pool)?.in_play),
        };
        let members = &self.members;
        let menu = Menu::new(&places(range, &values), range.lower().end, |block| {
            members.own(block, now)
        });
        let menu = Arc::new(menu);
        self.menus.insert((index, pool), Arc::clone(&menu));
        Some(menu)
    }
}

/// Where these values, all of the range, stand in it.
fn places<V: Value>(range: &ValueRange<V>, values: &Segments<V>) -> Vec<Range<u64>> {
    let place = |value| range.place(value);
    let run = |part: &crate::interval::Interval<V>| Some(place(part.first())?..place(part.last())?.saturating_add(1));
    values.as_slice().iter().filter_map(run).collect()
}
