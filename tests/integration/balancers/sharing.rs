//! Several Services at one address.

use serde_json::{Value, json};
use svcplane_tests::balanced::Balanced;

fn sharing(protocol: &str, port: u16) -> Value {
    json!({"metadata": {"annotations": {"svcplane.io/sharing-key": "dns"}}, "spec": {"ports": [{"port": port, "protocol": protocol}]}})
}

#[tokio::test]
async fn b82_who_breaks_the_rule_leaves_and_comes_back() {
    let rig = Balanced::start().await.unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.70"]})).await;
    rig.service("dns-t", &sharing("TCP", 53)).await;
    rig.becomes("dns-t", "Assigned", &["203.0.113.70"]).await;
    rig.service("dns-u", &sharing("UDP", 53)).await;
    rig.becomes("dns-u", "Assigned", &["203.0.113.70"]).await;
    let ports = |protocol: &str| json!({"spec": {"ports": [{"port": 53, "protocol": protocol}]}});
    rig.namespace.patch_service("dns-t", &ports("UDP")).await.unwrap();
    let message = rig.becomes("dns-t", "SharingPortConflict", &[]).await;
    assert!(
        message.contains(&format!("{}/dns-u has port 53/UDP", rig.namespace.name())),
        "{message}"
    );
    rig.becomes("dns-u", "Assigned", &["203.0.113.70"]).await;
    rig.namespace.patch_service("dns-t", &ports("TCP")).await.unwrap();
    rig.becomes("dns-t", "Assigned", &["203.0.113.70"]).await;
    rig.delete("dns-t").await;
    rig.delete("dns-u").await;
    rig.service("loner", &json!({})).await;
    rig.becomes("loner", "Assigned", &["203.0.113.70"]).await;
}

#[tokio::test]
async fn the_rule_of_sharing_has_a_reason_for_each_part() {
    let rig = Balanced::start().await.unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.70-203.0.113.79"]}))
        .await;
    rig.service("first", &sharing("TCP", 80)).await;
    rig.becomes("first", "Assigned", &["203.0.113.70"]).await;
    let pinned = |key: Option<&str>, port: u16, policy: &str| {
        json!({"metadata": {"annotations": {"svcplane.io/load-balancer-ips": "203.0.113.70", "svcplane.io/sharing-key": key.unwrap_or("")}},
            "spec": {"externalTrafficPolicy": policy, "selector": {"app": "web"}, "ports": [{"port": port}]}})
    };
    let table = [
        ("unshared", pinned(None, 81, "Cluster"), "AddressTaken"),
        ("other-key", pinned(Some("web"), 81, "Cluster"), "SharingKeyMismatch"),
        ("same-port", pinned(Some("dns"), 80, "Cluster"), "SharingPortConflict"),
        ("local", pinned(Some("dns"), 81, "Local"), "SharingPolicyMismatch"),
    ];
    for (name, service, reason) in table {
        rig.service(name, &service).await;
        rig.becomes(name, reason, &[]).await;
    }
    rig.service("fits", &pinned(Some("dns"), 81, "Cluster")).await;
    rig.becomes("fits", "Assigned", &["203.0.113.70"]).await;
}

/// MetalLB's key asks no namespace for its consent, so that what it shared goes on being shared.
#[tokio::test]
async fn a_key_of_another_namespace_needs_consent_unless_it_is_metallbs() {
    let rig = Balanced::start().await.unwrap();
    let fen = svcplane_tests::namespace::TestNamespace::create(svcplane_tests::cluster::shared())
        .await
        .unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.70-203.0.113.79"]}))
        .await;
    let there = |name: &str, annotations: Value, port: u16| {
        let service = json!({"metadata": {"name": name, "annotations": annotations}, "spec": {
            "type": "LoadBalancer", "loadBalancerClass": "svcplane.io/lb", "allocateLoadBalancerNodePorts": false, "ports": [{"port": port}]}});
        let path = format!("/api/v1/namespaces/{}/services", fen.name());
        let rig = &rig;
        async move { rig.send("POST", &path, Some(&service)).await.accepted().unwrap() }
    };
    there("ours", json!({"svcplane.io/sharing-key": "k"}), 80).await;
    there(
        "metallbs",
        json!({"metallb.io/allow-shared-ip": "m", "metallb.io/loadBalancerIPs": "203.0.113.75"}),
        80,
    )
    .await;
    let asking = |annotations: Value, port: u16| json!({"metadata": {"annotations": annotations}, "spec": {"ports": [{"port": port}]}});
    rig.service("metallbs", &asking(json!({"metallb.io/allow-shared-ip": "m"}), 81))
        .await;
    rig.becomes("metallbs", "Assigned", &["203.0.113.75"]).await;
    let consent = json!({"svcplane.io/sharing-key": "k", "svcplane.io/sharing-namespaces": fen.name()});
    rig.service("ours", &asking(consent, 81)).await;
    rig.becomes("ours", "SharingNamespaceDenied", &[]).await;
    let mutual = json!({"metadata": {"annotations": {"svcplane.io/sharing-namespaces": rig.namespace.name()}}});
    fen.patch_service("ours", &mutual).await.unwrap();
    rig.becomes("ours", "Assigned", &["203.0.113.70"]).await;
}
