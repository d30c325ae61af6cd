//! The free addresses of a pool as gaps between those that are not: as small for a /64 as for a /28.

use std::collections::BTreeMap;

use crate::interval::{Interval, Segments};
use crate::value::Value;

/// A set of values that changes by single ones. Gaps neither overlap nor touch; each is found by its first value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gaps<V>(BTreeMap<V, V>);

impl<V> Default for Gaps<V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<V: Value> Gaps<V> {
    /// All of these.
    pub fn of(values: &Segments<V>) -> Self {
        Self(values.as_slice().iter().map(|it| (it.first(), it.last())).collect())
    }

    /// The lowest.
    pub fn lowest(&self) -> Option<V> {
        self.0.first_key_value().map(|(first, _)| *first)
    }

    /// The highest.
    pub fn highest(&self) -> Option<V> {
        self.0.last_key_value().map(|(_, last)| *last)
    }

    /// The lowest that is not below `value`.
    pub fn from(&self, value: V) -> Option<V> {
        if self.contains(value) {
            return Some(value);
        }
        self.0.range(value..).next().map(|(first, _)| *first)
    }

    /// It has this value.
    pub fn contains(&self, value: V) -> bool {
        self.gap_at(value).is_some()
    }

    /// Adds a value, if it is not there.
    pub fn insert(&mut self, value: V) {
        if self.contains(value) {
            return;
        }
        let last = value.next().and_then(|next| self.0.remove(&next)).unwrap_or(value);
        let before = value.previous().and_then(|previous| self.gap_at(previous));
        let first = before.map_or(value, Interval::first);
        self.0.insert(first, last);
    }

    /// Takes a value away, if it is there.
    pub fn remove(&mut self, value: V) {
        let Some(gap) = self.gap_at(value) else { return };
        self.0.remove(&gap.first());
        if let Some(below) = value.previous().filter(|below| gap.first() <= *below) {
            self.0.insert(gap.first(), below);
        }
        if let Some(above) = value.next().filter(|above| *above <= gap.last()) {
            self.0.insert(above, gap.last());
        }
    }

    fn gap_at(&self, value: V) -> Option<Interval<V>> {
        let (first, last) = self.0.range(..=value).next_back()?;
        Interval::new(*first, *last).filter(|gap| gap.contains(value))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::Ipv6Addr;

    use proptest::prelude::*;

    use super::*;
    use crate::value::NodePort;

    fn port(number: u16) -> NodePort {
        NodePort::new(number).unwrap()
    }

    proptest! {
        #[test]
        fn gaps_are_a_set(steps in proptest::collection::vec((any::<bool>(), 1_u16..12, any::<bool>()), 0..60)) {
            let (mut gaps, mut model) = (Gaps::default(), BTreeSet::new());
            for (add, number, at_the_end) in steps {
                let value = port(if at_the_end { 65_536_u32 - u32::from(number) } else { u32::from(number) }.try_into().unwrap());
                if add {
                    gaps.insert(value);
                    model.insert(value);
                } else {
                    gaps.remove(value);
                    model.remove(&value);
                }
                prop_assert_eq!(gaps.lowest(), model.first().copied());
                prop_assert_eq!(gaps.highest(), model.last().copied());
                prop_assert_eq!(gaps.from(value), model.range(value..).next().copied());
                prop_assert_eq!(gaps.contains(value), model.contains(&value));
                let one_form = Gaps::of(&model.iter().copied().map(Interval::single).collect());
                prop_assert_eq!(&gaps, &one_form);
            }
        }
    }

    #[test]
    fn a_whole_network_is_one_gap() {
        let all = Interval::new(Ipv6Addr::UNSPECIFIED, Ipv6Addr::from_bits(u128::MAX)).unwrap();
        let mut gaps = Gaps::of(&[all].into_iter().collect());
        gaps.remove(Ipv6Addr::from_bits(u128::MAX));
        gaps.remove(Ipv6Addr::UNSPECIFIED);
        assert_eq!(gaps.lowest(), Some(Ipv6Addr::from_bits(1)));
        assert_eq!(gaps.highest(), Some(Ipv6Addr::from_bits(u128::MAX - 1)));
        assert_eq!(gaps.from(Ipv6Addr::from_bits(u128::MAX)), None);
    }
}
