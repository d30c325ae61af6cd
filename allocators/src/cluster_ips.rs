//! The books of both IP families, fed and asked together.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Instant;

use ipnet::IpNet;

use crate::books::{Book, Choice, Holding, NotChosen, RangeSpec, Refusal, Rules, Source, State};
use crate::pools::{ClusterIpHoldings, PoolTerms};
use crate::range::{RangeError, Registry, ValueRange};
use crate::service::{ChoiceKey, Owner, ServiceKey};

/// One of `spec.ipFamilies`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IpFamily {
    /// `IPv4`.
    IPv4,
    /// `IPv6`.
    IPv6,
}

impl IpFamily {
    /// That of an address.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::IPv4,
            IpAddr::V6(_) => Self::IPv6,
        }
    }
}

/// One CIDR that the apiserver allocates from: of a ServiceCIDR, or of `--service-cluster-ip-range`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceCidr {
    /// The network.
    pub cidr: IpNet,
    /// As of [`RangeSpec::ready`].
    pub ready: bool,
}

/// ClusterIPs that were chosen, and why there are no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterIps {
    /// In the order of the families that were asked for.
    pub chosen: Vec<Choice<IpAddr>>,
    /// The family that nothing was chosen for, and why. `clusterIPs` may be set to what comes before it: the apiserver allocates the rest.
    pub missing: Option<(IpFamily, NotChosen)>,
}

/// A book for each family. See [`Book`]; the methods of one name do the same here, for the family of each address.
#[derive(Debug)]
pub struct ClusterIpBooks {
    /// The book of IPv4.
    pub ipv4: Book<Ipv4Addr>,
    /// The book of IPv6.
    pub ipv6: Book<Ipv6Addr>,
}

impl Default for ClusterIpBooks {
    fn default() -> Self {
        Self {
            ipv4: Book::new(Rules::ADDRESSES),
            ipv6: Book::new(Rules::ADDRESSES),
        }
    }
}

