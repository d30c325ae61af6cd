//! What is known and decided, to look at.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use super::ask::{Facts, Outcome};
use super::choose::is_for;
use super::engine::Balancers;
use super::families::at;
use super::part::AddressCounts;
use super::pool::{BalancerPool, IpMode};
use crate::cluster_ips::IpFamily;
use crate::pools::PoolVerdict;
use crate::service::ServiceKey;

impl Balancers {
    /// What a Service is to show, once that is decided.
    pub fn outcome(&self, key: &ServiceKey) -> Option<&Outcome> {
        self.services.get(key)?.outcome.as_ref()
    }

    /// What is known of a Service.
    pub fn facts(&self, key: &ServiceKey) -> Option<&Arc<Facts>> {
        self.services.get(key).map(|known| &known.facts)
    }

    /// All Services, with what is decided on each.
    pub fn services(&self) -> impl Iterator<Item = (&ServiceKey, Option<&Outcome>)> {
        self.services.iter().map(|(key, known)| (key, known.outcome.as_ref()))
    }

    /// Pools by priority, then name.
    pub fn pools(&self) -> &[Arc<BalancerPool>] {
        &self.pools
    }

    /// How many addresses of a pool's family are in which state.
    pub fn counts(&self, pool: &str, family: IpFamily) -> Option<AddressCounts> {
        match family {
            IpFamily::IPv4 => self.books.ipv4.counts(pool),
            IpFamily::IPv6 => self.books.ipv6.counts(pool),
        }
    }

    /// The addresses that a pool has beside older ones, each span as `FIRST-LAST` or an address alone.
    pub fn spans(&self, pool: &str) -> Vec<String> {
        let ipv4 = self.books.ipv4.owned(pool).into_iter();
        let ipv6 = self.books.ipv6.owned(pool).into_iter();
        let ipv4 = ipv4.flat_map(|owned| owned.as_slice().iter().map(ToString::to_string));
        let ipv6 = ipv6.flat_map(|owned| owned.as_slice().iter().map(ToString::to_string));
        ipv4.chain(ipv6).collect()
    }

    /// Pools that name addresses of this one, and whether they are older and so have them.
    pub fn conflicts(&self, pool: &str) -> BTreeSet<(Arc<str>, bool)> {
        let (ipv4, ipv6) = (self.books.ipv4.conflicts(pool), self.books.ipv6.conflicts(pool));
        ipv4.iter().chain(ipv6).cloned().collect()
    }

    /// The pool that has an address.
    pub fn pool_of(&self, address: IpAddr) -> Option<&Arc<BalancerPool>> {
        self.books.pool_at(address)
    }

    /// The pool that has an address and is not for this Service.
    pub fn others_pool_of(&self, address: IpAddr, key: &ServiceKey) -> Option<&Arc<BalancerPool>> {
        let facts = self.facts(key)?;
        self.pool_of(address).filter(|pool| !is_for(&self.pools, pool, facts))
    }

    /// How nodes are to treat an address, if a pool has it.
    pub fn ip_mode(&self, address: IpAddr) -> Option<IpMode> {
        self.pool_of(address).map(|pool| pool.ip_mode)
    }

    /// Who has an address or shows it.
    pub fn holders(&self, address: IpAddr) -> BTreeSet<ServiceKey> {
        at!(self.books, address, holders())
    }

    /// What each pool is to a Service that needs an address of this family, in the order that they are tried.
    pub fn verdicts(&self, key: &ServiceKey, family: IpFamily) -> Vec<(Arc<BalancerPool>, PoolVerdict)> {
        let facts = self.facts(key);
        let asked = facts.and_then(|facts| Some((facts, facts.ask.as_ref().ok()?)));
        asked.map_or_else(Vec::new, |(facts, ask)| {
            self.books.verdicts(family, &self.pools, facts, ask)
        })
    }
}
