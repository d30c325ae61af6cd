//! What the kubelet writes: Nodes, and the status of Pods.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::jiff::{Timestamp, Unit};
use serde_json::{Value, json};

/// Now, as `metav1.Time` has it: whole seconds.
fn now() -> String {
    let now = Timestamp::now();
    now.round(Unit::Second).unwrap_or(now).to_string()
}

fn condition(kind: &str, holds: bool) -> Value {
    let now = now();
    json!({"type": kind, "status": if holds { "True" } else { "False" }, "lastTransitionTime": now})
}

fn container_statuses(containers: &[Container], ready: bool) -> Vec<Value> {
    let now = now();
    let one = |c: &Container| {
        json!({
            "name": c.name, "image": c.image.clone().unwrap_or_default(), "imageID": "", "restartCount": 0,
            "ready": ready, "started": true, "state": {"running": {"startedAt": now}},
        })
    };
    containers.iter().map(one).collect()
}

/// A strategic merge patch for the status subresource; the uid makes it miss a Pod re-created under the same name.
fn patch(pod: &Pod, status: &Value) -> Value {
    json!({"metadata": {"uid": pod.metadata.uid}, "status": status})
}

/// The Pod runs on `host` with these addresses.
pub(super) fn running(pod: &Pod, host: IpAddr, addresses: &[IpAddr], ready: bool) -> Value {
    let Some(spec) = &pod.spec else {
        return Value::Null;
    };
    // Restartable init containers (sidecars) run on; the others have ended, which no reader of ours looks at.
    let sidecars: Vec<Container> = spec
        .init_containers
        .iter()
        .flatten()
        .filter(|c| c.restart_policy.as_deref() == Some("Always"))
        .cloned()
        .collect();
    patch(
        pod,
        &json!({
            "phase": "Running",
            "hostIP": host,
            "hostIPs": [{"ip": host}],
            "podIP": addresses.first(),
            "podIPs": addresses.iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>(),
            "startTime": now(),
            "conditions": [
                condition("PodReadyToStartContainers", true), condition("Initialized", true),
                condition("ContainersReady", ready), condition("Ready", ready),
            ],
            "containerStatuses": container_statuses(&spec.containers, ready),
            "initContainerStatuses": container_statuses(&sidecars, true),
        }),
    )
}

/// The Pod's readiness changes, and nothing else does.
pub(super) fn readiness(pod: &Pod, ready: bool) -> Value {
    let containers = pod.spec.as_ref().map(|s| s.containers.as_slice()).unwrap_or_default();
    patch(
        pod,
        &json!({
            "conditions": [condition("ContainersReady", ready), condition("Ready", ready)],
            "containerStatuses": container_statuses(containers, ready),
        }),
    )
}

/// A Node that is Ready.
pub(super) fn node(name: &str, address: IpAddr) -> (Value, Value) {
    let object = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
    });
    let status = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "status-kubelet",
            "lastTransitionTime": now(), "lastHeartbeatTime": now(),
        }],
    }});
    (object, status)
}
