//! Pools that are made, edited, deleted and made again while they are in use.

use serde_json::{Value, json};
use svcplane_tests::balanced::Balanced;

#[tokio::test]
async fn b66_an_edit_writes_only_to_those_whom_it_concerns() {
    let rig = Balanced::start().await.unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.64-203.0.113.71"]}))
        .await;
    for (name, address) in [("a", "203.0.113.64"), ("b", "203.0.113.66"), ("c", "203.0.113.70")] {
        rig.service(name, &json!({"spec": {"loadBalancerIP": address}})).await;
        rig.becomes(name, "Assigned", &[address]).await;
    }
    rig.at_rest().await;
    let before = rig.writes().len();
    let total = |count: u64| move |status: &Value| status["ipv4"]["total"] == count;
    rig.edit_pool("reed", &json!({"ranges": ["203.0.113.62-203.0.113.71"]}))
        .await;
    rig.pool_status("reed", total(10)).await;
    rig.edit_pool(
        "reed",
        &json!({"ranges": ["203.0.113.64-203.0.113.66", "203.0.113.70-203.0.113.71"]}),
    )
    .await;
    rig.pool_status("reed", total(5)).await;
    rig.at_rest().await;
    assert_eq!(rig.writes().len(), before, "they are all covered still");
    rig.edit_pool("reed", &json!({"ranges": ["203.0.113.65-203.0.113.71"]}))
        .await;
    let message = rig.becomes("a", "Retained", &["203.0.113.64"]).await;
    assert!(
        message.contains("203.0.113.64") && message.contains("no pool"),
        "{message}"
    );
    rig.at_rest().await;
    assert_eq!(rig.writes().len(), before + 1);
}

#[tokio::test]
async fn b67_a_pool_that_is_deleted_gives_nothing_and_takes_nothing_away() {
    let rig = Balanced::start().await.unwrap();
    let spec = json!({"ranges": ["203.0.113.64-203.0.113.65"]});
    rig.pool("reed", &spec).await;
    rig.service("osprey", &json!({})).await;
    rig.becomes("osprey", "Assigned", &["203.0.113.64"]).await;
    rig.delete_pool("reed").await;
    rig.becomes("osprey", "Retained", &["203.0.113.64"]).await;
    rig.service("kite", &json!({})).await;
    rig.becomes("kite", "NoPool", &[]).await;
    rig.delete("osprey").await;
    rig.service("osprey", &json!({})).await;
    rig.becomes("osprey", "NoPool", &[]).await;
    rig.pool("reed", &spec).await;
    rig.pool_status("reed", |status| status["ipv4"]["used"] == 2).await;
    let (kite, osprey) = (
        rig.namespace.services().get("kite").await.unwrap(),
        rig.namespace.services().get("osprey").await.unwrap(),
    );
    let shown = [&kite, &osprey].map(svcplane_tests::balanced::shown);
    assert_ne!(shown[0], shown[1]);
}

#[tokio::test]
async fn with_reassign_users_move_and_a_renamed_pool_moves_nobody() {
    let rig = Balanced::start().await.unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.64"], "onRemoval": "Reassign"}))
        .await;
    rig.service("heron", &json!({})).await;
    rig.becomes("heron", "Assigned", &["203.0.113.64"]).await;
    rig.edit_pool("reed", &json!({"ranges": ["203.0.113.70"]})).await;
    rig.becomes("heron", "Assigned", &["203.0.113.70"]).await;
    rig.pool("rush", &json!({"ranges": ["203.0.113.70"]})).await;
    rig.pool_status("rush", |status| {
        status["conditions"].to_string().contains("\"Overlap\"")
    })
    .await;
    let before = rig.writes().len();
    rig.delete_pool("reed").await;
    rig.pool_status("rush", |status| status["ipv4"]["used"] == 1).await;
    rig.becomes("heron", "Assigned", &["203.0.113.70"]).await;
    rig.at_rest().await;
    assert_eq!(rig.writes().len(), before);
}

