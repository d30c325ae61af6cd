//! Addresses that the cluster itself uses.

use serde_json::{Value, json};
use svcplane_tests::balanced::{Balanced, SOON};
use svcplane_tests::eventually::never_changes;

const NODES: &str = "/api/v1/nodes";
const CIDRS: &str = "/apis/networking.k8s.io/v1/servicecidrs";

/// A Node with this address, whose Pods have these.
async fn node(rig: &Balanced, name: &str, address: &str, pods: Option<&str>) {
    let node = json!({"metadata": {"name": name}, "spec": {"podCIDR": pods, "podCIDRs": Vec::from_iter(pods)}});
    rig.send("POST", NODES, Some(&node)).await.accepted().unwrap();
    let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}]}});
    let path = format!("{NODES}/{name}/status");
    rig.send("PATCH", &path, Some(&status)).await.accepted().unwrap();
}

async fn gone(rig: &Balanced, path: &str) {
    rig.send("DELETE", path, None).await.accepted().unwrap();
}

/// Status and message of a condition of a pool.
fn condition(status: &Value, kind: &str) -> (String, String) {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let found = conditions.into_iter().find(|it| it["type"] == kind);
    let text = |field: &str| found.and_then(|it| it[field].as_str()).unwrap_or_default().to_owned();
    (text("status"), text("message"))
}

/// B78 (b): what a Node has is not given; nor what its Pods have, or what ClusterIPs are made of.
#[tokio::test]
async fn b78_what_nodes_pods_and_cluster_ips_use_is_not_given_and_is_said() {
    let rig = Balanced::start().await.unwrap();
    node(&rig, "n78", "198.51.100.68", Some("198.51.100.72/30")).await;
    let extra = json!({"metadata": {"name": "extra78"}, "spec": {"cidrs": ["198.51.100.128/28"]}});
    rig.send("POST", CIDRS, Some(&extra)).await.accepted().unwrap();
    let ranges = [
        "198.51.100.67-198.51.100.69",
        "198.51.100.71-198.51.100.76",
        "198.51.100.140-198.51.100.145",
    ];
    rig.pool("reed", &json!({ "ranges": ranges })).await;
    let used = |status: &Value| {
        let (of_nodes, nodes) = condition(status, "OverlapsNodes");
        let (of_cidrs, cidrs) = condition(status, "Conflict");
        of_nodes == "True"
            && nodes.contains("198.51.100.68 of Node \"n78\"")
            && nodes.contains("198.51.100.72-198.51.100.75 of the Pods of Node \"n78\"")
            && of_cidrs == "True"
            && cidrs.contains("198.51.100.140-198.51.100.143 of ServiceCIDR \"extra78\"")
    };
    let status = rig.pool_status("reed", used).await;
    assert_eq!(status["ipv4"]["total"], 6);
    let left = [
        "198.51.100.67",
        "198.51.100.69",
        "198.51.100.71",
        "198.51.100.76",
        "198.51.100.144",
        "198.51.100.145",
    ];
    for (number, address) in left.into_iter().enumerate() {
        let name = format!("s{number}");
        rig.service(&name, &json!({})).await;
        rig.becomes(&name, "Assigned", &[address]).await;
    }
    rig.service("late", &json!({})).await;
    rig.becomes("late", "Exhausted", &[]).await;
    rig.service("asking", &json!({"spec": {"loadBalancerIP": "198.51.100.68"}}))
        .await;
    let told = rig.becomes("asking", "AddressTaken", &[]).await;
    assert!(told.contains("198.51.100.68 is taken: Node \"n78\" uses it"), "{told}");
    gone(&rig, &format!("{CIDRS}/extra78")).await;
    rig.becomes("late", "Assigned", &["198.51.100.140"]).await;
    gone(&rig, &format!("{NODES}/n78")).await;
    rig.becomes("asking", "Assigned", &["198.51.100.68"]).await;
    rig.pool_status("reed", |status| condition(status, "OverlapsNodes").0 == "False")
        .await;
}

/// A Node may come later than the Service that has its address: nothing moves that need not.
#[tokio::test]
async fn a_node_that_comes_with_an_address_in_use_takes_it_from_nobody_unless_the_pool_says_so() {
    let mut rig = Balanced::start().await.unwrap();
    rig.pool("reed", &json!({"ranges": ["198.51.100.80-198.51.100.81"]}))
        .await;
    rig.pool(
        "rush",
        &json!({"ranges": ["198.51.100.84-198.51.100.85"], "onRemoval": "Reassign"}),
    )
    .await;
    for (name, address) in [("heron", "198.51.100.80"), ("egret", "198.51.100.84")] {
        rig.service(name, &json!({"spec": {"loadBalancerIP": address}})).await;
        rig.becomes(name, "Assigned", &[address]).await;
    }
    rig.namespace
        .patch_service("egret", &json!({"spec": {"loadBalancerIP": null}, "metadata": {"annotations": {"svcplane.io/load-balancer-pool": "rush"}}}))
        .await
        .unwrap();
    node(&rig, "n80", "198.51.100.80", None).await;
    node(&rig, "n84", "198.51.100.84", None).await;
    rig.becomes("heron", "Retained", &["198.51.100.80"]).await;
    rig.becomes("egret", "Assigned", &["198.51.100.85"]).await;
    rig.at_rest().await;
    rig.restart(async |_| {}).await.unwrap();
    rig.at_rest().await;
    rig.becomes("heron", "Retained", &["198.51.100.80"]).await;
    assert!(rig.writes().is_empty());
    // What a Node says every few minutes is no news.
    let path = format!("{NODES}/n80/status");
    let beat = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-02T03:04:05Z"}]}});
    rig.send("PATCH", &path, Some(&beat)).await.accepted().unwrap();
    let services = rig.namespace.services();
    never_changes("a heartbeat", SOON / 60, &services, "metadata.name=heron")
        .await
        .unwrap();
    for name in ["n80", "n84"] {
        gone(&rig, &format!("{NODES}/{name}")).await;
    }
    rig.becomes("heron", "Assigned", &["198.51.100.80"]).await;
}
