//! What a Service asks for, and what it gets.

use k8s_openapi::api::core::v1::Service;
use serde_json::json;
use svcplane_tests::balanced::{Balanced, SOON, condition, shown};
use svcplane_tests::eventually::{eventually, eventually_one};

#[tokio::test]
async fn a_service_gets_an_address_a_condition_and_an_event_in_one_write() {
    let rig = Balanced::start().await.unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.64/29"]})).await;
    rig.service("heron", &json!({})).await;
    // The first and the last address of a CIDR are left out.
    let message = rig.becomes("heron", "Assigned", &["203.0.113.65"]).await;
    assert_eq!(message, "203.0.113.65");
    let stored = rig.namespace.services().get("heron").await.unwrap();
    let status = serde_json::to_value(stored.status.as_ref().unwrap()).unwrap();
    assert_eq!(
        status["loadBalancer"]["ingress"],
        json!([{"ip": "203.0.113.65", "ipMode": "VIP"}])
    );
    let condition = condition(&stored).unwrap();
    assert_eq!((&*condition.status, condition.observed_generation), ("True", None));
    let told = |events: &[k8s_openapi::api::core::v1::Event]| {
        let mut ours = events
            .iter()
            .filter(|event| event.reason.as_deref() == Some("Assigned"));
        ours.next()
            .map(|event| event.type_.clone())
            .ok_or("no Event".to_owned())
    };
    let events = rig.namespace.events();
    let kind = eventually("an Event", SOON, &events, "", told).await.unwrap();
    assert_eq!(kind.as_deref(), Some("Normal"));
    rig.at_rest().await;
    assert_eq!(rig.writes().len(), 1);
}

/// MetalLB, Cilium, kube-vip and PureLB, beside ours: no manifest needs an edit.
#[tokio::test]
async fn addresses_are_asked_for_in_everybodys_words() {
    let rig = Balanced::start().await.unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.64-203.0.113.95"]}))
        .await;
    let names = [
        "svcplane.io/load-balancer-ips",
        "metallb.io/loadBalancerIPs",
        "metallb.universe.tf/loadBalancerIPs",
        "lbipam.cilium.io/ips",
        "io.cilium/lb-ipam-ips",
        "kube-vip.io/loadbalancerIPs",
        "purelb.io/addresses",
    ];
    for (number, name) in names.iter().enumerate() {
        let (service, address) = (format!("s{number}"), format!("203.0.113.{}", 70 + number));
        rig.service(&service, &json!({"metadata": {"annotations": {*name: address}}}))
            .await;
        rig.becomes(&service, "Assigned", &[&address]).await;
    }
    rig.service("field", &json!({"spec": {"loadBalancerIP": "203.0.113.90"}}))
        .await;
    rig.becomes("field", "Assigned", &["203.0.113.90"]).await;
    let torn = json!({"metadata": {"annotations": {"metallb.io/loadBalancerIPs": "203.0.113.91"}}, "spec": {"loadBalancerIP": "203.0.113.92"}});
    rig.service("torn", &torn).await;
    let message = rig.becomes("torn", "RequestConflict", &[]).await;
    assert!(
        message.contains("metallb.io/loadBalancerIPs") && message.contains("spec.loadBalancerIP"),
        "{message}"
    );
    rig.service("wrong", &json!({"spec": {"loadBalancerIP": "web.example"}}))
        .await;
    rig.becomes("wrong", "InvalidRequest", &[]).await;
}

#[tokio::test]
async fn annotations_of_a_product_can_be_left_out() {
    let rig = Balanced::start_with(&["--load-balancer-annotations=cilium"])
        .await
        .unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.64-203.0.113.95"]}))
        .await;
    rig.service(
        "metallb",
        &json!({"metadata": {"annotations": {"metallb.io/loadBalancerIPs": "203.0.113.80"}}}),
    )
    .await;
    rig.becomes("metallb", "Assigned", &["203.0.113.64"]).await;
    rig.service(
        "cilium",
        &json!({"metadata": {"annotations": {"lbipam.cilium.io/ips": "203.0.113.81"}}}),
    )
    .await;
    rig.becomes("cilium", "Assigned", &["203.0.113.81"]).await;
}

#[tokio::test]
async fn b71_namespaces_share_one_book() {
    let rig = Balanced::start().await.unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.64-203.0.113.66"]}))
        .await;
    rig.service("web", &json!({})).await;
    rig.becomes("web", "Assigned", &["203.0.113.64"]).await;
    rig.service("api", &json!({})).await;
    rig.becomes("api", "Assigned", &["203.0.113.65"]).await;
    rig.delete("web").await;
    rig.service("other", &json!({})).await;
    rig.becomes("other", "Assigned", &["203.0.113.64"]).await;
    rig.becomes("api", "Assigned", &["203.0.113.65"]).await;
}

#[tokio::test]
async fn b81_prefer_dual_stack_degrades_and_upgrades_and_require_waits() {
    let rig = Balanced::start().await.unwrap();
    rig.pool("four", &json!({"ranges": ["203.0.113.64-203.0.113.71"]}))
        .await;
    rig.service("prefer", &json!({"spec": {"ipFamilyPolicy": "PreferDualStack"}}))
        .await;
    let message = rig.becomes("prefer", "PartiallyAssigned", &["203.0.113.64"]).await;
    assert!(message.contains("no IPv6 address"), "{message}");
    rig.service("require", &json!({"spec": {"ipFamilyPolicy": "RequireDualStack"}}))
        .await;
    rig.becomes("require", "FamilyUnavailable", &[]).await;
    let one = |status: &serde_json::Value| status["ipv4"]["used"] == 1;
    rig.pool_status("four", one).await;
    rig.pool("six", &json!({"ranges": ["2001:db8::/64"]})).await;
    rig.becomes("prefer", "Assigned", &["203.0.113.64", "2001:db8::1"])
        .await;
    rig.becomes("require", "Assigned", &["203.0.113.65", "2001:db8::2"])
        .await;
    let single = json!({"spec": {"ipFamilyPolicy": "SingleStack"}});
    rig.namespace.patch_service("require", &single).await.unwrap();
    rig.becomes("require", "Assigned", &["203.0.113.65"]).await;
}

