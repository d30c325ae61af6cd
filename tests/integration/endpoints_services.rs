//! Which Services have Endpoints of ours, and what becomes of those when the Service changes or goes.

use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use svcplane_tests::eventually::{eventually_gone, eventually_one, never_changes};
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{PodBuilder, ServiceBuilder, endpoints, pod, service};
use svcplane_tests::subsets::lines;

const DEADLINE: Duration = Duration::from_secs(30);
/// Added to a barrier, for a write that might come late.
const MOMENT: Duration = Duration::from_millis(300);

fn web(name: &str, ip: &str) -> PodBuilder {
    pod(name).label("app", "web").ip(ip)
}

fn to_web(name: &str) -> ServiceBuilder {
    service(name).selector("app", "web").port("", 80, 80)
}

async fn patch(namespace: &TestNamespace, name: &str, spec: Value) {
    namespace.patch_service(name, &json!({ "spec": spec })).await.unwrap();
}

async fn delete(namespace: &TestNamespace, name: &str) {
    let services = namespace.services();
    services.delete(name, &DeleteParams::default()).await.unwrap();
}

async fn stored(namespace: &TestNamespace, name: &str) -> Option<(Vec<String>, String)> {
    let found = namespace.endpoints().get_opt(name).await.unwrap()?;
    Some((lines(&found), found.resource_version().unwrap_or_default()))
}

#[tokio::test]
async fn a_service_that_matches_nothing_has_empty_endpoints() {
    let namespace = TestNamespace::served().await.unwrap();
    to_web("crake").create(&namespace).await.unwrap();
    let created = namespace.endpoints_become("crake", &[]).await.unwrap();
    assert_eq!(created.subsets, None);
    assert_eq!(created.metadata.owner_references, None);
}

/// `selector: {}` cannot be told from none by the apiserver's clients: it is stored as none.
#[tokio::test]
async fn without_a_selector_nothing_is_made_and_nothing_is_touched() {
    let namespace = TestNamespace::served().await.unwrap();
    web("one", "10.1.0.1").create(&namespace).await.unwrap();
    service("bare").port("", 80, 80).create(&namespace).await.unwrap();
    let mut empty = service("empty").port("", 80, 80).build();
    empty.spec.as_mut().unwrap().selector = Some(std::collections::BTreeMap::new());
    namespace
        .services()
        .create(&PostParams::default(), &empty)
        .await
        .unwrap();
    service("manual").port("", 80, 80).create(&namespace).await.unwrap();
    let manual = endpoints("manual")
        .subset(&["192.0.2.7"], &[("", 8080)])
        .label("mine", "yes");
    manual.create(&namespace).await.unwrap();
    let before = stored(&namespace, "manual").await;
    patch(&namespace, "manual", json!({ "ports": [{ "port": 81 }] })).await;
    web("two", "10.1.0.2").create(&namespace).await.unwrap();
    namespace.caught_up().await.unwrap();
    assert_eq!(stored(&namespace, "manual").await, before);
    assert_eq!(
        (stored(&namespace, "bare").await, stored(&namespace, "empty").await),
        (None, None)
    );
}

#[tokio::test]
async fn a_selector_set_later_takes_hand_made_endpoints_over() {
    let namespace = TestNamespace::served().await.unwrap();
    web("one", "10.2.0.1").create(&namespace).await.unwrap();
    service("web").port("", 80, 80).create(&namespace).await.unwrap();
    let manual = endpoints("web").subset(&["192.0.2.7"], &[("x", 8080)]);
    let uid = manual.create(&namespace).await.unwrap().metadata.uid;
    patch(&namespace, "web", json!({ "selector": { "app": "web" } })).await;
    let taken = namespace
        .endpoints_become("web", &["10.2.0.1 -> :80/TCP"])
        .await
        .unwrap();
    assert_eq!(taken.metadata.uid, uid, "replaced in place");
}

#[tokio::test]
async fn a_changed_selector_changes_the_addresses() {
    let namespace = TestNamespace::served().await.unwrap();
    web("one", "10.3.0.1")
        .label("track", "stable")
        .create(&namespace)
        .await
        .unwrap();
    web("two", "10.3.0.2")
        .label("track", "canary")
        .create(&namespace)
        .await
        .unwrap();
    pod("three")
        .label("track", "canary")
        .ip("10.3.0.3")
        .create(&namespace)
        .await
        .unwrap();
    to_web("web").create(&namespace).await.unwrap();
    let table = [
        (json!({ "app": "web" }), &["10.3.0.1 10.3.0.2 -> :80/TCP"] as &[&str]),
        (json!({ "track": "canary" }), &["10.3.0.2 -> :80/TCP"]),
        (json!({ "app": null }), &["10.3.0.2 10.3.0.3 -> :80/TCP"]),
        (json!({ "track": "none" }), &[]),
        (json!({ "track": "stable" }), &["10.3.0.1 -> :80/TCP"]),
    ];
    for (selector, subsets) in table {
        patch(&namespace, "web", json!({ "selector": selector })).await;
        namespace.endpoints_become("web", subsets).await.unwrap();
    }
}

