//! A LoadBalancerPool as the books need it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use crate::interval::Segments;
use crate::pools::{ClusterIpHoldings, Mode, PoolTerms};

/// `spec.order`: which free address is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The lowest.
    #[default]
    Lowest,
    /// The highest.
    Highest,
    /// The next one from a place that the Service's name decides, so that a Service made again tends to return to its address.
    Spread,
}

/// `spec.onRemoval`: what becomes of an address that the pool gave, once the pool has it no more or is not for its Service any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRemoval {
    /// The Service keeps it; nobody new gets it.
    #[default]
    Retain,
    /// The Service gets another one, or none.
    Reassign,
}

/// `spec.ipMode`: how nodes treat traffic to the address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum IpMode {
    /// It reaches the node with the address as its destination.
    #[default]
    Vip,
    /// It goes out to the balancer.
    Proxy,
}

impl IpMode {
    /// As `status.loadBalancer.ingress[].ipMode` has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vip => "VIP",
            Self::Proxy => "Proxy",
        }
    }
}

/// Addresses that somebody outside the pools uses: a Node, its Pods, ClusterIPs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withheld {
    /// Who, in words: `Node "a"`.
    pub by: Arc<str>,
    /// Which of IPv4.
    pub ipv4: Segments<Ipv4Addr>,
    /// Which of IPv6.
    pub ipv6: Segments<Ipv6Addr>,
}

impl Withheld {
    fn has(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.ipv4.contains(address),
            IpAddr::V6(address) => self.ipv6.contains(address),
        }
    }
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalancerPool {
    /// Name, age, priority and the like.
    pub terms: Arc<PoolTerms>,
    /// Its addresses of both families.
    pub holdings: ClusterIpHoldings,
    /// Addresses that it names and does not hold, because others use them.
    pub withheld: Vec<Withheld>,
    /// Which free one is given.
    pub order: Order,
    /// What becomes of those in use that it has no more.
    pub on_removal: OnRemoval,
    /// How nodes treat them.
    pub ip_mode: IpMode,
}

impl BalancerPool {
    /// It gives addresses.
    pub fn is_active(&self) -> bool {
        self.terms.mode == Mode::Active
    }

    /// Those whom it selects have nothing but its addresses.
    pub fn is_fence(&self) -> bool {
        self.terms.enforce && self.is_active()
    }

    /// Who uses this address, if the pool would have it otherwise.
    pub(super) fn user_of(&self, address: IpAddr) -> Option<&str> {
        let withheld = self.withheld.iter().filter(|_| self.is_enabled());
        let user = withheld.clone().find(|withheld| withheld.has(address));
        user.map(|withheld| &*withheld.by)
    }

    /// Its addresses are its own, and those who have one keep it.
    pub fn is_enabled(&self) -> bool {
        self.terms.mode != Mode::Disabled
    }
}
