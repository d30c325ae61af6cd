//! Requests in the namespace `shop` of a test's own cluster, by which faults are planted that no request of svcplane makes; and what
//! `svcplane audit` finds of them.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};

use crate::admission::send;
use crate::cluster::Cluster;
use crate::ran;

/// The Services of namespace `shop`.
pub const SERVICES: &str = "/api/v1/namespaces/shop/services";
/// All IPAddresses.
pub const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
/// All ServiceCIDRs.
pub const CIDRS: &str = "/apis/networking.k8s.io/v1/servicecidrs";

/// How long a command may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Makes the namespace.
pub async fn shop(client: &Client) {
    post(client, "/api/v1/namespaces", &json!({"metadata": {"name": "shop"}})).await;
}

/// Creates an object, which must be taken.
///
/// # Panics
/// It is not.
pub async fn post(client: &Client, path: &str, object: &Value) -> Value {
    let said = send(client, "POST", path, Some(object)).await.unwrap();
    said.accepted().unwrap()
}

/// Changes an object by a merge patch, which must be taken.
///
/// # Panics
/// It is not.
pub async fn patch(client: &Client, path: &str, change: &Value) -> Value {
    let said = send(client, "PATCH", path, Some(change)).await.unwrap();
    said.accepted().unwrap()
}

/// Deletes an object.
///
/// # Panics
/// It cannot be deleted.
pub async fn delete(client: &Client, path: &str) {
    send(client, "DELETE", path, None).await.unwrap().accepted().unwrap();
}

/// Creates a Service with a value that was freed: it may be taken a moment later only.
///
/// # Panics
/// It is not taken within 10 s.
pub async fn create_until_taken(client: &Client, object: &Value) {
    let mut last = None;
    for _ in 0..100 {
        let said = send(client, "POST", SERVICES, Some(object)).await.unwrap();
        if said.code.is_success() {
            return;
        }
        last = Some(said);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{object} was not taken: {last:?}");
}

/// A Service of one port with these fields beside it.
///
/// # Panics
/// `spec` is no object.
pub fn service(name: &str, spec: &Value) -> Value {
    let mut all = json!({"ports": [{"port": 80}]});
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "spec": all})
}

/// A NodePort Service with this number.
pub fn node_port(name: &str, port: u16) -> Value {
    service(
        name,
        &json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}),
    )
}

/// An ExternalName Service that carries this number.
pub fn external(name: &str, port: u16) -> Value {
    service(
        name,
        &json!({"type": "ExternalName", "externalName": "a.example", "ports": [{"port": 80, "nodePort": port}]}),
    )
}

/// Rule and object of each finding of `svcplane audit`, and its exit code.
///
/// # Panics
/// It prints no findings.
pub async fn audited(cluster: &Cluster) -> (BTreeSet<(String, String)>, i32) {
    let arguments = ["audit", "-o", "json"];
    let ran = ran::svcplane(&cluster.kubeconfig(), &arguments, LIMIT).await.unwrap();
    let findings: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_owned();
    let findings = findings
        .iter()
        .map(|finding| (text(finding, "rule"), text(finding, "object")));
    (findings.collect(), ran.code)
}