/// The status never shows nothing in between.
#[tokio::test]
async fn b76_a_new_wish_is_followed_without_a_gap() {
    let rig = Balanced::start().await.unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.64-203.0.113.67"]}))
        .await;
    rig.pool("sedge", &json!({"ranges": ["203.0.113.80-203.0.113.83"]}))
        .await;
    rig.service("pintail", &json!({})).await;
    rig.becomes("pintail", "Assigned", &["203.0.113.64"]).await;
    let wish = |pool: &str| json!({"metadata": {"annotations": {"svcplane.io/load-balancer-pool": pool}}});
    rig.namespace.patch_service("pintail", &wish("sedge")).await.unwrap();
    rig.becomes("pintail", "Assigned", &["203.0.113.80"]).await;
    let address = json!({"metadata": {"annotations": {"svcplane.io/load-balancer-ips": "203.0.113.64"}}});
    rig.namespace.patch_service("pintail", &address).await.unwrap();
    let message = rig.becomes("pintail", "RequestConflict", &["203.0.113.80"]).await;
    assert!(message.contains("pool \"reed\""), "{message}");
    let unknown = json!({"metadata": {"annotations": {"svcplane.io/load-balancer-pool": "rush", "svcplane.io/load-balancer-ips": null}}});
    rig.namespace.patch_service("pintail", &unknown).await.unwrap();
    rig.becomes("pintail", "PoolUnknown", &["203.0.113.80"]).await;
    rig.at_rest().await;
    let shows_nothing = |record: &svcplane_tests::proxy::Record| {
        let body = record
            .body
            .as_ref()
            .map(|body| String::from_utf8_lossy(body).into_owned());
        body.unwrap_or_default().contains("\"ingress\":null")
    };
    assert!(!rig.writes().iter().any(shows_nothing));
}

#[tokio::test]
async fn pins_of_several_pools_and_what_is_in_their_way() {
    let rig = Balanced::start().await.unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.64-203.0.113.67"]}))
        .await;
    rig.pool("sedge", &json!({"ranges": ["203.0.113.80-203.0.113.83"]}))
        .await;
    let pinned = |addresses: &str| json!({"metadata": {"annotations": {"svcplane.io/load-balancer-ips": addresses}}});
    rig.service("both", &pinned("203.0.113.80, 203.0.113.64")).await;
    rig.becomes("both", "Assigned", &["203.0.113.80", "203.0.113.64"]).await;
    rig.service("late", &pinned("203.0.113.64")).await;
    let message = rig.becomes("late", "AddressTaken", &[]).await;
    assert!(
        message.contains(&format!("{}/both has it", rig.namespace.name())),
        "{message}"
    );
    rig.service("outside", &pinned("192.0.2.1")).await;
    rig.becomes("outside", "NoPool", &[]).await;
    rig.service("six", &pinned("2001:db8::1")).await;
    rig.becomes("six", "FamilyUnavailable", &[]).await;
    rig.delete("both").await;
    rig.becomes("late", "Assigned", &["203.0.113.64"]).await;
}

/// B64: on every path the oldest who waits gets it, and nobody who waits for another one.
#[tokio::test]
async fn b64_a_freed_address_goes_to_the_oldest_who_waits() {
    let rig = Balanced::start().await.unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.64"]})).await;
    rig.service("heron", &json!({})).await;
    rig.becomes("heron", "Assigned", &["203.0.113.64"]).await;
    rig.service("egret", &json!({})).await;
    rig.becomes("egret", "Exhausted", &[]).await;
    // Times of creation are in seconds.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    rig.service("younger", &json!({})).await;
    rig.becomes("younger", "Exhausted", &[]).await;
    rig.delete("heron").await;
    rig.becomes("egret", "Assigned", &["203.0.113.64"]).await;
    rig.namespace
        .patch_service(
            "egret",
            &json!({"spec": {"type": "ClusterIP", "loadBalancerClass": null, "allocateLoadBalancerNodePorts": null}}),
        )
        .await
        .unwrap();
    rig.becomes("younger", "Assigned", &["203.0.113.64"]).await;
    let bare = |service: Option<&Service>| {
        let left = service.ok_or("no Service")?;
        // The apiserver has wiped the address, and svcplane its condition.
        let is_bare = shown(left).is_empty() && condition(left).is_none();
        is_bare.then_some(()).ok_or(format!("{:?}", left.status))
    };
    eventually_one("it is left", SOON, &rig.namespace.services(), "egret", bare)
        .await
        .unwrap();
    let back = json!({"spec": {"type": "LoadBalancer", "loadBalancerClass": "svcplane.io/lb"}});
    rig.namespace.patch_service("egret", &back).await.unwrap();
    rig.becomes("egret", "Exhausted", &[]).await;
    rig.edit_pool("reed", &json!({"ranges": ["203.0.113.64-203.0.113.65"]}))
        .await;
    rig.becomes("egret", "Assigned", &["203.0.113.65"]).await;
    let all: Vec<Service> = rig
        .namespace
        .services()
        .list(&kube::api::ListParams::default())
        .await
        .unwrap()
        .items;
    assert_eq!(all.iter().flat_map(shown).count(), 2);
}