/// B78: the older pool has what two name, a pool with errors is as if it were not there, and the same one again changes nothing.
#[tokio::test]
async fn b78_no_address_has_two_owners_whatever_pools_say() {
    let rig = Balanced::start().await.unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.69-203.0.113.70"]}))
        .await;
    rig.pool("sedge", &json!({"ranges": ["203.0.113.70-203.0.113.71"]}))
        .await;
    rig.pool("wrong", &json!({"ranges": ["203.0.113.79-203.0.113.72"]}))
        .await;
    for (name, address) in [("a", "203.0.113.69"), ("b", "203.0.113.70"), ("c", "203.0.113.71")] {
        rig.service(name, &json!({})).await;
        rig.becomes(name, "Assigned", &[address]).await;
    }
    rig.service("d", &json!({})).await;
    rig.becomes("d", "Exhausted", &[]).await;
    let status = rig.pool_status("sedge", |status| status["ipv4"]["used"] == 1).await;
    assert_eq!(
        status["ipv4"],
        json!({"total": 1, "used": 1, "reserved": 0, "available": 0})
    );
    let conditions = status["conditions"].as_array().unwrap();
    let holds: Vec<String> = conditions
        .iter()
        .map(|it| format!("{}={}", it["type"].as_str().unwrap(), it["status"].as_str().unwrap()))
        .collect();
    assert_eq!(
        holds,
        [
            "Ready=True",
            "Conflict=True",
            "Exhausted=True",
            "Retaining=False",
            "OverlapsNodes=False"
        ]
    );
}

/// No webhook refuses it here, and the schema does not see what is wrong.
#[tokio::test]
async fn a_pool_that_cannot_be_used_says_so_and_is_as_if_it_were_not_there() {
    let rig = Balanced::start().await.unwrap();
    let (wrong, right) = (
        json!({"ranges": ["203.0.113.71-203.0.113.64"]}),
        json!({"ranges": ["203.0.113.64-203.0.113.71"]}),
    );
    let is_invalid = |status: &Value| {
        let conditions = status["conditions"].as_array();
        let [ready] = conditions.map(Vec::as_slice).unwrap_or_default() else {
            return false;
        };
        let message = ready["message"].as_str().unwrap();
        ready["type"] == "Ready"
            && ready["status"] == "False"
            && ready["reason"] == "Invalid"
            && message.contains("spec.ranges[0]")
            && status["ipv4"].is_null()
    };
    rig.pool("reed", &wrong).await;
    rig.pool_status("reed", is_invalid).await;
    rig.service("kite", &json!({})).await;
    rig.becomes("kite", "NoPool", &[]).await;
    rig.edit_pool("reed", &right).await;
    rig.becomes("kite", "Assigned", &["203.0.113.64"]).await;
    rig.edit_pool("reed", &wrong).await;
    rig.becomes("kite", "Retained", &["203.0.113.64"]).await;
    rig.pool_status("reed", is_invalid).await;
    rig.edit_pool("reed", &right).await;
    rig.becomes("kite", "Assigned", &["203.0.113.64"]).await;
    rig.pool_status("reed", |status| status["ipv4"]["used"] == 1).await;
}

