//! Whatever somebody does to a mirrored slice of ours, or to what it mirrors, the mirror soon says what the Endpoints say.

use std::time::Duration;

use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use svcplane_tests::eventually::eventually_gone;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{endpoints, pod, service};
use svcplane_tests::slices::{self, MANAGED_BY, SERVICE_NAME};

const OURS: &str = "endpointslicemirroring-controller.k8s.io";
const DEADLINE: Duration = Duration::from_secs(30);
const RIGHT: &str = "IPv4 192.0.2.1/r?? 192.0.2.2/r?? -> http:8080/TCP";

async fn namespace() -> TestNamespace {
    TestNamespace::served().await.unwrap()
}

/// A Service without a selector, its Endpoints made by hand, and their mirror.
async fn mirrored(namespace: &TestNamespace, name: &str) -> (Endpoints, EndpointSlice) {
    service(name).port("http", 80, 8080).create(namespace).await.unwrap();
    let made = endpoints(name)
        .subset(&["192.0.2.1", "192.0.2.2"], &[("http", 8080)])
        .label("a", "1")
        .annotation("note", "mine")
        .annotation(
            "endpoints.kubernetes.io/last-change-trigger-time",
            "2026-01-01T00:00:00Z",
        )
        .annotation("kubectl.kubernetes.io/last-applied-configuration", "{}");
    let made = made.create(namespace).await.unwrap();
    let mut found = namespace.slices_become(name, &[RIGHT]).await.unwrap();
    (made, found.remove(0))
}

async fn patch(namespace: &TestNamespace, slice: &str, patch: &Value) -> EndpointSlice {
    namespace.patch_slice(slice, patch).await.unwrap()
}

/// Waits until these Endpoints have one living mirror, which is what `right` is.
async fn heals(namespace: &TestNamespace, what: &str, name: &str, right: &EndpointSlice) -> EndpointSlice {
    let content = |slice: &EndpointSlice| {
        let annotations = slice.metadata.annotations.clone();
        (slice.endpoints.clone(), slice.ports.clone(), annotations)
    };
    let says_the_same = |found: &_, right: &_| content(found) == content(right);
    let healed = namespace.slice_heals(what, (name, OURS), right, says_the_same);
    healed.await.unwrap()
}

/// Labels and annotations go along, but for what tells of the Endpoints alone.
#[tokio::test]
async fn a_mirror_has_the_metadata_of_its_endpoints() {
    let namespace = namespace().await;
    let (made, mirror) = mirrored(&namespace, "db").await;
    let want = [("a", "1"), (MANAGED_BY, OURS), (SERVICE_NAME, "db")].map(|(key, value)| (key.into(), value.into()));
    assert_eq!(mirror.labels(), &want.into());
    assert_eq!(mirror.annotations(), &[("note".into(), "mine".into())].into());
    assert_eq!(mirror.metadata.generate_name.as_deref(), Some("db-"));
    let [owner] = mirror.owner_references() else {
        panic!("{mirror:?}")
    };
    assert_eq!(
        (&*owner.kind, &*owner.name, Some(&owner.uid)),
        ("Endpoints", "db", made.metadata.uid.as_ref())
    );
    assert_eq!((owner.controller, owner.block_owner_deletion), (Some(true), Some(true)));
}

