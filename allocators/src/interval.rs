//! Sets of values as intervals. Both ends are included, so that the last value there is needs no number behind it.

use std::fmt;

use crate::value::Value;

/// The values from `first` to `last`, both included; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interval<V> {
    first: V,
    last: V,
}

impl<V: Value> Interval<V> {
    /// `None` if `last` is below `first`.
    pub fn new(first: V, last: V) -> Option<Self> {
        (first <= last).then_some(Self { first, last })
    }

    /// One value.
    pub fn single(value: V) -> Self {
        Self {
            first: value,
            last: value,
        }
    }

    /// The lowest.
    pub fn first(self) -> V {
        self.first
    }

    /// The highest.
    pub fn last(self) -> V {
        self.last
    }

    /// How many values; `u64::MAX` for more than that.
    pub fn count(self) -> u64 {
        let above = self.last.places_above(self.first).unwrap_or(u64::MAX);
        above.saturating_add(1)
    }

    /// It has this value.
    pub fn contains(self, value: V) -> bool {
        self.first <= value && value <= self.last
    }

    /// What both have.
    pub fn intersection(self, other: Self) -> Option<Self> {
        Self::new(self.first.max(other.first), self.last.min(other.last))
    }
}

/// `a-b`, or the value alone.
impl<V: Value> fmt::Display for Interval<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

/// A set of values: intervals that are sorted and neither overlap nor touch, so that one set has one form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segments<V>(Vec<Interval<V>>);

impl<V> Default for Segments<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V: Value> FromIterator<Interval<V>> for Segments<V> {
    fn from_iter<I: IntoIterator<Item = Interval<V>>>(intervals: I) -> Self {
        let mut sorted: Vec<_> = intervals.into_iter().collect();
        sorted.sort_unstable();
        let mut merged: Vec<Interval<V>> = Vec::new();
        for interval in sorted {
            match merged.last_mut() {
                Some(left) if left.last.next().is_none_or(|behind| interval.first <= behind) => {
                    left.last = left.last.max(interval.last);
                }
                _ => merged.push(interval),
            }
        }
        Self(merged)
    }
}

impl<V: Value> Segments<V> {
    /// The intervals, ascending.
    pub fn as_slice(&self) -> &[Interval<V>] {
        &self.0
    }

    /// The lowest interval.
    pub fn first(&self) -> Option<&Interval<V>> {
        self.0.first()
    }

    /// It has no value.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many values; `u64::MAX` for more than that.
    pub fn count(&self) -> u64 {
        self.0
            .iter()
            .fold(0, |sum, interval| sum.saturating_add(interval.count()))
    }

    /// It has this value.
    pub fn contains(&self, value: V) -> bool {
        let behind = self.0.partition_point(|interval| interval.first <= value);
        let before = behind.checked_sub(1).and_then(|at| self.0.get(at));
        before.is_some_and(|interval| value <= interval.last)
    }

    /// In words: the first `most` intervals, and how many values more. `30080-30089, 30095 and 12 more`.
    pub fn abridged(&self, most: usize) -> String {
        let (shown, rest) = self.0.split_at_checked(most).unwrap_or((&self.0, &[]));
        let shown: Vec<String> = shown.iter().map(ToString::to_string).collect();
        let more = rest
            .iter()
            .fold(0_u64, |sum, interval| sum.saturating_add(interval.count()));
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        shown.join(", ") + &more
    }

    /// What either has.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.0.iter().chain(&other.0).copied().collect()
    }

    /// What both have.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let (mut left, mut right, mut both) = (self.0.iter().peekable(), other.0.iter().peekable(), Vec::new());
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            both.extend(a.intersection(**b));
            if a.last < b.last {
                left.next();
            } else {
                right.next();
            }
        }
        Self(both)
    }

    /// What this has and `other` has not.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let (mut rest, mut holes) = (Vec::new(), other.0.iter().peekable());
        for interval in &self.0 {
            // What of this interval is not dealt with yet.
            let mut open = Some(*interval);
            while let (Some(part), Some(hole)) = (open, holes.peek()) {
                if hole.last < part.first {
                    holes.next();
                    continue;
                }
                if part.last < hole.first {
                    break;
                }
                rest.extend(hole.first.previous().and_then(|last| Interval::new(part.first, last)));
                open = hole.last.next().and_then(|first| Interval::new(first, part.last));
            }
            rest.extend(open);
        }
        Self(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::NodePort;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::net::Ipv6Addr;

    fn port(number: u16) -> NodePort {
        NodePort::new(number).unwrap()
    }

    fn values(segments: &Segments<NodePort>) -> BTreeSet<u16> {
        let intervals = segments.as_slice().iter();
        intervals
            .flat_map(|interval| interval.first.get()..=interval.last.get())
            .collect()
    }

    /// At both ends of what a port can be.
    fn segments() -> impl Strategy<Value = Segments<NodePort>> {
        let number = prop_oneof![1_u16..40, 65_500..=65_535_u16];
        let interval = (number, 0_u16..6)
            .prop_map(|(first, more)| Interval::new(port(first), port(first.saturating_add(more))).unwrap());
        proptest::collection::vec(interval, 0..6).prop_map(|intervals| intervals.into_iter().collect())
    }

    proptest! {
        #[test]
        fn segments_are_sets_of_values(a in segments(), b in segments(), probe in 1_u16..=65_535) {
            let (left, right) = (values(&a), values(&b));
            prop_assert_eq!(values(&a.union(&b)), left.union(&right).copied().collect());
            prop_assert_eq!(values(&a.intersection(&b)), left.intersection(&right).copied().collect());
            prop_assert_eq!(values(&a.minus(&b)), left.difference(&right).copied().collect());
            prop_assert_eq!(a.count(), left.len() as u64);
            prop_assert_eq!(a.contains(port(probe)), left.contains(&probe));
            for result in [a.union(&b), a.intersection(&b), a.minus(&b)] {
                prop_assert_eq!(&result.as_slice().iter().copied().collect::<Segments<_>>(), &result, "one form");
            }
        }
    }

    #[test]
    fn many_are_told_by_the_first_and_how_many_more() {
        let interval = |first, last| Interval::new(port(first), port(last)).unwrap();
        let set: Segments<_> = [interval(1, 3), interval(5, 5), interval(8, 9)].into_iter().collect();
        assert_eq!(set.abridged(3), "1-3, 5, 8-9");
        assert_eq!(set.abridged(2), "1-3, 5 and 2 more");
    }

    #[test]
    fn the_whole_of_ipv6_is_a_set_too() {
        let all: Segments<_> = [Interval::new(Ipv6Addr::UNSPECIFIED, Ipv6Addr::from_bits(u128::MAX)).unwrap()]
            .into_iter()
            .collect();
        assert_eq!(all.count(), u64::MAX);
        assert!(all.minus(&all).is_empty());
        assert_eq!(all.union(&all), all);
        let last: Segments<_> = [Interval::single(Ipv6Addr::from_bits(u128::MAX))].into_iter().collect();
        assert!(!all.minus(&last).contains(Ipv6Addr::from_bits(u128::MAX)));
        assert_eq!(all.minus(&last).union(&last), all);
    }
}
