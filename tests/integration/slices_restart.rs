//! A restart, a change of the leader and a new list of everything with unchanged objects write nothing, as the apiserver counts it: slices of
//! every kind, mirrors, and hints of all kinds.

use std::time::Duration;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use svcplane_tests::cluster::{self, Cluster, ENDPOINT_CONTROLLERS, Flavour, UNTHROTTLED};
use svcplane_tests::eventually::eventually;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{create_pods, endpoints, pod, service};
use svcplane_tests::proxy::{Match, Refusal, WatchEnd};
use svcplane_tests::slices::{self, lines};
use svcplane_tests::svcplane::{Builder, Replica, Svcplane};

const SOON: Duration = Duration::from_secs(60);
const QUIET: Duration = Duration::from_secs(2);

/// Services and Endpoints of every kind that leads to slices, with Pods in every state in three zones.
async fn a_bit_of_everything(namespace: &TestNamespace) {
    for (node, zone) in [("node-1", "a"), ("node-2", "b"), ("node-3", "c")] {
        slices::node(namespace.client(), node, Some(zone)).await.unwrap();
    }
    let pods = (0..24).map(|number: u32| {
        let one = pod(&format!("p{number}")).label("app", "web");
        let one = one.ip(&format!("10.1.0.{number}")).ip(&format!("fd00::{number}"));
        one.node(&format!("node-{}", 1 + number % 3))
            .ready(number % 8 != 7)
            .port("http", 8000 + number.cast_signed() % 2)
            .hostname("h", "headless")
    });
    create_pods(pods, namespace).await.unwrap();
    namespace.delete_pod("p4", Duration::from_secs(600)).await.unwrap();
    let to_web = |name: &str| {
        service(name)
            .selector("app", "web")
            .port("b", 80, "http")
            .port("a", 81, 81)
    };
    let services = [
        to_web("both").families("RequireDualStack", &["IPv6", "IPv4"]),
        to_web("headless").headless(),
        service("no-ports").selector("app", "web").headless(),
        to_web("published").publish_not_ready_addresses(),
        to_web("labelled")
            .label("a", "1")
            .label("service.kubernetes.io/headless", "x"),
        service("nothing").selector("app", "none").port("", 80, 80),
        service("unresolved").selector("app", "web").port("", 80, "none"),
        to_web("auto").annotation("service.kubernetes.io/topology-mode", "Auto"),
        to_web("auto-both")
            .annotation("service.kubernetes.io/topology-mode", "auto")
            .families("RequireDualStack", &["IPv4", "IPv6"]),
        service("mirrored").port("", 80, 80),
    ];
    for service in services {
        service.create(namespace).await.unwrap();
    }
    for distribution in ["PreferClose", "PreferSameZone", "PreferSameNode"] {
        let mut close = to_web(&distribution.to_lowercase()).build();
        close.spec.as_mut().unwrap().traffic_distribution = Some(distribution.into());
        let services = namespace.services();
        services.create(&PostParams::default(), &close).await.unwrap();
    }
    let hand_made = endpoints("mirrored")
        .subset(&["192.0.2.2", "192.0.2.1", "2001:db8::1"], &[("b", 80), ("a", 81)])
        .subset(&["192.0.2.3"], &[("c", 82)]);
    hand_made
        .label("x", "y")
        .annotation("note", "z")
        .create(namespace)
        .await
        .unwrap();
}

/// Slices of every kind are there, with hints where they are asked for.
async fn complete(namespace: &TestNamespace) {
    let mirrored = [
        "IPv4 192.0.2.1/r?? 192.0.2.2/r?? -> a:81/TCP b:80/TCP",
        "IPv4 192.0.2.3/r?? -> c:82/TCP",
        "IPv6 2001:db8::1/r?? -> a:81/TCP b:80/TCP",
    ];
    namespace.slices_become("mirrored", &mirrored).await.unwrap();
    namespace.caught_up().await.unwrap();
    has_all_kinds(namespace).await;
}

async fn has_all_kinds(namespace: &TestNamespace) {
    let all = namespace.slices().list(&Default::default()).await.unwrap();
    let of = |name: &str| lines(all.items.iter().filter(|it| slices::belongs(it, name, None)));
    // Two sets of ports, each in one slice of each family.
    for (name, count) in [
        ("both", 4),
        ("auto", 2),
        ("auto-both", 4),
        ("preferclose", 2),
        ("no-ports", 1),
        ("nothing", 1),
    ] {
        assert_eq!(of(name).len(), count, "{name}: {:?}", of(name));
    }
    for (name, hint) in [
        ("auto", "{a}"),
        ("auto-both", "{b}"),
        ("preferclose", "{c}"),
        ("prefersamenode", "{a;node-1}"),
    ] {
        assert!(of(name).concat().contains(hint), "{name}: {:?}", of(name));
    }
}

fn builder(replica: usize) -> Builder {
    Svcplane::builder().replica(replica).short_lease()
}