#[tokio::test]
async fn edits_are_put_right() {
    let namespace = namespace().await;
    let meta = |field: &str, key: &str, value: Value| json!({"metadata": {field: {key: value}}});
    let other = json!([{"apiVersion": "v1", "kind": "Endpoints", "name": "x", "uid": "7d4c3a0e-0f6e-4d53-9f0a-2a1b3c4d5e6f",
        "controller": true, "blockOwnerDeletion": true}]);
    let edits = [
        (
            "addresses",
            json!({"endpoints": [{"addresses": ["192.0.2.9"], "conditions": {"ready": true}}]}),
        ),
        ("none", json!({ "endpoints": [] })),
        (
            "not ready",
            json!({"endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": false}},
            {"addresses": ["192.0.2.2"], "conditions": {"ready": true}}]}),
        ),
        (
            "serving",
            json!({"endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": true, "serving": true}},
            {"addresses": ["192.0.2.2"], "conditions": {"ready": true}}]}),
        ),
        (
            "a zone",
            json!({"endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": true}, "zone": "a"},
            {"addresses": ["192.0.2.2"], "conditions": {"ready": true}}]}),
        ),
        (
            "ports",
            json!({"ports": [{"name": "http", "port": 9, "protocol": "TCP"}]}),
        ),
        ("a label more", meta("labels", "x", json!("y"))),
        ("a label less", meta("labels", "a", Value::Null)),
        ("an annotation more", meta("annotations", "x", json!("y"))),
        ("an annotation less", meta("annotations", "note", Value::Null)),
        // Spec endpoints.md 6.6.
        ("an earlier owner", json!({"metadata": {"ownerReferences": other}})),
        ("no owner", json!({"metadata": {"ownerReferences": null}})),
    ];
    for (what, edit) in edits {
        let name = format!("db-{}", what.replace(' ', "-"));
        let (_, right) = mirrored(&namespace, &name).await;
        patch(&namespace, &right.name_any(), &edit).await;
        let healed = heals(&namespace, what, &name, &right).await;
        assert_eq!(healed.uid(), right.uid(), "{what}");
    }
}

/// Row 1 for mirrors.
#[tokio::test]
async fn mirrors_that_leave_are_replaced_and_left_alone() {
    let namespace = namespace().await;
    let label = |key: &str, value: Value| json!({"metadata": {"labels": {key: value}}});
    let edits = [
        ("claimed", label(MANAGED_BY, json!("night-shift.example.org"))),
        ("nobodys", label(MANAGED_BY, Value::Null)),
        ("nameless", label(SERVICE_NAME, Value::Null)),
        // Whose Service has no selector, so that it does nothing with it.
        ("given", label(MANAGED_BY, json!("endpointslice-controller.k8s.io"))),
    ];
    for (name, edit) in edits {
        let (_, right) = mirrored(&namespace, name).await;
        let left = patch(&namespace, &right.name_any(), &edit).await;
        let healed = heals(&namespace, name, name, &right).await;
        assert_ne!(healed.uid(), right.uid(), "{name}");
        namespace.caught_up().await.unwrap();
        let now = namespace.slices().get(&left.name_any()).await.unwrap();
        assert_eq!(now.resource_version(), left.resource_version(), "{name}");
    }
}

#[tokio::test]
async fn mirrors_that_are_deleted_doubled_or_held_are_made_good() {
    let namespace = namespace().await;
    let (slices, params) = (namespace.slices(), DeleteParams::default());
    let (_, deleted) = mirrored(&namespace, "deleted").await;
    slices.delete(&deleted.name_any(), &params).await.unwrap();
    let healed = heals(&namespace, "deleted", "deleted", &deleted).await;
    assert_ne!(healed.uid(), deleted.uid());

    let (_, doubled) = mirrored(&namespace, "doubled").await;
    let mut copy = doubled.clone();
    copy.metadata = kube::api::ObjectMeta {
        name: Some("doubled-copy".into()),
        labels: doubled.metadata.labels.clone(),
        annotations: doubled.metadata.annotations.clone(),
        owner_references: doubled.metadata.owner_references.clone(),
        ..Default::default()
    };
    slices.create(&PostParams::default(), &copy).await.unwrap();
    heals(&namespace, "doubled", "doubled", &doubled).await;

    let (_, held) = mirrored(&namespace, "held").await;
    let name = held.name_any();
    patch(
        &namespace,
        &name,
        &json!({"metadata": {"finalizers": ["example.org/held"]}}),
    )
    .await;
    slices.delete(&name, &params).await.unwrap();
    heals(&namespace, "held", "held", &held).await;
    namespace.slices_become("held", &[RIGHT, RIGHT]).await.unwrap();
    patch(&namespace, &name, &json!({"metadata": {"finalizers": null}})).await;
    eventually_gone("the held one", DEADLINE, &slices, &name).await.unwrap();
    namespace.slices_become("held", &[RIGHT]).await.unwrap();
}

