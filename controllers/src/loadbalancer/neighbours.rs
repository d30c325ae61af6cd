//! Addresses that the cluster itself uses: no pool gives them, and whose they are is said.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;
use svcplane_allocators::balancers::Withheld;
use svcplane_allocators::interval::{Interval, Segments};
use svcplane_allocators::pools::{Holdings, LoadBalancerHoldings};
use svcplane_allocators::value::Value;

/// Neighbours that a message names.
const NAMED: usize = 4;

/// Who uses addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Neighbour {
    /// A ServiceCIDR of this name: ClusterIPs.
    ServiceCidr(Arc<str>),
    /// A Node of this name.
    Node(Arc<str>),
    /// The Pods of a Node of this name.
    Pods(Arc<str>),
}

impl fmt::Display for Neighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServiceCidr(name) => write!(f, "ServiceCIDR {name:?}"),
            Self::Node(name) => write!(f, "Node {name:?}"),
            Self::Pods(name) => write!(f, "the Pods of Node {name:?}"),
        }
    }
}

/// Addresses of both families.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Both {
    ipv4: Segments<Ipv4Addr>,
    ipv6: Segments<Ipv6Addr>,
}

impl Both {
    /// What these texts name: addresses and CIDRs. Other words, such as host names, name none.
    pub fn named<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
        for text in texts {
            let net = text
                .parse::<IpNet>()
                .or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
            match net {
                Ok(IpNet::V4(net)) => ipv4.extend(Interval::new(net.network(), net.broadcast())),
                Ok(IpNet::V6(net)) => ipv6.extend(Interval::new(net.network(), net.broadcast())),
                Err(_) => {}
            }
        }
        Self {
            ipv4: ipv4.into_iter().collect(),
            ipv6: ipv6.into_iter().collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.ipv4.is_empty() && self.ipv6.is_empty()
    }

    fn of_pool(&self, holdings: &LoadBalancerHoldings) -> Self {
        Self {
            ipv4: self.ipv4.intersection(&holdings.ipv4.values),
            ipv6: self.ipv6.intersection(&holdings.ipv6.values),
        }
    }
}

impl fmt::Display for Both {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let families = [self.ipv4.abridged(1), self.ipv6.abridged(1)];
        f.write_str(
            &families
                .into_iter()
                .filter(|it| !it.is_empty())
                .collect::<Vec<_>>()
                .join(" and "),
        )
    }
}

/// All of them.
#[derive(Debug, Default)]
pub struct Neighbours {
    uses: BTreeMap<Neighbour, Both>,
    /// All Nodes are known.
    pub knows_nodes: bool,
}

impl Neighbours {
    /// What one uses; nothing if it is gone. `true` if that is news.
    pub fn set(&mut self, neighbour: Neighbour, uses: Both) -> bool {
        if uses.is_empty() {
            return self.uses.remove(&neighbour).is_some();
        }
        let is_news = self.uses.get(&neighbour) != Some(&uses);
        self.uses.insert(neighbour, uses);
        is_news
    }

    /// Forgets those who are not among these and are of the kind.
    pub fn retain(&mut self, listed: &BTreeSet<Neighbour>, is_of_kind: impl Fn(&Neighbour) -> bool) {
        self.uses
            .retain(|neighbour, _| !is_of_kind(neighbour) || listed.contains(neighbour));
    }

    /// What of a pool they use.
    pub fn overlap(&self, holdings: &LoadBalancerHoldings) -> Overlap {
        let mut overlap = Overlap::default();
        for (neighbour, uses) in &self.uses {
            let both = uses.of_pool(holdings);
            if both.is_empty() {
                continue;
            }
            let words = match neighbour {
                Neighbour::ServiceCidr(_) => &mut overlap.service_cidrs,
                Neighbour::Node(_) | Neighbour::Pods(_) => &mut overlap.nodes,
            };
            if words.len() < NAMED {
                words.push(format!("{both} of {neighbour}"));
            }
            overlap.withheld.push(Withheld {
                by: neighbour.to_string().into(),
                ipv4: both.ipv4,
                ipv6: both.ipv6,
            });
        }
        overlap
    }
}

