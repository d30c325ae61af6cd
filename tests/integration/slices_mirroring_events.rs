//! What is left out of a mirror is told once, and again when it changes; the reference tells it at every sync.

use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use svcplane_tests::cluster;
use svcplane_tests::eventually::eventually;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{endpoints, service};
use svcplane_tests::svcplane::Svcplane;

const SOON: Duration = Duration::from_secs(30);
const REASON: &str = "TooManyAddressesToMirror";

/// Waits until it was told exactly so often, and gives what was told.
async fn told(namespace: &TestNamespace, times: i32) -> Vec<String> {
    eventually("Events", SOON, &namespace.events(), "", |all: &[Event]| {
        let about = all.iter().filter(|it| it.involved_object.name.as_deref() == Some("db"));
        let about: Vec<_> = about.filter(|it| it.reason.as_deref() == Some(REASON)).collect();
        let count: i32 = about
            .iter()
            .map(|it| it.series.as_ref().and_then(|it| it.count).unwrap_or(1))
            .sum();
        let notes = about.iter().filter_map(|it| it.message.clone()).collect();
        if count == times {
            Ok(notes)
        } else {
            Err(format!("told {count} times: {about:?}"))
        }
    })
    .await
    .unwrap()
}

async fn patch(namespace: &TestNamespace, patch: Value) {
    let params = PatchParams::default();
    let endpoints = namespace.endpoints();
    endpoints.patch("db", &params, &Patch::Merge(patch)).await.unwrap();
}

#[tokio::test]
async fn addresses_above_the_limit_are_told_when_their_number_changes() {
    let namespace = TestNamespace::create(cluster::shared()).await.unwrap();
    let builder = Svcplane::builder()
        .cluster(cluster::shared())
        .arg("--mirroring-max-endpoints-per-subset=2")
        .arg("--min-resync-period=1s");
    let svcplane = builder.start().await.unwrap();
    svcplane.wait_leader().await.unwrap();
    service("db").port("", 80, 80).create(&namespace).await.unwrap();
    let made = endpoints("db").subset(&["192.0.2.1", "192.0.2.2", "192.0.2.3"], &[("", 80)]);
    made.create(&namespace).await.unwrap();
    let two = ["IPv4 192.0.2.1/r?? 192.0.2.2/r?? -> :80/TCP"];
    namespace.slices_become("db", &two).await.unwrap();
    let notes = told(&namespace, 1).await;
    let note = "A max of 2 addresses can be mirrored to EndpointSlices per Endpoints subset. 1 addresses were skipped";
    assert_eq!(notes, [note]);

    // Looked at again and again, and changed in what is mirrored.
    let before = svcplane.looks().await.unwrap();
    patch(&namespace, json!({"metadata": {"labels": {"a": "1"}}})).await;
    svcplane.wait_looks(before + 6.0, SOON).await.unwrap();
    namespace.caught_up().await.unwrap();
    told(&namespace, 1).await;

    // One more is too many: that is news.
    let addresses: Vec<Value> = (1..=4).map(|last| json!({"ip": format!("192.0.2.{last}")})).collect();
    patch(
        &namespace,
        json!({"subsets": [{"addresses": addresses, "ports": [{"port": 80}]}]}),
    )
    .await;
    let notes = told(&namespace, 2).await;
    assert!(
        notes.contains(&note.replace(" 1 addresses", " 2 addresses")),
        "{notes:?}"
    );

    // All is well, and then it is not again.
    patch(
        &namespace,
        json!({"subsets": [{"addresses": addresses[..2], "ports": [{"port": 80}]}]}),
    )
    .await;
    namespace.slices_become("db", &two).await.unwrap();
    namespace.caught_up().await.unwrap();
    told(&namespace, 2).await;
    patch(
        &namespace,
        json!({"subsets": [{"addresses": addresses[..3], "ports": [{"port": 80}]}]}),
    )
    .await;
    told(&namespace, 3).await;
}
