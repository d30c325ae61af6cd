//! Sets that nearly always have one value: the pools of a Service, the addresses that it shows, the Services that show an address.

use std::borrow::Borrow;
use std::collections::BTreeSet;

use smallvec::SmallVec;

/// Values in order, each once. The first one lies in the set itself, where a tree would take room for eleven; a search is a binary one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Few<T>(SmallVec<[T; 1]>);

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self(SmallVec::new())
    }
}

impl<T: Ord> Few<T> {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// All, ascending.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }

    /// Whether this one is in it.
    pub fn contains<Q: Ord + ?Sized>(&self, value: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.place(value).is_ok()
    }

    /// Adds a value; `false` if it was there.
    pub fn insert(&mut self, value: T) -> bool {
        match self.place(&value) {
            Ok(_) => false,
            Err(place) => {
                self.0.insert(place, value);
                true
            }
        }
    }

    /// Takes a value out; `false` if it was not there.
    pub fn remove<Q: Ord + ?Sized>(&mut self, value: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        let place = self.place(value);
        if let Ok(place) = place {
            self.0.remove(place);
            // One that was crowded once is as small as the others again.
            if self.0.len() == 1 {
                self.0.shrink_to_fit();
            }
        }
        place.is_ok()
    }

    /// The values that the other one lacks.
    pub fn difference<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a T> {
        self.iter().filter(|value| !other.contains(*value))
    }

    fn place<Q: Ord + ?Sized>(&self, value: &Q) -> Result<usize, usize>
    where
        T: Borrow<Q>,
    {
        self.0.binary_search_by(|known| known.borrow().cmp(value))
    }
}

impl<T: Ord> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut all: SmallVec<[T; 1]> = values.into_iter().collect();
        all.sort_unstable();
        all.dedup();
        all.shrink_to_fit();
        Self(all)
    }
}

impl<T: Ord> From<BTreeSet<T>> for Few<T> {
    fn from(values: BTreeSet<T>) -> Self {
        values.into_iter().collect()
    }
}

impl<T> IntoIterator for Few<T> {
    type Item = T;
    type IntoIter = smallvec::IntoIter<[T; 1]>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a Few<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set_as_the_standard_one(
            start in vec(0_u8..8, 0..6),
            steps in vec((any::<bool>(), 0_u8..8), 0..40),
            other in btree_set(0_u8..8, 0..6),
        ) {
            let (mut few, mut model): (Few<u8>, BTreeSet<u8>) = (start.iter().copied().collect(), start.into_iter().collect());
            let other_few = Few::from(other.clone());
            for (adds, value) in steps {
                if adds {
                    prop_assert_eq!(few.insert(value), model.insert(value));
                } else {
                    prop_assert_eq!(few.remove(&value), model.remove(&value));
                }
                prop_assert!(few.iter().eq(&model));
                prop_assert_eq!((few.len(), few.is_empty()), (model.len(), model.is_empty()));
                prop_assert_eq!(few.contains(&value), model.contains(&value));
                prop_assert!(few.difference(&other_few).eq(model.difference(&other)));
                prop_assert_eq!(&few, &Few::from(model.clone()));
                prop_assert!(few.len() > 1 || !few.0.spilled(), "one value takes no memory of its own");
            }
        }
    }
}
