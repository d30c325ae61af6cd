//! What is no reason to write a slice, and that many reasons within the batch period are one.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use http::Method;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use svcplane_tests::cluster;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{create_pods, pod, service};
use svcplane_tests::proxy::Match;
use svcplane_tests::slices;
use svcplane_tests::svcplane::{Builder, Replica, Svcplane, alone};
use tokio::sync::MutexGuard;

/// A namespace with three Pods `p1` to `p3`, and the one svcplane that runs, behind a proxy.
struct Rig {
    namespace: TestNamespace,
    replica: Replica,
    _alone: MutexGuard<'static, ()>,
}

impl Rig {
    async fn new(builder: impl FnOnce(Builder) -> Builder) -> Self {
        let alone = alone().await;
        let namespace = TestNamespace::create(cluster::shared()).await.unwrap();
        slices::node(namespace.client(), "node-1", Some("a")).await.unwrap();
        let pods = (1..=3).map(|number| {
            let one = pod(&format!("p{number}")).label("app", "web");
            one.ip(&format!("10.1.0.{number}"))
        });
        create_pods(pods, &namespace).await.unwrap();
        let builder = builder(Svcplane::builder().arg("--leader-elect=false"));
        let replica = Replica::start(cluster::shared(), builder).await.unwrap();
        replica.wait_idle().await.unwrap();
        Self {
            namespace,
            replica,
            _alone: alone,
        }
    }

    /// Methods of the writes of this slice, or of all in the namespace.
    fn methods(&self, slice: Option<&str>) -> Vec<Method> {
        let mut writes = Match::writes("endpointslices").namespace(self.namespace.name());
        if let Some(slice) = slice {
            writes = writes.name(slice);
        }
        let writes = self.replica.proxy().requests(&writes);
        writes.into_iter().map(|it| it.request.method).collect()
    }

    async fn patch_slice(&self, name: &str, patch: &Value) {
        self.namespace.patch_slice(name, patch).await.unwrap();
    }
}

/// B15: annotations, other conditions, times, labels that select nothing, heartbeats of Nodes.
#[tokio::test]
async fn changes_of_pods_that_do_not_matter() {
    let rig = Rig::new(|builder| builder).await;
    let namespace = &rig.namespace;
    let mut rail = service("rail").selector("app", "web").port("", 80, 80).build();
    rail.spec.as_mut().unwrap().traffic_distribution = Some("PreferSameZone".into());
    namespace
        .services()
        .create(&PostParams::default(), &rail)
        .await
        .unwrap();
    let crake = service("crake").selector("app", "none").port("", 80, 80);
    crake.create(namespace).await.unwrap();
    let all = ["IPv4 10.1.0.1/rs-{a} 10.1.0.2/rs-{a} 10.1.0.3/rs-{a} -> :80/TCP"];
    let rail = namespace.slices_become("rail", &all).await.unwrap()[0].name_any();
    let crake = namespace.slices_become("crake", &["IPv4"]).await.unwrap()[0].name_any();
    namespace.caught_up().await.unwrap();
    rig.replica.proxy().clear_records();

    let (pods, params) = (namespace.pods(), PatchParams::default());
    for round in 0..67 {
        let note = Patch::Merge(json!({ "metadata": { "annotations": { "example.org/round": round.to_string() } } }));
        let changed = ["p1", "p2", "p3"].map(|name| pods.patch(name, &params, &note));
        try_join_all(changed).await.unwrap();
    }
    for change in [
        json!({ "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2090-01-01T00:00:00Z" }] }),
        json!({ "conditions": [{ "type": "ContainersReady", "status": "False" }] }),
        json!({ "phase": "Pending" }),
        json!({ "phase": "Running", "message": "x", "hostIP": "192.0.2.1", "hostIPs": [{ "ip": "192.0.2.1" }] }),
        // Of the other family: not this Service's.
        json!({ "podIPs": [{ "ip": "10.1.0.1" }, { "ip": "fd00::1" }] }),
    ] {
        namespace.patch_pod_status("p1", change).await.unwrap();
    }
    for x in [json!("y"), Value::Null] {
        let label = Patch::Merge(json!({ "metadata": { "labels": { "x": x } } }));
        pods.patch("p2", &params, &label).await.unwrap();
    }
    let nodes = namespace.cluster_wide::<Node>();
    for minute in 10..30 {
        let heartbeat = json!({ "status": { "conditions": [
            { "type": "Ready", "status": "True", "lastHeartbeatTime": format!("2026-01-01T00:{minute}:00Z") }] } });
        nodes
            .patch_status("node-1", &params, &Patch::Merge(heartbeat))
            .await
            .unwrap();
    }
    namespace.caught_up().await.unwrap();
    assert_eq!((rig.methods(Some(&rail)), rig.methods(Some(&crake))), (vec![], vec![]));
}

