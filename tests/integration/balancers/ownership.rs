//! Whose a Service and its status are.

use std::time::Duration;

use serde_json::{Value, json};
use svcplane_tests::balanced::{Balanced, SOON, condition, shown};
use svcplane_tests::eventually::{eventually_one, never_changes};

/// B70: not a write, not an Event, not a count.
#[tokio::test]
async fn b70_a_foreign_class_and_no_class_get_not_a_single_write() {
    let rig = Balanced::start().await.unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.64-203.0.113.71"]}))
        .await;
    rig.service("foreign", &json!({"spec": {"loadBalancerClass": "other.example/lb"}}))
        .await;
    rig.service("classless", &json!({"spec": {"loadBalancerClass": null}}))
        .await;
    rig.service("ours", &json!({})).await;
    rig.becomes("ours", "Assigned", &["203.0.113.64"]).await;
    rig.at_rest().await;
    let services = rig.namespace.services();
    for name in ["foreign", "classless"] {
        let untouched = format!("metadata.name={name}");
        never_changes("not ours", Duration::from_millis(300), &services, &untouched)
            .await
            .unwrap();
        let stored = services.get(name).await.unwrap();
        assert!(shown(&stored).is_empty() && condition(&stored).is_none());
    }
    assert_eq!(rig.writes().len(), 1);
}

#[tokio::test]
async fn b70_services_without_a_class_are_served_by_default_only_if_that_is_meant() {
    let rig = Balanced::start_with(&["--load-balancer-default"]).await.unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.64-203.0.113.71"]}))
        .await;
    rig.service("foreign", &json!({"spec": {"loadBalancerClass": "other.example/lb"}}))
        .await;
    rig.service("classless", &json!({"spec": {"loadBalancerClass": null}}))
        .await;
    rig.becomes("classless", "Assigned", &["203.0.113.64"]).await;
    assert!(shown(&rig.namespace.services().get("foreign").await.unwrap()).is_empty());
}

/// Other writers' conditions stay byte for byte.
#[tokio::test]
async fn conditions_of_others_are_kept() {
    let rig = Balanced::start().await.unwrap();
    let foreign = json!({"type": "example.org/Ready", "status": "True", "reason": "Because", "message": "of it",
        "lastTransitionTime": "2026-01-02T03:04:05Z", "observedGeneration": 7});
    rig.service("heron", &json!({})).await;
    rig.becomes("heron", "NoPool", &[]).await;
    let ours = rig.namespace.services().get("heron").await.unwrap();
    let ours = serde_json::to_value(condition(&ours)).unwrap();
    rig.patch_status("heron", "example", &json!({"conditions": [ours, foreign]}))
        .await;
    rig.pool("reed", &json!({"ranges": ["203.0.113.64"]})).await;
    rig.becomes("heron", "Assigned", &["203.0.113.64"]).await;
    let stored = rig.namespace.services().get("heron").await.unwrap();
    let conditions = serde_json::to_value(stored.status.unwrap().conditions).unwrap();
    assert!(conditions.as_array().unwrap().contains(&foreign), "{conditions}");
}

/// DESIGN 1: restored once; when the same manager does it again, it is left alone, and that is said.
#[tokio::test]
async fn a_second_writer_is_answered_once_and_then_left_alone() {
    let rig = Balanced::start().await.unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.64-203.0.113.65"]}))
        .await;
    rig.service("heron", &json!({})).await;
    rig.becomes("heron", "Assigned", &["203.0.113.64"]).await;
    rig.at_rest().await;
    let theirs = json!({"loadBalancer": {"ingress": [{"ip": "198.51.100.9"}]}});
    rig.patch_status("heron", "rival", &theirs).await;
    rig.becomes("heron", "Assigned", &["203.0.113.64"]).await;
    rig.at_rest().await;
    rig.patch_status("heron", "rival", &theirs).await;
    let message = rig.becomes("heron", "Contended", &["198.51.100.9"]).await;
    assert!(
        message.contains("rival") && message.contains("203.0.113.64"),
        "{message}"
    );
    let writes = rig.writes().len();
    let other = json!({"loadBalancer": {"ingress": [{"ip": "198.51.100.10"}]}});
    rig.patch_status("heron", "rival", &other).await;
    let services = rig.namespace.services();
    never_changes("a fight", Duration::from_millis(500), &services, "metadata.name=heron")
        .await
        .unwrap();
    assert_eq!(rig.writes().len(), writes);
    rig.svcplane
        .wait_metric("svcplane_loadbalancer_contended", &[], SOON, |it| it > 0.5)
        .await
        .unwrap();
    // Nobody else gets the address meanwhile.
    rig.service("egret", &json!({})).await;
    rig.becomes("egret", "Assigned", &["203.0.113.65"]).await;
}

#[tokio::test]
async fn a_status_that_somebody_wipes_is_restored() {
    let rig = Balanced::start().await.unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.64-203.0.113.65"]}))
        .await;
    rig.service("heron", &json!({})).await;
    rig.becomes("heron", "Assigned", &["203.0.113.64"]).await;
    rig.at_rest().await;
    rig.patch_status(
        "heron",
        "kubectl-edit",
        &json!({"loadBalancer": null, "conditions": null}),
    )
    .await;
    rig.becomes("heron", "Assigned", &["203.0.113.64"]).await;
}

/// kube-vip writes the same address again, with ports: nothing to answer.
#[tokio::test]
async fn the_same_address_in_somebody_elses_form_is_no_fight() {
    let rig = Balanced::start().await.unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.64-203.0.113.65"]}))
        .await;
    rig.service("heron", &json!({})).await;
    rig.becomes("heron", "Assigned", &["203.0.113.64"]).await;
    rig.at_rest().await;
    let before = rig.writes().len();
    let theirs =
        json!({"loadBalancer": {"ingress": [{"ip": "203.0.113.64", "ports": [{"port": 80, "protocol": "TCP"}]}]}});
    for _ in 0..3 {
        rig.patch_status("heron", "kube-vip", &theirs).await;
    }
    rig.namespace
        .patch_service("heron", &json!({"metadata": {"labels": {"touched": "yes"}}}))
        .await
        .unwrap();
    rig.at_rest().await;
    let touched = |service: Option<&k8s_openapi::api::core::v1::Service>| {
        let text: Value = serde_json::to_value(service).unwrap();
        let ports = &text["status"]["loadBalancer"]["ingress"][0]["ports"];
        ports.is_array().then_some(()).ok_or(text.to_string())
    };
    eventually_one("kube-vip's ports", SOON, &rig.namespace.services(), "heron", touched)
        .await
        .unwrap();
    assert_eq!(rig.writes().len(), before);
}

#[tokio::test]
async fn a_service_that_is_being_deleted_keeps_its_address_until_it_is_gone() {
    let rig = Balanced::start().await.unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.64"]})).await;
    rig.service("heron", &json!({"metadata": {"finalizers": ["example.org/wait"]}}))
        .await;
    rig.becomes("heron", "Assigned", &["203.0.113.64"]).await;
    rig.service("egret", &json!({})).await;
    rig.becomes("egret", "Exhausted", &[]).await;
    let services = rig.namespace.services();
    services
        .delete("heron", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    rig.at_rest().await;
    never_changes(
        "it is not gone yet",
        Duration::from_millis(300),
        &services,
        "metadata.name=egret",
    )
    .await
    .unwrap();
    rig.namespace
        .patch_service("heron", &json!({"metadata": {"finalizers": null}}))
        .await
        .unwrap();
    rig.becomes("egret", "Assigned", &["203.0.113.64"]).await;
}
