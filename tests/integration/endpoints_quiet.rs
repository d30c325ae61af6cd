//! What changes nothing is not written: counted at the fault proxy, where writes that store the same would show too.

use futures::future::try_join_all;
use http::Method;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{ServiceBuilder, endpoints, pod, service};
use svcplane_tests::proxy::{Match, Record};
use svcplane_tests::svcplane::shared_behind_proxy;

const HEADLESS: &str = "service.kubernetes.io/headless";
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";

/// svcplane's writes of the Endpoints of this name, whatever became of them.
fn writes(namespace: &TestNamespace, name: &str) -> Vec<Record> {
    let (proxy, _) = shared_behind_proxy();
    proxy.requests(&Match::writes("endpoints").namespace(namespace.name()).name(name))
}

fn methods(namespace: &TestNamespace, name: &str) -> Vec<Method> {
    writes(namespace, name)
        .into_iter()
        .map(|record| record.request.method)
        .collect()
}

fn to_web(name: &str) -> ServiceBuilder {
    service(name).selector("app", "web").port("", 80, 80)
}

async fn web(namespace: &TestNamespace, number: u32) {
    let one = pod(&format!("p{number}"))
        .label("app", "web")
        .ip(&format!("10.1.0.{number}"));
    one.create(namespace).await.unwrap();
}

/// Ready Pods `p1` and up, which svcplane has seen: watches of Services and of Pods do not wait for each other, so that a
/// Service made now might be written without them first.
async fn webs_seen(namespace: &TestNamespace, count: u32) {
    for number in 1..=count {
        web(namespace, number).await;
    }
    namespace.caught_up().await.unwrap();
}

async fn patch_pod(namespace: &TestNamespace, name: &str, patch: Value) {
    let patch = Patch::Strategic(patch);
    namespace
        .pods()
        .patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

#[tokio::test]
async fn changes_of_pods_that_do_not_matter() {
    let namespace = TestNamespace::served_behind_proxy().await.unwrap();
    webs_seen(&namespace, 3).await;
    to_web("rail").create(&namespace).await.unwrap();
    service("crake")
        .selector("app", "none")
        .port("", 80, 80)
        .create(&namespace)
        .await
        .unwrap();
    namespace
        .endpoints_become("rail", &["10.1.0.1 10.1.0.2 10.1.0.3 -> :80/TCP"])
        .await
        .unwrap();
    namespace.endpoints_become("crake", &[]).await.unwrap();
    namespace.caught_up().await.unwrap();
    assert_eq!(methods(&namespace, "rail"), [Method::POST]);

    let (pods, params) = (namespace.pods(), PatchParams::default());
    for round in 0..67 {
        let note = Patch::Merge(json!({ "metadata": { "annotations": { "example.org/round": round.to_string() } } }));
        try_join_all(["p1", "p2", "p3"].map(|name| pods.patch(name, &params, &note)))
            .await
            .unwrap();
    }
    for change in [
        json!({ "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2090-01-01T00:00:00Z" }] }),
        json!({ "conditions": [{ "type": "ContainersReady", "status": "False" }] }),
        json!({ "phase": "Pending" }),
        json!({ "phase": "Running", "message": "x", "hostIP": "192.0.2.1", "hostIPs": [{ "ip": "192.0.2.1" }] }),
        json!({ "containerStatuses": [{ "name": "main", "ready": false, "restartCount": 7, "image": "x", "imageID": "x",
            "state": { "waiting": { "reason": "CrashLoopBackOff" } } }] }),
    ] {
        namespace.patch_pod_status("p1", change).await.unwrap();
    }
    patch_pod(
        &namespace,
        "p2",
        json!({ "metadata": { "labels": { "x": "y" }, "finalizers": ["example.org/hold"] } }),
    )
    .await;
    patch_pod(
        &namespace,
        "p2",
        json!({ "metadata": { "labels": { "x": null }, "finalizers": null } }),
    )
    .await;
    // Of the other family: not this Service's.
    namespace
        .patch_pod_status("p3", json!({ "podIPs": [{ "ip": "10.1.0.3" }, { "ip": "fd00::3" }] }))
        .await
        .unwrap();
    namespace.caught_up().await.unwrap();
    assert_eq!(
        (methods(&namespace, "rail"), methods(&namespace, "crake")),
        (vec![Method::POST], vec![Method::POST])
    );
}

