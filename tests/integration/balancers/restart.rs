//! Restarts, other leaders, and writes whose answer is lost.

use http::Method;
use serde_json::json;
use svcplane_tests::balanced::{Balanced, SOON, at_rest};
use svcplane_tests::proxy::{Action, Match, Refusal, Times};

#[tokio::test]
async fn b63_a_restart_writes_nothing_and_moves_nobody() {
    let mut rig = Balanced::start().await.unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.64"]})).await;
    rig.pool(
        "six",
        &json!({"ranges": ["2001:db8::/64"], "order": "Spread", "autoAssign": false}),
    )
    .await;
    rig.service("heron", &json!({})).await;
    rig.becomes("heron", "Assigned", &["203.0.113.64"]).await;
    // First in every list, older or not.
    rig.service("a-egret", &json!({})).await;
    rig.becomes("a-egret", "Exhausted", &[]).await;
    let asking = json!({"metadata": {"annotations": {"svcplane.io/load-balancer-pool": "six"}}, "spec": {"ipFamilies": ["IPv6"], "ipFamilyPolicy": "SingleStack"}});
    rig.service("spread", &asking).await;
    rig.service("torn", &json!({"spec": {"loadBalancerIP": "198.51.100.1"}}))
        .await;
    rig.becomes("torn", "NoPool", &[]).await;
    rig.at_rest().await;
    for _ in 0..5 {
        rig.restart(async |_| {}).await.unwrap();
        rig.at_rest().await;
        rig.becomes("heron", "Assigned", &["203.0.113.64"]).await;
        rig.becomes("a-egret", "Exhausted", &[]).await;
        assert!(rig.writes().is_empty(), "{:?}", rig.writes().len());
    }
}

/// B73: there is no finalizer, so a Service that goes meanwhile goes at once, and its address is free at the next start.
#[tokio::test]
async fn b73_what_goes_while_nobody_looks_is_free_afterwards() {
    let mut rig = Balanced::start().await.unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.66"]})).await;
    rig.service("smew", &json!({})).await;
    rig.becomes("smew", "Assigned", &["203.0.113.66"]).await;
    let stored = rig.namespace.services().get("smew").await.unwrap();
    assert_eq!(stored.metadata.finalizers, None);
    rig.restart(async |namespace| {
        let services = namespace.services();
        services
            .delete("smew", &kube::api::DeleteParams::default())
            .await
            .unwrap();
    })
    .await
    .unwrap();
    rig.service("heron", &json!({})).await;
    rig.becomes("heron", "Assigned", &["203.0.113.66"]).await;
}

#[tokio::test]
async fn a_new_leader_writes_nothing_and_goes_on() {
    let short = [
        "--leader-elect-lease-duration=3s",
        "--leader-elect-renew-deadline=2s",
        "--leader-elect-retry-period=500ms",
    ];
    let rig = Balanced::start_with(&short).await.unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.64-203.0.113.65"]}))
        .await;
    rig.service("heron", &json!({})).await;
    rig.becomes("heron", "Assigned", &["203.0.113.64"]).await;
    let second = rig.another().await.unwrap();
    rig.svcplane.kill9().await.unwrap();
    second
        .wait_log("loadbalancer-controller is leading", SOON)
        .await
        .unwrap();
    at_rest(&second).await.unwrap();
    let writes = Match::writes("services");
    assert!(second.proxy().writes_of(&writes).is_empty());
    rig.service("egret", &json!({})).await;
    rig.becomes("egret", "Assigned", &["203.0.113.65"]).await;
    rig.becomes("heron", "Assigned", &["203.0.113.64"]).await;
    assert_eq!(second.proxy().writes_of(&writes).len(), 1);
}

/// The write is stored and nobody tells us; or it is refused, or garbled: the same address in the end, and one change.
#[tokio::test]
async fn a_lost_reply_changes_nothing_of_the_decision() {
    let rig = Balanced::start().await.unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.64-203.0.113.79"]}))
        .await;
    let faults = [
        Action::LoseReply,
        Action::CutReply,
        Action::GarbleReply,
        Action::ResetBefore,
        Action::Refuse(Refusal::conflict()),
    ];
    for (number, fault) in faults.into_iter().enumerate() {
        let (name, address) = (format!("s{number}"), format!("203.0.113.{}", 64 + number));
        let write = Match::writes("services").method(Method::PATCH).name(&name);
        let rule = rig.svcplane.proxy().rule(write.clone(), fault, Times::First(1));
        rig.service(&name, &json!({})).await;
        rule.wait_hits(1, SOON).await.unwrap();
        rig.becomes(&name, "Assigned", &[&address]).await;
        rig.at_rest().await;
        assert_eq!(rig.svcplane.proxy().writes_that_changed(&write).len(), 1, "{name}");
    }
}

#[tokio::test]
async fn a_service_deleted_in_the_middle_of_a_write_leaves_nothing_behind() {
    let rig = Balanced::start().await.unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.64"]})).await;
    let write = Match::writes("services").method(Method::PATCH).name("heron");
    let rule = rig.svcplane.proxy().rule(write, Action::Hold, Times::First(1));
    rig.service("heron", &json!({})).await;
    rule.wait_hits(1, SOON).await.unwrap();
    rig.delete("heron").await;
    rule.remove();
    rig.service("egret", &json!({})).await;
    rig.becomes("egret", "Assigned", &["203.0.113.64"]).await;
}
