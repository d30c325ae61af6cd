//! The ranges that values are given from: a family's part of a ServiceCIDR, and the nodePort range.
//!
//! Both are places `0..len` above a first value, the lowest of them a band that dynamic choices take last, so that values which people
//! write down by hand meet fewer of ours (KEP-3070 for addresses, KEP-3668 for ports).

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::sync::Arc;

use ipnet::{Ipv4Net, Ipv6Net};
use thiserror::Error;

use crate::interval::Interval;
use crate::node_ports::PortRange;
use crate::slots::{SlotError, Slots};
use crate::value::{NodePort, Value};

/// Who allocates ClusterIPs in the apiserver, which decides how much of a wide IPv6 range it uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Registry {
    /// IPAddress objects: all hosts, but no IPv6 prefix shorter than 64. The default from Kubernetes 1.33.
    #[default]
    IpAddresses,
    /// One bitmap for each range: at most 65,536 addresses of IPv6, the base among them.
    Bitmap,
}

/// Why the apiserver gives no address of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RangeError {
    /// Such a ServiceCIDR is stored and becomes Ready all the same.
    #[error("the apiserver allocates no address from an IPv6 prefix shorter than /64")]
    PrefixTooShort,
}

/// The values of one range that can be given, and its bands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueRange<V> {
    text: Arc<str>,
    whole: Interval<V>,
    first: V,
    len: u64,
    band: u64,
}

impl<V: Value> ValueRange<V> {
    /// As the cluster's owner wrote it: `10.96.0.0/12`, `30000-32767`.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// What the range covers, with the values that are never given (an IPv4 network's base and broadcast address, an IPv6 network's base).
    pub fn whole(&self) -> Interval<V> {
        self.whole
    }

    /// The values that can be given; `None` if there is none, as in a /32.
    pub fn usable(&self) -> Option<Interval<V>> {
        Interval::new(self.first, self.first.plus(self.len.checked_sub(1)?)?)
    }

    /// How many values can be given.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// No value can be given.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The places that dynamic choices take last: the lowest. It is empty in a range of up to 16.
    pub fn lower(&self) -> Range<u64> {
        0..self.band.min(self.len)
    }

    /// The places that dynamic choices take first: those above the lower band.
    pub fn upper(&self) -> Range<u64> {
        self.band.min(self.len)..self.len
    }

    /// Where this value stands among those that can be given.
    pub fn place(&self, value: V) -> Option<u64> {
        value.places_above(self.first).filter(|place| *place < self.len)
    }

    /// The value of this place.
    pub fn value(&self, place: u64) -> Option<V> {
        if place < self.len { self.first.plus(place) } else { None }
    }

    /// A free place as kube-apiserver looks for one: from a random place of the upper band on, around, then the same in the lower one.
    /// `random` is one uniform number for each band.
    pub fn take_random(&self, slots: &mut Slots, random: (u64, u64)) -> Result<u64, SlotError> {
        match slots.take_random(self.upper(), random.0) {
            Err(SlotError::Full) => slots.take_random(self.lower(), random.1),
            taken => taken,
        }
    }
}

impl ValueRange<Ipv4Addr> {
    /// The IPv4 part of a ServiceCIDR: all but the network's own and its broadcast address.
    pub fn ipv4(cidr: Ipv4Net, registry: Registry) -> Self {
        let host_bits = u32::from(cidr.max_prefix_len() - cidr.prefix_len());
        let size = 1_u64 << host_bits;
        // Upstream's sizes of the two widest networks overflow to nothing; IPAddress objects lack only the band there.
        let counted = if host_bits >= 31 { 0 } else { size };
        let usable = match registry {
            Registry::IpAddresses => size,
            Registry::Bitmap => counted,
        };
        let network = cidr.network();
        Self {
            text: cidr.to_string().into(),
            whole: ends(network, cidr.broadcast()),
            first: network.next().unwrap_or(network),
            len: usable.saturating_sub(2),
            band: address_band(counted),
        }
    }
}

impl ValueRange<Ipv6Addr> {
    /// The IPv6 part of a ServiceCIDR: all but the subnet-router address, its first.
    pub fn ipv6(cidr: Ipv6Net, registry: Registry) -> Result<Self, RangeError> {
        let host_bits = u32::from(cidr.max_prefix_len() - cidr.prefix_len());
        let size = match registry {
            Registry::IpAddresses if host_bits > 64 => return Err(RangeError::PrefixTooShort),
            Registry::IpAddresses => 1_u128 << host_bits,
            // The two widest networks count as nothing there, as with IPv4.
            Registry::Bitmap if host_bits >= 127 => 0,
            Registry::Bitmap => 1 << host_bits.min(16),
        };
        let counted = if host_bits >= 127 {
            0
        } else {
            1_u64 << host_bits.min(62)
        };
        let network = cidr.network();
        Ok(Self {
            text: cidr.to_string().into(),
            whole: ends(network, cidr.broadcast()),
            first: network.next().unwrap_or(network),
            len: u64::try_from(size.saturating_sub(1)).unwrap_or(u64::MAX),
            band: address_band(counted),
        })
    }
}

impl ValueRange<NodePort> {
    /// All numbers of the flag.
    pub fn node_ports(range: PortRange) -> Self {
        let ports = range.interval();
        Self {
            text: range.to_string().into(),
            whole: ports,
            first: ports.first(),
            len: ports.count(),
            band: band(ports.count(), 32, 128),
        }
    }
}

fn ends<V: Value>(first: V, last: V) -> Interval<V> {
    Interval::new(first, last).unwrap_or(Interval::single(first))
}

fn address_band(size: u64) -> u64 {
    band(size, 16, 256)
}

/// Upstream's graduated step: a share of the size, never less than 16 nor more than `most`, and nothing in a range of up to 16.
fn band(size: u64, share: u64, most: u64) -> u64 {
    const LEAST: u64 = 16;
    if size <= LEAST {
        0
    } else {
        (size / share).clamp(LEAST, most)
    }
}

#[cfg(test)]
mod tests;
