//! Slices that somebody adds: doubled, of another family, of an earlier Service, of another manager.

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use svcplane_tests::eventually::{eventually, eventually_gone};
use svcplane_tests::objects::service;
use svcplane_tests::slices::{MANAGED_BY, belongs};

use super::rig::{DEADLINE, RIGHT, copy, create, heals, namespace, patch, served, sorted};

/// B01: an address never stands in two slices for long, however it came to.
#[tokio::test]
async fn doubled_slices_go() {
    let namespace = namespace().await;
    let right = served(&namespace, "plover").await;
    create(&namespace, &copy(&right, "plover-copy")).await;
    namespace.slices_become("plover", &[RIGHT]).await.unwrap();
    let other = served(&namespace, "ruff").await;
    let mut half = copy(&other, "ruff-half");
    half.endpoints.as_mut().unwrap().truncate(1);
    create(&namespace, &half).await;
    // Which of the two keeps it is no matter.
    let once = |all: &[EndpointSlice]| {
        let listed = all.iter().filter(|slice| belongs(slice, "ruff", None)).flat_map(sorted);
        let mut addresses: Vec<_> = listed.flat_map(|endpoint| endpoint.addresses).collect();
        addresses.sort();
        (addresses == ["10.1.0.1", "10.1.0.2"])
            .then_some(())
            .ok_or_else(|| format!("{addresses:?}"))
    };
    namespace.caught_up().await.unwrap();
    eventually("each once", DEADLINE, &namespace.slices(), "", once)
        .await
        .unwrap();
}

/// Of a family that the Service does not have, or of none that a Pod can have.
#[tokio::test]
async fn slices_of_a_foreign_family_go() {
    let namespace = namespace().await;
    for (name, address_type, address) in [("six", "IPv6", "fd00::9"), ("names", "FQDN", "p1.example.org")] {
        let right = served(&namespace, name).await;
        let mut foreign = copy(&right, &format!("{name}-foreign"));
        foreign.address_type = address_type.into();
        let endpoints = foreign.endpoints.as_mut().unwrap();
        endpoints.truncate(1);
        endpoints[0].addresses = vec![address.into()];
        create(&namespace, &foreign).await;
        namespace.slices_become(name, &[RIGHT]).await.unwrap();
        let now = namespace.slices().get(&right.name_any()).await.unwrap();
        assert_eq!(now.resource_version(), right.resource_version(), "{name}");
    }
}

/// Left behind by an earlier Service of the name, or said to be: another takes its place, then it goes. A missing owner is the same.
#[tokio::test]
async fn slices_of_an_earlier_uid_are_replaced() {
    let namespace = namespace().await;
    let earlier = json!([{"apiVersion": "v1", "kind": "Service", "name": "earlier", "uid": "7d4c3a0e-0f6e-4d53-9f0a-2a1b3c4d5e6f",
        "controller": true, "blockOwnerDeletion": true}]);
    for (name, owners) in [("earlier", earlier), ("orphan", Value::Null)] {
        let right = served(&namespace, name).await;
        let edit = json!({"metadata": {"ownerReferences": owners}});
        patch(&namespace, &right.name_any(), &edit).await;
        let healed = heals(&namespace, name, name, &right).await;
        assert_ne!(healed.uid(), right.uid(), "{name}");
        namespace.slices_become(name, &[RIGHT]).await.unwrap();
    }
}

/// Nobody collects garbage here: the slices of the Service that was are still there when the next one of its name comes.
#[tokio::test]
async fn a_service_that_comes_back_replaces_the_slices_of_the_one_before() {
    let namespace = namespace().await;
    let before = served(&namespace, "plover").await;
    let services = namespace.services();
    services.delete("plover", &DeleteParams::default()).await.unwrap();
    namespace.caught_up().await.unwrap();
    // What a Service leaves behind is the garbage collector's.
    namespace.slices().get(&before.name_any()).await.unwrap();
    let again = service("plover").selector("app", "web").port("http", 80, 8080);
    let again = again.create(&namespace).await.unwrap();
    let slices = namespace.slices();
    eventually_gone("the old one", DEADLINE, &slices, &before.name_any())
        .await
        .unwrap();
    let found = namespace.slices_become("plover", &[RIGHT]).await.unwrap();
    assert_eq!(Some(&found[0].owner_references()[0].uid), again.metadata.uid.as_ref());
}

/// A slice that another manager has claimed keeps its name: the one that takes its place gets another at once, and nothing fails for it.
#[tokio::test]
async fn a_slice_whose_name_is_taken_gets_another_at_once() {
    let namespace = namespace().await;
    let right = served(&namespace, "stint").await;
    let claim = json!({"metadata": {"labels": {MANAGED_BY: "night-shift"}}});
    patch(&namespace, &right.name_any(), &claim).await;
    namespace.slices_become("stint", &[RIGHT, RIGHT]).await.unwrap();
    namespace.caught_up().await.unwrap();
    let events = namespace.events().list(&ListParams::default()).await.unwrap();
    let failures = events
        .items
        .iter()
        .filter(|it| it.reason.as_deref() == Some("FailedToUpdateEndpointSlices"));
    assert_eq!(failures.count(), 0, "{:?}", events.items);
}

/// B04 (c): slices that somebody else makes for a Service of ours.
#[tokio::test]
async fn slices_of_other_managers_are_never_written() {
    let namespace = namespace().await;
    let right = served(&namespace, "plover").await;
    let mut versions = Vec::new();
    for (name, manager) in [("shift", Some("night-shift")), ("plain", None)] {
        let mut foreign = copy(&right, name);
        let labels = foreign.labels_mut();
        labels.remove(MANAGED_BY);
        labels.extend(manager.map(|manager| (MANAGED_BY.to_owned(), manager.to_owned())));
        versions.push(create(&namespace, &foreign).await);
    }
    // Through changes of everything that its Service has, and its end.
    namespace.set_pod_ready("p1", false).await.unwrap();
    let changed = "IPv4 10.1.0.1/--- 10.1.0.2/rs- -> http:8080/TCP";
    namespace
        .slices_become("plover", &[RIGHT, RIGHT, changed])
        .await
        .unwrap();
    let relabelled = json!({"metadata": {"labels": {"a": "3"}}, "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 9090}]}});
    let (services, params) = (namespace.services(), PatchParams::default());
    services
        .patch("plover", &params, &Patch::Strategic(relabelled))
        .await
        .unwrap();
    let changed = "IPv4 10.1.0.1/--- 10.1.0.2/rs- -> http:9090/TCP";
    namespace
        .slices_become("plover", &[RIGHT, RIGHT, changed])
        .await
        .unwrap();
    services.delete("plover", &DeleteParams::default()).await.unwrap();
    namespace.caught_up().await.unwrap();
    for foreign in versions {
        let now = namespace.slices().get(&foreign.name_any()).await.unwrap();
        assert_eq!(now.resource_version(), foreign.resource_version());
    }
}
