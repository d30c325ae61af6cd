//! Where in one range a choice may fall, and in which order it is looked for: our own blocks before foreign ones, in each the upper band
//! before the lower.

use std::ops::Range;

use super::members::BLOCKS;
use crate::slots::{Slots, scale};

/// Places of a range, ascending, with how many stand before the end of each run.
#[derive(Clone, Debug, Default)]
struct Runs {
    runs: Vec<Range<u64>>,
    ends: Vec<u64>,
}

impl Runs {
    fn push(&mut self, run: Range<u64>) {
        if !run.is_empty() {
            self.ends.push(self.total() + (run.end - run.start));
            self.runs.push(run);
        }
    }

    fn total(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The first free place from a random one of these on, around.
    fn pick(&self, slots: &Slots, random: u64) -> Option<u64> {
        let ordinal = scale(random, self.total());
        let index = self.ends.partition_point(|end| *end <= ordinal);
        let run = self.runs.get(index)?;
        let start = run.end - (self.ends.get(index)? - ordinal);
        let (before, after) = self.runs.split_at(index);
        first_free(
            slots,
            std::iter::once(start..run.end).chain(after.iter().skip(1).cloned()),
        )
        .or_else(|| first_free(slots, before.iter().cloned().chain(std::iter::once(run.start..start))))
    }
}

/// The first free place in ascending runs. A run that lies before the next free place of the whole range is passed over without a search.
fn first_free(slots: &Slots, runs: impl Iterator<Item = Range<u64>>) -> Option<u64> {
    let mut free = None;
    for run in runs {
        if free.is_none_or(|free| free < run.start) {
            free = Some(slots.next_free(run.start..slots.len())?);
        }
        if free.is_some_and(|free| free < run.end) {
            return free;
        }
    }
    None
}

/// The places of one range that one source of choices has, by preference.
#[derive(Clone, Debug, Default)]
pub(super) struct Menu {
    own_upper: Runs,
    own_lower: Runs,
    foreign_upper: Runs,
    foreign_lower: Runs,
}

impl Menu {
    /// The places `runs` (ascending, not empty) of a range whose lower band ends at `band`, cut into blocks. `own` says whose a block is.
    ///
    /// It is the places that are cut, not the numbers from the first to the last, so that every replica has its share of a small pool too.
    pub fn new(runs: &[Range<u64>], band: u64, own: impl Fn(usize) -> bool) -> Self {
        let total = runs
            .iter()
            .fold(0_u128, |sum, run| sum + u128::from(run.end - run.start));
        let blocks = total.min(BLOCKS as u128);
        let mut menu = Self::default();
        let (mut block, mut before) = (0_usize, 0_u128);
        for run in runs {
            let mut start = run.start;
            while start < run.end {
                // Where the present block ends, counted in places.
                let block_end = (block as u128 + 1) * total / blocks.max(1);
                let left = u64::try_from(block_end.saturating_sub(before)).unwrap_or(u64::MAX);
                let end = run.end.min(start.saturating_add(left));
                menu.push(start..end, band, own(block));
                before += u128::from(end - start);
                start = end;
                if before >= block_end {
                    block += 1;
                }
            }
        }
        menu
    }

    fn push(&mut self, part: Range<u64>, band: u64, own: bool) {
        let (lower, upper) = if own {
            (&mut self.own_lower, &mut self.own_upper)
        } else {
            (&mut self.foreign_lower, &mut self.foreign_upper)
        };
        lower.push(part.start..part.end.min(band));
        upper.push(part.start.max(band)..part.end);
    }

    /// The source has no place in this range.
    pub fn is_empty(&self) -> bool {
        let parts = [
            &self.own_upper,
            &self.own_lower,
            &self.foreign_upper,
            &self.foreign_lower,
        ];
        parts.iter().all(|runs| runs.runs.is_empty())
    }

    /// A free place.
    pub fn pick(&self, slots: &Slots, random: u64) -> Option<u64> {
        let order = [
            &self.own_upper,
            &self.own_lower,
            &self.foreign_upper,
            &self.foreign_lower,
        ];
        order.into_iter().find_map(|runs| runs.pick(slots, random))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn places(runs: &Runs) -> BTreeSet<u64> {
        runs.runs.iter().cloned().flatten().collect()
    }

    fn runs() -> impl Strategy<Value = Vec<Range<u64>>> {
        proptest::collection::vec((1_u64..9, 1_u64..40), 0..6).prop_map(|gaps| {
            let mut at = 0;
            let run = |(gap, len): (u64, u64)| {
                let start = at + gap;
                at = start + len;
                start..at
            };
            gaps.into_iter().map(run).collect()
        })
    }

    proptest! {
        #[test]
        fn every_place_is_in_one_part_and_the_first_that_has_a_free_one_gives_it(
            runs in runs(), band in 0_u64..60, mine in any::<u64>(), used in proptest::collection::btree_set(0_u64..300, 0..300), random in any::<u64>(),
        ) {
            let menu = Menu::new(&runs, band, |block| mine >> block & 1 == 1);
            let all: BTreeSet<u64> = runs.iter().cloned().flatten().collect();
            let parts = [&menu.own_upper, &menu.own_lower, &menu.foreign_upper, &menu.foreign_lower].map(places);
            prop_assert_eq!(parts.iter().flatten().copied().collect::<BTreeSet<_>>(), all.clone());
            prop_assert_eq!(parts.iter().map(BTreeSet::len).sum::<usize>(), all.len());
            prop_assert!(parts[0].iter().chain(&parts[2]).all(|place| *place >= band));
            prop_assert!(parts[1].iter().chain(&parts[3]).all(|place| *place < band));

            let mut slots = Slots::new(300);
            for place in &used {
                slots.take(*place).unwrap();
            }
            let free = parts.iter().map(|part| part.difference(&used).copied().collect::<BTreeSet<_>>());
            let best = free.into_iter().find(|part| !part.is_empty());
            match menu.pick(&slots, random) {
                Some(place) => prop_assert!(best.is_some_and(|part| part.contains(&place))),
                None => prop_assert!(best.is_none()),
            }
        }

        #[test]
        fn blocks_have_as_many_places_as_each_other(runs in runs()) {
            let total: u64 = runs.iter().map(|run| run.end - run.start).sum();
            let mut sum = 0;
            for block in 0..BLOCKS {
                let menu = Menu::new(&runs, 0, |candidate| candidate == block);
                let size = menu.own_upper.total();
                prop_assert!(size >= total / 64 && size <= total / 64 + 1, "{size} of {total}");
                sum += size;
            }
            prop_assert_eq!(sum, total);
        }
    }

    #[test]
    fn places_are_equally_likely_wherever_they_lie() {
        let menu = Menu::new(&[10..20, 1_000..1_010, 50_000..50_020], 0, |_| true);
        let slots = Slots::new(65_534);
        let mut seen = BTreeSet::new();
        for step in 0..40_u64 {
            seen.extend(menu.pick(&slots, step * (u64::MAX / 40) + u64::MAX / 80));
        }
        assert_eq!(seen.len(), 40);
    }

    #[test]
    fn a_range_of_all_numbers_is_cut_without_overflow() {
        let menu = Menu::new(&[0..9, 9..u64::MAX], 256, |block| block == 63);
        assert_eq!(menu.own_upper.runs.last().map(|run| run.end), Some(u64::MAX));
        assert_eq!(
            menu.own_upper.total() + menu.foreign_upper.total() + menu.foreign_lower.total(),
            u64::MAX
        );
    }
}
