//! Legal Services of every type, to be changed by moves.

use serde_json::{Value, json};

use super::draw::{Draw, set};

/// One that the apiserver takes.
pub(super) fn legal(draw: &mut Draw<'_>, name: &str) -> Value {
    let service_type = draw.one(&[
        "ClusterIP",
        "ClusterIP",
        "NodePort",
        "LoadBalancer",
        "LoadBalancer",
        "Headless",
        "ExternalName",
    ]);
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {}});
    if !draw.once_in(3) {
        set(&mut service, "selector", json!({"app": "web"}));
    }
    if service_type != "ExternalName" || draw.once_in(3) {
        set(&mut service, "ports", ports(draw));
    }
    match service_type {
        "Headless" => set(&mut service, "clusterIP", json!("None")),
        "ExternalName" => {
            set(&mut service, "type", json!(service_type));
            set(&mut service, "externalName", json!("db.example.com"));
        }
        _ => set(&mut service, "type", json!(service_type)),
    }
    if service_type == "LoadBalancer" && draw.once_in(2) {
        set(&mut service, "externalTrafficPolicy", json!("Local"));
    }
    if !matches!(service_type, "ExternalName") && draw.once_in(3) {
        let policy = draw.one(&["SingleStack", "PreferDualStack", "RequireDualStack"]);
        set(&mut service, "ipFamilyPolicy", json!(policy));
        if policy != "SingleStack" && draw.once_in(2) {
            let families = draw.one(&[json!(["IPv4", "IPv6"]), json!(["IPv6", "IPv4"]), json!(["IPv6"])]);
            set(&mut service, "ipFamilies", families);
        }
    }
    service
}

/// One to three ports that go together.
fn ports(draw: &mut Draw<'_>) -> Value {
    let count = draw.one(&[1, 1, 2, 3]);
    let names = ["http", "dns-tcp", "8080"];
    let ports = (0..count).map(|i| {
        let mut port = json!({"port": 80 + i, "protocol": draw.one(&["TCP", "TCP", "UDP", "SCTP"])});
        if count > 1 || draw.once_in(2) {
            port["name"] = json!(names[i]);
        }
        if draw.once_in(2) {
            port["targetPort"] = draw.one(&[json!(8080), json!("web"), json!("fifteen-letters")]);
        }
        port
    });
    ports.collect()
}
