//! The custom resources `ClusterIPPool`, `LoadBalancerPool` and `NodePortPool`: their schema, and what is read from them.
//!
//! The schema is made from these types, so the words of their comments are what `kubectl explain` shows.

mod balancer;
mod guard;
mod read;
mod review;
mod selectors;
mod unreadable;

pub use self::balancer::{
    FirstLast, IpMode, LoadBalancerPool, LoadBalancerPoolSpec, LoadBalancerPoolStatus, OnRemoval, Order, ServedPool,
    read_load_balancer_pool,
};
pub use self::guard::{ALLOW_STRANDING, PoolUsers};
pub use self::read::{Labels, Pool, Selection, read_cluster_ip_pool, read_node_port_pool};
pub use self::review::{in_no_range, review};
pub use self::unreadable::Unreadable;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The API group of svcplane's own resources.
pub const GROUP: &str = "svcplane.io";

/// A pattern would be refused in the words of a regular expression.
const REUSE_DELAY: &str = "!has(self.reuseDelay) || (self.reuseDelay.matches('^([0-9]+(ms|s|m|h))+$') && duration(self.reuseDelay) <= duration('168h'))";
const REUSE_DELAY_MESSAGE: &str = "spec.reuseDelay must be a duration of at most 168h: 30s, 10m, 1h30m, 24h";

/// Spec of a ClusterIPPool.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "svcplane.io",
    version = "v1alpha1",
    kind = "ClusterIPPool",
    plural = "clusterippools",
    shortname = "cipp",
    category = "svcplane",
    status = "ClusterIPPoolStatus",
    doc = "ClusterIPs that svcplane gives, and to which Services."
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.ranges.all(r, isCIDR(r) || isIP(r) || (r.split('-').size() == 2 && r.split('-').all(a, isIP(a))))",
    "message": "each of spec.ranges must be a CIDR, an address, or FIRST-LAST: 10.96.0.0/24, 10.96.0.7, 10.96.0.7-10.96.0.9",
    "fieldPath": ".ranges",
}, {
    "rule": "!has(self.excluded) || self.excluded.all(r, isCIDR(r) || isIP(r) || (r.split('-').size() == 2 && r.split('-').all(a, isIP(a))))",
    "message": "each of spec.excluded must be a CIDR, an address, or FIRST-LAST: 10.96.0.0/24, 10.96.0.7, 10.96.0.7-10.96.0.9",
    "fieldPath": ".excluded",
}, {
    "rule": REUSE_DELAY,
    "message": REUSE_DELAY_MESSAGE,
    "fieldPath": ".reuseDelay",
}]))]
pub struct ClusterIPPoolSpec {
    /// What the pool has, and for whom.
    #[serde(flatten)]
    pub pool: PoolSpec,
}

/// Spec of a NodePortPool.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "svcplane.io",
    version = "v1alpha1",
    kind = "NodePortPool",
    plural = "nodeportpools",
    shortname = "npp",
    category = "svcplane",
    status = "NodePortPoolStatus",
    doc = "nodePorts that svcplane gives, and to which Services."
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.ranges.all(r, r.matches('^[0-9]{1,5}(-[0-9]{1,5})?$'))",
    "message": "each of spec.ranges must be a port or FIRST-LAST: 30100, 30100-30199",
    "fieldPath": ".ranges",
}, {
    "rule": "!has(self.excluded) || self.excluded.all(r, r.matches('^[0-9]{1,5}(-[0-9]{1,5})?$'))",
    "message": "each of spec.excluded must be a port or FIRST-LAST: 30100, 30100-30199",
    "fieldPath": ".excluded",
}, {
    "rule": REUSE_DELAY,
    "message": REUSE_DELAY_MESSAGE,
    "fieldPath": ".reuseDelay",
}]))]
pub struct NodePortPoolSpec {
    /// What the pool has, and for whom.
    #[serde(flatten)]
    pub pool: PoolSpec,
}

/// What the pools of all kinds have in common.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolSpec {
    /// Values of the pool. Each entry is FIRST-LAST or a single value; for addresses also a CIDR.
    #[schemars(length(min = 1, max = 256), inner(length(max = 100)))]
    pub ranges: Vec<String>,
    /// Values of these ranges that the pool does not have. The same forms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 100)))]
    pub excluded: Vec<String>,
    /// Values that are kept for one Service each, whether it exists or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["value"]))]
    pub reservations: Vec<Reservation>,
    /// Which Services the pool is for. Absent: all. What is given must all match; an empty list of namespaces matches none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<PoolSelector>,
    /// Pools with a lower number are tried first; equal ones in the order of their names.
    #[serde(default)]
    pub priority: i32,
    /// Give values to Services that do not ask for the pool by annotation.
    #[serde(default = "yes")]
    pub auto_assign: bool,
    /// Active gives values. Drain gives nothing new and keeps its values its own. Disabled is as if the pool were not there.
    #[serde(default)]
    pub mode: PoolMode,
    /// The pool's values are only for Services that it selects, and those get only its values.
    #[serde(default)]
    pub enforce: bool,
    /// How long a value rests after its Service has let go of it, at most 7 days: 30s, 10m, 24h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub reuse_delay: Option<String>,
}

fn yes() -> bool {
    true
}

/// A value that is kept for one Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    /// An address or a port of the pool.
    #[schemars(length(max = 50))]
    pub value: String,
    /// NAMESPACE/NAME of the Service.
    #[schemars(
        length(max = 317),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub service: String,
}

/// Which Services a pool is for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolSelector {
    /// Namespaces by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024), inner(length(max = 63)))]
    pub namespaces: Option<Vec<String>>,
    /// Namespaces by their labels; an empty selector matches all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Services by their labels; an empty selector matches all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_selector: Option<LabelSelector>,
}

/// What a pool does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PoolMode {
    /// It gives values.
    #[default]
    Active,
    /// It gives nothing new; its values stay its own.
    Drain,
    /// As if it were not there.
    Disabled,
}

/// What is seen of a ClusterIPPool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterIPPoolStatus {
    /// The generation of the spec that this is of.
    pub observed_generation: i64,
    /// Ready: every value can be given. Conflict: another pool has some of them. Exhausted: none is available.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// IPv4 addresses.
    pub ipv4: Option<PoolNumbers>,
    /// IPv6 addresses.
    pub ipv6: Option<PoolNumbers>,
}

/// What is seen of a NodePortPool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodePortPoolStatus {
    /// The generation of the spec that this is of.
    pub observed_generation: i64,
    /// Ready: every value can be given. Conflict: another pool has some of them. Exhausted: none is available.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// nodePorts.
    pub ports: Option<PoolNumbers>,
}

/// How many values of a pool are what. Numbers beyond 64 bits are given as the greatest one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolNumbers {
    /// Values that the pool can give.
    pub total: i64,
    /// Held by a Service.
    pub used: i64,
    /// Kept by spec.reservations, and not held.
    pub reserved: i64,
    /// The others.
    pub available: i64,
}
