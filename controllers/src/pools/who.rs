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
    /// `free`, `used`, `reserved`, `withheld` (an address that no Service is given), or `outside` of every range.
    pub state: &'static str,
    /// What it is to a range, if it is withheld.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
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
        withheld: None,
    })
}

/// What an address is to the CIDR that withholds it.
fn role(value: &str, cidr: &str) -> String {
    let (network, _) = cidr.split_once('/').unwrap_or((cidr, ""));
    let role = match (value == network, value.contains(':')) {
        (true, false) => "network address",
        (true, true) => "subnet-router address",
        (false, _) => "broadcast address",
    };
    format!("the {role} of {cidr}")
}

fn who<V: Value>(book: &Book<V>, value: V) -> Who {
    let holding = book.holding(value);
    let withheld = book.withheld_by(value);
    Who {
        value: value.to_string(),
        withheld: withheld.as_ref().map(|cidr| role(&value.to_string(), cidr)),
        state: match holding.state {
            State::Used => "used",
            _ if withheld.is_some() => "withheld",
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
    use std::time::Instant;

    use svcplane_webhook::ledger::Ranges;

    use super::super::text;
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

    #[test]
    fn an_address_that_nobody_is_given_is_called_by_its_name() {
        let ranges = Ranges {
            cidrs: ["10.96.0.0/24", "fd00:10::/112"]
                .map(|cidr| cidr.parse().unwrap())
                .into(),
            ports: "30000-32767".parse().unwrap(),
        };
        let now = Instant::now();
        let mut ledger = Ledger::new(ranges, now);
        ledger.without_objects(now);
        let table = [
            (
                "10.96.0.0",
                "10.96.0.0 is the network address of 10.96.0.0/24: no Service is given it",
            ),
            (
                "10.96.0.255",
                "10.96.0.255 is the broadcast address of 10.96.0.0/24: no Service is given it",
            ),
            (
                "fd00:10::",
                "fd00:10:: is the subnet-router address of fd00:10::/112: no Service is given it",
            ),
            ("fd00:10::ffff", "fd00:10::ffff is free"),
            ("10.96.0.7", "10.96.0.7 is free"),
            ("10.97.0.0", "10.97.0.0 lies in no range of this cluster"),
        ];
        for (value, words) in table {
            assert_eq!(text::who(&find(&ledger, None, value.parse().unwrap())), words);
        }
    }
}