#[tokio::test]
async fn pools_serve_by_selector_class_mode_fence_and_reservation() {
    let rig = Balanced::start_with(&["--load-balancer-class=svcplane.io/lb,example.org/lb"])
        .await
        .unwrap();
    let namespace = rig.namespace.name();
    rig.pool("labelled", &json!({"ranges": ["203.0.113.10"], "priority": -1, "selector": {"serviceSelector": {"matchLabels": {"tier": "front"}}}})).await;
    rig.pool(
        "classed",
        &json!({"ranges": ["203.0.113.20"], "priority": -1, "classes": ["example.org/lb"]}),
    )
    .await;
    rig.pool(
        "nobody",
        &json!({"ranges": ["203.0.113.30"], "priority": -2, "selector": {"namespaces": []}}),
    )
    .await;
    rig.pool(
        "drained",
        &json!({"ranges": ["203.0.113.40"], "priority": -2, "mode": "Drain"}),
    )
    .await;
    let kept = [json!({"value": "203.0.113.51", "service": format!("{namespace}/kept")})];
    rig.pool(
        "open",
        &json!({"ranges": ["203.0.113.50-203.0.113.52"], "excluded": ["203.0.113.50"], "reservations": kept}),
    )
    .await;
    rig.pool("quiet", &json!({"ranges": ["203.0.113.60"], "autoAssign": false}))
        .await;
    rig.service("plain", &json!({})).await;
    rig.becomes("plain", "Assigned", &["203.0.113.52"]).await;
    rig.service("front", &json!({"metadata": {"labels": {"tier": "front"}}}))
        .await;
    rig.becomes("front", "Assigned", &["203.0.113.10"]).await;
    rig.service("classed", &json!({"spec": {"loadBalancerClass": "example.org/lb"}}))
        .await;
    rig.becomes("classed", "Assigned", &["203.0.113.20"]).await;
    rig.service("more", &json!({})).await;
    let message = rig.becomes("more", "Exhausted", &[]).await;
    for words in [
        "pool \"nobody\" does not select this Service",
        "pool \"drained\" is being drained",
        "pool \"open\" has no free value",
        "pool \"quiet\" gives values on request only",
    ] {
        assert!(message.contains(words), "{words}: {message}");
    }
    rig.service("kept", &json!({})).await;
    rig.becomes("kept", "Assigned", &["203.0.113.51"]).await;
    rig.service(
        "asking",
        &json!({"metadata": {"annotations": {"svcplane.io/load-balancer-pool": "quiet"}}}),
    )
    .await;
    rig.becomes("asking", "Assigned", &["203.0.113.60"]).await;
    rig.pool("fence", &json!({"ranges": ["203.0.113.80"], "enforce": true, "selector": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}})).await;
    rig.becomes("more", "Assigned", &["203.0.113.80"]).await;
}

#[tokio::test]
async fn order_ip_mode_and_rest_are_the_pools() {
    let rig = Balanced::start().await.unwrap();
    rig.pool(
        "reed",
        &json!({"ranges": ["203.0.113.64-203.0.113.65"], "order": "Highest", "ipMode": "Proxy", "reuseDelay": "1h"}),
    )
    .await;
    rig.service("heron", &json!({})).await;
    rig.becomes("heron", "Assigned", &["203.0.113.65"]).await;
    let stored = rig.namespace.services().get("heron").await.unwrap();
    let status = serde_json::to_value(stored.status).unwrap();
    assert_eq!(
        status["loadBalancer"]["ingress"],
        json!([{"ip": "203.0.113.65", "ipMode": "Proxy"}])
    );
    rig.delete("heron").await;
    rig.service("egret", &json!({})).await;
    rig.becomes("egret", "Assigned", &["203.0.113.64"]).await;
    rig.service("late", &json!({})).await;
    rig.becomes("late", "Exhausted", &[]).await;
    rig.service("heron", &json!({})).await;
    rig.becomes("heron", "Assigned", &["203.0.113.65"]).await;
    rig.edit_pool("reed", &json!({"ipMode": "VIP"})).await;
    let is_plain = |service: Option<&k8s_openapi::api::core::v1::Service>| {
        let text = serde_json::to_string(&service.and_then(|it| it.status.as_ref())).unwrap();
        text.contains("\"ipMode\":\"VIP\"").then_some(()).ok_or(text)
    };
    svcplane_tests::eventually::eventually_one(
        "VIP",
        svcplane_tests::balanced::SOON,
        &rig.namespace.services(),
        "heron",
        is_plain,
    )
    .await
    .unwrap();
}

