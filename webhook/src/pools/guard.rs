//! What a LoadBalancerPool must not do to others: name their addresses, or leave those who use its own without it.

use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;

use svcplane_allocators::pools::LoadBalancerHoldings;
use svcplane_allocators::service::ServiceKey;

use super::{FirstLast, LoadBalancerPool, OnRemoval, ServedPool, read_load_balancer_pool};
use crate::cause::{Cause, MOST_CAUSES, Reason};

/// `"true"` on a pool lets an edit or its deletion leave users without it.
pub const ALLOW_STRANDING: &str = "svcplane.io/allow-stranding";

/// Who knows the LoadBalancerPools of the cluster and who uses them.
pub trait PoolUsers: Debug + Send + Sync {
    /// The other pools that have addresses of these, each with some that both have.
    fn overlaps(&self, pool: &str, holdings: &LoadBalancerHoldings) -> Vec<(Arc<str>, String)>;

    /// The addresses of the pool that Services show and that are not among these; `None`: it is to go.
    fn stranded(&self, pool: &str, holdings: Option<&LoadBalancerHoldings>) -> Vec<(IpAddr, ServiceKey)>;

    /// The Services that the stored pool of this name is for and this one is not, each with an address of the pool that it shows.
    fn dropped(&self, served: &ServedPool) -> Vec<(IpAddr, ServiceKey)>;

    /// The Services that this pool is the first to keep from others, if it is enforced, each with an address of another one that it shows.
    fn fenced(&self, served: &ServedPool) -> Vec<(IpAddr, ServiceKey)>;
}

/// What an edit that is in order does to those who have addresses of the pool.
pub(super) fn remark(users: &dyn PoolUsers, pool: &LoadBalancerPool, served: &ServedPool) -> Option<String> {
    let whom = listed(&users.dropped(served))?;
    let then = match pool.spec.on_removal {
        OnRemoval::Retain => "what they have stays with them, and is given to nobody new",
        OnRemoval::Reassign => "other addresses are given in their place at once (spec.onRemoval: Reassign)",
    };
    Some(format!("spec: the pool is no longer for {whom}: {then}"))
}

/// What its enforcement means for those who have addresses of other pools.
pub(super) fn fence(users: &dyn PoolUsers, served: &ServedPool) -> Option<String> {
    let whom = listed(&users.fenced(served))?;
    Some(format!(
        "spec.enforce: other pools are no longer for {whom}: what they have stays with them, or is replaced at once where that pool says onRemoval: Reassign"
    ))
}

fn listed(users: &[(IpAddr, ServiceKey)]) -> Option<String> {
    let (address, service) = users.first()?;
    Some(match users.len() {
        1 => format!("Service {service}, which has {address}"),
        count => format!("{count} Services, among them {service}, which has {address}"),
    })
}

/// What is wrong with a pool that is well-formed.
pub(super) fn faults(users: &dyn PoolUsers, pool: &LoadBalancerPool, served: &ServedPool) -> Vec<Cause> {
    let name = &served.pool.terms.name;
    let mut causes = Vec::new();
    if served.pool.is_enabled() {
        let overlaps = users.overlaps(name, &served.pool.holdings).into_iter();
        causes.extend(overlaps.take(MOST_CAUSES).map(|(other, both)| Cause {
            field: "spec.ranges".to_owned(),
            reason: Reason::Invalid,
            message: format!(
                "must not name addresses of LoadBalancerPool {other:?}, such as {both}; an address is of one pool"
            ),
        }));
    }
    causes.extend(stranding(users, pool, name, Some(&served.pool.holdings)));
    causes
}