impl ClusterIpBooks {
    /// All CIDRs that there are. Those that the apiserver gives no address of are told.
    pub fn set_service_cidrs(
        &mut self,
        cidrs: impl IntoIterator<Item = ServiceCidr>,
        registry: Registry,
        now: Instant,
    ) -> Vec<(IpNet, RangeError)> {
        let (mut ipv4, mut ipv6, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for ServiceCidr { cidr, ready } in cidrs {
            match cidr {
                IpNet::V4(v4) => {
                    let range = ValueRange::ipv4(v4, registry);
                    ipv4.push(RangeSpec { range, ready });
                }
                IpNet::V6(v6) => match ValueRange::ipv6(v6, registry) {
                    Ok(range) => ipv6.push(RangeSpec { range, ready }),
                    Err(error) => refused.push((cidr, error)),
                },
            }
        }
        self.ipv4.set_ranges(ipv4, now);
        self.ipv6.set_ranges(ipv6, now);
        refused
    }

    /// All ClusterIPPools that there are.
    pub fn set_pools(&mut self, pools: &[(Arc<PoolTerms>, ClusterIpHoldings)], now: Instant) {
        let ipv4 = pools.iter().map(|(terms, values)| (Arc::clone(terms), &values.ipv4));
        self.ipv4.set_pools(ipv4, now);
        let ipv6 = pools.iter().map(|(terms, values)| (Arc::clone(terms), &values.ipv6));
        self.ipv6.set_pools(ipv6, now);
    }

    /// The replicas that serve admission.
    pub fn set_members(&mut self, me: &str, all: &[Arc<str>], now: Instant) {
        self.ipv4.set_members(me, all, now);
        self.ipv6.set_members(me, all, now);
    }

    /// A stored Service and its `clusterIPs`, without `None`.
    pub fn set_service(&mut self, owner: &Owner, addresses: &[IpAddr], now: Instant) {
        let (ipv4, ipv6) = split(addresses);
        self.ipv4.set_service(owner.clone(), ipv4, now);
        self.ipv6.set_service(owner.clone(), ipv6, now);
    }

    /// This Service is gone.
    pub fn remove_service(&mut self, service: &ServiceKey, now: Instant) {
        self.ipv4.remove_service(service, now);
        self.ipv6.remove_service(service, now);
    }

    /// A complete list of Services.
    pub fn replace_services(&mut self, services: &[(Owner, Vec<IpAddr>)], now: Instant) {
        let each = services.iter().map(|(owner, addresses)| (owner, split(addresses)));
        let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
        for (owner, (v4, v6)) in each {
            ipv4.push((owner.clone(), v4));
            ipv6.push((owner.clone(), v6));
        }
        self.ipv4.replace_services(ipv4, now);
        self.ipv6.replace_services(ipv6, now);
    }

    /// An IPAddress and the Service that it names, if it names one.
    pub fn set_ip_address(&mut self, address: IpAddr, parent: Option<ServiceKey>, now: Instant) {
        match address {
            IpAddr::V4(v4) => self.ipv4.set_ip_address(v4, parent, now),
            IpAddr::V6(v6) => self.ipv6.set_ip_address(v6, parent, now),
        }
    }

    /// This IPAddress is gone.
    pub fn remove_ip_address(&mut self, address: IpAddr, now: Instant) {
        match address {
            IpAddr::V4(v4) => self.ipv4.remove_ip_address(v4, now),
            IpAddr::V6(v6) => self.ipv6.remove_ip_address(v6, now),
        }
    }

    /// A complete list of IPAddresses.
    pub fn replace_ip_addresses(
        &mut self,
        addresses: impl IntoIterator<Item = (IpAddr, Option<ServiceKey>)>,
        now: Instant,
    ) {
        let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
        for (address, parent) in addresses {
            match address {
                IpAddr::V4(v4) => ipv4.push((v4, parent)),
                IpAddr::V6(v6) => ipv6.push((v6, parent)),
            }
        }
        self.ipv4.replace_ip_addresses(ipv4, now);
        self.ipv6.replace_ip_addresses(ipv6, now);
    }

    /// Ends what is over at `now`.
    pub fn advance(&mut self, now: Instant) {
        self.ipv4.advance(now);
        self.ipv6.advance(now);
    }

    /// Chooses an address of each family, in this order and as far as there are any.
    pub fn choose(
        &mut self,
        key: &ChoiceKey,
        families: &[(IpFamily, Source<'_>)],
        random: u64,
        now: Instant,
    ) -> ClusterIps {
        let mut chosen = Vec::new();
        for (family, source) in families {
            let choice = match family {
                IpFamily::IPv4 => self.ipv4.choose(key, *source, random, now).map(widened),
                IpFamily::IPv6 => self.ipv6.choose(key, *source, random, now).map(widened),
            };
            match choice {
                Ok(choice) => chosen.push(choice),
                Err(reason) => {
                    let missing = Some((*family, reason));
                    return ClusterIps { chosen, missing };
                }
            }
        }
        ClusterIps { chosen, missing: None }
    }

    /// Takes back what has not left the process.
    pub fn withdraw(&mut self, key: &ChoiceKey, address: IpAddr, now: Instant) {
        match address {
            IpAddr::V4(v4) => self.ipv4.withdraw(key, v4, now),
            IpAddr::V6(v6) => self.ipv6.withdraw(key, v6, now),
        }
    }

    /// The validating call has seen this address.
    pub fn confirm(&mut self, key: &ChoiceKey, address: IpAddr, now: Instant) {
        match address {
            IpAddr::V4(v4) => self.ipv4.confirm(key, v4, now),
            IpAddr::V6(v6) => self.ipv6.confirm(key, v6, now),
        }
    }

    /// Whether a Service may have this address.
    pub fn judge(
        &self,
        address: IpAddr,
        service: &ServiceKey,
        selects: impl Fn(&str) -> bool,
    ) -> Result<Option<Arc<str>>, Refusal> {
        match address {
            IpAddr::V4(v4) => self.ipv4.judge(v4, service, selects),
            IpAddr::V6(v6) => self.ipv6.judge(v6, service, selects),
        }
    }

    /// The state of an address.
    pub fn state(&self, address: IpAddr) -> State {
        match address {
            IpAddr::V4(v4) => self.ipv4.state(v4),
            IpAddr::V6(v6) => self.ipv6.state(v6),
        }
    }

    /// All that is known of an address.
    pub fn holding(&self, address: IpAddr) -> Holding {
        match address {
            IpAddr::V4(v4) => self.ipv4.holding(v4),
            IpAddr::V6(v6) => self.ipv6.holding(v6),
        }
    }
}

fn split(addresses: &[IpAddr]) -> (Vec<Ipv4Addr>, Vec<Ipv6Addr>) {
    let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
    for address in addresses {
        match address {
            IpAddr::V4(v4) => ipv4.push(*v4),
            IpAddr::V6(v6) => ipv6.push(*v6),
        }
    }
    (ipv4, ipv6)
}

fn widened<A: Into<IpAddr>>(choice: Choice<A>) -> Choice<IpAddr> {
    Choice {
        value: choice.value.into(),
        pool: choice.pool,
    }
}

#[cfg(test)]
mod tests;
