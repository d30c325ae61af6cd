//! ClusterIPPools and NodePortPools: what their specs say, and whose a value is that two of them name.

mod parse;
mod settle;
mod verdict;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

pub use self::parse::{
    FieldError, idle_address_exclusions, idle_node_port_exclusions, parse_cluster_ip_pool, parse_load_balancer_pool,
    parse_node_port_pool,
};
pub use self::settle::{Settled, settle};
pub use self::verdict::PoolVerdict;

use crate::interval::Segments;
use crate::service::ServiceKey;
use crate::value::NodePort;

/// `spec.mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It gives values.
    #[default]
    Active,
    /// It gives nothing new; its values stay its own.
    Drain,
    /// As if it were not there.
    Disabled,
}

/// What the values of a spec are, as written. The selector is not among it: who is selected is for the caller to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolSpec {
    /// `spec.ranges`: each a CIDR (not for nodePorts), `a-b` or a single value.
    pub ranges: Vec<String>,
    /// `spec.excluded`: the same.
    pub excluded: Vec<String>,
    /// `spec.reservations`: a value and the `namespace/name` that it is kept for.
    pub reservations: Vec<(String, String)>,
}

/// What a pool says besides its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolTerms {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.creationTimestamp`, seconds since 1970.
    pub created: i64,
    /// `spec.priority`: lower first.
    pub priority: i32,
    /// `spec.autoAssign`: it serves Services that do not ask for it too.
    pub auto_assign: bool,
    /// `spec.mode`.
    pub mode: Mode,
    /// `spec.enforce`: its values are only for those it selects, and those it selects get only its values.
    pub enforce: bool,
    /// `spec.reuseDelay`: how long a value rests after use.
    pub reuse_delay: Duration,
}

/// A pool's values of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holdings<V> {
    /// `spec.ranges` without `spec.excluded`.
    pub values: Segments<V>,
    /// `spec.reservations`.
    pub reservations: BTreeMap<V, ServiceKey>,
}

impl<V> Default for Holdings<V> {
    fn default() -> Self {
        Self {
            values: Segments::default(),
            reservations: BTreeMap::new(),
        }
    }
}

/// A ClusterIPPool's values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterIpHoldings {
    /// Of IPv4.
    pub ipv4: Holdings<Ipv4Addr>,
    /// Of IPv6.
    pub ipv6: Holdings<Ipv6Addr>,
}

impl ClusterIpHoldings {
    /// Is the address among the values?
    pub fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(value) => self.ipv4.values.contains(value),
            IpAddr::V6(value) => self.ipv6.values.contains(value),
        }
    }
}

/// A LoadBalancerPool's values.
pub type LoadBalancerHoldings = ClusterIpHoldings;

/// `spec.firstLast` of a LoadBalancerPool: the first and the last address of each CIDR, which some networks treat as their own. Of ranges
/// that are written as FIRST-LAST, and of networks of one or two addresses, nothing is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstLast {
    /// They are not given.
    #[default]
    Reserve,
    /// They are addresses like others.
    Allow,
}

/// A NodePortPool's values.
pub type NodePortHoldings = Holdings<NodePort>;
