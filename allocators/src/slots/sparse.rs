//! The used places of a range that is too wide for a bitmap, as runs.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of used places among `0..len`. Costs what is used; every step is a look-up in an ordered map of runs.
#[derive(Clone, Debug, Default)]
pub struct SparseSet {
    len: u64,
    used: u64,
    /// Start to end of each run of used places, the end not included. Two runs never touch.
    runs: BTreeMap<u64, u64>,
}

impl SparseSet {
    /// `len` places, all free.
    pub fn new(len: u64) -> Self {
        Self { len, ..Self::default() }
    }

    /// How many places there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// There is no place at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many places are used.
    pub fn used(&self) -> u64 {
        self.used
    }

    fn run_at(&self, place: u64) -> Option<(u64, u64)> {
        let (start, end) = self.runs.range(..=place).next_back()?;
        (place < *end).then_some((*start, *end))
    }

    /// This place is used. One that does not exist is not.
    pub fn contains(&self, place: u64) -> bool {
        self.run_at(place).is_some()
    }

    /// The first free place in `within`.
    pub fn next_free(&self, within: Range<u64>) -> Option<u64> {
        let found = self.run_at(within.start).map_or(within.start, |(_, end)| end);
        (found < within.end.min(self.len)).then_some(found)
    }

    /// Marks this place as used. `false`: it was, or does not exist.
    pub fn insert(&mut self, place: u64) -> bool {
        if place >= self.len || self.contains(place) {
            return false;
        }
        self.used += 1;
        // It exists, so there is a number behind it.
        let behind = place + 1;
        let end = self.runs.remove(&behind).unwrap_or(behind);
        match self.runs.range_mut(..place).next_back() {
            Some((_, left)) if *left == place => *left = end,
            _ => {
                self.runs.insert(place, end);
            }
        }
        true
    }

    /// Marks this place as free. `false`: it was, or does not exist.
    pub fn remove(&mut self, place: u64) -> bool {
        let Some((start, end)) = self.run_at(place) else {
            return false;
        };
        self.used -= 1;
        if start == place {
            self.runs.remove(&start);
        } else {
            self.runs.insert(start, place);
        }
        if place + 1 < end {
            self.runs.insert(place + 1, end);
        }
        true
    }

    /// The used places, ascending.
    pub fn used_places(&self) -> impl Iterator<Item = u64> + '_ {
        self.runs.iter().flat_map(|(start, end)| *start..*end)
    }
}