/// While there is no selector, the last written Endpoints stay; once it is back, they hold the Pods of now.
#[tokio::test]
async fn a_selector_that_goes_and_comes_back() {
    let namespace = TestNamespace::served().await.unwrap();
    web("old", "10.4.0.31").create(&namespace).await.unwrap();
    to_web("ruff").create(&namespace).await.unwrap();
    namespace
        .endpoints_become("ruff", &["10.4.0.31 -> :80/TCP"])
        .await
        .unwrap();
    patch(&namespace, "ruff", json!({ "selector": null })).await;
    namespace.caught_up().await.unwrap();
    let before = stored(&namespace, "ruff").await;
    namespace.delete_pod("old", Duration::ZERO).await.unwrap();
    web("new", "10.4.0.32").create(&namespace).await.unwrap();
    namespace.caught_up().await.unwrap();
    assert_eq!(stored(&namespace, "ruff").await, before);
    patch(&namespace, "ruff", json!({ "selector": { "app": "web" } })).await;
    namespace
        .endpoints_become("ruff", &["10.4.0.32 -> :80/TCP"])
        .await
        .unwrap();
}

#[tokio::test]
async fn external_names_have_no_endpoints_and_keep_those_they_had() {
    let namespace = TestNamespace::served().await.unwrap();
    web("one", "10.5.0.1").create(&namespace).await.unwrap();
    to_web("ext")
        .external_name("example.org")
        .create(&namespace)
        .await
        .unwrap();
    to_web("web").create(&namespace).await.unwrap();
    namespace
        .endpoints_become("web", &["10.5.0.1 -> :80/TCP"])
        .await
        .unwrap();
    let external = json!({ "type": "ExternalName", "externalName": "example.org", "clusterIP": null,
        "clusterIPs": null, "ipFamilies": null, "ipFamilyPolicy": null });
    patch(&namespace, "web", external).await;
    namespace.caught_up().await.unwrap();
    let before = stored(&namespace, "web").await;
    web("two", "10.5.0.2").create(&namespace).await.unwrap();
    namespace.caught_up().await.unwrap();
    assert_eq!(stored(&namespace, "web").await, before);
    assert_eq!(stored(&namespace, "ext").await, None);
    patch(&namespace, "web", json!({ "type": "ClusterIP", "externalName": null })).await;
    namespace
        .endpoints_become("web", &["10.5.0.1 10.5.0.2 -> :80/TCP"])
        .await
        .unwrap();
}

