//! Which Pods are in the slices of a Service, and in what state: cases in which others listed the wrong ones.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{PodBuilder, ServiceBuilder, create_pods, pod, service};
use svcplane_tests::slices;

async fn namespace() -> TestNamespace {
    let namespace = TestNamespace::served().await.unwrap();
    slices::node(namespace.client(), "node-1", Some("a")).await.unwrap();
    namespace
}

fn to_web(name: &str) -> ServiceBuilder {
    service(name).selector("app", "web").port("", 80, 80)
}

fn web(name: &str, ip: &str) -> PodBuilder {
    pod(name).label("app", "web").ip(ip)
}

async fn patch(namespace: &TestNamespace, service: &str, spec: Value) {
    namespace
        .patch_service(service, &json!({ "spec": spec }))
        .await
        .unwrap();
}

/// B06: while there is no selector nothing is written; then only what is there now is listed.
#[tokio::test]
async fn a_selector_that_goes_and_comes_back() {
    let namespace = namespace().await;
    web("old", "10.4.0.31").create(&namespace).await.unwrap();
    to_web("ruff").create(&namespace).await.unwrap();
    let old = ["IPv4 10.4.0.31/rs- -> :80/TCP"];
    let before = namespace.slices_become("ruff", &old).await.unwrap()[0].clone();
    patch(&namespace, "ruff", json!({ "selector": null })).await;
    namespace.caught_up().await.unwrap();
    // What the selector left behind in Endpoints is now as if made by hand, and is mirrored: as the reference does.
    let mirrored = "IPv4 10.4.0.31/r?? -> :80/TCP";
    namespace.slices_become("ruff", &[old[0], mirrored]).await.unwrap();
    namespace.delete_pod("old", Duration::ZERO).await.unwrap();
    web("new", "10.4.0.32").create(&namespace).await.unwrap();
    namespace.caught_up().await.unwrap();
    let still = namespace.slices().get(&before.name_any()).await.unwrap();
    assert_eq!(still.resource_version(), before.resource_version());
    patch(&namespace, "ruff", json!({ "selector": { "app": "web" } })).await;
    let new = ["IPv4 10.4.0.32/rs- -> :80/TCP"];
    namespace.slices_become("ruff", &new).await.unwrap();
}

/// B08: also when not ready Pods are published, and when the address is used by another Pod.
#[tokio::test]
async fn finished_pods_are_not_listed() {
    let namespace = namespace().await;
    to_web("curlew").create(&namespace).await.unwrap();
    to_web("published")
        .publish_not_ready_addresses()
        .create(&namespace)
        .await
        .unwrap();
    web("curlew-1", "10.4.0.41").create(&namespace).await.unwrap();
    let listed = ["IPv4 10.4.0.41/rs- -> :80/TCP"];
    for name in ["curlew", "published"] {
        namespace.slices_become(name, &listed).await.unwrap();
    }
    // It is still Ready.
    namespace
        .patch_pod_status("curlew-1", json!({"phase": "Failed"}))
        .await
        .unwrap();
    for name in ["curlew", "published"] {
        namespace.slices_become(name, &["IPv4"]).await.unwrap();
    }
    let finished = (0..30).map(|number| {
        let phase = if number % 2 == 0 { "Failed" } else { "Succeeded" };
        web(&format!("job-{number}"), &format!("10.4.1.{number}")).phase(phase)
    });
    create_pods(finished, &namespace).await.unwrap();
    let snipe = web("snipe", "10.4.0.41");
    snipe.create(&namespace).await.unwrap();
    for name in ["curlew", "published"] {
        let found = namespace.slices_become(name, &listed).await.unwrap();
        let target = slices::endpoints(&found[0])[0].target_ref.clone().unwrap();
        assert_eq!(target.name.as_deref(), Some("snipe"));
    }
}

