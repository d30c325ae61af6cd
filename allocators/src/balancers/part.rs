//! A pool's part in one family: its gaps, its counts, and where the search in it begins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::free::Gaps;
use super::pool::{BalancerPool, Order};
use crate::pools::Settled;
use crate::service::ServiceKey;
use crate::value::Value;

/// How many addresses of a pool are in which state. They add up to the pool's size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressCounts {
    /// Services have them, or still show them.
    pub held: u64,
    /// Kept by `spec.reservations` and not held.
    pub reserved: u64,
    /// At rest after use.
    pub quarantined: u64,
    /// The others.
    pub free: u64,
}

/// What an address is that is not free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Held,
    Reserved,
    Quarantined,
}

impl AddressCounts {
    /// How many there are; `u64::MAX` for more than that.
    pub fn total(&self) -> u64 {
        [self.reserved, self.quarantined, self.free]
            .into_iter()
            .fold(self.held, u64::saturating_add)
    }

    pub(super) fn of(&mut self, mark: Mark) -> &mut u64 {
        match mark {
            Mark::Held => &mut self.held,
            Mark::Reserved => &mut self.reserved,
            Mark::Quarantined => &mut self.quarantined,
        }
    }
}

/// A pool's part in this family.
#[derive(Debug)]
pub(super) struct Part<V> {
    pub pool: Arc<BalancerPool>,
    pub settled: Settled<V>,
    pub free: Gaps<V>,
    pub counts: AddressCounts,
    pub reserved: BTreeMap<ServiceKey, BTreeSet<V>>,
}

impl<V: Value> Part<V> {
    /// It has an address of this family at all.
    pub fn has_values(&self) -> bool {
        !self.settled.owned.is_empty()
    }

    /// None of its addresses is free.
    pub fn is_full(&self) -> bool {
        self.free.lowest().is_none()
    }

    /// The free one that this Service gets.
    pub fn next_for(&self, service: &ServiceKey) -> Option<V> {
        match self.pool.order {
            Order::Lowest => self.free.lowest(),
            Order::Highest => self.free.highest(),
            Order::Spread => {
                let start = self.settled.place_of(service);
                start.and_then(|start| self.free.from(start)).or(self.free.lowest())
            }
        }
    }
}

impl<V: Value> Settled<V> {
    /// Where the search for an address of this Service begins: the same on every replica and after every restart.
    fn place_of(&self, service: &ServiceKey) -> Option<V> {
        let spans = self.owned.as_slice();
        let size = |first: V, last: V| last.number() - first.number();
        let whole = spans.iter().fold(0_u128, |sum, span| {
            sum.saturating_add(size(span.first(), span.last())).saturating_add(1)
        });
        let mut place = spread(service).checked_rem(whole)?;
        for span in spans {
            let size = size(span.first(), span.last());
            if place <= size {
                return V::of_number(span.first().number() + place);
            }
            place -= size + 1;
        }
        None
    }
}

/// A number that only the name decides, in every version of this program: FNV-1a, 128 bits.
fn spread(service: &ServiceKey) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let bytes = service.namespace.bytes().chain([b'/']).chain(service.name.bytes());
    bytes.fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}
