//! Slices of ours that somebody edits, takes away or deletes.

use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use svcplane_tests::eventually::eventually_gone;
use svcplane_tests::objects::{create_pods, pod, service};
use svcplane_tests::slices::{MANAGED_BY, SERVICE_NAME};
use tokio::time::{Instant, interval};

use super::rig::{DEADLINE, OURS, RIGHT, heals, namespace, patch, served};

/// B04 (a): each is put right in the slice that is there.
#[tokio::test]
async fn edits_are_put_right() {
    let namespace = namespace().await;
    let template = served(&namespace, "template").await;
    let endpoints = serde_json::to_value(&template.endpoints).unwrap();
    let with = |place: &str, value: Value| {
        let mut changed = endpoints.clone();
        let (parent, field) = place.rsplit_once('/').unwrap();
        changed.pointer_mut(parent).unwrap()[field] = value;
        json!({ "endpoints": changed })
    };
    let first = endpoints[0].clone();
    let mut third = first.clone();
    third["addresses"] = json!(["192.0.2.99"]);
    let label = |key: &str, value: Value| json!({"metadata": {"labels": {key: value}}});
    let edits = [
        ("an address", with("/0/addresses", json!(["192.0.2.99"]))),
        ("ready", with("/0/conditions/ready", json!(false))),
        ("serving", with("/0/conditions/serving", Value::Null)),
        ("terminating", with("/1/conditions/terminating", json!(true))),
        ("two addresses", with("/0/addresses", json!(["10.1.0.1", "10.1.0.9"]))),
        ("no conditions", with("/0/conditions", Value::Null)),
        ("no node", with("/0/nodeName", Value::Null)),
        ("no pod", with("/1/targetRef", Value::Null)),
        ("no kind", with("/1/targetRef/kind", Value::Null)),
        ("another namespace", with("/1/targetRef/namespace", json!("elsewhere"))),
        ("a node", with("/0/nodeName", json!("node-9"))),
        ("a zone", with("/0/zone", json!("z"))),
        ("a pod", with("/1/targetRef/name", json!("p9"))),
        (
            "another uid",
            with("/1/targetRef/uid", json!("7d4c3a0e-0f6e-4d53-9f0a-2a1b3c4d5e6f")),
        ),
        ("one less", json!({ "endpoints": [first] })),
        ("one more", json!({ "endpoints": [endpoints[0], endpoints[1], third] })),
        (
            "one twice",
            json!({ "endpoints": [endpoints[0], endpoints[1], endpoints[0]] }),
        ),
        ("none", json!({ "endpoints": [] })),
        (
            "a port number",
            json!({"ports": [{"name": "http", "port": 9, "protocol": "TCP"}]}),
        ),
        (
            "a port name",
            json!({"ports": [{"name": "web", "port": 8080, "protocol": "TCP"}]}),
        ),
        (
            "a protocol",
            json!({"ports": [{"name": "http", "port": 8080, "protocol": "UDP"}]}),
        ),
        (
            "an app protocol",
            json!({"ports": [{"name": "http", "port": 8080, "protocol": "TCP", "appProtocol": "h"}]}),
        ),
        ("every port", json!({"ports": [{"name": "http", "protocol": "TCP"}]})),
        ("no ports", json!({ "ports": [] })),
        ("a label more", label("x", json!("y"))),
        ("a label less", label("a", Value::Null)),
        ("a label changed", label("a", json!("2"))),
        ("headless", label("service.kubernetes.io/headless", json!(""))),
    ];
    for (what, edit) in edits {
        let name = format!("plover-{}", what.replace(' ', "-"));
        let right = served(&namespace, &name).await;
        patch(&namespace, &right.name_any(), &edit).await;
        let healed = heals(&namespace, what, &name, &right).await;
        assert_eq!(healed.uid(), right.uid(), "{what}");
    }
}

/// A hint that nobody asked for.
#[tokio::test]
async fn hints_are_taken_away() {
    let namespace = namespace().await;
    let right = served(&namespace, "plover").await;
    let mut endpoints = serde_json::to_value(&right.endpoints).unwrap();
    endpoints[0]["hints"] = json!({"forZones": [{"name": "b"}]});
    patch(&namespace, &right.name_any(), &json!({ "endpoints": endpoints })).await;
    heals(&namespace, "no hints", "plover", &right).await;
}

/// Row 1, and the same for what is not a claim.
#[tokio::test]
async fn slices_that_leave_are_replaced_and_left_alone() {
    let namespace = namespace().await;
    let label = |key: &str, value: Value| json!({"metadata": {"labels": {key: value}}});
    let edits = [
        ("claimed", label(MANAGED_BY, json!("night-shift.example.org"))),
        ("nobodys", label(MANAGED_BY, Value::Null)),
        ("moved", label(SERVICE_NAME, json!("elsewhere"))),
        ("nameless", label(SERVICE_NAME, Value::Null)),
    ];
    for (name, edit) in edits {
        let right = served(&namespace, name).await;
        let left = patch(&namespace, &right.name_any(), &edit).await;
        let healed = heals(&namespace, name, name, &right).await;
        assert_ne!(healed.uid(), right.uid(), "{name}");
        namespace.caught_up().await.unwrap();
        let now = namespace.slices().get(&left.name_any()).await.unwrap();
        assert_eq!(now.resource_version(), left.resource_version(), "{name}");
        if name == "nobodys" || name == "claimed" {
            // And it comes back: one of the two goes.
            patch(&namespace, &left.name_any(), &label(MANAGED_BY, json!(OURS))).await;
            namespace.slices_become(name, &[RIGHT]).await.unwrap();
        }
    }
}

