//! Endpoints that somebody else changes or deletes are put back, without a Service or Pod event, and without a fight.
//! (The reference notices deletions alone; an edit stays until something else happens.)

use std::time::Duration;

use k8s_openapi::api::core::v1::Endpoints;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use svcplane_tests::eventually::eventually_one;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{endpoints, pod, service};
use svcplane_tests::subsets::lines;
use tokio::time::{Instant, timeout};

const DEADLINE: Duration = Duration::from_secs(30);
const RIGHT: &str = "10.1.0.1 10.1.0.2 -> http:8080/TCP";

async fn one_service() -> TestNamespace {
    let namespace = TestNamespace::served().await.unwrap();
    for number in 1..=2 {
        let one = pod(&format!("p{number}"))
            .label("app", "web")
            .ip(&format!("10.1.0.{number}"));
        one.create(&namespace).await.unwrap();
    }
    let plover = service("plover")
        .selector("app", "web")
        .port("http", 80, 8080)
        .label("a", "1");
    plover.create(&namespace).await.unwrap();
    namespace.endpoints_become("plover", &[RIGHT]).await.unwrap();
    namespace
}

async fn edit(namespace: &TestNamespace, patch: &Value) -> Endpoints {
    let (api, params) = (namespace.endpoints(), PatchParams::default());
    api.patch("plover", &params, &Patch::Merge(patch)).await.unwrap()
}

#[tokio::test]
async fn deleted_endpoints_come_back() {
    let namespace = one_service().await;
    let before = namespace.endpoints().get("plover").await.unwrap();
    namespace
        .endpoints()
        .delete("plover", &DeleteParams::default())
        .await
        .unwrap();
    let after = namespace.endpoints_become("plover", &[RIGHT]).await.unwrap();
    assert_ne!(after.uid(), before.uid());
    assert_eq!(after.labels(), before.labels());
}

#[tokio::test]
async fn a_collection_that_is_deleted_comes_back() {
    let namespace = one_service().await;
    for number in 0..10 {
        let more = service(&format!("more-{number}"))
            .selector("app", "web")
            .port("http", 80, 8080);
        more.create(&namespace).await.unwrap();
        namespace
            .endpoints_become(&format!("more-{number}"), &[RIGHT])
            .await
            .unwrap();
    }
    let (all, one_by_one) = (kube::api::ListParams::default(), DeleteParams::default());
    namespace
        .endpoints()
        .delete_collection(&one_by_one, &all)
        .await
        .unwrap();
    for number in 0..10 {
        namespace
            .endpoints_become(&format!("more-{number}"), &[RIGHT])
            .await
            .unwrap();
    }
    namespace.endpoints_become("plover", &[RIGHT]).await.unwrap();
}

#[tokio::test]
async fn edits_are_put_right() {
    let namespace = one_service().await;
    let right = namespace.endpoints().get("plover").await.unwrap();
    let mut moved = serde_json::to_value(&right.subsets).unwrap();
    moved[0]["addresses"][0]["ip"] = json!("192.0.2.99");
    let mut not_ready = serde_json::to_value(&right.subsets).unwrap();
    not_ready[0]["notReadyAddresses"] = not_ready[0]["addresses"].take();
    let mut hostname = serde_json::to_value(&right.subsets).unwrap();
    hostname[0]["addresses"][1]["hostname"] = json!("mine");
    let mut other_pod = serde_json::to_value(&right.subsets).unwrap();
    other_pod[0]["addresses"][1]["targetRef"]["uid"] = json!("7d4c3a0e-0f6e-4d53-9f0a-2a1b3c4d5e6f");
    let mut more = serde_json::to_value(&right.subsets).unwrap();
    more.as_array_mut()
        .unwrap()
        .push(json!({ "addresses": [{ "ip": "192.0.2.1" }], "ports": [{ "port": 1 }] }));
    let mut app_protocol = serde_json::to_value(&right.subsets).unwrap();
    app_protocol[0]["ports"][0]["appProtocol"] = json!("https");
    let edits = [
        ("an address", json!({ "subsets": moved })),
        ("readiness", json!({ "subsets": not_ready })),
        ("a hostname", json!({ "subsets": hostname })),
        ("a Pod", json!({ "subsets": other_pod })),
        ("a subset more", json!({ "subsets": more })),
        ("appProtocol", json!({ "subsets": app_protocol })),
        ("nothing left", json!({ "subsets": null })),
        ("a label more", json!({ "metadata": { "labels": { "x": "y" } } })),
        ("a label less", json!({ "metadata": { "labels": { "a": null } } })),
        (
            "capacity",
            json!({ "metadata": { "annotations": { "endpoints.kubernetes.io/over-capacity": "truncated" } } }),
        ),
    ];
    for (what, patch) in edits {
        // Another Service each time: an object that is changed again and again is put right less and less eagerly.
        let name = format!("plover-{}", what.replace(' ', "-").to_lowercase());
        let builder = service(&name)
            .selector("app", "web")
            .port("http", 80, 8080)
            .label("a", "1");
        builder.create(&namespace).await.unwrap();
        namespace.endpoints_become(&name, &[RIGHT]).await.unwrap();
        let (api, params) = (namespace.endpoints(), PatchParams::default());
        let edited = api.patch(&name, &params, &Patch::Merge(&patch)).await.unwrap();
        eventually_one(what, DEADLINE, &api, &name, |found| {
            let Some(found) = found else { return Err("gone".into()) };
            let marked = found
                .annotations()
                .contains_key("endpoints.kubernetes.io/over-capacity");
            let healed = found.subsets == right.subsets && found.labels() == right.labels() && !marked;
            (healed && found.uid() == edited.uid())
                .then_some(())
                .ok_or_else(|| "not yet".to_owned())
        })
        .await
        .unwrap();
    }
}

