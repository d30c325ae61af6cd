//! Bad pools are refused at admission, with the field named. The schema refuses what it can see; this sees the rest.

use serde::de::DeserializeOwned;
use svcplane_allocators::pools::FieldError;

use super::{ClusterIPPool, GROUP, NodePortPool, read_cluster_ip_pool, read_node_port_pool};
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
            wrong(object, |pool: &ClusterIPPool| read_cluster_ip_pool(pool).err()),
        ),
        "nodeportpools" => (
            "NodePortPool",
            wrong(object, |pool: &NodePortPool| read_node_port_pool(pool).err()),
        ),
        _ => return None,
    };
    if wrong.is_empty() {
        return Some(Answer::default());
    }
    let name = request.name.as_deref().unwrap_or_default();
    Some(Answer::refused(Refusal::invalid(kind, name, &wrong, 0)))
}

fn wrong<K: DeserializeOwned>(object: &str, faults: impl Fn(&K) -> Option<Vec<FieldError>>) -> Vec<Cause> {
    let cause = |field: String, message: String| Cause {
        field,
        reason: Reason::Invalid,
        message,
    };
    match serde_json::from_str(object) {
        Ok(pool) => {
            let faults = faults(&pool).unwrap_or_default().into_iter();
            let faults = faults.take(crate::cause::MOST_CAUSES);
            faults
                .map(|fault| cause(fault.field, format!("{} {}", quoted(&fault.value), fault.message)))
                .collect()
        }
        Err(error) => vec![cause("spec".into(), format!("cannot be read: {error}"))],
    }
}
