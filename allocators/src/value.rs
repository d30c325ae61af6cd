//! What a book keeps: IPv4 addresses, IPv6 addresses or nodePort numbers.

use std::fmt::{self, Debug, Display};
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;

/// A value that ranges are made of. Values of one kind are consecutive numbers, which is all that the books need to know.
pub trait Value: Copy + Ord + Hash + Debug + Display + 'static {
    /// Its number.
    fn number(self) -> u128;

    /// The value of this number, if it is one.
    fn of_number(number: u128) -> Option<Self>;

    /// How far this is above `base`; `None` if it is below, or farther than a `u64` counts.
    fn places_above(self, base: Self) -> Option<u64> {
        u64::try_from(self.number().checked_sub(base.number())?).ok()
    }

    /// The value so many places above.
    fn plus(self, places: u64) -> Option<Self> {
        Self::of_number(self.number().checked_add(u128::from(places))?)
    }

    /// The one above; `None` at the last value of the kind.
    fn next(self) -> Option<Self> {
        self.plus(1)
    }

    /// The one below; `None` at the first value of the kind.
    fn previous(self) -> Option<Self> {
        Self::of_number(self.number().checked_sub(1)?)
    }
}

impl Value for Ipv4Addr {
    fn number(self) -> u128 {
        u128::from(self.to_bits())
    }

    fn of_number(number: u128) -> Option<Self> {
        u32::try_from(number).ok().map(Self::from_bits)
    }
}

impl Value for Ipv6Addr {
    fn number(self) -> u128 {
        self.to_bits()
    }

    fn of_number(number: u128) -> Option<Self> {
        Some(Self::from_bits(number))
    }
}

/// A port number that a node answers on, whatever the protocol: 1 to 65535.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodePort(NonZeroU16);

impl NodePort {
    /// `None` for 0, which in a Service means "not allocated".
    pub const fn new(number: u16) -> Option<Self> {
        match NonZeroU16::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// This number, or the nearest that is one.
    pub(crate) const fn saturating(number: u16) -> Self {
        Self(NonZeroU16::MIN.saturating_add(number.saturating_sub(1)))
    }

    /// The number.
    pub fn get(self) -> u16 {
        self.0.get()
    }
}

impl Display for NodePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, f)
    }
}

impl Value for NodePort {
    fn number(self) -> u128 {
        u128::from(self.get())
    }

    fn of_number(number: u128) -> Option<Self> {
        Self::new(u16::try_from(number).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends<V: Value>(first: V, last: V) {
        assert_eq!((first.previous(), last.next()), (None, None));
        assert_eq!(first.next().and_then(V::previous), Some(first));
        assert_eq!(last.previous().and_then(V::next), Some(last));
        assert_eq!(last.plus(u64::MAX), None);
        assert_eq!((last.plus(0), last.places_above(last)), (Some(last), Some(0)));
        assert_eq!(first.places_above(last), None);
    }

    #[test]
    fn arithmetic_stops_at_the_ends_of_each_kind() {
        ends(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);
        ends(Ipv6Addr::UNSPECIFIED, Ipv6Addr::from_bits(u128::MAX));
        ends(NodePort::new(1).unwrap(), NodePort::new(65535).unwrap());
        let (low, high) = (Ipv6Addr::UNSPECIFIED, Ipv6Addr::from_bits(1 << 64));
        assert_eq!(
            (high.places_above(low), high.previous().unwrap().places_above(low)),
            (None, Some(u64::MAX))
        );
        assert_eq!(NodePort::new(0), None);
    }
}
