//! From MetalLB to svcplane, and back to its speaker: with its real custom resource definitions and its real controller.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};
use svcplane_tests::balanced::{Balanced, CLASS, SOON, shown};
use svcplane_tests::cluster;
use svcplane_tests::eventually::{eventually_one, never_changes};
use svcplane_tests::metallb::{self, MetalLb};
use svcplane_tests::proxy::Record;

const ADVERTISEMENTS: &str = "/apis/metallb.io/v1beta1/namespaces/metallb-system/l2advertisements";

/// With MetalLB's kinds and none of its objects.
async fn start() -> Balanced {
    let rig = Balanced::start().await.unwrap();
    let namespace = format!("/api/v1/namespaces/{}", metallb::NAMESPACE);
    if rig.send("GET", &namespace, None).await.code.is_success() {
        for path in [metallb::POOLS, ADVERTISEMENTS] {
            rig.send("DELETE", path, None).await.accepted().unwrap();
        }
    } else {
        metallb::install(&rig.namespace.client()).await.unwrap();
    }
    rig
}

fn text(write: &Record) -> String {
    String::from_utf8_lossy(write.body.as_deref().unwrap_or_default()).into_owned()
}

/// Waits until a Service shows so many addresses, whoever writes them.
async fn has(rig: &Balanced, name: &str, count: usize) -> Vec<String> {
    let check = |service: Option<&Service>| {
        let shown = service.map(shown).unwrap_or_default();
        if shown.len() == count {
            Ok(shown)
        } else {
            Err(format!("shows {shown:?}"))
        }
    };
    eventually_one(
        &format!("addresses of {name}"),
        SOON,
        &rig.namespace.services(),
        name,
        check,
    )
    .await
    .unwrap()
}

#[tokio::test]
async fn metallbs_pools_and_services_come_over_and_no_address_changes() {
    let mut rig = start().await;
    let team = rig.namespace.name().to_owned();
    let pools = [
        (
            "public",
            json!({"addresses": ["203.0.113.0/28", "2001:db8:77::/120"], "avoidBuggyIPs": true}),
        ),
        (
            "named",
            json!({"addresses": ["198.51.100.10-198.51.100.12"], "autoAssign": false}),
        ),
        (
            "team",
            json!({"addresses": ["192.0.2.16/30"], "serviceAllocation": {"priority": 10, "namespaces": [team], "serviceSelectors": [{"matchLabels": {"tier": "web"}}]}}),
        ),
    ];
    for (name, spec) in &pools {
        let pool = metallb::pool(name, spec);
        rig.send("POST", metallb::POOLS, Some(&pool)).await.accepted().unwrap();
    }
    let metallb = MetalLb::start(cluster::shared(), None).await.unwrap();
    let annotated = |annotations: Value, spec: Value| {
        let mut spec = spec;
        spec["loadBalancerClass"] = Value::Null;
        json!({"metadata": {"annotations": annotations}, "spec": spec})
    };
    let shared = |port: u16| {
        annotated(
            json!({"metallb.io/allow-shared-ip": "dns"}),
            json!({"ports": [{"port": port}]}),
        )
    };
    let services = [
        ("auto", annotated(json!({}), json!({})), 1),
        (
            "pinned",
            annotated(json!({"metallb.io/loadBalancerIPs": "203.0.113.9"}), json!({})),
            1,
        ),
        (
            "from",
            annotated(json!({"metallb.universe.tf/address-pool": "named"}), json!({})),
            1,
        ),
        (
            "field",
            annotated(json!({}), json!({"loadBalancerIP": "203.0.113.5"})),
            1,
        ),
        (
            "both",
            annotated(json!({}), json!({"ipFamilyPolicy": "RequireDualStack"})),
            2,
        ),
        ("one", shared(53), 1),
        ("two", shared(54), 1),
    ];
    let mut before = BTreeMap::new();
    for (name, change, count) in &services {
        rig.service(name, change).await;
        before.insert(*name, has(&rig, name, *count).await);
    }
    let mut web = services[0].1.clone();
    web["metadata"]["labels"] = json!({"tier": "web"});
    rig.service("web", &web).await;
    before.insert("web", has(&rig, "web", 1).await);
    assert_eq!(before["web"], ["192.0.2.16"], "the team's own pool is first");
    assert_eq!(before["one"], before["two"]);
    metallb.stop().await.unwrap();

    let preflight = rig.command(&["preflight"], "").await;
    assert!(
        preflight.contains(" IPAddressPools (MetalLB)") && preflight.contains("-> svcplane touches no Service"),
        "{preflight}"
    );
    let imported = rig.command(&["pools", "import", "metallb"], "").await;
    let stored = rig.kubectl(&["get", "ipaddresspools", "-A", "-o", "yaml"], "").await;
    let read = rig.command(&["pools", "import", "metallb", "-"], &stored).await;
    assert_eq!(read, imported);
    rig.kubectl(&["apply", "-f", "-"], &imported).await;
    rig.restart_with(&["--load-balancer-default"]).await.unwrap();
    for (name, addresses) in &before {
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        rig.becomes(name, "Assigned", &addresses).await;
    }
    rig.at_rest().await;
    assert_eq!(rig.writes().len(), before.len(), "one condition each");
    for write in rig.writes() {
        assert!(!text(&write).contains("ingress"), "{}", text(&write));
    }
    // What MetalLB would have given next: the lowest that does not end in .0 or .255.
    rig.service("next", &services[0].1).await;
    let next = has(&rig, "next", 1).await;
    assert!(
        before.values().all(|addresses| *addresses != next) && next[0].starts_with("203.0.113."),
        "{next:?}"
    );
    rig.service("team", &web).await;
    rig.becomes("team", "Assigned", &["192.0.2.17"]).await;
}

