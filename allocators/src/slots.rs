//! The places `0..n` of one range: which are used, and where the next free one is.
//!
//! [`Slots`] is a bitmap with summary levels for up to 2^20 places, and the runs of used places beyond that, so that an IPv6 /64 costs
//! what is used of it.

mod bitmap;
mod sparse;

#[cfg(test)]
mod tests;

use std::ops::Range;

use thiserror::Error;

pub use self::bitmap::Bitmap;
pub use self::sparse::SparseSet;

/// Beyond this a bitmap (128 KiB here) would cost more than the runs of what is used. It is also the widest range that
/// kube-apiserver keeps as a bitmap (20 host bits).
pub const DENSE_LIMIT: u64 = 1 << 20;

/// Why a place was not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SlotError {
    /// No place is free where one was looked for.
    #[error("range is full")]
    Full,
    /// The place that was asked for is used.
    #[error("already allocated")]
    Taken,
    /// The place that was asked for does not exist.
    #[error("not in the valid range")]
    OutOfRange,
}

/// A set of used places among `0..len`.
#[derive(Clone, Debug)]
pub enum Slots {
    /// One bit for each place.
    Dense(Bitmap),
    /// The runs of used places.
    Sparse(SparseSet),
}

impl Slots {
    /// `len` places, all free.
    pub fn new(len: u64) -> Self {
        match Bitmap::new(len) {
            Some(bitmap) if len <= DENSE_LIMIT => Self::Dense(bitmap),
            _ => Self::Sparse(SparseSet::new(len)),
        }
    }

    /// How many places there are.
    pub fn len(&self) -> u64 {
        match self {
            Self::Dense(bitmap) => bitmap.len(),
            Self::Sparse(set) => set.len(),
        }
    }

    /// There is no place at all, as in an IPv4 /31.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many places are used.
    pub fn used(&self) -> u64 {
        match self {
            Self::Dense(bitmap) => bitmap.used(),
            Self::Sparse(set) => set.used(),
        }
    }

    /// How many places are free.
    pub fn free(&self) -> u64 {
        self.len() - self.used()
    }

    /// This place is used. One that does not exist is not.
    pub fn contains(&self, place: u64) -> bool {
        match self {
            Self::Dense(bitmap) => bitmap.contains(place),
            Self::Sparse(set) => set.contains(place),
        }
    }

    /// The first free place in `within`.
    pub fn next_free(&self, within: Range<u64>) -> Option<u64> {
        match self {
            Self::Dense(bitmap) => bitmap.next_free(within),
            Self::Sparse(set) => set.next_free(within),
        }
    }

    /// Takes exactly this place.
    pub fn take(&mut self, place: u64) -> Result<(), SlotError> {
        if place >= self.len() {
            return Err(SlotError::OutOfRange);
        }
        let taken = match self {
            Self::Dense(bitmap) => bitmap.insert(place),
            Self::Sparse(set) => set.insert(place),
        };
        if taken { Ok(()) } else { Err(SlotError::Taken) }
    }

    /// Takes the lowest free place in `within`.
    pub fn take_lowest(&mut self, within: Range<u64>) -> Result<u64, SlotError> {
        let place = self.next_free(within).ok_or(SlotError::Full)?;
        self.take(place)?;
        Ok(place)
    }

    /// Takes the first free place in `within` from a random one on, and from the start of `within` if there is none, as upstream's
    /// bitmap does. `random` is uniform over all of `u64`.
    pub fn take_random(&mut self, within: Range<u64>, random: u64) -> Result<u64, SlotError> {
        let within = within.start..within.end.min(self.len());
        let start = within
            .start
            .saturating_add(scale(random, within.end.saturating_sub(within.start)));
        let place = self
            .next_free(start..within.end)
            .or_else(|| self.next_free(within.start..start))
            .ok_or(SlotError::Full)?;
        self.take(place)?;
        Ok(place)
    }

    /// Frees this place. `false`: it was free, or does not exist; upstream says nothing of that either.
    pub fn release(&mut self, place: u64) -> bool {
        match self {
            Self::Dense(bitmap) => bitmap.remove(place),
            Self::Sparse(set) => set.remove(place),
        }
    }

    /// The used places, ascending.
    pub fn used_places(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        match self {
            Self::Dense(bitmap) => Box::new(bitmap.used_places()),
            Self::Sparse(set) => Box::new(set.used_places()),
        }
    }
}

/// A number in `0..len` (0 if `len` is 0) from one that is uniform over all of `u64`, without a division.
pub(crate) fn scale(random: u64, len: u64) -> u64 {
    let wide = (u128::from(random) * u128::from(len)) >> 64;
    u64::try_from(wide).unwrap_or(0)
}
