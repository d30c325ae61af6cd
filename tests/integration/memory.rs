//! B24, smaller: memory depends on what is needed of Pods and not on how large they are, and a relist costs little.

use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use svcplane_tests::cluster;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{create_pods, pod};
use svcplane_tests::proxy::{Match, Refusal, WatchEnd};
use svcplane_tests::svcplane::{Replica, Svcplane};

const SOON: Duration = Duration::from_secs(60);
const PODS: usize = 2000;
const PADDING: usize = 12 * 1024;
const MEGABYTE: u64 = 1024 * 1024;

/// A svcplane that has seen everything, and the memory it needs at rest.
async fn resting(namespace: &TestNamespace) -> (Replica, u64) {
    let builder = Svcplane::builder().lease_in(namespace).observe();
    let replica = Replica::start(cluster::shared(), builder).await.unwrap();
    replica.wait_idle().await.unwrap();
    let pods = [("resource", "pods")];
    let known = replica.wait_metric("svcplane_objects", &pods, SOON, |it| it >= PODS as f64);
    known.await.unwrap();
    let memory = replica.process().resident_bytes().unwrap();
    (replica, memory)
}

#[tokio::test]
async fn memory_follows_what_is_needed() {
    let namespace = TestNamespace::create(cluster::shared()).await.unwrap();
    let numbered = |number: usize| pod(&format!("p-{number:04}")).label("app", &format!("web-{}", number / 5));
    create_pods((0..PODS).map(numbered), &namespace).await.unwrap();
    namespace.workload("web", &["10.201.0.1"]).await.unwrap();
    let (slim, without) = resting(&namespace).await;
    slim.terminate().await.unwrap();

    let pods = namespace.pods();
    let text = "x".repeat(PADDING);
    let patch = Patch::Merge(json!({ "metadata": { "annotations": { "example.org/padding": text } } }));
    let pad = |number: usize| {
        let (pods, patch) = (&pods, &patch);
        async move {
            let name = format!("p-{number:04}");
            let padded = pods
                .patch_metadata(&name, &PatchParams::default(), patch)
                .await
                .unwrap();
            assert_eq!(padded.annotations()["example.org/padding"].len(), PADDING);
        }
    };
    stream::iter((0..PODS).map(pad))
        .buffer_unordered(24)
        .collect::<()>()
        .await;
    let (replica, with) = resting(&namespace).await;
    assert!(
        with < without + 4 * MEGABYTE,
        "{without} bytes without, {with} with 24 MB of padding"
    );

    for relist in 1..=5 {
        replica.process().forget_peak().unwrap();
        let expired = WatchEnd::Error(Refusal::expired());
        assert_eq!(replica.proxy().end_watches(&Match::watches("pods"), &expired), 1);
        let pods = [("resource", "pods")];
        let relists = |it: f64| it >= f64::from(relist);
        let counted = replica.wait_metric("svcplane_watch_relists_total", &pods, SOON, relists);
        counted.await.unwrap();
        // A change that comes after the relist is seen: so is the whole list.
        let name = format!("after-{relist}");
        namespace.workload(&name, &["10.201.0.1"]).await.unwrap();
        let planned = |_: f64| {
            replica
                .log_lines()
                .iter()
                .any(|line| line.contains(&format!("/{name}\"")))
        };
        let total = "svcplane_planned_operations_total";
        replica.wait_metric(total, &[], SOON, planned).await.unwrap();
        let open = |_: &[_]| replica.proxy().open_watches(&Match::watches("pods")) == 1;
        replica
            .proxy()
            .wait_requests(&Match::watches("pods"), SOON, open)
            .await
            .unwrap();
        let (peak, rest) = (
            replica.process().peak_resident_bytes().unwrap(),
            replica.process().resident_bytes().unwrap(),
        );
        assert!(
            peak * 2 < with * 3,
            "relist {relist}: a peak of {peak} bytes over {with}"
        );
        assert!(
            rest < with + 4 * MEGABYTE,
            "relist {relist}: {rest} bytes afterwards, {with} before"
        );
    }
}
