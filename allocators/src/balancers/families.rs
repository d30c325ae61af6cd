//! The books of both families as one: each call goes to the book of the address's family.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Instant;

use super::ask::{Ask, Facts};
use super::book::{AddressBook, Blocked};
use super::group::Group;
use super::part::Part;
use super::pool::BalancerPool;
use crate::cluster_ips::IpFamily;
use crate::pools::PoolVerdict;
use crate::service::ServiceKey;

/// The books of both families.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub ipv4: AddressBook<Ipv4Addr>,
    pub ipv6: AddressBook<Ipv6Addr>,
}

/// A call of the book of the address's family.
macro_rules! at {
    ($books:expr, $address:expr, $method:ident ( $($argument:expr),* )) => {
        match $address {
            IpAddr::V4(value) => $books.ipv4.$method(value $(, $argument)*),
            IpAddr::V6(value) => $books.ipv6.$method(value $(, $argument)*),
        }
    };
}
pub(super) use at;

impl Books {
    pub fn pool_at(&self, address: IpAddr) -> Option<&Arc<BalancerPool>> {
        match address {
            IpAddr::V4(value) => self.ipv4.part_at(value).map(|part| &part.pool),
            IpAddr::V6(value) => self.ipv6.part_at(value).map(|part| &part.pool),
        }
    }

    pub fn group(&self, address: IpAddr) -> Option<&Group> {
        at!(self, address, group())
    }

    pub fn promised_to(&self, address: IpAddr) -> Option<&ServiceKey> {
        at!(self, address, promised_to())
    }

    pub fn may_join(&self, address: IpAddr, facts: &Facts) -> Result<(), Blocked> {
        at!(self, address, may_join(&facts.owner.service, &facts.share))
    }

    pub fn join(&mut self, address: IpAddr, facts: &Facts) {
        at!(self, address, join(&facts.owner.service, facts.share.clone()));
    }

    pub fn leave(&mut self, address: IpAddr, service: &ServiceKey, now: Instant) {
        at!(self, address, leave(service, now));
    }

    /// The addresses of the family that are shared under this key, ascending.
    pub fn shared(&self, family: IpFamily, key: &str) -> Vec<IpAddr> {
        match family {
            IpFamily::IPv4 => self.ipv4.shared(key).map(IpAddr::V4).collect(),
            IpFamily::IPv6 => self.ipv6.shared(key).map(IpAddr::V6).collect(),
        }
    }

    pub fn pick(&self, family: IpFamily, pools: &[Arc<BalancerPool>], facts: &Facts, ask: &Ask) -> Option<IpAddr> {
        match family {
            IpFamily::IPv4 => self.ipv4.pick(pools, facts, ask).map(IpAddr::V4),
            IpFamily::IPv6 => self.ipv6.pick(pools, facts, ask).map(IpAddr::V6),
        }
    }

    pub fn verdicts(
        &self,
        family: IpFamily,
        pools: &[Arc<BalancerPool>],
        facts: &Facts,
        ask: &Ask,
    ) -> Vec<(Arc<BalancerPool>, PoolVerdict)> {
        match family {
            IpFamily::IPv4 => self.ipv4.verdicts(pools, facts, ask),
            IpFamily::IPv6 => self.ipv6.verdicts(pools, facts, ask),
        }
    }

    pub fn is_full(&self, family: IpFamily, pool: &str) -> bool {
        match family {
            IpFamily::IPv4 => self.ipv4.part(pool).is_none_or(Part::is_full),
            IpFamily::IPv6 => self.ipv6.part(pool).is_none_or(Part::is_full),
        }
    }
}
