//! Labels, annotations and selectors: few pairs, read often, changed seldom, kept by the hundred thousand.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

type Pair = (Arc<str>, Arc<str>);
type Both<'a> = std::iter::Map<std::slice::Iter<'a, Pair>, fn(&'a Pair) -> (&'a Arc<str>, &'a Arc<str>)>;

/// Pairs in key order, each key once. 32 bytes a pair and nothing else, where a tree would take 370 for the first.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Box<[Pair]>);

impl Labels {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The value of this key.
    pub fn get(&self, key: &str) -> Option<&Arc<str>> {
        let place = self.place(key).ok()?;
        self.0.get(place).map(|(_, value)| value)
    }

    /// Whether there is this key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.place(key).is_ok()
    }

    /// Sets a value and answers with the one before.
    pub fn insert(&mut self, key: Arc<str>, value: Arc<str>) -> Option<Arc<str>> {
        match self.place(&key) {
            Ok(place) => {
                let (_, old) = self.0.get_mut(place)?;
                Some(std::mem::replace(old, value))
            }
            Err(place) => {
                let mut pairs = std::mem::take(&mut self.0).into_vec();
                pairs.reserve_exact(1);
                pairs.insert(place, (key, value));
                self.0 = pairs.into();
                None
            }
        }
    }

    /// Takes a key off and answers with its value.
    pub fn remove(&mut self, key: &str) -> Option<Arc<str>> {
        let place = self.place(key).ok()?;
        let mut pairs = std::mem::take(&mut self.0).into_vec();
        let (_, value) = pairs.remove(place);
        self.0 = pairs.into();
        Some(value)
    }

    /// All pairs, in key order.
    pub fn iter(&self) -> Both<'_> {
        self.into_iter()
    }

    /// All keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().map(|(key, _)| key)
    }

    fn place(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| (**known).cmp(key))
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

/// Of a key that comes twice, the last value counts.
impl FromIterator<Pair> for Labels {
    fn from_iter<I: IntoIterator<Item = Pair>>(pairs: I) -> Self {
        let mut pairs: Vec<Pair> = pairs.into_iter().collect();
        pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
        pairs.reverse();
        pairs.dedup_by(|(one, _), (other, _)| one == other);
        pairs.reverse();
        Self(pairs.into())
    }
}

impl<const N: usize> From<[Pair; N]> for Labels {
    fn from(pairs: [Pair; N]) -> Self {
        pairs.into_iter().collect()
    }
}

impl<'a> IntoIterator for &'a Labels {
    type Item = (&'a Arc<str>, &'a Arc<str>);
    type IntoIter = Both<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(|(key, value)| (key, value))
    }
}

impl IntoIterator for Labels {
    type Item = Pair;
    type IntoIter = std::vec::IntoIter<Pair>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_vec().into_iter()
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// As a map, whatever is done to it.
        #[test]
        fn labels_are_a_map(
            first in prop::collection::vec(("[a-c]{0,2}", "[x-z]"), 0..6),
            steps in prop::collection::vec(("[a-c]{0,2}", prop::option::of("[x-z]")), 0..20),
        ) {
            let arcs = |(key, value): (String, String)| -> Pair { (key.into(), value.into()) };
            let mut labels: Labels = first.iter().cloned().map(arcs).collect();
            let mut map: BTreeMap<Arc<str>, Arc<str>> = first.into_iter().map(arcs).collect();
            for (key, value) in steps {
                if let Some(value) = value {
                    let (key, value) = arcs((key, value));
                    prop_assert_eq!(labels.insert(key.clone(), value.clone()), map.insert(key, value));
                } else {
                    prop_assert_eq!(labels.remove(&key), map.remove(&*key));
                }
                prop_assert!(labels.iter().eq(&map) && labels.keys().eq(map.keys()));
                prop_assert_eq!((labels.len(), labels.is_empty()), (map.len(), map.is_empty()));
                for key in ["", "a", "ab", "d"] {
                    prop_assert_eq!(labels.get(key), map.get(key));
                    prop_assert_eq!(labels.contains_key(key), map.contains_key(key));
                }
            }
            prop_assert_eq!(format!("{labels:?}"), format!("{map:?}"));
            prop_assert_eq!(serde_json::to_string(&labels).unwrap(), serde_json::to_string(&map).unwrap());
            prop_assert!(labels.into_iter().eq(map));
        }
    }
}