#[tokio::test]
async fn pods_that_are_not_listed() {
    let namespace = TestNamespace::served_behind_proxy().await.unwrap();
    webs_seen(&namespace, 1).await;
    to_web("web").create(&namespace).await.unwrap();
    namespace
        .endpoints_become("web", &["10.1.0.1 -> :80/TCP"])
        .await
        .unwrap();
    pod("no-address").label("app", "web").create(&namespace).await.unwrap();
    pod("done")
        .label("app", "web")
        .ip("10.1.0.2")
        .phase("Succeeded")
        .create(&namespace)
        .await
        .unwrap();
    pod("v6")
        .label("app", "web")
        .ip("fd00::2")
        .create(&namespace)
        .await
        .unwrap();
    pod("other")
        .label("app", "other")
        .ip("10.1.0.4")
        .create(&namespace)
        .await
        .unwrap();
    for name in ["done", "v6", "other"] {
        for ready in [false, true] {
            namespace.set_pod_ready(name, ready).await.unwrap();
        }
    }
    namespace.caught_up().await.unwrap();
    assert_eq!(methods(&namespace, "web"), [Method::POST]);
}

#[tokio::test]
async fn changes_of_services_that_do_not_matter() {
    let namespace = TestNamespace::served_behind_proxy().await.unwrap();
    webs_seen(&namespace, 1).await;
    to_web("web").type_("LoadBalancer").create(&namespace).await.unwrap();
    namespace
        .endpoints_become("web", &["10.1.0.1 -> :80/TCP"])
        .await
        .unwrap();
    for change in [
        json!({ "metadata": { "annotations": { "example.org/note": "x" } } }),
        json!({ "spec": { "sessionAffinity": "ClientIP", "externalTrafficPolicy": "Local" } }),
        json!({ "spec": { "publishNotReadyAddresses": true } }),
        json!({ "spec": { "selector": { "app": "web" }, "internalTrafficPolicy": "Local" } }),
        json!({ "spec": { "type": "ClusterIP", "externalTrafficPolicy": null } }),
    ] {
        namespace.patch_service("web", &change).await.unwrap();
    }
    namespace.caught_up().await.unwrap();
    assert_eq!(methods(&namespace, "web"), [Method::POST]);
}

/// The reference writes these at every sync.
#[tokio::test]
async fn reserved_labels_on_a_service() {
    let namespace = TestNamespace::served_behind_proxy().await.unwrap();
    webs_seen(&namespace, 1).await;
    let headless = to_web("headless")
        .headless()
        .label(HEADLESS, "")
        .label(MANAGED_BY, "somebody");
    headless.create(&namespace).await.unwrap();
    let proxied = to_web("proxied")
        .label(HEADLESS, "")
        .label(MANAGED_BY, "endpoint-controller");
    proxied.create(&namespace).await.unwrap();
    for name in ["headless", "proxied"] {
        namespace
            .endpoints_become(name, &["10.1.0.1 -> :80/TCP"])
            .await
            .unwrap();
        for round in 0..5 {
            namespace
                .patch_service(
                    name,
                    &json!({ "metadata": { "annotations": { "round": round.to_string() } } }),
                )
                .await
                .unwrap();
        }
    }
    // A change of the Pods that both Services look at and neither needs to write.
    namespace
        .patch_pod_status("p1", json!({ "podIPs": [{ "ip": "10.1.0.1" }, { "ip": "fd00::1" }] }))
        .await
        .unwrap();
    namespace.caught_up().await.unwrap();
    for name in ["headless", "proxied"] {
        assert_eq!(methods(&namespace, name), [Method::POST], "{name}");
    }
}