/// What is wrong with taking away addresses of a pool.
pub(super) fn stranding(
    users: &dyn PoolUsers,
    pool: &LoadBalancerPool,
    name: &str,
    holdings: Option<&LoadBalancerHoldings>,
) -> Option<Cause> {
    let annotations = pool.metadata.annotations.as_ref();
    if annotations
        .and_then(|all| all.get(ALLOW_STRANDING))
        .is_some_and(|it| it == "true")
    {
        return None;
    }
    let stranded = users.stranded(name, holdings);
    let (address, service) = stranded.first()?;
    let more = match stranded.len() {
        1 => String::new(),
        count => format!(", and {} more that are in use", count - 1),
    };
    let (field, verb) = match holdings {
        None => ("metadata.name", "must stay, for it gives"),
        Some(_) => (field_without(pool, *address), "must keep"),
    };
    Some(Cause {
        field: field.to_owned(),
        reason: Reason::Forbidden,
        message: format!(
            "{verb} {address}, which Service {service} has{more}; the annotation {ALLOW_STRANDING}: \"true\" on the pool lets go of them"
        ),
    })
}

/// Which field of the pool leaves out an address that is not its own.
fn field_without(pool: &LoadBalancerPool, address: IpAddr) -> &'static str {
    let has = |pool: &LoadBalancerPool| {
        let served = read_load_balancer_pool(pool);
        served.is_ok_and(|served| served.pool.holdings.contains(address))
    };
    let mut without = pool.clone();
    without.spec.pool.excluded.clear();
    if has(&without) {
        return "spec.excluded";
    }
    without.spec.first_last = FirstLast::Allow;
    if has(&without) { "spec.firstLast" } else { "spec.ranges" }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Labels, read_load_balancer_pool};
    use super::*;

    /// Pool `sedge` has 203.0.113.70, and `shop/web` has 203.0.113.64 of the pool `reed`.
    #[derive(Debug)]
    struct Cluster;

    impl PoolUsers for Cluster {
        fn overlaps(&self, _: &str, holdings: &LoadBalancerHoldings) -> Vec<(Arc<str>, String)> {
            let there = "203.0.113.70".parse().unwrap();
            let overlap = holdings.ipv4.values.contains(there);
            overlap
                .then(|| ("sedge".into(), there.to_string()))
                .into_iter()
                .collect()
        }

        fn stranded(&self, pool: &str, holdings: Option<&LoadBalancerHoldings>) -> Vec<(IpAddr, ServiceKey)> {
            let used = "203.0.113.64".parse().unwrap();
            let keeps = holdings.is_some_and(|holdings| holdings.contains(used));
            let strands = pool == "reed" && !keeps;
            strands
                .then(|| (used, ServiceKey::new("shop", "web")))
                .into_iter()
                .collect()
        }

        fn dropped(&self, served: &ServedPool) -> Vec<(IpAddr, ServiceKey)> {
            let services = ["web", "api", "mail"].map(|name| ServiceKey::new("shop", name));
            let count = match &*served.pool.terms.name {
                _ if served.admits("", "shop", &Labels::new(), &Labels::new()) => 0,
                "reed" => 3,
                _ => 1,
            };
            let used = "203.0.113.64".parse().unwrap();
            services.into_iter().take(count).map(|key| (used, key)).collect()
        }

        fn fenced(&self, served: &ServedPool) -> Vec<(IpAddr, ServiceKey)> {
            let user = ("203.0.113.64".parse().unwrap(), ServiceKey::new("shop", "web"));
            let count = if served.pool.terms.enforce { 2 } else { 0 };
            vec![user; count]
        }
    }

    fn pool(name: &str, spec: &serde_json::Value, annotations: &serde_json::Value) -> (LoadBalancerPool, ServedPool) {
        let object = json!({"apiVersion": "svcplane.io/v1alpha1", "kind": "LoadBalancerPool",
            "metadata": {"name": name, "annotations": annotations}, "spec": spec});
        let pool: LoadBalancerPool = serde_json::from_value(object).unwrap();
        let served = read_load_balancer_pool(&pool).unwrap();
        (pool, served)
    }

    #[test]
    fn overlaps_and_stranded_users_are_named() {
        let words = |name: &str, ranges: &str, mode: &str, annotations: &serde_json::Value| {
            let (pool, served) = pool(name, &json!({"ranges": [ranges], "mode": mode}), annotations);
            let faults = faults(&Cluster, &pool, &served).into_iter();
            faults.map(|cause| cause.to_string()).collect::<Vec<_>>().join("; ")
        };
        let none = json!({});
        assert_eq!(words("rush", "203.0.113.80", "Active", &none), "");
        let overlap = words("rush", "203.0.113.70-203.0.113.79", "Active", &none);
        assert!(
            overlap.contains("spec.ranges") && overlap.contains("\"sedge\", such as 203.0.113.70"),
            "{overlap}"
        );
        assert_eq!(words("rush", "203.0.113.70", "Disabled", &none), "");
        assert_eq!(words("reed", "203.0.113.64-203.0.113.65", "Active", &none), "");
        let stranded = words("reed", "203.0.113.65", "Active", &none);
        assert!(
            stranded.contains("must keep 203.0.113.64, which Service shop/web has"),
            "{stranded}"
        );
        assert_eq!(
            words("reed", "203.0.113.65", "Active", &json!({ALLOW_STRANDING: "true"})),
            ""
        );
    }

    #[test]
    fn the_field_that_leaves_an_address_out_is_named() {
        let table = [
            (json!({"ranges": ["203.0.113.65"]}), "spec.ranges"),
            (
                json!({"ranges": ["203.0.113.64-203.0.113.65"], "excluded": ["203.0.113.64"]}),
                "spec.excluded",
            ),
            (
                json!({"ranges": ["203.0.113.64/28"], "excluded": ["203.0.113.70"]}),
                "spec.firstLast",
            ),
        ];
        for (spec, field) in table {
            let (reed, served) = pool("reed", &spec, &json!({}));
            let cause = stranding(&Cluster, &reed, "reed", Some(&served.pool.holdings)).unwrap();
            assert_eq!(cause.field, field, "{spec}");
        }
    }

    #[test]
    fn whoever_a_pool_is_not_for_any_more_is_told_of_with_what_becomes_of_his_address() {
        let said = |name: &str, namespace: &str, on_removal: &str| {
            let spec =
                json!({"ranges": ["203.0.113.64"], "selector": {"namespaces": [namespace]}, "onRemoval": on_removal});
            let (pool, served) = pool(name, &spec, &json!({}));
            remark(&Cluster, &pool, &served)
        };
        assert_eq!(said("reed", "shop", "Retain"), None);
        assert_eq!(
            said("reed", "bank", "Retain").unwrap(),
            "spec: the pool is no longer for 3 Services, among them shop/web, which has 203.0.113.64: what they have stays with them, and is given to nobody new"
        );
        assert_eq!(
            said("rush", "bank", "Reassign").unwrap(),
            "spec: the pool is no longer for Service shop/web, which has 203.0.113.64: other addresses are given in their place at once (spec.onRemoval: Reassign)"
        );
    }

    #[test]
    fn whoever_a_fence_leaves_with_an_address_of_another_pool_is_told_of() {
        let said = |enforce: bool| {
            let (_, served) = pool(
                "rush",
                &json!({"ranges": ["203.0.113.80"], "enforce": enforce}),
                &json!({}),
            );
            fence(&Cluster, &served)
        };
        assert_eq!(said(false), None);
        assert_eq!(
            said(true).unwrap(),
            "spec.enforce: other pools are no longer for 2 Services, among them shop/web, which has 203.0.113.64: what they have stays with them, or is replaced at once where that pool says onRemoval: Reassign"
        );
    }

    #[test]
    fn a_pool_in_use_is_not_deleted_by_mistake() {
        let (reed, _) = pool("reed", &json!({"ranges": ["203.0.113.64"]}), &json!({}));
        let told = stranding(&Cluster, &reed, "reed", None).unwrap();
        assert!(
            told.to_string()
                .contains("must stay, for it gives 203.0.113.64, which Service shop/web has"),
            "{told}"
        );
        let (meant, _) = pool(
            "reed",
            &json!({"ranges": ["203.0.113.64"]}),
            &json!({ALLOW_STRANDING: "true"}),
        );
        assert!(stranding(&Cluster, &meant, "reed", None).is_none());
        assert!(stranding(&Cluster, &reed, "other", None).is_none());
    }
}