/// The mirroring controller's is the same program's: that one has nothing to mirror here, and it goes.
#[tokio::test]
async fn a_slice_that_is_given_to_mirroring_goes() {
    let namespace = namespace().await;
    let right = served(&namespace, "plover").await;
    let given = json!({"metadata": {"labels": {MANAGED_BY: "endpointslicemirroring-controller.k8s.io"}}});
    patch(&namespace, &right.name_any(), &given).await;
    let healed = heals(&namespace, "given", "plover", &right).await;
    assert_ne!(healed.uid(), right.uid());
    namespace.slices_become("plover", &[RIGHT]).await.unwrap();
}

/// A slice that comes to another Service of ours is not that Service's own.
#[tokio::test]
async fn a_slice_that_comes_from_another_service_goes() {
    let namespace = namespace().await;
    let (one, two) = (served(&namespace, "one").await, served(&namespace, "two").await);
    let moved = json!({"metadata": {"labels": {SERVICE_NAME: "two"}}});
    patch(&namespace, &one.name_any(), &moved).await;
    heals(&namespace, "two", "two", &two).await;
    heals(&namespace, "one", "one", &one).await;
    namespace.slices_become("one", &[RIGHT]).await.unwrap();
    namespace.slices_become("two", &[RIGHT]).await.unwrap();
}

/// B04 (b).
#[tokio::test]
async fn deleted_slices_come_back() {
    let namespace = namespace().await;
    let right = served(&namespace, "plover").await;
    let (slices, params) = (namespace.slices(), DeleteParams::default());
    slices.delete(&right.name_any(), &params).await.unwrap();
    let healed = heals(&namespace, "deleted", "plover", &right).await;
    assert_ne!(healed.uid(), right.uid());
    // All of a Service at once, by their label.
    let of_web = kube::api::ListParams::default().labels(&format!("{SERVICE_NAME}=plover"));
    slices.delete_collection(&params, &of_web).await.unwrap();
    heals(&namespace, "all deleted", "plover", &right).await;
}

/// Whoever deletes many slices of one Service, one by one, is nobody who fights: `kubectl delete` does it so.
#[tokio::test]
async fn many_that_are_deleted_one_by_one_are_back_soon_after_the_last() {
    const SLICES: u16 = 30;
    let namespace = namespace().await;
    // Each Pod has a port of its own under that name, and so a slice of its own.
    let pods = (0..SLICES).map(|number| {
        let one = pod(&format!("m{number}")).label("app", "many");
        one.ip(&format!("10.1.1.{number}"))
            .port("http", i32::from(8000 + number))
    });
    create_pods(pods, &namespace).await.unwrap();
    let many = service("many").selector("app", "many").port("http", 80, "http");
    many.create(&namespace).await.unwrap();
    let want: Vec<String> = (0..SLICES)
        .map(|number| format!("IPv4 10.1.1.{number}/rs- -> http:{}/TCP", 8000 + number))
        .collect();
    let want: Vec<&str> = want.iter().map(String::as_str).collect();
    let made = namespace.slices_become("many", &want).await.unwrap();
    let (slices, params) = (namespace.slices(), DeleteParams::default());
    let mut ticks = interval(Duration::from_millis(20));
    for slice in &made {
        ticks.tick().await;
        slices.delete(&slice.name_any(), &params).await.unwrap();
    }
    let last = Instant::now();
    namespace.slices_become("many", &want).await.unwrap();
    let took = last.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
}

/// A slice that is being deleted and is held by a finalizer does not count, and is not written.
#[tokio::test]
async fn a_slice_that_is_held_by_a_finalizer_is_replaced() {
    let namespace = namespace().await;
    let right = served(&namespace, "plover").await;
    let name = right.name_any();
    patch(
        &namespace,
        &name,
        &json!({"metadata": {"finalizers": ["example.org/held"]}}),
    )
    .await;
    namespace
        .slices()
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    let healed = heals(&namespace, "held", "plover", &right).await;
    assert_ne!(healed.name_any(), name);
    let held = namespace.slices().get(&name).await.unwrap();
    // Pods are followed in the new one alone.
    namespace.set_pod_ready("p1", false).await.unwrap();
    let changed = "IPv4 10.1.0.1/--- 10.1.0.2/rs- -> http:8080/TCP";
    namespace.slices_become("plover", &[RIGHT, changed]).await.unwrap();
    namespace.caught_up().await.unwrap();
    let still = namespace.slices().get(&name).await.unwrap();
    assert_eq!(still.resource_version(), held.resource_version());
    patch(&namespace, &name, &json!({"metadata": {"finalizers": null}})).await;
    let slices = namespace.slices();
    eventually_gone("the held one", DEADLINE, &slices, &name).await.unwrap();
    namespace.slices_become("plover", &[changed]).await.unwrap();
    // A finalizer alone is no reason to write, and stays.
    let noted = patch(
        &namespace,
        &healed.name_any(),
        &json!({"metadata": {"finalizers": ["example.org/mine"]}}),
    )
    .await;
    namespace.set_pod_ready("p1", true).await.unwrap();
    namespace.slices_become("plover", &[RIGHT]).await.unwrap();
    let now = namespace.slices().get(&healed.name_any()).await.unwrap();
    assert_eq!(now.finalizers(), noted.finalizers());
}