#[tokio::test]
async fn metallb_takes_what_is_exported_and_gives_nothing_of_it_itself() {
    let rig = start().await;
    rig.pool("reed", &json!({"ranges": ["203.0.113.64/28"]})).await;
    rig.pool("six", &json!({"ranges": ["2001:db8:78::/64"]})).await;
    rig.pool(
        "sedge",
        &json!({"ranges": ["198.51.100.20-198.51.100.21"], "autoAssign": false}),
    )
    .await;
    rig.pool("gone", &json!({"ranges": ["192.0.2.1"], "priority": -1}))
        .await;
    rig.service("old", &json!({})).await;
    rig.becomes("old", "Assigned", &["192.0.2.1"]).await;
    rig.delete_pool("gone").await;
    rig.becomes("old", "Retained", &["192.0.2.1"]).await;
    rig.service("four", &json!({})).await;
    rig.becomes("four", "Assigned", &["203.0.113.65"]).await;
    rig.service("both", &json!({"spec": {"ipFamilyPolicy": "RequireDualStack"}}))
        .await;
    rig.becomes("both", "Assigned", &["203.0.113.66", "2001:db8:78::1"])
        .await;
    let asking = json!({"metadata": {"annotations": {"svcplane.io/load-balancer-pool": "sedge"}}});
    rig.service("asking", &asking).await;
    rig.becomes("asking", "Assigned", &["198.51.100.20"]).await;
    rig.at_rest().await;
    let writes = rig.writes().len();

    let exported = rig.command(&["pools", "export", "metallb"], "").await;
    assert!(exported.contains("# reed has the addresses of six too"), "{exported}");
    rig.kubectl(&["apply", "-f", "-"], &exported).await;
    let metallb = MetalLb::start(cluster::shared(), Some(CLASS)).await.unwrap();
    let in_use = [("reed", 3.0), ("sedge", 1.0), ("svcplane-retained", 1.0)];
    let started = tokio::time::Instant::now();
    loop {
        let page = metallb.metrics().await.unwrap();
        let used = |pool| page.sum("metallb_allocator_addresses_in_use_total", &[("pool", pool)]);
        if in_use.iter().all(|(pool, want)| (used(pool) - want).abs() < 0.5) {
            break;
        }
        assert!(started.elapsed() < SOON, "{:?}", in_use.map(|(pool, _)| used(pool)));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    rig.becomes("both", "Assigned", &["203.0.113.66", "2001:db8:78::1"])
        .await;
    rig.at_rest().await;
    assert_eq!(rig.writes().len(), writes, "nobody fights");
    // Who gives is svcplane; MetalLB has pools with free addresses and leaves them.
    rig.edit_pool("reed", &json!({"mode": "Drain"})).await;
    rig.service("late", &json!({})).await;
    rig.becomes("late", "FamilyUnavailable", &[]).await;
    let services = rig.namespace.services();
    let settled = has(&rig, "late", 0).await;
    assert!(settled.is_empty());
    rig.edit_pool("reed", &json!({"mode": "Active"})).await;
    rig.becomes("late", "Assigned", &["203.0.113.67"]).await;
    rig.at_rest().await;
    never_changes(
        "two controllers",
        Duration::from_secs(1),
        &services,
        "metadata.name=four",
    )
    .await
    .unwrap();
    metallb.stop().await.unwrap();
}

/// Cilium's pools, as its documentation has them.
#[tokio::test]
async fn ciliums_pools_come_over_from_files_and_from_the_cluster() {
    let rig = start().await;
    let theirs = "apiVersion: cilium.io/v2\nkind: CiliumLoadBalancerIPPool\nmetadata:\n  name: blue\nspec:\n  blocks:\n  - cidr: 203.0.113.32/30\n  \
        - start: 203.0.113.40\n    stop: 203.0.113.41\n  allowFirstLastIPs: \"No\"\n  serviceSelector:\n    matchLabels:\n      \
        io.kubernetes.service.namespace: NAMESPACE\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n";
    let theirs = theirs.replace("NAMESPACE", rig.namespace.name());
    let imported = rig.command(&["pools", "import", "cilium", "-"], &theirs).await;
    rig.kubectl(&["apply", "-f", "-"], &imported).await;
    let left = ["203.0.113.33", "203.0.113.34", "203.0.113.40", "203.0.113.41"];
    for (number, address) in left.into_iter().enumerate() {
        let name = format!("s{number}");
        rig.service(
            &name,
            &json!({"metadata": {"annotations": {"lbipam.cilium.io/ips": address}}}),
        )
        .await;
        rig.becomes(&name, "Assigned", &[address]).await;
    }
    rig.service("late", &json!({})).await;
    rig.becomes("late", "Exhausted", &[]).await;

    // A cluster with the kind in the version of Cilium before 1.18; of its schema nothing is read but what is in the objects.
    let anything = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let kind = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "ciliumloadbalancerippools.cilium.io"}, "spec": {"group": "cilium.io", "scope": "Cluster",
            "names": {"kind": "CiliumLoadBalancerIPPool", "plural": "ciliumloadbalancerippools", "singular": "ciliumloadbalancerippool"},
            "versions": [{"name": "v2alpha1", "served": true, "storage": true, "schema": anything}]}});
    rig.kubectl(&["apply", "-f", "-"], &kind.to_string()).await;
    let established = "crd/ciliumloadbalancerippools.cilium.io";
    rig.kubectl(
        &["wait", "--for=condition=Established", "--timeout=60s", established],
        "",
    )
    .await;
    let stored = theirs.replace("cilium.io/v2", "cilium.io/v2alpha1");
    let (pool, _) = stored.split_once("---").unwrap();
    rig.kubectl(&["apply", "-f", "-"], pool).await;
    let read = rig.command(&["pools", "import", "cilium"], "").await;
    assert_eq!(read, imported);
}
