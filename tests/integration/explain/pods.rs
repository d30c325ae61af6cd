//! Services with Pods: which are in, which are out, and why.

use std::time::Duration;

use kube::ResourceExt as _;
use serde_json::json;
use svcplane_tests::cluster;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::pod;

use super::run::{cluster_ip, namespace, screen, section, web, web_pod, web_with_a_pod};

#[tokio::test]
async fn a_wrong_label() {
    let (namespace, other) = (
        namespace().await,
        TestNamespace::create(cluster::shared()).await.unwrap(),
    );
    let stored = web(&namespace)
        .selector("tier", "front")
        .port("", 80, 8080)
        .create(&namespace)
        .await
        .unwrap();
    web_pod(&namespace, "astray")
        .label("tier", "back")
        .ip("10.1.0.1")
        .create(&namespace)
        .await
        .unwrap();
    web_pod(&namespace, "bare")
        .ip("10.1.0.2")
        .create(&namespace)
        .await
        .unwrap();
    pod("cased")
        .label("App", namespace.name())
        .label("tier", "Front")
        .ip("10.1.0.5")
        .create(&namespace)
        .await
        .unwrap();
    pod("stranger")
        .label("tier", "back")
        .ip("10.1.0.3")
        .create(&namespace)
        .await
        .unwrap();
    let twin = web_pod(&namespace, "twin").label("tier", "front").ip("10.1.0.4");
    twin.create(&other).await.unwrap();
    namespace.slices_become("web", &["IPv4"]).await.unwrap();
    namespace.endpoints_become("web", &[]).await.unwrap();
    let screen = screen(&namespace, "web").await;
    assert_eq!(section(&screen, "Pods"), ["the selector matches none"]);
    let want = [
        format!(
            "out     {}/astray  label tier is \"back\", not \"front\"",
            namespace.name()
        ),
        format!(
            "out     {}/bare  label tier is missing; it should be \"front\"",
            namespace.name()
        ),
        format!(
            "out     {ns}/cased  label App={ns} is not app={ns}: letter case counts; label tier=Front is not tier=front: letter case counts",
            ns = namespace.name()
        ),
        format!(
            "out     {}/twin  its labels match, but a Service has Pods of its own namespace only",
            other.name()
        ),
    ];
    assert_eq!(section(&screen, "Near misses"), want);
    assert_eq!(section(&screen, "Endpoints"), ["web  no addresses  same"]);
    let refused = format!(
        "iptables  refuses connections to {}:80: no endpoints (REJECT)",
        cluster_ip(&stored)
    );
    assert_eq!(section(&screen, "kube-proxy")[1], refused);
}

#[tokio::test]
async fn not_ready() {
    let namespace = namespace().await;
    web_with_a_pod(&namespace).await;
    let changed = namespace.set_pod_ready("p1", false).await.unwrap();
    let condition = &changed.status.unwrap().conditions.unwrap()[0];
    let since = condition
        .last_transition_time
        .as_ref()
        .unwrap()
        .0
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    let main = json!({"name": "main", "ready": false, "restartCount": 4, "image": "x", "imageID": "x",
        "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
    namespace
        .patch_pod_status("p1", json!({"containerStatuses": [main]}))
        .await
        .unwrap();
    namespace
        .endpoints_become("web", &["!10.1.0.1 -> http:8080/TCP"])
        .await
        .unwrap();
    namespace
        .slices_become("web", &["IPv4 10.1.0.1/--- -> http:8080/TCP"])
        .await
        .unwrap();
    let screen = screen(&namespace, "web").await;
    let want = [
        "out     p1  10.1.0.1 on node-1",
        "Endpoints, IPv4 slices: not ready -> http:8080/TCP",
        &format!("not ready since {since}: container main waits: CrashLoopBackOff"),
    ];
    assert_eq!(section(&screen, "Pods"), want);
    assert_eq!(
        section(&screen, "Endpoints"),
        ["web  10.1.0.1 (not ready) -> http:8080/TCP  same"]
    );
}

#[tokio::test]
async fn an_unresolved_named_port() {
    let namespace = namespace().await;
    web(&namespace)
        .port("http", 80, "http")
        .create(&namespace)
        .await
        .unwrap();
    let one = web_pod(&namespace, "p1")
        .ip("10.1.0.1")
        .port("web", 8080)
        .port("metrics", 9100);
    one.create(&namespace).await.unwrap();
    let slices = namespace.slices_become("web", &["IPv4 10.1.0.1/rs-"]).await.unwrap();
    namespace.endpoints_become("web", &[]).await.unwrap();
    let told = screen(&namespace, "web").await;
    let pod = [
        "partly  p1  10.1.0.1 on node-1",
        "Endpoints: out, it has none of the Service's ports",
        "IPv4 slices: ready, without ports",
    ];
    let nothing = "nothing reachable: no matching Pod has a port named http (they have: metrics, web)";
    assert_eq!(section(&told, "Pods"), [&[nothing][..], &pod].concat());
    let unused = format!("does not use slice {}: it has no ports", slices[0].name_any());
    assert_eq!(section(&told, "kube-proxy")[1], unused);

    // Another Pod has it: what is the matter stands at the one that has not.
    let two = web_pod(&namespace, "p2").ip("10.1.0.2").port("http", 8080);
    two.create(&namespace).await.unwrap();
    let slices = ["IPv4 10.1.0.1/rs-", "IPv4 10.1.0.2/rs- -> http:8080/TCP"];
    namespace.slices_become("web", &slices).await.unwrap();
    let note = "port http leads to a container port named http (TCP), which it does not have; its containers name web:8080/TCP, metrics:9100/TCP";
    let told = screen(&namespace, "web").await;
    assert_eq!(section(&told, "Pods")[..4], [&pod[..], &[note]].concat());
}

#[tokio::test]
async fn terminating() {
    let namespace = namespace().await;
    let stored = web(&namespace).port("http", 80, 8080).create(&namespace).await.unwrap();
    web_pod(&namespace, "p1")
        .ip("10.1.0.1")
        .create(&namespace)
        .await
        .unwrap();
    namespace.delete_pod("p1", Duration::from_secs(300)).await.unwrap();
    namespace
        .slices_become("web", &["IPv4 10.1.0.1/-st -> http:8080/TCP"])
        .await
        .unwrap();
    namespace.endpoints_become("web", &[]).await.unwrap();
    let going = namespace
        .pods()
        .get("p1")
        .await
        .unwrap()
        .metadata
        .deletion_timestamp
        .unwrap();
    let screen = screen(&namespace, "web").await;
    let want = [
        "out     p1  10.1.0.1 on node-1",
        "Endpoints: out, it is being deleted",
        "IPv4 slices: terminating, still serving -> http:8080/TCP",
        &format!(
            "being deleted, with time until {}",
            going.0.strftime("%Y-%m-%dT%H:%M:%SZ")
        ),
    ];
    assert_eq!(section(&screen, "Pods"), want);
    let leads = format!(
        "{}:80 TCP -> 10.1.0.1:8080 (none is ready: these are terminating and still serve)",
        cluster_ip(&stored)
    );
    assert_eq!(section(&screen, "kube-proxy")[0], leads);
}