/// B10: the Node of a Pod goes. The others go on, and nothing is tried again.
#[tokio::test]
async fn a_node_that_goes_takes_its_pods_alone() {
    let namespace = namespace().await;
    let node = |number: usize| format!("n{number}-{}", namespace.name());
    for number in 1..=3 {
        slices::node(namespace.client(), &node(number), Some("z"))
            .await
            .unwrap();
        let one = web(&format!("p{number}"), &format!("10.4.0.{number}")).node(&node(number));
        one.create(&namespace).await.unwrap();
    }
    to_web("godwit").create(&namespace).await.unwrap();
    let all = ["IPv4 10.4.0.1/rs- 10.4.0.2/rs- 10.4.0.3/rs- -> :80/TCP"];
    namespace.slices_become("godwit", &all).await.unwrap();
    let nodes = namespace.cluster_wide::<Node>();
    nodes.delete(&node(3), &DeleteParams::default()).await.unwrap();
    let two = ["IPv4 10.4.0.1/rs- 10.4.0.2/rs- -> :80/TCP"];
    namespace.slices_become("godwit", &two).await.unwrap();
    namespace.set_pod_ready("p1", false).await.unwrap();
    let changed = ["IPv4 10.4.0.1/--- 10.4.0.2/rs- -> :80/TCP"];
    namespace.slices_become("godwit", &changed).await.unwrap();
}

/// B11: both objects tell the same.
#[tokio::test]
async fn a_terminating_pod_serves_and_is_ready_only_if_that_is_published() {
    let namespace = namespace().await;
    to_web("stint").create(&namespace).await.unwrap();
    to_web("published")
        .publish_not_ready_addresses()
        .create(&namespace)
        .await
        .unwrap();
    web("stint-1", "10.4.0.1").create(&namespace).await.unwrap();
    for name in ["stint", "published"] {
        let ready = ["IPv4 10.4.0.1/rs- -> :80/TCP"];
        namespace.slices_become(name, &ready).await.unwrap();
    }
    namespace.delete_pod("stint-1", Duration::from_secs(120)).await.unwrap();
    let terminating = ["IPv4 10.4.0.1/-st -> :80/TCP"];
    namespace.slices_become("stint", &terminating).await.unwrap();
    namespace.endpoints_become("stint", &[]).await.unwrap();
    let published = ["IPv4 10.4.0.1/rst -> :80/TCP"];
    namespace.slices_become("published", &published).await.unwrap();
    namespace
        .endpoints_become("published", &["10.4.0.1 -> :80/TCP"])
        .await
        .unwrap();
    // The Service makes up its mind.
    patch(&namespace, "stint", json!({ "publishNotReadyAddresses": true })).await;
    namespace.slices_become("stint", &published).await.unwrap();
    namespace.set_pod_ready("stint-1", false).await.unwrap();
    let failing = ["IPv4 10.4.0.1/r-t -> :80/TCP"];
    namespace.slices_become("stint", &failing).await.unwrap();
}

/// B19: nine addresses, of which the last three count.
#[tokio::test]
async fn after_three_replacements_only_the_last_pods_are_listed() {
    let namespace = namespace().await;
    to_web("teal").create(&namespace).await.unwrap();
    let mut lines = String::new();
    for round in 1..=3 {
        let address = |number| format!("10.4.{round}.{number}");
        let pods = (1..=3).map(|number| web(&format!("teal-{round}-{number}"), &address(number)));
        create_pods(pods, &namespace).await.unwrap();
        if round > 1 {
            for number in 1..=3 {
                let name = format!("teal-{}-{number}", round - 1);
                namespace.delete_pod(&name, Duration::ZERO).await.unwrap();
            }
        }
        lines = format!(
            "IPv4 {}/rs- {}/rs- {}/rs- -> :80/TCP",
            address(1),
            address(2),
            address(3)
        );
        namespace.slices_become("teal", &[&lines]).await.unwrap();
    }
    namespace.caught_up().await.unwrap();
    namespace.slices_become("teal", &[&lines]).await.unwrap();
}

/// Two Pods of one name follow each other: the second is in the place of the first, with its own uid.
#[tokio::test]
async fn a_pod_that_comes_back_under_its_name_is_another_one() {
    let namespace = namespace().await;
    to_web("web").create(&namespace).await.unwrap();
    let first = web("web-0", "10.4.0.1").create(&namespace).await.unwrap();
    let listed = ["IPv4 10.4.0.1/rs- -> :80/TCP"];
    namespace.slices_become("web", &listed).await.unwrap();
    namespace.delete_pod("web-0", Duration::ZERO).await.unwrap();
    let second = web("web-0", "10.4.0.1").create(&namespace).await.unwrap();
    assert_ne!(second.uid(), first.uid());
    namespace.caught_up().await.unwrap();
    let found = namespace.slices_become("web", &listed).await.unwrap();
    let target = slices::endpoints(&found[0])[0].target_ref.clone().unwrap();
    assert_eq!(target.uid, second.uid());
}