/// What of a pool its neighbours use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlap {
    /// Some of it with some of the ServiceCIDRs that have it, in words.
    pub service_cidrs: Vec<String>,
    /// The same of Nodes and their Pods.
    pub nodes: Vec<String>,
    /// All of it, by who uses it.
    pub withheld: Vec<Withheld>,
}

impl Overlap {
    /// What is left of the pool.
    pub fn rest_of(&self, holdings: &LoadBalancerHoldings) -> LoadBalancerHoldings {
        self.withheld
            .iter()
            .fold(holdings.clone(), |left, withheld| LoadBalancerHoldings {
                ipv4: rest(&left.ipv4, &withheld.ipv4),
                ipv6: rest(&left.ipv6, &withheld.ipv6),
            })
    }
}

fn rest<V: Value>(holdings: &Holdings<V>, taken: &Segments<V>) -> Holdings<V> {
    let reservations = holdings.reservations.iter();
    let left = reservations.filter(|(value, _)| !taken.contains(**value));
    Holdings {
        values: holdings.values.minus(taken),
        reservations: left.map(|(value, service)| (*value, service.clone())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use svcplane_allocators::pools::{FirstLast, PoolSpec, parse_load_balancer_pool};

    use super::*;

    #[test]
    fn what_neighbours_use_is_named_and_left_out() {
        let spec = PoolSpec {
            ranges: vec!["203.0.113.64-203.0.113.79".into(), "2001:db8::/120".into()],
            reservations: vec![("203.0.113.68".into(), "shop/web".into())],
            ..PoolSpec::default()
        };
        let holdings = parse_load_balancer_pool(&spec, FirstLast::Allow).unwrap();
        let mut all = Neighbours::default();
        let node = |name: &str| Neighbour::Node(name.into());
        let own = Both::named(["203.0.113.68", "2001:db8::1", "n1.example", "198.51.100.1"]);
        assert!(all.set(node("n1"), own.clone()) && !all.set(node("n1"), own));
        all.set(
            Neighbour::Pods("n1".into()),
            Both::named(["203.0.113.72/30", "10.0.0.0/24"]),
        );
        all.set(Neighbour::ServiceCidr("extra".into()), Both::named(["203.0.113.64/31"]));
        all.set(node("elsewhere"), Both::named(["198.51.100.2"]));
        let overlap = all.overlap(&holdings);
        assert_eq!(
            overlap.nodes,
            [
                "203.0.113.68 and 2001:db8::1 of Node \"n1\"",
                "203.0.113.72-203.0.113.75 of the Pods of Node \"n1\""
            ]
        );
        assert_eq!(
            overlap.service_cidrs,
            ["203.0.113.64-203.0.113.65 of ServiceCIDR \"extra\""]
        );
        let users: Vec<&str> = overlap.withheld.iter().map(|it| &*it.by).collect();
        assert_eq!(
            users,
            ["ServiceCIDR \"extra\"", "Node \"n1\"", "the Pods of Node \"n1\""]
        );
        let rest = overlap.rest_of(&holdings);
        assert_eq!(
            (rest.ipv4.values.count(), rest.ipv6.values.count()),
            (16 - 1 - 4 - 2, 255)
        );
        assert!(rest.ipv4.reservations.is_empty());
        all.retain(&BTreeSet::new(), |neighbour| {
            !matches!(neighbour, Neighbour::ServiceCidr(_))
        });
        let left = all.overlap(&holdings);
        assert!(left.nodes.is_empty() && left.service_cidrs.len() == 1);
        assert!(all.set(Neighbour::ServiceCidr("extra".into()), Both::default()));
        assert_eq!(all.overlap(&holdings), Overlap::default());
        assert_eq!(Overlap::default().rest_of(&holdings), holdings);
    }
}
