//! `svcplane crds`: the custom resource definitions, made from the Rust types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition,
};
use kube::CustomResourceExt as _;
use serde_json::{Value, json};
use svcplane_webhook::pools::{ClusterIPPool, LoadBalancerPool, NodePortPool};

/// A List of them, for `kubectl apply -f -`.
pub fn crds() -> Value {
    let addresses = [("IPv4-", "ipv4", 0), ("IPv6-", "ipv6", 1)];
    let ports = [("", "ports", 0)];
    json!({
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            with_columns(ClusterIPPool::crd(), &addresses),
            with_columns(LoadBalancerPool::crd(), &addresses),
            with_columns(NodePortPool::crd(), &ports),
        ],
    })
}

/// The columns of `kubectl get`. `parts`: a prefix, where the numbers are in the status, and 1 if only `-o wide` shows them.
fn with_columns(mut crd: CustomResourceDefinition, parts: &[(&str, &str, i32)]) -> CustomResourceDefinition {
    let column = |name: &str, type_: &str, path: &str| CustomResourceColumnDefinition {
        name: name.to_owned(),
        type_: type_.to_owned(),
        json_path: path.to_owned(),
        ..CustomResourceColumnDefinition::default()
    };
    let mut columns = vec![
        column("Mode", "string", ".spec.mode"),
        column("Enforce", "boolean", ".spec.enforce"),
        column("Priority", "integer", ".spec.priority"),
    ];
    for (prefix, part, priority) in parts {
        for (name, field) in [("Used", "used"), ("Free", "available")] {
            columns.push(CustomResourceColumnDefinition {
                priority: (*priority > 0).then_some(*priority),
                ..column(
                    &format!("{prefix}{name}"),
                    "integer",
                    &format!(".status.{part}.{field}"),
                )
            });
        }
    }
    let ready = ".status.conditions[?(@.type==\"Ready\")].status";
    columns.push(column("Ready", "string", ready));
    columns.push(column("Age", "date", ".metadata.creationTimestamp"));
    for version in &mut crd.spec.versions {
        version.additional_printer_columns = Some(columns.clone());
    }
    crd
}
