//! `svcplane crds`: the custom resource definitions, made from the Rust types.

use kube::CustomResourceExt as _;
use serde_json::{Value, json};
use svcplane_webhook::pools::{ClusterIPPool, LoadBalancerPool, NodePortPool};

/// A List of them, for `kubectl apply -f -`.
pub fn crds() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "List",
        "items": [ClusterIPPool::crd(), LoadBalancerPool::crd(), NodePortPool::crd()],
    })
}
