//! Restarts, other leaders, and writes whose answer is lost.

use http::Method;
use serde_json::json;
use svcplane_tests::balanced::{Balanced, SOON, at_rest};
use svcplane_tests::proxy::{Action, Match, Record, Refusal, Times};
use svcplane_tests::svcplane::Replica;

const SHORT_LEASE: [&str; 3] = [
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=500ms",
];

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
    let rig = Balanced::start_with(&SHORT_LEASE).await.unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.64-203.0.113.65"]}))
        .await;
    rig.service("heron", &json!({})).await;
    rig.becomes("heron", "Assigned", &["203.0.113.64"]).await;
    let second = rig.another().await.unwrap();
    hand_over(&rig, &second).await;
    let writes = Match::writes("services");
    assert!(second.proxy().writes_of(&writes).is_empty());
    rig.service("egret", &json!({})).await;
    rig.becomes("egret", "Assigned", &["203.0.113.65"]).await;
    rig.becomes("heron", "Assigned", &["203.0.113.64"]).await;
    assert_eq!(second.proxy().writes_of(&writes).len(), 1);
}

/// What watches tell while a new leader lists is in no list, and no watch tells it again.
#[tokio::test]
async fn what_changes_while_a_new_leader_lists_is_not_lost() {
    let rig = Balanced::start_with(&SHORT_LEASE).await.unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.64-203.0.113.65"]}))
        .await;
    for (name, address) in [("heron", "203.0.113.64"), ("gone", "203.0.113.65")] {
        rig.service(name, &json!({})).await;
        rig.becomes(name, "Assigned", &[address]).await;
    }
    let second = rig.another().await.unwrap();
    let told = async |least: f64| {
        let labels = [("resource", "loadbalancer-services")];
        let told = second.wait_metric("svcplane_watch_events_total", &labels, SOON, |it| it >= least);
        told.await.unwrap()
    };
    let before = told(2.0).await;
    let lists = Match::lists("services");
    let held = second.proxy().rule(lists.clone(), Action::HoldReply, Times::Always);
    rig.svcplane.kill9().await.unwrap();
    let answered = |all: &[Record]| all.iter().any(|it| it.status.is_some());
    second.proxy().wait_requests(&lists, SOON, answered).await.unwrap();
    rig.service("egret", &json!({})).await;
    rig.delete("gone").await;
    told(before + 2.0).await;
    held.remove();
    rig.becomes("egret", "Assigned", &["203.0.113.65"]).await;
    rig.becomes("heron", "Assigned", &["203.0.113.64"]).await;
}

/// Dies, and the other one leads.
async fn hand_over(rig: &Balanced, second: &Replica) {
    rig.svcplane.kill9().await.unwrap();
    second
        .wait_log("loadbalancer-controller is leading", SOON)
        .await
        .unwrap();
    at_rest(second).await.unwrap();
}

