//! Pods without a Node, and on a Node that is not there.

use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use svcplane_tests::eventually::{eventually, stays};
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{pod, service};
use svcplane_tests::slices;
use svcplane_tests::subsets::lines;

use super::side::{NEVER, Side};

const SOON: Duration = Duration::from_secs(30);
const READY: &str = "10.1.0.1 -> :80/TCP";

async fn web(namespace: &TestNamespace, name: &str, publishes: bool) {
    let mut web = service(name).selector("app", "web").port("", 80, 80);
    if publishes {
        web = web.publish_not_ready_addresses();
    }
    web.create(namespace).await.unwrap();
}

/// A Pod of two Services, and beside it one with an address and no Node; then the first one is not ready any more.
async fn a_pod_without_a_node(side: &Side) {
    let namespace = &side.namespace;
    let first = pod("first").label("app", "web").ip("10.1.0.1");
    first.create(namespace).await.unwrap();
    web(namespace, "web", false).await;
    web(namespace, "published", true).await;
    namespace.endpoints_become("web", &[READY]).await.unwrap();
    namespace.endpoints_become("published", &[READY]).await.unwrap();
    let floating = pod("floating").label("app", "web").ip("10.1.0.2").node("");
    floating.create(namespace).await.unwrap();
    namespace.set_pod_ready("first", false).await.unwrap();
    // The same on both sides.
    let slices = [
        ("web", "IPv4 10.1.0.1/--- -> :80/TCP"),
        ("published", "IPv4 10.1.0.1/r-- 10.1.0.2/rs- -> :80/TCP"),
    ];
    for (service, line) in slices {
        namespace.slices_become(service, &[line]).await.unwrap();
    }
}

#[tokio::test]
async fn ours_leaves_out_a_pod_without_a_node_and_goes_on() {
    let side = Side::ours().await;
    let before = side.refused("422").await;
    a_pod_without_a_node(&side).await;
    let gone_on = ["!10.1.0.1 -> :80/TCP"];
    side.namespace.endpoints_become("web", &gone_on).await.unwrap();
    side.namespace.endpoints_become("published", &[READY]).await.unwrap();
    assert_eq!(side.refused("422").await, before);
}

#[tokio::test]
async fn the_reference_freezes_endpoints_with_a_pod_without_a_node() {
    let side = Side::reference().await;
    a_pod_without_a_node(&side).await;
    let endpoints = side.namespace.endpoints();
    stays("frozen", NEVER, &endpoints, "metadata.name=web", |all| match all {
        [web] if lines(web) == [READY] => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
    .unwrap();
}

const FAILED: &str = "FailedToUpdateEndpointSlices";

/// A Pod of a Service is on a Node that is not there; then another Pod of it is not ready any more, and the Node comes.
async fn a_pod_on_an_unknown_node(side: &Side) -> String {
    let (namespace, node) = (&side.namespace, format!("late-{}", side.namespace.name()));
    for (name, ip, node) in [("first", "10.1.0.1", "node-1"), ("lost", "10.1.0.2", &node)] {
        let one = pod(name).label("app", "web").ip(ip).node(node);
        one.create(namespace).await.unwrap();
    }
    web(namespace, "web", false).await;
    let first = ["IPv4 10.1.0.1/rs- -> :80/TCP"];
    namespace.slices_become("web", &first).await.unwrap();
    namespace.set_pod_ready("first", false).await.unwrap();
    namespace
        .slices_become("web", &["IPv4 10.1.0.1/--- -> :80/TCP"])
        .await
        .unwrap();
    node
}

/// The last step: the Node comes.
async fn the_node_comes(side: &Side, node: &str) {
    slices::node(side.namespace.client(), node, Some("b")).await.unwrap();
    let both = ["IPv4 10.1.0.1/--- 10.1.0.2/rs- -> :80/TCP"];
    side.namespace.slices_become("web", &both).await.unwrap();
}

#[tokio::test]
async fn ours_lists_a_pod_when_its_node_comes_and_nothing_fails_before() {
    let side = Side::ours().await;
    let node = a_pod_on_an_unknown_node(&side).await;
    the_node_comes(&side, &node).await;
    let page = side.svcplane().metrics().await.unwrap();
    assert_eq!(page.sum("svcplane_syncs_total", &[("result", "failed")]), 0.0);
    assert_eq!(page.sum("workqueue_retries_total", &[]), 0.0);
    let events = side.namespace.events().list(&Default::default()).await.unwrap();
    let told = events.items.iter().filter(|it| it.reason.as_deref() == Some(FAILED));
    assert_eq!(told.count(), 0);
}

#[tokio::test]
async fn the_reference_fails_while_the_node_of_a_pod_is_not_there() {
    let side = Side::reference().await;
    a_pod_on_an_unknown_node(&side).await;
    let events = side.namespace.events();
    // Twice at least: the Service is tried again, for nothing.
    eventually("failures", SOON, &events, "", |all: &[Event]| {
        let told = all.iter().filter(|it| it.reason.as_deref() == Some(FAILED));
        let times: i32 = told.map(|it| it.count.unwrap_or(1)).sum();
        if times >= 2 { Ok(()) } else { Err(format!("{times}")) }
    })
    .await
    .unwrap();
}
