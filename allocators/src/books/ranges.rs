//! The ranges of a book.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::breaker::Breaker;
use super::state::{Counts, State};
use super::{Book, Entry};
use crate::interval::Segments;
use crate::range::ValueRange;
use crate::slots::Slots;
use crate::value::Value;

/// A range as the cluster has it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeSpec<V> {
    /// Its values.
    pub range: ValueRange<V>,
    /// The apiserver allocates from it: a ServiceCIDR without condition Ready counts as ready, one with Ready=False or a deletion timestamp
    /// as not.
    pub ready: bool,
}

/// What is known of one range.
#[derive(Debug)]
pub(super) struct RangeBook<V> {
    pub range: ValueRange<V>,
    pub slots: Slots,
    pub counts: Counts,
    pub breaker: Breaker,
    /// Since when it is ready.
    pub ready: Option<Instant>,
}

impl<V: Value> RangeBook<V> {
    fn new(range: ValueRange<V>) -> Self {
        Self {
            slots: Slots::new(range.len()),
            counts: Counts::all_free(range.len()),
            breaker: Breaker::default(),
            ready: None,
            range,
        }
    }

    /// It is ready, and was so long enough.
    pub fn has_settled(&self, settle: Duration, now: Instant) -> bool {
        let since = self.ready;
        since.is_some_and(|since| now.saturating_duration_since(since) >= settle)
    }

    /// A value has left one state for another.
    pub fn shift(&mut self, value: V, from: State, to: State) {
        let Some(place) = self.range.place(value) else { return };
        self.counts.shift(from, to);
        if to == State::Free {
            self.slots.release(place);
        } else if from == State::Free {
            let taken = self.slots.take(place);
            debug_assert!(taken.is_ok(), "{value}: slots and entries differ");
        }
    }
}

impl<V: Value> Book<V> {
    /// All ranges that there are: the family's parts of the ServiceCIDRs, or the one nodePort range. They may overlap. Of two with one text
    /// (two ServiceCIDRs of one CIDR) one is kept, ready if either is, as upstream does.
    pub fn set_ranges(&mut self, specs: impl IntoIterator<Item = RangeSpec<V>>, now: Instant) {
        self.advance(now);
        let mut wanted: Vec<RangeSpec<V>> = Vec::new();
        for spec in specs {
            match wanted.iter_mut().find(|known| known.range == spec.range) {
                Some(known) => known.ready |= spec.ready,
                None => wanted.push(spec),
            }
        }
        let mut earlier = std::mem::take(&mut self.ranges);
        for spec in wanted {
            let known = earlier.iter().position(|known| known.range == spec.range);
            let known = known.map(|index| earlier.swap_remove(index));
            let mut range = known.unwrap_or_else(|| self.filled(spec.range));
            range.ready = spec.ready.then(|| range.ready.unwrap_or(now));
            self.ranges.push(range);
        }
        self.lay_out_pools();
    }

    /// A range with what is already known of its values.
    fn filled(&self, range: ValueRange<V>) -> RangeBook<V> {
        let mut book = RangeBook::new(range);
        for (value, entry) in &self.entries {
            book.shift(*value, State::Free, Entry::state(entry));
        }
        book
    }

    /// The values that the apiserver allocates now.
    pub(super) fn ready_values(&self) -> Segments<V> {
        let ready = self.ranges.iter().filter(|range| range.ready.is_some());
        ready.filter_map(|range| range.range.usable()).collect()
    }

    /// What ranges cover that are ready, the values included that are never given.
    pub(super) fn ready_networks(&self) -> Segments<V> {
        let ready = self.ranges.iter().filter(|range| range.ready.is_some());
        ready.map(|range| range.range.whole()).collect()
    }

    /// The range that a value is given from.
    pub(super) fn range_text(&self, value: V) -> Option<Arc<str>> {
        let mut with = self.ranges.iter().filter(|range| range.range.place(value).is_some());
        with.next().map(|range| Arc::clone(range.range.text()))
    }
}