/// What differs in form alone is left as it is.
#[tokio::test]
async fn an_edit_that_changes_nothing_is_not_touched() {
    let rig = Rig::new(|builder| builder).await;
    let web = service("web")
        .selector("app", "web")
        .port("b", 80, 80)
        .port("a", 81, 81);
    web.create(&rig.namespace).await.unwrap();
    let all = ["IPv4 10.1.0.1/rs- 10.1.0.2/rs- 10.1.0.3/rs- -> a:81/TCP b:80/TCP"];
    let stored = rig.namespace.slices_become("web", &all).await.unwrap();
    let name = stored[0].name_any();
    let reversed = |list: Value| -> Vec<Value> { list.as_array().unwrap().iter().rev().cloned().collect() };
    let mut versioned = serde_json::to_value(&stored[0].endpoints).unwrap();
    versioned[1]["targetRef"]["resourceVersion"] = json!("7");
    let edits = [
        json!({ "endpoints": versioned }),
        json!({ "endpoints": reversed(serde_json::to_value(&stored[0].endpoints).unwrap()) }),
        json!({ "ports": reversed(serde_json::to_value(&stored[0].ports).unwrap()) }),
        json!({ "metadata": { "annotations": { "example.org/note": "mine" } } }),
        json!({ "metadata": { "annotations": { "endpoints.kubernetes.io/last-change-trigger-time": null } } }),
    ];
    rig.namespace.caught_up().await.unwrap();
    rig.replica.proxy().clear_records();
    for edit in edits {
        rig.patch_slice(&name, &edit).await;
        rig.namespace.caught_up().await.unwrap();
        assert_eq!(rig.methods(Some(&name)), [] as [Method; 0], "{edit}");
    }
    // And a write for another reason keeps what is not ours.
    rig.namespace.set_pod_ready("p1", false).await.unwrap();
    let changed = ["IPv4 10.1.0.1/--- 10.1.0.2/rs- 10.1.0.3/rs- -> a:81/TCP b:80/TCP"];
    let found = rig.namespace.slices_become("web", &changed).await.unwrap();
    assert_eq!(found[0].annotations()["example.org/note"], "mine");
    assert_eq!(rig.methods(Some(&name)), [Method::PUT]);
}

/// B27, second part: five changes are one write, of the last state.
#[tokio::test]
async fn within_the_batch_period_the_last_state_counts() {
    const PERIOD: Duration = Duration::from_secs(3);
    let rig = Rig::new(|builder| builder.arg("--endpointslice-updates-batch-period=3s")).await;
    let gadwall = service("gadwall").selector("app", "web").port("", 80, 80);
    gadwall.create(&rig.namespace).await.unwrap();
    let all = ["IPv4 10.1.0.1/rs- 10.1.0.2/rs- 10.1.0.3/rs- -> :80/TCP"];
    rig.namespace.slices_become("gadwall", &all).await.unwrap();
    rig.replica.wait_idle().await.unwrap();
    rig.replica.proxy().clear_records();
    let started = Instant::now();
    for ready in [false, true, false, true, false] {
        rig.namespace.set_pod_ready("p1", ready).await.unwrap();
    }
    let took = started.elapsed();
    assert!(took < PERIOD, "the machine is too slow for this test: {took:?}");
    let last = ["IPv4 10.1.0.1/--- 10.1.0.2/rs- 10.1.0.3/rs- -> :80/TCP"];
    rig.namespace.slices_become("gadwall", &last).await.unwrap();
    let waited = started.elapsed();
    assert!(waited >= PERIOD, "{waited:?}");
    rig.replica.wait_idle().await.unwrap();
    assert_eq!(rig.methods(None), [Method::PUT]);
}