async fn start(cluster: &Cluster, builder: Builder) -> Replica {
    let replica = Replica::start(cluster, builder).await.unwrap();
    replica.wait_ready().await.unwrap();
    replica
}

#[tokio::test]
async fn nothing_is_written_for_unchanged_objects() {
    let cluster = cluster::shared();
    let namespace = TestNamespace::create(cluster).await.unwrap();
    a_bit_of_everything(&namespace).await;
    let first = start(cluster, builder(1)).await;
    complete(&namespace).await;
    first.terminate().await.unwrap();
    let before = cluster.settled(QUIET, SOON).await.unwrap();
    let nothing = async |what: &str| {
        let after = cluster.settled(QUIET, SOON).await.unwrap();
        assert_eq!(after - before, 0, "{what}");
    };

    // A restart, and resyncs in which everything is looked at again.
    let second = start(cluster, builder(2).arg("--min-resync-period=1s")).await;
    second.wait_idle().await.unwrap();
    let once = second.looks().await.unwrap();
    second.wait_looks(3.0 * once, SOON).await.unwrap();
    nothing("a restart").await;

    // A change of the leader.
    let third = start(cluster, builder(3)).await;
    second.kill9().await.unwrap();
    third.wait_leader().await.unwrap();
    third.wait_idle().await.unwrap();
    nothing("a change of the leader").await;

    // Every kind is listed anew, all at once.
    for resource in ["services", "pods", "endpoints", "endpointslices", "nodes"] {
        let ended = third
            .proxy()
            .end_watches(&Match::watches(resource), &WatchEnd::Error(Refusal::expired()));
        assert_eq!(ended, 1, "{resource}");
        let labels = [("resource", resource)];
        let relists = third.wait_metric("svcplane_watch_relists_total", &labels, SOON, |it| it >= 1.0);
        relists.await.unwrap();
    }
    third.wait_idle().await.unwrap();
    nothing("new lists").await;

    // It was not asleep.
    namespace.set_pod_ready("p0", false).await.unwrap();
    let label = Patch::Merge(json!({"metadata": {"labels": {"x": "z"}}}));
    let params = PatchParams::default();
    namespace.endpoints().patch("mirrored", &params, &label).await.unwrap();
    namespace.caught_up().await.unwrap();
    assert!(cluster.writes_except(&["leases", "events"]).await.unwrap() > before + 8);
    third.terminate().await.unwrap();
}

async fn names(namespace: &TestNamespace) -> Vec<String> {
    let all = namespace.slices().list(&ListParams::default()).await.unwrap();
    let mut names: Vec<String> = all.items.iter().map(ResourceExt::name_any).collect();
    names.sort();
    names
}

/// Flips `p0` and waits until all slices say so.
async fn flip(namespace: &TestNamespace, ready: bool) {
    namespace.set_pod_ready("p0", ready).await.unwrap();
    let is_p0 = |it: &&Endpoint| {
        it.target_ref
            .as_ref()
            .is_some_and(|pod| pod.name.as_deref() == Some("p0"))
    };
    let serves = |it: &Endpoint| it.conditions.as_ref().and_then(|it| it.serving);
    let seen = |all: &[EndpointSlice]| {
        let late = all.iter().flat_map(slices::endpoints).filter(is_p0);
        let late = late.filter(|it| serves(it) != Some(ready)).count();
        if late == 0 {
            Ok(())
        } else {
            Err(format!("{late} slices are not right"))
        }
    };
    let slices = namespace.slices();
    eventually("all slices right", SOON, &slices, "", seen).await.unwrap();
}

/// What the real kube-controller-manager has left right is not written, and it goes on with what svcplane leaves.
#[tokio::test]
async fn objects_of_the_built_in_controllers_are_taken_over_as_they_are_and_given_back() {
    let cluster = Cluster::start(Flavour::DualStack).await.unwrap();
    let namespace = TestNamespace::create(&cluster).await.unwrap();
    let start_built_in = async || {
        let started = cluster.start_controller_manager_as("admin", &ENDPOINT_CONTROLLERS, &UNTHROTTLED);
        started.await.unwrap();
    };
    start_built_in().await;
    a_bit_of_everything(&namespace).await;
    flip(&namespace, false).await;
    // It waits for a second before it goes on after a write that it has not seen yet.
    let before = cluster.settled(2 * QUIET, SOON).await.unwrap();
    has_all_kinds(&namespace).await;
    cluster.stop_controller_manager().await.unwrap();
    let taken_over = names(&namespace).await;

    let svcplane = Svcplane::builder().cluster(&cluster).start().await.unwrap();
    svcplane.wait_leader().await.unwrap();
    svcplane.wait_idle().await.unwrap();
    assert_eq!(cluster.settled(QUIET, SOON).await.unwrap() - before, 0);
    flip(&namespace, true).await;
    assert_eq!(names(&namespace).await, taken_over);
    svcplane.terminate().await.unwrap();

    start_built_in().await;
    flip(&namespace, false).await;
    assert_eq!(names(&namespace).await, taken_over);
}
