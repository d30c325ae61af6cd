//! A bitmap under summary levels: each bit of a level says that a whole word below it is full.
//!
//! ```text
//! level 3   1 word                  a bit: 64^3 places are full
//! level 2   up to 64 words          a bit: 64^2 places
//! level 1   up to 4,096 words       a bit: 64 places
//! level 0   up to 262,144 words     a bit: one place
//! ```
//!
//! The next free place is found by going up until a word has a gap and down again: at most seven words are read, however full the
//! range is. A flat bitmap reads all of them at the last free place of a range; so does `bitvec`, which is why this is words and not
//! that crate (`docs/figures/allocators.md` has both).

use std::ops::Range;

const LEVELS: usize = 4;
const WORD: u64 = u64::BITS as u64;
const LONGEST: u64 = WORD * WORD * WORD * WORD;

/// A set of used places among `0..len`, `len` up to 2^24.
#[derive(Clone, Debug)]
pub struct Bitmap {
    len: u64,
    used: u64,
    /// A bit behind the last place, or above a word that does not exist, is set: no search finds it.
    levels: [Box<[u64]>; LEVELS],
}

impl Bitmap {
    /// `len` places, all free; `None` for more than 2^24.
    pub fn new(len: u64) -> Option<Self> {
        if len > LONGEST {
            return None;
        }
        let mut bits = len;
        let levels = std::array::from_fn(|_| {
            let level = empty_level(bits);
            bits = bits.div_ceil(WORD);
            level
        });
        Some(Self { len, used: 0, levels })
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

    /// This place is used. One that does not exist is not.
    pub fn contains(&self, place: u64) -> bool {
        let [bits, ..] = &self.levels;
        place < self.len && bits.get(word_of(place)).is_some_and(|word| word & bit_of(place) != 0)
    }

    /// The first free place in `within`.
    #[inline]
    pub fn next_free(&self, within: Range<u64>) -> Option<u64> {
        if within.start >= within.end.min(self.len) {
            return None;
        }
        let mut at = within.start;
        for (height, level) in self.levels.iter().enumerate() {
            let word = level.get(word_of(at))?;
            let gaps = !word & (u64::MAX << (at % WORD));
            if gaps != 0 {
                let mut found = at - at % WORD + u64::from(gaps.trailing_zeros());
                for level in self.levels.iter().take(height).rev() {
                    // `found` counted words of this level.
                    let word = level.get(usize::try_from(found).ok()?)?;
                    found = found * WORD + u64::from(word.trailing_ones());
                }
                return (found < within.end).then_some(found);
            }
            at = at / WORD + 1;
        }
        None
    }

    /// Marks this place as used. `false`: it was, or does not exist.
    #[inline]
    pub fn insert(&mut self, place: u64) -> bool {
        if place >= self.len || self.contains(place) {
            return false;
        }
        self.used += 1;
        let mut at = place;
        for level in &mut self.levels {
            let Some(word) = level.get_mut(word_of(at)) else { break };
            *word |= bit_of(at);
            if *word != u64::MAX {
                break;
            }
            at /= WORD;
        }
        true
    }

    /// Marks this place as free. `false`: it was, or does not exist.
    #[inline]
    pub fn remove(&mut self, place: u64) -> bool {
        if !self.contains(place) {
            return false;
        }
        self.used -= 1;
        let mut at = place;
        for level in &mut self.levels {
            let Some(word) = level.get_mut(word_of(at)) else { break };
            let was_full = *word == u64::MAX;
            *word &= !bit_of(at);
            if !was_full {
                break;
            }
            at /= WORD;
        }
        true
    }

    /// The used places, ascending.
    pub fn used_places(&self) -> impl Iterator<Item = u64> + '_ {
        let [bits, ..] = &self.levels;
        let words = (0..).step_by(64).zip(bits.iter());
        words
            .flat_map(|(base, word)| {
                let gone = |rest: &u64| rest & rest.wrapping_sub(1);
                std::iter::successors((*word != 0).then_some(*word), move |rest| {
                    Some(gone(rest)).filter(|rest| *rest != 0)
                })
                .map(move |rest| base + u64::from(rest.trailing_zeros()))
            })
            .take_while(|place| *place < self.len)
    }
}

/// A level of so many bits: clear, and set behind the last.
fn empty_level(bits: u64) -> Box<[u64]> {
    let words = usize::try_from(bits.div_ceil(WORD).max(1)).unwrap_or(1);
    let mut level = vec![0; words].into_boxed_slice();
    if (bits == 0 || !bits.is_multiple_of(WORD))
        && let Some(last) = level.last_mut()
    {
        *last = u64::MAX << (bits % WORD);
    }
    level
}

fn word_of(at: u64) -> usize {
    usize::try_from(at / WORD).unwrap_or(usize::MAX)
}

fn bit_of(at: u64) -> u64 {
    1 << (at % WORD)
}
