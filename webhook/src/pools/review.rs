//! Bad pools are refused at admission, with the field named. The schema refuses what it can see; this sees the rest.

use std::time::Instant;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use svcplane_allocators::pools::{FieldError, Mode, idle_address_exclusions, idle_node_port_exclusions};

use super::guard::{PoolUsers, faults, fence, remark, stranding};
use super::selectors::{class_faults, faults as selector_faults};
use super::{
    ClusterIPPool, GROUP, LoadBalancerPool, NodePortPool, Pool, PoolSpec, read_cluster_ip_pool,
    read_load_balancer_pool, read_node_port_pool,
};
use crate::cause::{Cause, MOST_CAUSES, Reason, quoted};
use crate::ledger::{Ledger, SharedLedger};
use crate::review::{Answer, Refusal, Request};

/// The answer to the creation, change or deletion of a pool; `None` if it is none. `users`: who knows the LoadBalancerPools that there are,
/// `ledger`: who knows the ranges of the cluster.
pub fn review(request: &Request<'_>, users: Option<&dyn PoolUsers>, ledger: Option<&SharedLedger>) -> Option<Answer> {
    if request.resource.group != GROUP || !request.sub_resource.as_deref().unwrap_or_default().is_empty() {
        return None;
    }
    let name = request.name.as_deref().unwrap_or_default();
    if leaves_the_pool_as_it_is(request) {
        return Some(Answer::default());
    }
    let object = match &*request.operation {
        "CREATE" | "UPDATE" => request.object,
        "DELETE" => None,
        _ => return None,
    };
    let mut warnings = Vec::new();
    let (kind, wrong) = match (&*request.resource.resource, object) {
        ("clusterippools", Some(object)) => (
            "ClusterIPPool",
            wrong(object.get(), |pool: &ClusterIPPool| {
                let read = read_cluster_ip_pool(pool);
                warnings.extend(remarks(&pool.spec.pool, idle_address_exclusions));
                warnings.extend(outside(ledger, &read, Ledger::cluster_ips_outside));
                told(all(read.err(), &pool.spec.pool))
            }),
        ),
        ("nodeportpools", Some(object)) => (
            "NodePortPool",
            wrong(object.get(), |pool: &NodePortPool| {
                let read = read_node_port_pool(pool);
                warnings.extend(remarks(&pool.spec.pool, idle_node_port_exclusions));
                warnings.extend(outside(ledger, &read, Ledger::node_ports_outside));
                told(all(read.err(), &pool.spec.pool))
            }),
        ),
        ("loadbalancerpools", Some(object)) => (
            "LoadBalancerPool",
            wrong(object.get(), |pool: &LoadBalancerPool| {
                warnings.extend(remarks(&pool.spec.pool, idle_address_exclusions));
                let names = [all(None, &pool.spec.pool), class_faults(&pool.spec.classes)].concat();
                match (read_load_balancer_pool(pool), users) {
                    (Ok(served), Some(users)) if names.is_empty() => {
                        let faults = faults(users, pool, &served);
                        if faults.is_empty() {
                            warnings.extend(remark(users, pool, &served));
                            warnings.extend(fence(users, &served));
                        }
                        faults
                    }
                    (Ok(_), _) => told(names),
                    (Err(errors), _) => told([errors, names].concat()),
                }
            }),
        ),
        ("loadbalancerpools", None) => {
            let old = request.old_object.map(|old| serde_json::from_str(old.get()));
            // What cannot be read cannot be in use. The apiserver itself deletes them when their kind is deleted.
            let is_by_apiserver = request.user_info.username == "system:apiserver";
            let (Some(Ok(old)), Some(users)) = (old, users.filter(|_| !is_by_apiserver)) else {
                return Some(Answer::default());
            };
            (
                "LoadBalancerPool",
                stranding(users, &old, name, None).into_iter().collect(),
            )
        }
        _ => return None,
    };
    if wrong.is_empty() {
        return Some(Answer {
            warnings,
            ..Answer::default()
        });
    }
    Some(Answer::refused(Refusal::invalid(kind, name, &wrong, 0)))
}

/// Of an update, what a pool is does not change: labels, finalizers, owners. One that is being deleted must be able to go, whatever is wrong
/// with it.
fn leaves_the_pool_as_it_is(request: &Request<'_>) -> bool {
    let read = |object: Option<&RawValue>| object.and_then(|object| serde_json::from_str::<Essence>(object.get()).ok());
    let (Some(new), Some(old)) = (read(request.object), read(request.old_object)) else {
        return false;
    };
    request.operation == "UPDATE" && (new.spec == old.spec || old.metadata.deletion_timestamp.is_some())
}

/// What decides whether a pool is looked at.
#[derive(Deserialize)]
struct Essence {
    metadata: ObjectMeta,
    spec: serde_json::Value,
}

/// With what no object can match. A pool that is stored with that is used all the same: it is for fewer than it says.
fn all(unreadable: Option<Vec<FieldError>>, spec: &PoolSpec) -> Vec<FieldError> {
    let mut all = unreadable.unwrap_or_default();
    all.extend(spec.selector.iter().flat_map(selector_faults));
    all
}

/// What is wrong with a pool, or that it is none.
fn wrong<K: DeserializeOwned>(object: &str, faults: impl FnOnce(&K) -> Vec<Cause>) -> Vec<Cause> {
    match serde_json::from_str(object) {
        Ok(pool) => faults(&pool),
        Err(error) => vec![invalid("spec".into(), format!("cannot be read: {error}"))],
    }
}

fn told(faults: Vec<FieldError>) -> Vec<Cause> {
    let faults = faults.into_iter().take(MOST_CAUSES);
    faults
        .map(|fault| invalid(fault.field, format!("{} {}", quoted(&fault.value), fault.message)))
        .collect()
}

/// What is odd and not wrong.
fn remarks(spec: &PoolSpec, odd: fn(&[String], &[String]) -> Vec<FieldError>) -> impl Iterator<Item = String> {
    let odd = odd(&spec.ranges, &spec.excluded).into_iter().take(MOST_CAUSES);
    odd.map(|it| format!("{}: {} {}", it.field, quoted(&it.value), it.message))
}

/// That a pool has values which nobody can be given here, as its status will say ("OutsideRange").
fn outside<H>(
    ledger: Option<&SharedLedger>,
    read: &Result<Pool<H>, Vec<FieldError>>,
    find: fn(&Ledger, &H) -> Option<String>,
) -> Option<String> {
    let pool = read.as_ref().ok().filter(|pool| pool.terms.mode != Mode::Disabled)?;
    let ledger = ledger?.lock();
    if ledger.waits_for(Instant::now()).is_some() {
        return None;
    }
    let values = find(&ledger, &pool.holdings)?;
    Some(format!("spec.ranges: {}", in_no_range(&values)))
}

/// What is said of values that lie in no range of the cluster.
pub fn in_no_range(values: &str) -> String {
    format!("{values} lies in no range of the cluster that is ready, so it is not given")
}

fn invalid(field: String, message: String) -> Cause {
    Cause {
        field,
        reason: Reason::Invalid,
        message,
    }
}