/// With the webhook: overlap, and an edit or a deletion that strands users.
#[tokio::test]
async fn pools_that_take_from_others_are_refused_at_admission() {
    let credentials = svcplane_tests::admission::Credentials::make().unwrap();
    let rig = Balanced::start_with_webhook(&credentials).await.unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.64-203.0.113.65"]}))
        .await;
    rig.service("heron", &json!({})).await;
    rig.becomes("heron", "Assigned", &["203.0.113.64"]).await;
    let sedge = json!({"apiVersion": "svcplane.io/v1alpha1", "kind": "LoadBalancerPool", "metadata": {"name": "sedge"}, "spec": {"ranges": ["203.0.113.65"]}});
    let pools = "/apis/svcplane.io/v1alpha1/loadbalancerpools";
    let said = rig.send("POST", pools, Some(&sedge)).await;
    assert_eq!(
        (said.code.as_u16(), said.fields()),
        (422, vec!["spec.ranges"]),
        "{}",
        said.message()
    );
    assert!(said.message().contains("\"reed\""), "{}", said.message());
    let shrink = json!({"spec": {"ranges": ["203.0.113.65"]}});
    let said = rig.send("PATCH", &format!("{pools}/reed"), Some(&shrink)).await;
    assert!(
        said.message()
            .contains(&format!("Service {}/heron has", rig.namespace.name())),
        "{}",
        said.message()
    );
    // Whoever it is not for any more keeps what he has, and that is told.
    for edit in [
        json!({"mode": "Disabled"}),
        json!({"selector": {"namespaces": ["other"]}}),
        json!({"classes": ["other.io/lb"]}),
    ] {
        let edit = json!({"spec": edit});
        let said = rig
            .send("PATCH", &format!("{pools}/reed?dryRun=All"), Some(&edit))
            .await;
        let heron = format!("Service {}/heron, which has 203.0.113.64", rig.namespace.name());
        assert!(
            said.warnings.len() == 1 && said.warnings[0].contains(&heron),
            "{edit}: {:?}",
            said.warnings
        );
        said.accepted().unwrap();
    }
    let wider = json!({"spec": {"selector": {"namespaces": [rig.namespace.name(), "other"]}}});
    let said = rig
        .send("PATCH", &format!("{pools}/reed?dryRun=All"), Some(&wider))
        .await;
    assert!(said.warnings.is_empty(), "{:?}", said.warnings);
    // A fence around others' users is told of, too; its own edit is not, when it stands already.
    let fence = |namespace: &str| {
        json!({"apiVersion": "svcplane.io/v1alpha1", "kind": "LoadBalancerPool", "metadata": {"name": "fence"}, "spec":
            {"ranges": ["203.0.113.80"], "enforce": true, "selector": {"namespaces": [namespace]}}})
    };
    let try_out = format!("{pools}?dryRun=All");
    let said = rig.send("POST", &try_out, Some(&fence("other"))).await;
    assert!(said.warnings.is_empty(), "{:?}", said.warnings);
    let around = fence(rig.namespace.name());
    let said = rig.send("POST", pools, Some(&around)).await;
    let told = format!(
        "spec.enforce: other pools are no longer for Service {}/heron, which has 203.0.113.64: ",
        rig.namespace.name()
    );
    assert!(
        said.warnings.len() == 1 && said.warnings[0].starts_with(&told),
        "{:?}",
        said.warnings
    );
    rig.becomes("heron", "Retained", &["203.0.113.64"]).await;
    let wider = json!({"spec": {"ranges": ["203.0.113.80-203.0.113.81"]}});
    let said = rig.send("PATCH", &format!("{pools}/fence"), Some(&wider)).await;
    assert!(said.warnings.is_empty(), "{:?}", said.warnings);
    rig.delete_pool("fence").await;
    rig.becomes("heron", "Assigned", &["203.0.113.64"]).await;
    let said = rig.send("DELETE", &format!("{pools}/reed"), None).await;
    assert!(
        said.message().contains("svcplane.io/allow-stranding"),
        "{}",
        said.message()
    );
    let meant = json!({"metadata": {"annotations": {"svcplane.io/allow-stranding": "true"}}});
    rig.send("PATCH", &format!("{pools}/reed"), Some(&meant))
        .await
        .accepted()
        .unwrap();
    rig.delete_pool("reed").await;
    rig.becomes("heron", "Retained", &["203.0.113.64"]).await;
    let configuration = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/zz-svcplane";
    rig.send("DELETE", configuration, None).await.accepted().unwrap();
    rig.send("DELETE", &configuration.replace("validating", "mutating"), None)
        .await
        .accepted()
        .unwrap();
}
