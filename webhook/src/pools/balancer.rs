//! The custom resource `LoadBalancerPool`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcplane_allocators::balancers::{self, BalancerPool};
use svcplane_allocators::pools::{self, FieldError, parse_load_balancer_pool};

use super::read::read;
use super::{Labels, Pool, PoolNumbers, PoolSpec, Selection};

/// Spec of a LoadBalancerPool.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "svcplane.io",
    version = "v1alpha1",
    kind = "LoadBalancerPool",
    plural = "loadbalancerpools",
    shortname = "lbp",
    category = "svcplane",
    status = "LoadBalancerPoolStatus",
    doc = "Addresses that svcplane gives to Services of type LoadBalancer, and to which."
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.ranges.all(r, isCIDR(r) || isIP(r) || (r.split('-').size() == 2 && r.split('-').all(a, isIP(a))))",
    "message": "each of spec.ranges must be a CIDR, an address, or FIRST-LAST: 203.0.113.0/24, 203.0.113.7, 203.0.113.7-203.0.113.9",
    "fieldPath": ".ranges",
}]))]
pub struct LoadBalancerPoolSpec {
    /// What the pool has, and for whom.
    #[serde(flatten)]
    pub pool: PoolSpec,
    /// The first and the last address of each CIDR: Reserve leaves them out, Allow gives them like others. Nothing is left out of ranges written
    /// as FIRST-LAST, nor of a CIDR of one or two addresses.
    #[serde(default)]
    pub first_last: FirstLast,
    /// Which free address is given: the Lowest, the Highest, or one near a place that the name of the Service decides (Spread), so that a Service
    /// made again tends to return to its address.
    #[serde(default)]
    pub order: Order,
    /// How nodes treat traffic to the address: VIP takes it as their own, Proxy sends it out to the balancer.
    #[serde(default)]
    pub ip_mode: IpMode,
    /// What becomes of an address in use that the pool has no more, or that is of a pool which does not select its Service any more: Retain leaves
    /// it to the Service and gives it to nobody new, Reassign gives the Service another one.
    #[serde(default)]
    pub on_removal: OnRemoval,
    /// Values of spec.loadBalancerClass that the pool is for; none: all that svcplane serves. An empty text stands for Services without a class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 317)))]
    pub classes: Vec<String>,
}

/// Whether the first and the last address of a CIDR are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FirstLast {
    /// They are not.
    #[default]
    Reserve,
    /// They are.
    Allow,
}

/// Which free address is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Order {
    /// The lowest.
    #[default]
    Lowest,
    /// The highest.
    Highest,
    /// One near a place that the name of the Service decides.
    Spread,
}

/// How nodes treat traffic to an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum IpMode {
    /// As their own.
    #[default]
    #[serde(rename = "VIP")]
    Vip,
    /// Out to the balancer.
    Proxy,
}

/// What becomes of an address in use that the pool has no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnRemoval {
    /// Its Service keeps it.
    #[default]
    Retain,
    /// Its Service gets another one.
    Reassign,
}

/// What is seen of a LoadBalancerPool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancerPoolStatus {
    /// The generation of the spec that this is of.
    pub observed_generation: i64,
    /// Ready: it gives addresses. Conflict: another pool or a ServiceCIDR has some of them. OverlapsNodes: Nodes or their Pods have some of them,
    /// which are not given. Exhausted: none is available. Retaining: Services have addresses that it does not give them any more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// IPv4 addresses.
    pub ipv4: Option<PoolNumbers>,
    /// IPv6 addresses.
    pub ipv6: Option<PoolNumbers>,
}

/// A pool that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedPool {
    /// What the books need of it.
    pub pool: BalancerPool,
    /// `metadata.generation`.
    pub generation: i64,
    classes: Vec<String>,
    selection: Selection,
}

impl ServedPool {
    /// Is the pool for a Service of this class (empty: of none) with these labels in this namespace?
    pub fn admits(&self, class: &str, namespace: &str, namespace_labels: &Labels, labels: &Labels) -> bool {
        (self.classes.is_empty() || self.classes.iter().any(|it| it == class))
            && self.selection.mismatch(namespace, namespace_labels, labels).is_none()
    }
}

