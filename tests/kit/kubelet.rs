//! The status-kubelet on a real apiserver: what it writes, and what it leaves alone.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams, WatchEvent, WatchParams};
use kube::runtime::wait::{await_condition, conditions};
use serde_json::{Value, json};
use svcplane_tests::cluster;
use svcplane_tests::kubelet::{Builder, StatusKubelet, is_ready};
use svcplane_tests::proxy::{FaultProxy, Match};
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(20);

async fn namespace(name: &str) -> Api<Pod> {
    let client = cluster::shared().client();
    let object = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    Api::all(client.clone())
        .create(&PostParams::default(), &object)
        .await
        .unwrap();
    Api::namespaced(client, name)
}

fn kubelet(namespace: &str) -> Builder {
    let node = format!("node-of-{namespace}");
    StatusKubelet::builder(cluster::shared().client())
        .namespace(namespace)
        .nodes(&[&node])
}

async fn create(pods: &Api<Pod>, name: &str, more: Value) -> Pod {
    let mut spec = json!({"containers": [{"name": "c", "image": "none"}]});
    spec.as_object_mut()
        .unwrap()
        .append(&mut more.as_object().unwrap().clone());
    let pod = json!({"metadata": {"name": name}, "spec": spec});
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap())
        .await
        .unwrap()
}

async fn wait(pods: &Api<Pod>, name: &str, holds: impl Fn(&Pod) -> bool) -> Pod {
    let found = await_condition(pods.clone(), name, |p: Option<&Pod>| p.is_some_and(&holds));
    timeout(SOON, found).await.expect("in time").unwrap().unwrap()
}

fn ready_since(pod: &Pod) -> String {
    let conditions = pod.status.as_ref().unwrap().conditions.as_ref().unwrap();
    let ready = conditions.iter().find(|c| c.type_ == "Ready").unwrap();
    format!("{:?}", ready.last_transition_time.as_ref().unwrap())
}

fn ips(pod: &Pod) -> Vec<String> {
    let status = pod.status.clone().unwrap_or_default();
    status.pod_ips.unwrap_or_default().into_iter().map(|ip| ip.ip).collect()
}

#[tokio::test]
async fn a_pod_gets_a_node_addresses_and_readiness_that_fails_and_comes_back() {
    let pods = namespace("kubelet-life").await;
    let ranges = ["10.77.0.0/24", "fd00:77::/120"];
    let kubelet = kubelet("kubelet-life").pod_ranges(&ranges).start().await.unwrap();
    create(&pods, "a", json!({})).await;
    create(&pods, "elsewhere", json!({"nodeName": "some-other-node"})).await;
    create(
        &pods,
        "gated",
        json!({"schedulingGates": [{"name": "svcplane.io/test"}]}),
    )
    .await;
    create(&pods, "b", json!({"nodeName": "node-of-kubelet-life"})).await;
    let b = wait(&pods, "b", is_ready).await;
    let a = wait(&pods, "a", is_ready).await;
    assert_eq!(
        a.spec.as_ref().unwrap().node_name.as_deref(),
        Some("node-of-kubelet-life")
    );
    let status = a.status.as_ref().unwrap();
    assert_eq!(
        (status.phase.as_deref(), status.host_ip.as_deref()),
        (Some("Running"), Some("192.168.240.1"))
    );
    let mut given = [ips(&a), ips(&b)];
    given.sort();
    assert_eq!(given, [["10.77.0.1", "fd00:77::1"], ["10.77.0.2", "fd00:77::2"]]);
    for untouched in ["elsewhere", "gated"] {
        let pod = pods.get(untouched).await.unwrap();
        assert_eq!((ips(&pod).len(), is_ready(&pod)), (0, false), "{untouched}");
    }

    // metav1.Time has whole seconds.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    kubelet.set_ready("kubelet-life", "a", false).await.unwrap();
    let failed = pods.get("a").await.unwrap();
    assert!(!is_ready(&failed));
    assert_ne!(ready_since(&failed), ready_since(&a));
    assert_eq!(ips(&failed), ips(&a));
    assert!(is_ready(&pods.get("b").await.unwrap()), "the other Pod stays ready");
    kubelet.set_ready("kubelet-life", "a", true).await.unwrap();
    assert!(is_ready(&pods.get("a").await.unwrap()));
    let unknown = timeout(
        Duration::from_millis(300),
        kubelet.set_ready("kubelet-life", "nobody", true),
    );
    assert!(unknown.await.is_err(), "a Pod that is not there does not become ready");
}

