//! Pod addresses: counted up through a range, never given twice at once, pinned ones first.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context, bail};

use super::Key;

/// `10.244.0.0/16`: base and number of addresses.
#[derive(Clone, Copy, Debug)]
struct Range {
    base: IpAddr,
    size: u128,
    next: u128,
}

impl Range {
    fn parse(cidr: &str) -> anyhow::Result<Self> {
        let (base, bits) = cidr
            .split_once('/')
            .with_context(|| format!("Pod range {cidr:?} is no CIDR"))?;
        let base: IpAddr = base.parse().with_context(|| format!("Pod range {cidr:?}"))?;
        let bits: u32 = bits.parse().with_context(|| format!("Pod range {cidr:?}"))?;
        let width: u32 = if base.is_ipv4() { 32 } else { 128 };
        let size = width.checked_sub(bits).and_then(|free| 1_u128.checked_shl(free));
        let Some(size) = size.filter(|&s| s > 2) else {
            bail!("Pod range {cidr:?}: the prefix must leave room for Pods");
        };
        Ok(Self { base, size, next: 0 })
    }

    /// The next address that nobody has; the first and the last of the range are not used.
    fn take(&mut self, used: &HashSet<IpAddr>) -> Option<IpAddr> {
        for _ in 0..self.size - 2 {
            let offset = 1 + self.next % (self.size - 2);
            self.next += 1;
            let address = match self.base {
                IpAddr::V4(base) => {
                    let offset = u32::try_from(offset).ok()?;
                    IpAddr::V4(Ipv4Addr::from_bits(base.to_bits().checked_add(offset)?))
                }
                IpAddr::V6(base) => IpAddr::V6(Ipv6Addr::from_bits(base.to_bits().checked_add(offset)?)),
            };
            if !used.contains(&address) {
                return Some(address);
            }
        }
        None
    }
}

/// Addresses that the Pods whose name begins so get, in order.
#[derive(Clone, Debug)]
pub(super) struct Pin {
    pub namespace: String,
    pub name_prefix: String,
    pub addresses: VecDeque<IpAddr>,
}

/// Who has which address.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    ranges: Vec<Range>,
    pins: Vec<Pin>,
    used: HashSet<IpAddr>,
    held: HashMap<Key, Vec<IpAddr>>,
}

impl Addresses {
    /// One range per family, in the order in which a Pod lists its addresses.
    pub(super) fn new(ranges: &[String], pins: Vec<Pin>) -> anyhow::Result<Self> {
        Ok(Self {
            ranges: ranges.iter().map(|r| Range::parse(r)).collect::<Result<_, _>>()?,
            used: pins.iter().flat_map(|p| p.addresses.iter().copied()).collect(),
            pins,
            held: HashMap::new(),
        })
    }

    /// The addresses of this Pod, the same at each call until it is released.
    pub(super) fn of(&mut self, pod: &Key) -> anyhow::Result<Vec<IpAddr>> {
        if let Some(held) = self.held.get(pod) {
            return Ok(held.clone());
        }
        let pin = self
            .pins
            .iter_mut()
            .find(|p| p.namespace == pod.0 && pod.1.starts_with(&p.name_prefix));
        let pinned = pin.and_then(|p| p.addresses.pop_front());
        let mut taken = Vec::new();
        for range in &mut self.ranges {
            let same_family = pinned.filter(|p| p.is_ipv4() == range.base.is_ipv4());
            let address = same_family.or_else(|| range.take(&self.used));
            taken.push(address.with_context(|| format!("the Pod range {}.. is used up", range.base))?);
        }
        self.used.extend(&taken);
        self.held.insert(pod.clone(), taken.clone());
        Ok(taken)
    }

    /// Takes over what a Pod already has, from a kubelet before us.
    pub(super) fn adopt(&mut self, pod: &Key, addresses: Vec<IpAddr>) {
        if !self.held.contains_key(pod) {
            self.used.extend(&addresses);
            self.held.insert(pod.clone(), addresses);
        }
    }

    /// The Pod is gone; a pinned address waits for the next Pod of its name.
    pub(super) fn release(&mut self, pod: &Key, pins: &[Pin]) {
        for address in self.held.remove(pod).unwrap_or_default() {
            let pin = pins.iter().position(|p| p.addresses.contains(&address));
            match pin.and_then(|i| self.pins.get_mut(i)) {
                Some(pin) => pin.addresses.push_back(address),
                None => {
                    self.used.remove(&address);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        ("a".to_owned(), name.to_owned())
    }

    fn texts(addresses: anyhow::Result<Vec<IpAddr>>) -> Vec<String> {
        addresses.unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn addresses_are_unique_pinned_and_come_back() {
        let pins = vec![Pin {
            namespace: "a".to_owned(),
            name_prefix: "hostnames-".to_owned(),
            addresses: ["10.9.0.2".parse().unwrap()].into(),
        }];
        let ranges = ["10.9.0.0/29".to_owned(), "fd00::/120".to_owned()];
        let mut pool = Addresses::new(&ranges, pins.clone()).unwrap();
        assert_eq!(texts(pool.of(&key("p1"))), ["10.9.0.1", "fd00::1"]);
        assert_eq!(texts(pool.of(&key("p2"))), ["10.9.0.3", "fd00::2"], ".2 is pinned");
        assert_eq!(texts(pool.of(&key("hostnames-1"))), ["10.9.0.2", "fd00::3"]);
        assert_eq!(texts(pool.of(&key("p1"))), ["10.9.0.1", "fd00::1"]);
        pool.adopt(&key("old"), vec!["10.9.0.4".parse().unwrap()]);
        assert_eq!(texts(pool.of(&key("p3")))[0], "10.9.0.5");
        assert_eq!(texts(pool.of(&key("p4")))[0], "10.9.0.6");
        assert!(pool.of(&key("p5")).is_err());
        pool.release(&key("p1"), &pins);
        assert_eq!(texts(pool.of(&key("p6")))[0], "10.9.0.1");
        pool.release(&key("hostnames-1"), &pins);
        assert_eq!(texts(pool.of(&key("hostnames-2")))[0], "10.9.0.2");
        assert!(Addresses::new(&["10.9.0.0/32".to_owned()], vec![]).is_err());
    }
}