#[tokio::test]
async fn endpoints_of_others() {
    let namespace = TestNamespace::served_behind_proxy().await.unwrap();
    service("manual").port("", 80, 80).create(&namespace).await.unwrap();
    for name in ["manual", "orphan"] {
        endpoints(name)
            .subset(&["192.0.2.1"], &[("", 80)])
            .create(&namespace)
            .await
            .unwrap();
        for round in 0..5 {
            let note = Patch::Merge(json!({ "metadata": { "labels": { "round": round.to_string() } } }));
            namespace
                .endpoints()
                .patch(name, &PatchParams::default(), &note)
                .await
                .unwrap();
        }
    }
    namespace
        .patch_service("manual", &json!({ "metadata": { "labels": { "a": "1" } } }))
        .await
        .unwrap();
    namespace.caught_up().await.unwrap();
    assert!(writes(&namespace, "manual").is_empty() && writes(&namespace, "orphan").is_empty());
}

/// Its own write, coming back over the watch, is no change; neither is what it is about to see.
#[tokio::test]
async fn every_change_costs_one_write() {
    let namespace = TestNamespace::served_behind_proxy().await.unwrap();
    to_web("web").create(&namespace).await.unwrap();
    namespace.endpoints_become("web", &[]).await.unwrap();
    web(&namespace, 1).await;
    namespace
        .endpoints_become("web", &["10.1.0.1 -> :80/TCP"])
        .await
        .unwrap();
    for ready in [false, true, false, true] {
        namespace.set_pod_ready("p1", ready).await.unwrap();
        let line = if ready {
            "10.1.0.1 -> :80/TCP"
        } else {
            "!10.1.0.1 -> :80/TCP"
        };
        namespace.endpoints_become("web", &[line]).await.unwrap();
    }
    namespace.caught_up().await.unwrap();
    let mut expected = vec![Method::POST];
    expected.extend(vec![Method::PUT; 5]);
    assert_eq!(methods(&namespace, "web"), expected);
    let stored = writes(&namespace, "web")
        .iter()
        .all(|record| record.changed == Some(true));
    assert!(stored, "each of them stored something");
}

/// A made-up port 0 would be refused again and again.
#[tokio::test]
async fn a_headless_service_without_ports_is_one_write_that_is_accepted() {
    let namespace = TestNamespace::served_behind_proxy().await.unwrap();
    web(&namespace, 1).await;
    web(&namespace, 2).await;
    let sanderling = service("sanderling").headless().selector("app", "web");
    sanderling.create(&namespace).await.unwrap();
    namespace
        .endpoints_become("sanderling", &["10.1.0.1 10.1.0.2"])
        .await
        .unwrap();
    namespace.caught_up().await.unwrap();
    let statuses: Vec<_> = writes(&namespace, "sanderling").iter().map(|it| it.status).collect();
    assert_eq!(statuses, [Some(201)]);
}

/// No write of ours can overwrite what it has not seen.
#[tokio::test]
async fn every_write_says_what_it_replaces() {
    let namespace = TestNamespace::served_behind_proxy().await.unwrap();
    let (proxy, _) = shared_behind_proxy();
    proxy.keep_bodies(true);
    web(&namespace, 1).await;
    to_web("web").create(&namespace).await.unwrap();
    let created = namespace
        .endpoints_become("web", &["10.1.0.1 -> :80/TCP"])
        .await
        .unwrap()
        .metadata;
    namespace.set_pod_ready("p1", false).await.unwrap();
    let updated = namespace
        .endpoints_become("web", &["!10.1.0.1 -> :80/TCP"])
        .await
        .unwrap()
        .metadata;
    namespace
        .services()
        .delete("web", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    let deadline = std::time::Duration::from_secs(30);
    svcplane_tests::eventually::eventually_gone("web", deadline, &namespace.endpoints(), "web")
        .await
        .unwrap();
    let records = writes(&namespace, "web");
    let bodies: Vec<Value> = records
        .iter()
        .map(|it| serde_json::from_slice(it.body.as_ref().unwrap()).unwrap())
        .collect();
    assert_eq!(methods(&namespace, "web"), [Method::POST, Method::PUT, Method::DELETE]);
    assert_eq!(bodies[0]["metadata"]["resourceVersion"], Value::Null);
    let replaced = |metadata: &Value| (metadata["uid"].clone(), metadata["resourceVersion"].clone());
    assert_eq!(
        replaced(&bodies[1]["metadata"]),
        (json!(created.uid), json!(created.resource_version))
    );
    assert_eq!(
        replaced(&bodies[2]["preconditions"]),
        (json!(updated.uid), json!(updated.resource_version))
    );
}