#[tokio::test]
async fn a_pod_ends_within_its_grace_and_is_not_ready_meanwhile() {
    let pods = namespace("kubelet-end").await;
    // Name, stays ready, exits after, grace, expected life after the deletion.
    let (long, short) = (Duration::from_secs(60), Duration::from_millis(1200));
    let table = [
        ("whole-grace", false, long, 2, Duration::from_secs(2)),
        ("exits-early", true, short, 30, short),
    ];
    for (name, stays_ready, exit_after, grace, life) in table {
        let mut kubelet = kubelet("kubelet-end").exit_after(exit_after);
        if stays_ready {
            kubelet = kubelet.ready_while_terminating();
        }
        let _kubelet = kubelet.start().await.unwrap();
        create(&pods, name, json!({})).await;
        let pod = wait(&pods, name, is_ready).await;
        let params = WatchParams::default().fields(&format!("metadata.name={name}"));
        let version = pod.metadata.resource_version.clone().unwrap();
        let mut events = Box::pin(pods.watch(&params, &version).await.unwrap());
        let started = Instant::now();
        let grace = DeleteParams::default().grace_period(grace);
        pods.delete(name, &grace).await.unwrap();
        let mut readiness = Vec::new();
        loop {
            let event = timeout(SOON, futures::StreamExt::next(&mut events)).await.unwrap();
            match event.unwrap().unwrap() {
                WatchEvent::Modified(pod) => readiness.push(is_ready(&pod)),
                WatchEvent::Deleted(_) => break,
                _ => {}
            }
        }
        let took = started.elapsed();
        assert!(took >= life && took < life + SOON, "{name}: {took:?}");
        assert_eq!(readiness.iter().all(|&r| r), stays_ready, "{name}: {readiness:?}");
        assert_eq!(*readiness.last().unwrap(), stays_ready, "{name}: {readiness:?}");
    }
}

#[tokio::test]
async fn pinned_addresses_are_kept_over_a_replacement() {
    let pods = namespace("kubelet-pin").await;
    let pinned = ["10.100.130.119", "10.100.152.254"].map(|a| a.parse().unwrap());
    let kubelet = kubelet("kubelet-pin").pin("kubelet-pin", "hostnames-", &pinned);
    let _kubelet = kubelet
        .pod_ranges(&["10.100.0.0/16"])
        .exit_after(Duration::ZERO)
        .start()
        .await
        .unwrap();
    for name in ["hostnames-1", "hostnames-2", "other"] {
        create(&pods, name, json!({})).await;
    }
    let mut given = Vec::new();
    for name in ["hostnames-1", "hostnames-2", "other"] {
        given.append(&mut ips(&wait(&pods, name, is_ready).await));
    }
    given[..2].sort();
    assert_eq!(given, ["10.100.130.119", "10.100.152.254", "10.100.0.1"]);
    let first = ips(&pods.get("hostnames-1").await.unwrap());
    let uid = pods.get("hostnames-1").await.unwrap().metadata.uid.unwrap();
    pods.delete("hostnames-1", &DeleteParams::default()).await.unwrap();
    let gone = await_condition(pods.clone(), "hostnames-1", conditions::is_deleted(&uid));
    timeout(SOON, gone).await.unwrap().unwrap();
    create(&pods, "hostnames-3", json!({})).await;
    assert_eq!(ips(&wait(&pods, "hostnames-3", is_ready).await), first);
}

#[tokio::test]
async fn a_new_kubelet_takes_over_without_a_write() {
    let pods = namespace("kubelet-restart").await;
    let first = kubelet("kubelet-restart")
        .pod_ranges(&["10.78.0.0/24"])
        .start()
        .await
        .unwrap();
    for name in ["a", "b", "c"] {
        create(&pods, name, json!({})).await;
        wait(&pods, name, is_ready).await;
    }
    drop(first);
    let before: Vec<Vec<String>> = pods
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .iter()
        .map(ips)
        .collect();

    let proxy = FaultProxy::start(cluster::shared()).unwrap();
    let client = proxy.client(cluster::shared().admin_token()).unwrap();
    let second = StatusKubelet::builder(client)
        .namespace("kubelet-restart")
        .nodes(&["node-of-kubelet-restart"]);
    let _second = second.pod_ranges(&["10.78.0.0/24"]).start().await.unwrap();
    create(&pods, "d", json!({})).await;
    let d = wait(&pods, "d", is_ready).await;
    let written = proxy.writes("pods", "kubelet-restart");
    assert!(written.iter().all(|w| w.request.name == "d"), "{written:?}");
    assert_eq!(
        proxy.writes_of(&Match::writes("pods").name("d")).len(),
        2,
        "binding and status"
    );
    let after: Vec<Vec<String>> = pods
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .iter()
        .map(ips)
        .collect();
    assert_eq!(after[..3], before);
    assert!(!before.contains(&ips(&d)));
}
