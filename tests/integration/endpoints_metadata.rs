//! Labels and annotations of Endpoints: which are the Service's, which are ours, which are the user's.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Endpoints;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use svcplane_tests::eventually::eventually_one;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{ServiceBuilder, endpoints, pod, service};
use svcplane_tests::subsets::lines;

const DEADLINE: Duration = Duration::from_secs(30);
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const HEADLESS: &str = "service.kubernetes.io/headless";
const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

fn to_web(name: &str) -> ServiceBuilder {
    service(name).selector("app", "web").port("", 80, 80)
}

async fn web(namespace: &TestNamespace, name: &str, ip: &str) {
    pod(name).label("app", "web").ip(ip).create(namespace).await.unwrap();
}

async fn patch_endpoints(namespace: &TestNamespace, name: &str, patch: Value) -> Endpoints {
    let patch = Patch::Merge(patch);
    namespace
        .endpoints()
        .patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap()
}

async fn labels_become(namespace: &TestNamespace, name: &str, labels: &[(&str, &str)]) -> Endpoints {
    let expected: BTreeMap<String, String> = labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
    eventually_one("labels", DEADLINE, &namespace.endpoints(), name, |found| match found {
        Some(found) if *found.labels() == expected => Ok(found.clone()),
        other => Err(format!("{:?} instead of {expected:?}", other.map(Endpoints::labels))),
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn labels_are_the_services_and_follow_them() {
    let namespace = TestNamespace::served().await.unwrap();
    let builder = to_web("web")
        .label("a", "1")
        .label("b", "2")
        .annotation("example.org/note", "x");
    builder.create(&namespace).await.unwrap();
    let ours = (MANAGED_BY, "endpoint-controller");
    let created = labels_become(&namespace, "web", &[("a", "1"), ("b", "2"), ours]).await;
    assert!(
        !created.annotations().contains_key("example.org/note"),
        "annotations are not copied"
    );
    namespace
        .patch_service(
            "web",
            &json!({ "metadata": { "labels": { "a": null, "b": "3", "c": "4" } } }),
        )
        .await
        .unwrap();
    labels_become(&namespace, "web", &[("b", "3"), ("c", "4"), ours]).await;
    namespace
        .patch_service("web", &json!({ "metadata": { "labels": null } }))
        .await
        .unwrap();
    labels_become(&namespace, "web", &[ours]).await;
}

#[tokio::test]
async fn the_labels_that_are_ours_do_not_come_from_the_service() {
    let namespace = TestNamespace::served().await.unwrap();
    let (ours, headless) = ((MANAGED_BY, "endpoint-controller"), (HEADLESS, ""));
    to_web("headless").headless().create(&namespace).await.unwrap();
    labels_become(&namespace, "headless", &[headless, ours]).await;
    let builder = to_web("reserved")
        .label(HEADLESS, "yes")
        .label(MANAGED_BY, "somebody")
        .label("a", "1");
    builder.create(&namespace).await.unwrap();
    labels_become(&namespace, "reserved", &[("a", "1"), ours]).await;
    let builder = to_web("reserved-headless")
        .headless()
        .label(HEADLESS, "yes")
        .label(MANAGED_BY, "somebody");
    builder.create(&namespace).await.unwrap();
    labels_become(&namespace, "reserved-headless", &[headless, ours]).await;
}

#[tokio::test]
async fn what_the_user_put_there_survives_and_foreign_labels_do_not() {
    let namespace = TestNamespace::served().await.unwrap();
    web(&namespace, "one", "10.1.0.1").await;
    to_web("web").label("a", "1").create(&namespace).await.unwrap();
    namespace
        .endpoints_become("web", &["10.1.0.1 -> :80/TCP"])
        .await
        .unwrap();
    let owner = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "7d4c3a0e-0f6e-4d53-9f0a-2a1b3c4d5e6f",
        "controller": true, "blockOwnerDeletion": false });
    let mine = json!({ "metadata": {
        "annotations": { "example.org/note": "mine", "control-plane.alpha.kubernetes.io/leader": "{}" },
        "finalizers": ["example.org/hold"],
        "ownerReferences": [owner],
    } });
    let marked = patch_endpoints(&namespace, "web", mine).await;
    namespace
        .patch_service("web", &json!({ "metadata": { "labels": { "b": "2" } } }))
        .await
        .unwrap();
    let ours = (MANAGED_BY, "endpoint-controller");
    let written = labels_become(&namespace, "web", &[("a", "1"), ("b", "2"), ours]).await;
    web(&namespace, "two", "10.1.0.2").await;
    let rewritten = namespace
        .endpoints_become("web", &["10.1.0.1 10.1.0.2 -> :80/TCP"])
        .await
        .unwrap();
    for object in [&written, &rewritten] {
        assert_eq!(object.finalizers(), marked.finalizers());
        assert_eq!(object.owner_references(), marked.owner_references());
        let kept = |key: &str| object.annotations().get(key) == marked.annotations().get(key);
        assert!(
            kept("example.org/note") && kept("control-plane.alpha.kubernetes.io/leader"),
            "{object:?}"
        );
        assert_eq!(object.uid(), marked.uid());
    }
    // A label is ours to decide, at once.
    patch_endpoints(&namespace, "web", json!({ "metadata": { "labels": { "x": "y" } } })).await;
    let cleaned = labels_become(&namespace, "web", &[("a", "1"), ("b", "2"), ours]).await;
    assert_eq!(cleaned.owner_references(), marked.owner_references());
    patch_endpoints(&namespace, "web", json!({ "metadata": { "finalizers": null } })).await;
}

/// Made by hand with a generated name, then a Service of that name takes them over.
#[tokio::test]
async fn endpoints_that_the_apiserver_named_keep_what_their_name_was_made_from() {
    let namespace = TestNamespace::served().await.unwrap();
    web(&namespace, "one", "10.1.0.1").await;
    let mut by_hand = endpoints("").build();
    by_hand.metadata.name = None;
    by_hand.metadata.generate_name = Some("web-".into());
    let made = namespace
        .endpoints()
        .create(&PostParams::default(), &by_hand)
        .await
        .unwrap();
    to_web(&made.name_any()).create(&namespace).await.unwrap();
    let written = namespace
        .endpoints_become(&made.name_any(), &["10.1.0.1 -> :80/TCP"])
        .await
        .unwrap();
    assert_eq!(
        (written.uid(), written.metadata.generate_name.as_deref()),
        (made.uid(), Some("web-"))
    );
}

#[tokio::test]
async fn a_missing_mark_of_ours_is_put_back() {
    let namespace = TestNamespace::served().await.unwrap();
    to_web("web").label("a", "1").create(&namespace).await.unwrap();
    let ours = (MANAGED_BY, "endpoint-controller");
    labels_become(&namespace, "web", &[("a", "1"), ours]).await;
    for value in [Value::Null, json!("somebody-else")] {
        patch_endpoints(
            &namespace,
            "web",
            json!({ "metadata": { "labels": { MANAGED_BY: value } } }),
        )
        .await;
        labels_become(&namespace, "web", &[("a", "1"), ours]).await;
    }
}

/// Alone it is no reason to write; with another change it is put right.
#[tokio::test]
async fn the_headless_label_is_put_right_by_the_next_write() {
    let namespace = TestNamespace::served().await.unwrap();
    to_web("web").headless().create(&namespace).await.unwrap();
    let (ours, headless) = ((MANAGED_BY, "endpoint-controller"), (HEADLESS, ""));
    labels_become(&namespace, "web", &[headless, ours]).await;
    let without = patch_endpoints(
        &namespace,
        "web",
        json!({ "metadata": { "labels": { HEADLESS: null } } }),
    )
    .await;
    namespace.caught_up().await.unwrap();
    let after = namespace.endpoints().get("web").await.unwrap();
    assert_eq!(after.resource_version(), without.resource_version());
    namespace
        .patch_service("web", &json!({ "metadata": { "labels": { "a": "1" } } }))
        .await
        .unwrap();
    labels_become(&namespace, "web", &[("a", "1"), headless, ours]).await;
}

/// Each value in a step of its own: the write that follows a change says when that change happened.
#[tokio::test]
async fn the_trigger_time_says_when_what_was_written_happened() {
    let namespace = TestNamespace::served().await.unwrap();
    web(&namespace, "one", "10.2.0.1").await;
    web(&namespace, "two", "10.2.0.2").await;
    let ready = |ready: &str, at: &str| json!({ "conditions": [{ "type": "Ready", "status": ready, "lastTransitionTime": at }] });
    // Far in the future: not taken, because the first write is about the Service.
    namespace
        .patch_pod_status("one", ready("True", "2090-01-01T00:00:00Z"))
        .await
        .unwrap();
    let created = to_web("web").create(&namespace).await.unwrap();
    let first = namespace
        .endpoints_become("web", &["10.2.0.1 10.2.0.2 -> :80/TCP"])
        .await
        .unwrap();
    let created = serde_json::to_value(created.metadata.creation_timestamp).unwrap();
    assert_eq!(trigger_time(&first), created.as_str());

    namespace
        .patch_pod_status("two", ready("False", "2091-02-03T04:05:06Z"))
        .await
        .unwrap();
    let flipped = namespace
        .endpoints_become("web", &["10.2.0.1 !10.2.0.2 -> :80/TCP"])
        .await
        .unwrap();
    assert_eq!(trigger_time(&flipped), Some("2091-02-03T04:05:06Z"));

    namespace
        .patch_service("web", &json!({ "metadata": { "labels": { "a": "1" } } }))
        .await
        .unwrap();
    let labels = [("a", "1"), (MANAGED_BY, "endpoint-controller")];
    let edited = labels_become(&namespace, "web", &labels).await;
    assert_eq!(trigger_time(&edited), None, "an edit of the Service has no time");

    // Later than what was seen of that Pod, though earlier than what was seen of others.
    namespace
        .patch_pod_status("one", ready("False", "2090-01-01T00:00:01Z"))
        .await
        .unwrap();
    let flipped = namespace
        .endpoints_become("web", &["!10.2.0.1 !10.2.0.2 -> :80/TCP"])
        .await
        .unwrap();
    assert_eq!(trigger_time(&flipped), Some("2090-01-01T00:00:01Z"));

    namespace
        .patch_pod_status("one", ready("True", "2089-01-01T00:00:00Z"))
        .await
        .unwrap();
    let earlier = namespace
        .endpoints_become("web", &["10.2.0.1 !10.2.0.2 -> :80/TCP"])
        .await
        .unwrap();
    assert_eq!(
        trigger_time(&earlier),
        None,
        "a time that is not later than the one seen is no change"
    );

    namespace
        .patch_pod_status("one", ready("False", "2092-01-01T00:00:00Z"))
        .await
        .unwrap();
    let flipped = namespace
        .endpoints_become("web", &["!10.2.0.1 !10.2.0.2 -> :80/TCP"])
        .await
        .unwrap();
    assert_eq!(trigger_time(&flipped), Some("2092-01-01T00:00:00Z"));

    namespace.delete_pod("two", Duration::ZERO).await.unwrap();
    let deleted = namespace
        .endpoints_become("web", &["!10.2.0.1 -> :80/TCP"])
        .await
        .unwrap();
    assert_eq!(trigger_time(&deleted), None, "a deletion has no time");

    // Under the same name, but forgotten meanwhile: its time is new.
    let again = pod("two").label("app", "web").create(&namespace).await.unwrap();
    assert!(again.metadata.uid.is_some());
    let mut status = ready("True", "2080-01-01T00:00:00Z");
    status["podIP"] = json!("10.2.0.2");
    status["podIPs"] = json!([{ "ip": "10.2.0.2" }]);
    namespace.patch_pod_status("two", status).await.unwrap();
    let returned = namespace
        .endpoints_become("web", &["10.2.0.2 !10.2.0.1 -> :80/TCP"])
        .await
        .unwrap();
    assert_eq!(trigger_time(&returned), Some("2080-01-01T00:00:00Z"));

    namespace
        .services()
        .delete("web", &DeleteParams::default())
        .await
        .unwrap();
    svcplane_tests::eventually::eventually_gone("web", DEADLINE, &namespace.endpoints(), "web")
        .await
        .unwrap();
    let created = to_web("web").create(&namespace).await.unwrap();
    let anew = namespace
        .endpoints_become("web", &["10.2.0.2 !10.2.0.1 -> :80/TCP"])
        .await
        .unwrap();
    let created = serde_json::to_value(created.metadata.creation_timestamp).unwrap();
    assert_eq!(trigger_time(&anew), created.as_str());
}

/// Written under the name that people look for in managedFields, and not by server-side apply.
#[tokio::test]
async fn the_field_manager_is_svcplane() {
    let namespace = TestNamespace::served().await.unwrap();
    web(&namespace, "one", "10.3.0.1").await;
    to_web("web").create(&namespace).await.unwrap();
    let written = namespace
        .endpoints_become("web", &["10.3.0.1 -> :80/TCP"])
        .await
        .unwrap();
    let managers: Vec<_> = written
        .managed_fields()
        .iter()
        .map(|it| (it.manager.as_deref(), it.operation.as_deref()))
        .collect();
    assert_eq!(managers, [(Some("svcplane"), Some("Update"))]);
    assert_eq!(lines(&written).len(), 1);
}

fn trigger_time(endpoints: &Endpoints) -> Option<&str> {
    endpoints.annotations().get(TRIGGER_TIME).map(String::as_str)
}