/// What differs in form alone is left as it is.
#[tokio::test]
async fn an_edit_that_changes_nothing_is_not_touched() {
    let namespace = one_service().await;
    let right = namespace.endpoints().get("plover").await.unwrap();
    let subset = &serde_json::to_value(&right.subsets).unwrap()[0];
    let reversed: Vec<_> = subset["addresses"].as_array().unwrap().iter().rev().collect();
    let split: Vec<_> = reversed
        .iter()
        .map(|it| json!({ "addresses": [it], "ports": subset["ports"] }))
        .collect();
    let reversed = json!([{ "addresses": reversed, "ports": subset["ports"] }]);
    let edits = [
        ("reversed", json!({ "subsets": reversed })),
        ("split", json!({ "subsets": split })),
        (
            "note",
            json!({ "metadata": { "annotations": { "example.org/note": "mine" } } }),
        ),
        (
            "trigger time",
            json!({ "metadata": { "annotations": { "endpoints.kubernetes.io/last-change-trigger-time": null } } }),
        ),
    ];
    for (what, patch) in edits {
        let edited = edit(&namespace, &patch).await;
        namespace.caught_up().await.unwrap();
        let after = namespace.endpoints().get("plover").await.unwrap();
        assert_eq!(after.resource_version(), edited.resource_version(), "{what}");
    }
}

/// A Service that gets its Endpoints from another writer at the same time: each is right in turn, ever more slowly.
#[tokio::test]
async fn two_writers_who_disagree_slow_down() {
    let namespace = one_service().await;
    let other = json!({ "subsets": [{ "addresses": [{ "ip": "192.0.2.66" }], "ports": [{ "port": 1 }] }] });
    let end = Instant::now() + Duration::from_secs(4);
    let mut healed = 0;
    while Instant::now() < end {
        edit(&namespace, &other).await;
        let wait = namespace.endpoints_become("plover", &[RIGHT]);
        if timeout(end.saturating_duration_since(Instant::now()), wait)
            .await
            .is_ok_and(|found| found.is_ok())
        {
            healed += 1;
        }
    }
    // 0, 200, 400, 800, 1600 ms: the next one is later than the end.
    assert!((2..=5).contains(&healed), "{healed} times in 4 s");
    let last = namespace.endpoints_become("plover", &[RIGHT]).await.unwrap();
    assert_eq!(lines(&last), [RIGHT]);
}

/// What svcplane waits for the sake of another writer does not hold up what Pods and Services ask for.
#[tokio::test]
async fn a_change_of_a_pod_does_not_wait_for_the_peace() {
    let namespace = one_service().await;
    let none = json!({ "subsets": null });
    // After 0, 0.2, 0.4, 0.8, 1.6 and 3.2 s the next one would come after 6.4 s.
    for _ in 0..6 {
        edit(&namespace, &none).await;
        namespace.endpoints_become("plover", &[RIGHT]).await.unwrap();
    }
    edit(&namespace, &none).await;
    namespace.set_pod_ready("p2", false).await.unwrap();
    let wait = namespace.endpoints_become("plover", &["10.1.0.1 !10.1.0.2 -> http:8080/TCP"]);
    timeout(Duration::from_secs(5), wait).await.unwrap().unwrap();
}

#[tokio::test]
async fn endpoints_made_before_the_service_are_replaced() {
    let namespace = TestNamespace::served().await.unwrap();
    pod("p1")
        .label("app", "web")
        .ip("10.1.0.1")
        .create(&namespace)
        .await
        .unwrap();
    let early = endpoints("early")
        .subset(&["192.0.2.1"], &[("x", 1)])
        .label("x", "y")
        .annotation("note", "z");
    let early = early.create(&namespace).await.unwrap();
    service("early")
        .selector("app", "web")
        .port("", 80, 80)
        .create(&namespace)
        .await
        .unwrap();
    let replaced = namespace
        .endpoints_become("early", &["10.1.0.1 -> :80/TCP"])
        .await
        .unwrap();
    assert_eq!(replaced.uid(), early.uid());
    assert!(
        !replaced.labels().contains_key("x") && replaced.annotations().contains_key("note"),
        "{replaced:?}"
    );
}