/// What ends the mirroring, and that nothing else of the Service's is touched by it.
#[tokio::test]
async fn a_selector_or_a_lock_ends_the_mirroring() {
    let namespace = namespace().await;
    slices::node(namespace.client(), "node-1", Some("a")).await.unwrap();
    pod("p1")
        .label("app", "web")
        .ip("10.1.0.1")
        .create(&namespace)
        .await
        .unwrap();
    let (made, _) = mirrored(&namespace, "selected").await;
    let selector = json!({"spec": {"selector": {"app": "web"}}});
    namespace.patch_service("selected", &selector).await.unwrap();
    let selected = ["IPv4 10.1.0.1/rs- -> http:8080/TCP"];
    let found = namespace.slices_become("selected", &selected).await.unwrap();
    assert_eq!(found[0].labels()[MANAGED_BY], "endpointslice-controller.k8s.io");
    let after = namespace
        .endpoints_become("selected", &["10.1.0.1 -> http:8080/TCP"])
        .await
        .unwrap();
    assert_eq!(after.uid(), made.uid());

    mirrored(&namespace, "lock").await;
    let lock = |value: Value| {
        Patch::Merge(json!({"metadata": {"annotations": {"control-plane.alpha.kubernetes.io/leader": value}}}))
    };
    let (all, params) = (namespace.endpoints(), PatchParams::default());
    all.patch("lock", &params, &lock(json!("{}"))).await.unwrap();
    namespace.slices_become("lock", &[]).await.unwrap();
    let unlocked = all.patch("lock", &params, &lock(Value::Null)).await.unwrap();
    namespace.slices_become("lock", &[RIGHT]).await.unwrap();
    // The Endpoints themselves are their maker's.
    namespace.caught_up().await.unwrap();
    let now = all.get("lock").await.unwrap();
    assert_eq!(now.resource_version(), unlocked.resource_version());
}

/// Hostnames, Nodes and targets are copied; several subsets of the same addresses are one.
#[tokio::test]
async fn what_a_subset_says_is_mirrored() {
    let namespace = namespace().await;
    service("db").port("http", 80, 8080).create(&namespace).await.unwrap();
    let one = json!({"ip": "192.0.2.1", "hostname": "db-1", "nodeName": "n1",
        "targetRef": {"kind": "Pod", "namespace": "elsewhere", "name": "db-1", "uid": "u", "resourceVersion": "7"}});
    let made = json!({"metadata": {"name": "db"}, "subsets": [
        {"addresses": [one], "notReadyAddresses": [{"ip": "192.0.2.2"}], "ports": [{"name": "a", "port": 1}]},
        {"addresses": [one], "notReadyAddresses": [{"ip": "192.0.2.2"}], "ports": [{"name": "b", "port": 2, "appProtocol": "h2"}]},
    ]});
    let made = serde_json::from_value(made).unwrap();
    namespace
        .endpoints()
        .create(&PostParams::default(), &made)
        .await
        .unwrap();
    let line = ["IPv4 192.0.2.1/r??(db-1) 192.0.2.2/-?? -> a:1/TCP b:2/TCP=h2"];
    let found = namespace.slices_become("db", &line).await.unwrap();
    let first = slices::endpoints(&found[0])
        .iter()
        .find(|it| it.addresses == ["192.0.2.1"])
        .unwrap();
    assert_eq!((first.node_name.as_deref(), first.zone.as_deref()), (Some("n1"), None));
    let target = first.target_ref.as_ref().unwrap();
    assert_eq!(
        (
            target.name.as_deref(),
            target.namespace.as_deref(),
            target.uid.as_deref()
        ),
        (Some("db-1"), Some("elsewhere"), Some("u"))
    );
    assert_eq!(target.resource_version, None);
}