/// Reads a LoadBalancerPool.
///
/// # Errors
/// What is wrong, field by field.
pub fn read_load_balancer_pool(pool: &LoadBalancerPool) -> Result<ServedPool, Vec<FieldError>> {
    let spec = &pool.spec;
    let first_last = match spec.first_last {
        FirstLast::Reserve => pools::FirstLast::Reserve,
        FirstLast::Allow => pools::FirstLast::Allow,
    };
    let Pool {
        terms,
        holdings,
        selection,
        generation,
    } = read(&pool.metadata, &spec.pool, |values| {
        parse_load_balancer_pool(values, first_last)
    })?;
    Ok(ServedPool {
        pool: BalancerPool {
            terms,
            holdings,
            withheld: Vec::new(),
            order: match spec.order {
                Order::Lowest => balancers::Order::Lowest,
                Order::Highest => balancers::Order::Highest,
                Order::Spread => balancers::Order::Spread,
            },
            on_removal: match spec.on_removal {
                OnRemoval::Retain => balancers::OnRemoval::Retain,
                OnRemoval::Reassign => balancers::OnRemoval::Reassign,
            },
            ip_mode: match spec.ip_mode {
                IpMode::Vip => balancers::IpMode::Vip,
                IpMode::Proxy => balancers::IpMode::Proxy,
            },
        },
        generation,
        classes: spec.classes.clone(),
        selection,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pool(spec: &serde_json::Value) -> Result<ServedPool, Vec<FieldError>> {
        let object = json!({"apiVersion": "svcplane.io/v1alpha1", "kind": "LoadBalancerPool",
            "metadata": {"name": "reed", "creationTimestamp": "2026-01-02T03:04:05Z"}, "spec": spec});
        read_load_balancer_pool(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn the_ends_of_networks_are_left_out_and_those_of_ranges_are_not() {
        let counts = |spec: &serde_json::Value| {
            let holdings = pool(spec).unwrap().pool.holdings;
            (holdings.ipv4.values.count(), holdings.ipv6.values.count())
        };
        let ranges = json!([
            "203.0.113.0/29",
            "198.51.100.0/31",
            "192.0.2.7/32",
            "2001:db8::/126",
            "203.0.113.64-203.0.113.67"
        ]);
        assert_eq!(counts(&json!({"ranges": ranges})), (6 + 2 + 1 + 4, 2));
        assert_eq!(
            counts(&json!({"ranges": ranges, "firstLast": "Allow"})),
            (8 + 2 + 1 + 4, 4)
        );
        assert_eq!(
            counts(&json!({"ranges": ["203.0.113.0/29", "203.0.113.0"]})),
            (7, 0),
            "written down apart, it counts"
        );
        assert_eq!(
            counts(&json!({"ranges": ["203.0.113.0/29"], "excluded": ["203.0.113.2-203.0.113.3"]})),
            (4, 0)
        );
    }

    #[test]
    fn what_is_left_out_has_a_value_and_classes_are_exact() {
        let served = pool(&json!({"ranges": ["203.0.113.0/29"]})).unwrap();
        let BalancerPool {
            order,
            on_removal,
            ip_mode,
            ..
        } = served.pool;
        assert_eq!(
            (order, on_removal, ip_mode),
            (
                balancers::Order::Lowest,
                balancers::OnRemoval::Retain,
                balancers::IpMode::Vip
            )
        );
        let admits = |served: &ServedPool, class: &str| served.admits(class, "shop", &Labels::new(), &Labels::new());
        assert!(admits(&served, "") && admits(&served, "svcplane.io/lb"));
        let classed = pool(&json!({"ranges": ["203.0.113.0/29"], "classes": ["svcplane.io/lb"]})).unwrap();
        assert!(!admits(&classed, "") && admits(&classed, "svcplane.io/lb"));
        let nobody = pool(&json!({"ranges": ["203.0.113.0/29"], "selector": {"namespaces": []}})).unwrap();
        assert!(!admits(&nobody, "svcplane.io/lb"));
    }

    #[test]
    fn what_is_wrong_is_told_by_field() {
        let errors = pool(&json!({"ranges": ["203.0.113.79-203.0.113.70"], "excluded": ["x"]})).unwrap_err();
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["spec.excluded[0]", "spec.ranges[0]"]);
    }
}
