//! `--who`: all that is known of one value.

use std::net::IpAddr;
use std::str::FromStr;

use serde::Serialize;
use svcplane_allocators::balancers::Balancers;
use svcplane_allocators::books::{Book, State};
use svcplane_allocators::value::{NodePort, Value};
use svcplane_webhook::address::Written;
use svcplane_webhook::ledger::Ledger;

use crate::loadbalancer::Desk;

/// A ClusterIP or a nodePort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A ClusterIP or an address of a LoadBalancerPool.
    Address(IpAddr),
    /// A nodePort.
    Port(NodePort),
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let port = text.parse().ok().and_then(NodePort::new).map(Self::Port);
        let address = || Written::parse(text).map(|written| Self::Address(written.address));
        port.or_else(address)
            .ok_or_else(|| "must be an address or a port, such as 10.96.0.7 or 30080".to_owned())
    }
}

/// Who has a value.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Who {
    /// The value.
    pub value: String,
    /// `free`, `used`, `reserved`, or `outside` of every range.
    pub state: &'static str,
    /// The Services that list it, the oldest first; more than one is a conflict.
    pub services: Vec<String>,
    /// The Service that its IPAddress names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_address_of: Option<String>,
    /// The Service that it is reserved for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_for: Option<String>,
    /// The pool that gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
}

/// Finds it.
pub fn find(ledger: &Ledger, desk: Option<&Desk>, wanted: Wanted) -> Who {
    if let Wanted::Address(address) = wanted
        && let Some(who) = desk.and_then(|desk| balanced(desk.balancers(), address))
    {
        return who;
    }
    match wanted {
        Wanted::Address(IpAddr::V4(address)) => who(&ledger.cluster_ips().ipv4, address),
        Wanted::Address(IpAddr::V6(address)) => who(&ledger.cluster_ips().ipv6, address),
        Wanted::Port(port) => who(ledger.node_ports(), port),
    }
}

/// `None`: no LoadBalancerPool has it, and no Service of ours.
fn balanced(balancers: &Balancers, address: IpAddr) -> Option<Who> {
    let (pool, holders) = (balancers.pool_of(address), balancers.holders(address));
    if pool.is_none() && holders.is_empty() {
        return None;
    }
    let reserved_for = pool.and_then(|pool| match address {
        IpAddr::V4(value) => pool.holdings.ipv4.reservations.get(&value),
        IpAddr::V6(value) => pool.holdings.ipv6.reservations.get(&value),
    });
    Some(Who {
        value: address.to_string(),
        state: match reserved_for {
            _ if !holders.is_empty() => "used",
            Some(_) => "reserved",
            None => "free",
        },
        services: holders.iter().map(ToString::to_string).collect(),
        ip_address_of: None,
        reserved_for: reserved_for.map(ToString::to_string),
        pool: pool.map(|pool| pool.terms.name.to_string()),
    })
}

fn who<V: Value>(book: &Book<V>, value: V) -> Who {
    let holding = book.holding(value);
    Who {
        value: value.to_string(),
        state: match holding.state {
            State::Used => "used",
            _ if !book.is_in_range(value) => "outside",
            State::Reserved => "reserved",
            State::Free | State::Pending | State::Quarantined => "free",
        },
        services: holding.owners.iter().map(|owner| owner.service.to_string()).collect(),
        ip_address_of: holding.parent.map(|service| service.to_string()),
        reserved_for: holding.reserved_for.map(|service| service.to_string()),
        pool: holding.pool.map(|pool| pool.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_an_address_or_a_port() {
        assert_eq!("30080".parse(), Ok(Wanted::Port(NodePort::new(30_080).unwrap())));
        for address in ["10.96.0.7", "fd00:10::7"] {
            assert_eq!(address.parse(), Ok(Wanted::Address(address.parse().unwrap())));
        }
        for wrong in ["", "0", "65536", "10.96.0", "web"] {
            assert!(wrong.parse::<Wanted>().is_err_and(|it| it.contains("30080")), "{wrong}");
        }
    }
}