#[tokio::test]
async fn other_types_have_endpoints_too() {
    let namespace = TestNamespace::served().await.unwrap();
    web("one", "10.6.0.1").create(&namespace).await.unwrap();
    for type_ in ["NodePort", "LoadBalancer"] {
        let name = type_.to_lowercase();
        to_web(&name).type_(type_).create(&namespace).await.unwrap();
        namespace
            .endpoints_become(&name, &["10.6.0.1 -> :80/TCP"])
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn the_endpoints_of_a_deleted_service_go_whoever_made_them() {
    let namespace = TestNamespace::served().await.unwrap();
    web("one", "10.7.0.1").create(&namespace).await.unwrap();
    to_web("web").create(&namespace).await.unwrap();
    namespace
        .endpoints_become("web", &["10.7.0.1 -> :80/TCP"])
        .await
        .unwrap();
    for name in ["manual", "lock"] {
        service(name).port("", 80, 80).create(&namespace).await.unwrap();
    }
    let manual = endpoints("manual").subset(&["192.0.2.7"], &[("", 8080)]);
    manual.create(&namespace).await.unwrap();
    let lock = endpoints("lock").annotation("control-plane.alpha.kubernetes.io/leader", "{}");
    lock.create(&namespace).await.unwrap();
    namespace.caught_up().await.unwrap();
    for name in ["web", "manual", "lock"] {
        delete(&namespace, name).await;
        eventually_gone(name, DEADLINE, &namespace.endpoints(), name)
            .await
            .unwrap();
    }
    namespace.set_pod_ready("one", false).await.unwrap();
    namespace.caught_up().await.unwrap();
    assert_eq!(stored(&namespace, "web").await, None, "nothing brings them back");
}

#[tokio::test]
async fn a_service_that_comes_back_under_its_name_is_another_service() {
    let namespace = TestNamespace::served().await.unwrap();
    web("one", "10.8.0.1").create(&namespace).await.unwrap();
    pod("two")
        .label("app", "db")
        .ip("10.8.0.2")
        .create(&namespace)
        .await
        .unwrap();
    for round in 0..5 {
        // At once: the deletion of the Endpoints may still be under way.
        to_web("web")
            .label("round", &round.to_string())
            .create(&namespace)
            .await
            .unwrap();
        if round % 2 == 0 {
            namespace
                .endpoints_become("web", &["10.8.0.1 -> :80/TCP"])
                .await
                .unwrap();
        }
        delete(&namespace, "web").await;
        let other = service("web").selector("app", "db").port("", 5432, 5432);
        other.create(&namespace).await.unwrap();
        let db = namespace
            .endpoints_become("web", &["10.8.0.2 -> :5432/TCP"])
            .await
            .unwrap();
        assert!(!db.labels().contains_key("round"), "{:?}", db.labels());
        delete(&namespace, "web").await;
    }
    eventually_gone("web", DEADLINE, &namespace.endpoints(), "web")
        .await
        .unwrap();
    namespace.caught_up().await.unwrap();
    assert_eq!(stored(&namespace, "web").await, None);
}

/// A finalizer of the user's keeps the object: it is maintained while a Service has its name, and made anew once it is gone.
#[tokio::test]
async fn endpoints_that_cannot_go_do_not_stop_the_next_service() {
    let namespace = TestNamespace::served().await.unwrap();
    web("one", "10.9.0.1").create(&namespace).await.unwrap();
    to_web("web").create(&namespace).await.unwrap();
    namespace
        .endpoints_become("web", &["10.9.0.1 -> :80/TCP"])
        .await
        .unwrap();
    let finalizers = |list: Value| Patch::Merge(json!({ "metadata": { "finalizers": list } }));
    let (api, params) = (namespace.endpoints(), PatchParams::default());
    api.patch("web", &params, &finalizers(json!(["example.org/hold"])))
        .await
        .unwrap();
    delete(&namespace, "web").await;
    let held = eventually_one("deletion asked for", DEADLINE, &api, "web", |found| {
        let deleted = found.is_some_and(|found| found.metadata.deletion_timestamp.is_some());
        deleted
            .then(|| found.cloned())
            .flatten()
            .ok_or_else(|| "not yet".into())
    });
    let held = held.await.unwrap();
    web("two", "10.9.0.2").create(&namespace).await.unwrap();
    to_web("web").create(&namespace).await.unwrap();
    let both = ["10.9.0.1 10.9.0.2 -> :80/TCP"];
    namespace.endpoints_become("web", &both).await.unwrap();
    api.patch("web", &params, &finalizers(Value::Null)).await.unwrap();
    eventually_one("another object", DEADLINE, &api, "web", |found| {
        let uid = found.and_then(|found| found.uid());
        (uid.is_some() && uid != held.uid())
            .then_some(())
            .ok_or_else(|| format!("{uid:?}"))
    })
    .await
    .unwrap();
    namespace.endpoints_become("web", &both).await.unwrap();
}

/// Old leader locks, and what people prepare before the Service.
#[tokio::test]
async fn endpoints_without_a_service_are_left_alone() {
    let namespace = TestNamespace::served().await.unwrap();
    endpoints("early")
        .subset(&["192.0.2.7"], &[("", 8080)])
        .create(&namespace)
        .await
        .unwrap();
    endpoints("lock")
        .annotation("control-plane.alpha.kubernetes.io/leader", "{}")
        .create(&namespace)
        .await
        .unwrap();
    let before = (stored(&namespace, "early").await, stored(&namespace, "lock").await);
    namespace.caught_up().await.unwrap();
    never_changes("Endpoints without Service", MOMENT, &namespace.endpoints(), "")
        .await
        .unwrap();
    assert_eq!(
        (stored(&namespace, "early").await, stored(&namespace, "lock").await),
        before
    );
    let renewed =
        Patch::Merge(json!({ "metadata": { "annotations": { "control-plane.alpha.kubernetes.io/leader": "{1}" } } }));
    let renewed = namespace
        .endpoints()
        .patch("lock", &PatchParams::default(), &renewed)
        .await
        .unwrap();
    namespace.caught_up().await.unwrap();
    assert_eq!(
        stored(&namespace, "lock").await.unwrap().1,
        renewed.resource_version().unwrap()
    );
}

/// The Service's own deletion timestamp is not looked at: as long as it is there, it is served.
#[tokio::test]
async fn a_service_that_is_being_deleted_is_still_served() {
    let namespace = TestNamespace::served().await.unwrap();
    let mut held = to_web("held").build();
    held.metadata.finalizers = Some(vec!["example.org/hold".into()]);
    namespace
        .services()
        .create(&PostParams::default(), &held)
        .await
        .unwrap();
    namespace.endpoints_become("held", &[]).await.unwrap();
    delete(&namespace, "held").await;
    web("one", "10.10.0.1").create(&namespace).await.unwrap();
    namespace
        .endpoints_become("held", &["10.10.0.1 -> :80/TCP"])
        .await
        .unwrap();
    let free = json!({ "metadata": { "finalizers": null } });
    namespace.patch_service("held", &free).await.unwrap();
    eventually_gone("held", DEADLINE, &namespace.endpoints(), "held")
        .await
        .unwrap();
}
