//! Bad pools are refused at admission, with the field named. The schema refuses what it can see; this sees the rest.

use serde::de::DeserializeOwned;
use svcplane_allocators::pools::FieldError;

use super::selectors::faults;
use super::{ClusterIPPool, GROUP, NodePortPool, PoolSpec, read_cluster_ip_pool, read_node_port_pool};
use crate::cause::{Cause, Reason, quoted};
use crate::review::{Answer, Refusal, Request};

/// The answer to the creation or change of a pool; `None` if it is none.
pub fn review(request: &Request<'_>) -> Option<Answer> {
    if request.resource.group != GROUP || !request.sub_resource.as_deref().unwrap_or_default().is_empty() {
        return None;
    }
    let object = request.object?.get();
    let (kind, wrong) = match &*request.resource.resource {
        "clusterippools" => (
            "ClusterIPPool",
            wrong(object, |pool: &ClusterIPPool| {
                all(read_cluster_ip_pool(pool).err(), &pool.spec.pool)
            }),
        ),
        "nodeportpools" => (
            "NodePortPool",
            wrong(object, |pool: &NodePortPool| {
                all(read_node_port_pool(pool).err(), &pool.spec.pool)
            }),
        ),
        _ => return None,
    };
    if wrong.is_empty() {
        return Some(Answer::default());
    }
    let name = request.name.as_deref().unwrap_or_default();
    Some(Answer::refused(Refusal::invalid(kind, name, &wrong, 0)))
}

/// With what no object can match. A pool that is stored with that is used all the same: it is for fewer than it says.
fn all(unreadable: Option<Vec<FieldError>>, spec: &PoolSpec) -> Vec<FieldError> {
    let mut all = unreadable.unwrap_or_default();
    all.extend(spec.selector.iter().flat_map(faults));
    all
}

fn wrong<K: DeserializeOwned>(object: &str, faults: impl Fn(&K) -> Vec<FieldError>) -> Vec<Cause> {
    let cause = |field: String, message: String| Cause {
        field,
        reason: Reason::Invalid,
        message,
    };
    match serde_json::from_str(object) {
        Ok(pool) => {
            let faults = faults(&pool).into_iter();
            let faults = faults.take(crate::cause::MOST_CAUSES);
            faults
                .map(|fault| cause(fault.field, format!("{} {}", quoted(&fault.value), fault.message)))
                .collect()
        }
        Err(error) => vec![cause("spec".into(), format!("cannot be read: {error}"))],
    }
}