/// DESIGN 1: a fight is left alone by the next process, too, and the Service's own address stays its own.
#[tokio::test]
async fn a_restart_takes_up_no_fight_and_adopts_nothing_of_the_rivals() {
    let mut rig = Balanced::start().await.unwrap();
    rig.pool("reed", &json!({"ranges": ["203.0.113.64-203.0.113.66"]}))
        .await;
    // The lowest address is free later: who had another one keeps that.
    rig.service("first", &json!({})).await;
    rig.becomes("first", "Assigned", &["203.0.113.64"]).await;
    rig.service("heron", &json!({})).await;
    rig.becomes("heron", "Assigned", &["203.0.113.65"]).await;
    rig.delete("first").await;
    rig.at_rest().await;
    let theirs = json!({"loadBalancer": {"ingress": [{"ip": "198.51.100.9"}]}});
    rig.patch_status("heron", "rival", &theirs).await;
    rig.becomes("heron", "Assigned", &["203.0.113.65"]).await;
    rig.at_rest().await;
    rig.patch_status("heron", "rival", &theirs).await;
    let told = rig.becomes("heron", "Contended", &["198.51.100.9"]).await;
    for _ in 0..2 {
        rig.restart(async |_| {}).await.unwrap();
        rig.svcplane
            .wait_metric("svcplane_loadbalancer_contended", &[], SOON, |it| it > 0.5)
            .await
            .unwrap();
        let queue = [("name", "loadbalancer")];
        rig.svcplane
            .wait_metric("workqueue_depth", &queue, SOON, |it| it < 0.5)
            .await
            .unwrap();
        assert_eq!(rig.becomes("heron", "Contended", &["198.51.100.9"]).await, told);
        assert!(rig.writes().is_empty(), "{:?}", rig.writes());
    }
    for (name, address) in [("egret", "203.0.113.64"), ("ibis", "203.0.113.66")] {
        rig.service(name, &json!({})).await;
        rig.becomes(name, "Assigned", &[address]).await;
    }
    // The rival gives in.
    let ours = json!({"loadBalancer": {"ingress": [{"ip": "203.0.113.65", "ipMode": "VIP"}]}});
    rig.patch_status("heron", "rival", &ours).await;
    rig.becomes("heron", "Assigned", &["203.0.113.65"]).await;
}

/// What a standby has seen on its watches it knows when it leads.
#[tokio::test]
async fn a_rest_goes_on_under_the_next_leader() {
    let rig = Balanced::start_with(&SHORT_LEASE).await.unwrap();
    let spec = json!({"ranges": ["203.0.113.64-203.0.113.65"], "reuseDelay": "10m"});
    rig.pool("reed", &spec).await;
    rig.service("heron", &json!({})).await;
    rig.becomes("heron", "Assigned", &["203.0.113.64"]).await;
    let second = rig.another().await.unwrap();
    let state = |state| [("pool", "reed"), ("family", "IPv4"), ("state", state)];
    let gauge = "svcplane_loadbalancer_pool_addresses";
    second
        .wait_metric(gauge, &state("held"), SOON, |it| it > 0.5)
        .await
        .unwrap();
    rig.delete("heron").await;
    second
        .wait_metric(gauge, &state("quarantined"), SOON, |it| it > 0.5)
        .await
        .unwrap();
    hand_over(&rig, &second).await;
    rig.service("egret", &json!({})).await;
    rig.becomes("egret", "Assigned", &["203.0.113.65"]).await;
    rig.service("ibis", &json!({})).await;
    rig.becomes("ibis", "Exhausted", &[]).await;
    rig.service("heron", &json!({})).await;
    rig.becomes("heron", "Assigned", &["203.0.113.64"]).await;
}

#[tokio::test]
async fn what_a_deleted_pool_said_of_its_users_holds_under_the_next_leader() {
    let rig = Balanced::start_with(&SHORT_LEASE).await.unwrap();
    let spec = json!({"ranges": ["203.0.113.64"], "onRemoval": "Reassign"});
    rig.pool("reed", &spec).await;
    rig.service("heron", &json!({})).await;
    rig.becomes("heron", "Assigned", &["203.0.113.64"]).await;
    let second = rig.another().await.unwrap();
    let gauge = "svcplane_loadbalancer_pool_addresses";
    let held = [("pool", "reed"), ("family", "IPv4"), ("state", "held")];
    second.wait_metric(gauge, &held, SOON, |it| it > 0.5).await.unwrap();
    // The leader dies with the write in its hand.
    let write = Match::writes("services").method(Method::PATCH).name("heron");
    let rule = rig.svcplane.proxy().rule(write, Action::Hold, Times::First(1));
    rig.delete_pool("reed").await;
    rule.wait_hits(1, SOON).await.unwrap();
    second.wait_metric(gauge, &held, SOON, |it| it < 0.5).await.unwrap();
    hand_over(&rig, &second).await;
    rig.becomes("heron", "NoPool", &[]).await;
    rig.pool("sedge", &json!({"ranges": ["203.0.113.80"]})).await;
    rig.becomes("heron", "Assigned", &["203.0.113.80"]).await;
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
