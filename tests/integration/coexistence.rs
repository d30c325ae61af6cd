//! Beside the real kube-controller-manager with its endpoint controllers: svcplane never fights it, does not begin while it runs, and hands
//! over in both directions without touching an object.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Endpoints, Event, Pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use svcplane_tests::cluster::{self, Cluster, ENDPOINT_CONTROLLERS};
use svcplane_tests::eventually::{eventually, never_changes};
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::service;
use svcplane_tests::proxy::Match;
use svcplane_tests::ran;
use svcplane_tests::slices;
use svcplane_tests::svcplane::{Builder, Replica, Svcplane, alone};
use tokio_util::sync::CancellationToken;

/// The breaker's promise.
const MINUTE: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(60);
/// Pods of a Service, where nothing depends on how many there are.
const PODS: usize = 4;

/// kube-controller-manager with the controllers that svcplane replaces, as on most clusters.
async fn start_built_ins(cluster: &Cluster) {
    cluster
        .restart_controller_manager(&ENDPOINT_CONTROLLERS, &[])
        .await
        .unwrap();
}

/// A namespace, and the Node of its Pods: without it they are in no slice.
async fn create_namespace(cluster: &Cluster) -> TestNamespace {
    slices::node(cluster.client(), "node-1", None).await.unwrap();
    TestNamespace::create(cluster).await.unwrap()
}

/// Services `web0`, `web1`, … whose Pods have the same addresses, which is nobody's concern here.
async fn workloads(namespace: &TestNamespace, services: usize, pods: usize) {
    let addresses = addresses(pods);
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    for number in 0..services {
        namespace.workload(&format!("web{number}"), &addresses).await.unwrap();
    }
}

/// All of one length, so that they are sorted in any order of text or number.
fn addresses(pods: usize) -> Vec<String> {
    (11..).take(pods).map(|last| format!("10.201.0.{last}")).collect()
}

/// A namespace with a canary and a workload that kube-controller-manager keeps.
async fn kept_by_built_ins(cluster: &Cluster) -> (TestNamespace, String) {
    let namespace = create_namespace(cluster).await;
    let canary = create_canary(&namespace).await;
    start_built_ins(cluster).await;
    workloads(&namespace, 1, PODS).await;
    becomes(&namespace, 0, PODS, true).await;
    // Another controller's: neither waits for the other.
    slices_are_full(&namespace, 1, PODS, SOON).await;
    (namespace, canary)
}

/// Waits until so many slices list all Pods of a Service.
async fn slices_are_full(namespace: &TestNamespace, services: usize, pods: usize, deadline: Duration) {
    let full = |all: &[EndpointSlice]| {
        let full = all.iter().filter(|it| slices::endpoints(it).len() == pods).count();
        (full == services)
            .then_some(())
            .ok_or_else(|| format!("{full} are full"))
    };
    eventually("slices", deadline, &namespace.slices(), "", full)
        .await
        .unwrap();
}

/// Waits until the Endpoints of this Service list all its Pods, the first one as ready or not.
async fn becomes(namespace: &TestNamespace, number: usize, pods: usize, first_is_ready: bool) {
    let all = addresses(pods);
    let line = if first_is_ready {
        all.join(" ")
    } else {
        format!("{} !{}", all[1..].join(" "), all[0])
    };
    let (name, want) = (format!("web{number}"), format!("{line} -> :8080/TCP"));
    let want = [want.as_str()];
    let became = namespace.endpoints_become_within(&name, &want, 2 * MINUTE);
    became.await.unwrap();
}

async fn create_canary(namespace: &TestNamespace) -> String {
    service("canary")
        .headless()
        .selector("svcplane.io/canary", "nobody")
        .label("svcplane.io/canary", "true")
        .create(namespace)
        .await
        .unwrap();
    format!("{}/canary", namespace.name())
}

fn active(namespace: &TestNamespace) -> Builder {
    Svcplane::builder().lease_in(namespace).short_lease()
}

async fn wait_mode(replica: &Replica, mode: &str, deadline: Duration) {
    let end = tokio::time::Instant::now() + deadline;
    loop {
        let now = replica.debug_state().await.unwrap();
        if now["mode"] == mode && now["leading"] == true {
            return;
        }
        assert!(
            tokio::time::Instant::now() < end,
            "not {mode} after {deadline:?}: {now}"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn wait_event(namespace: &TestNamespace, reason: &str) {
    let seen = |events: &[Event]| {
        let reasons = events.iter().map(|event| event.reason.as_deref());
        let found = reasons.into_iter().any(|it| it == Some(reason));
        found.then_some(()).ok_or_else(|| "no such Event".to_owned())
    };
    eventually(reason, SOON, &namespace.events(), "", seen).await.unwrap();
}

/// Endpoints and slices of the namespace, each with its uid and version.
async fn versions(namespace: &TestNamespace) -> BTreeMap<String, (String, String)> {
    let everything = Default::default();
    let endpoints = namespace.endpoints().list_metadata(&everything).await.unwrap().items;
    let slices = namespace.slices().list_metadata(&everything).await.unwrap().items;
    let endpoints = endpoints.into_iter().map(|it| ("Endpoints", it.metadata));
    let slices = slices.into_iter().map(|it| ("EndpointSlice", it.metadata));
    let all = endpoints
        .chain(slices)
        .filter(|(_, meta)| !meta.name.as_ref().unwrap().starts_with("canary"));
    all.map(|(kind, meta)| {
        let version = (meta.uid.unwrap(), meta.resource_version.unwrap());
        (format!("{kind} {}", meta.name.unwrap()), version)
    })
    .collect()
}

/// Changes a Pod's readiness five times a second, one Service after the other.
async fn flip(namespace: TestNamespace, services: usize, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(Duration::from_millis(200));
    let mut number = 0;
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let (web, ready) = (number % services, number / services % 2 == 1);
        namespace.set_pod_ready(&format!("web{web}-0"), ready).await.unwrap();
        number += 1;
    }
}

/// Exit code, what it printed, what it complained of.
async fn run(cluster: &Cluster, arguments: &[&str]) -> (i32, String, String) {
    let kubeconfig = cluster.kubeconfig();
    let ran = ran::svcplane(&kubeconfig, arguments, 2 * MINUTE).await.unwrap();
    (ran.code, ran.stdout, ran.stderr)
}

async fn take_back(cluster: &Cluster, namespace: &TestNamespace) -> (i32, String) {
    let place = ["--leader-elect-resource-namespace", namespace.name()];
    let (code, words, _) = run(cluster, &[&["handback", "--cancel"][..], &place].concat()).await;
    (code, words)
}

#[tokio::test]
async fn both_run_and_the_breaker_ends_it_within_a_minute() {
    const SERVICES: usize = 5;
    let _alone = alone().await;
    let cluster = cluster::shared();
    let namespace = create_namespace(cluster).await;
    workloads(&namespace, SERVICES, PODS).await;
    let replica = Replica::start(cluster, active(&namespace)).await.unwrap();
    wait_mode(&replica, "active", SOON).await;
    for number in 0..SERVICES {
        becomes(&namespace, number, PODS, true).await;
    }
    start_built_ins(cluster).await;
    let stop = CancellationToken::new();
    let flips = tokio::spawn(flip(namespace.clone(), SERVICES, stop.clone()));
    let begun = tokio::time::Instant::now();
    let found = [("found_by", "breaker")];
    let tripped = replica.wait_metric("svcplane_foreign_writer", &found, MINUTE, |it| it > 0.5);
    tripped.await.unwrap();
    println!("the breaker took {:?}", begun.elapsed());
    wait_event(&namespace, "ForeignWriter").await;
    wait_mode(&replica, "observe", SOON).await;
    namespace
        .lease_is_annotated("svcplane.io/mode", "observe", "")
        .await
        .unwrap();
    namespace
        .lease_is_annotated("svcplane.io/mode-reason", "foreign-writer ", "")
        .await
        .unwrap();
    assert!(replica.readyz().await.unwrap(), "it goes on serving");

    // It goes on without us, and we without a write.
    let sent = || replica.proxy().writes("endpoints", "").len() + replica.proxy().writes("endpointslices", "").len();
    let before = sent();
    tokio::time::sleep(Duration::from_secs(10)).await;
    stop.cancel();
    flips.await.unwrap();
    for number in 0..SERVICES {
        namespace.set_pod_ready(&format!("web{number}-0"), false).await.unwrap();
        becomes(&namespace, number, PODS, false).await;
    }
    cluster.settled(Duration::from_secs(2), SOON).await.unwrap();
    let drift = replica.wait_metric("svcplane_drift", &[], SOON, |it| it.abs() < 0.1);
    drift.await.unwrap();
    let quiet = Duration::from_secs(5);
    never_changes("slices", quiet, &namespace.slices(), "").await.unwrap();
    assert_eq!(sent(), before, "writes after it had stopped");
    let state = replica.debug_state().await.unwrap();
    assert_eq!((&state["mode"], &state["leading"]), (&"observe".into(), &true.into()));

    // Switched off there, and told so here.
    cluster.stop_controller_manager().await.unwrap();
    namespace.set_pod_ready("web0-0", true).await.unwrap();
    let (code, words) = take_back(cluster, &namespace).await;
    assert!(
        code == 0 && words.contains("kube-controller-manager wrote"),
        "{code} {words}"
    );
    becomes(&namespace, 0, PODS, true).await;
    let page = replica.metrics().await.unwrap();
    assert!(page.sum("svcplane_foreign_writer", &[]).abs() < 0.1);
}

#[tokio::test]
async fn a_canary_keeps_svcplane_from_beginning_and_is_inherited() {
    let _alone = alone().await;
    let cluster = cluster::shared();
    let (namespace, canary) = kept_by_built_ins(cluster).await;
    let with_canary = active(&namespace)
        .arg(&format!("--canary={canary}"))
        .arg("--canary-interval=2s");
    let first = Replica::start(cluster, with_canary.clone().replica(1)).await.unwrap();
    let both = first.wait_metric("svcplane_foreign_writer", &[("found_by", "canary")], SOON, |it| {
        it > 1.5
    });
    both.await.unwrap();
    wait_event(&namespace, "BuiltInControllersRun").await;
    wait_mode(&first, "observe", SOON).await;
    namespace
        .lease_is_annotated("svcplane.io/canary-result", "failed ", " Endpoints,EndpointSlice")
        .await
        .unwrap();
    namespace.set_pod_ready("web0-0", false).await.unwrap();
    becomes(&namespace, 0, PODS, false).await;
    let of_others = |resource: &str| {
        let writes = first.proxy().writes(resource, namespace.name());
        writes
            .iter()
            // The slice that is laid for the canary gets its name from the apiserver.
            .filter(|it| !it.request.name.is_empty() && !it.request.name.starts_with("canary"))
            .count()
    };
    assert_eq!((of_others("endpoints"), of_others("endpointslices")), (0, 0));

    // It begins by itself when they are gone.
    cluster.stop_controller_manager().await.unwrap();
    wait_mode(&first, "active", SOON).await;
    namespace.set_pod_ready("web0-0", true).await.unwrap();
    becomes(&namespace, 0, PODS, true).await;
    namespace
        .lease_is_annotated("svcplane.io/canary-result", "passed ", "Z of Endpoints,EndpointSlice")
        .await
        .unwrap();
    let left = namespace.endpoints().get_opt("canary").await.unwrap();
    assert!(left.is_none(), "svcplane makes nothing for it: {left:?}");

    // The next leader does not ask before it goes on: a probe takes ten seconds.
    let second = Replica::start(cluster, with_canary.replica(2)).await.unwrap();
    second.wait_ready().await.unwrap();
    first.kill9().await.unwrap();
    let identity = second.identity().await.unwrap();
    namespace.wait_holder(&identity, SOON).await.unwrap();
    wait_mode(&second, "active", Duration::from_secs(5)).await;

    // They come back while it leads.
    start_built_ins(cluster).await;
    wait_mode(&second, "observe", SOON).await;
    cluster.stop_controller_manager().await.unwrap();
}

/// Told to observe by hand, as in an emergency: whoever has begun to write meanwhile is found before a write.
#[tokio::test]
async fn a_canary_is_asked_anew_before_svcplane_writes_again() {
    let _alone = alone().await;
    let cluster = cluster::shared();
    let (namespace, canary) = kept_by_built_ins(cluster).await;
    cluster.stop_controller_manager().await.unwrap();
    let replica = active(&namespace).arg(&format!("--canary={canary}"));
    let replica = Replica::start(cluster, replica).await.unwrap();
    wait_mode(&replica, "active", SOON).await;
    replica.wait_idle().await.unwrap();
    namespace.set_lease_mode(Some("observe")).await.unwrap();
    wait_mode(&replica, "observe", SOON).await;
    let place = ["--leader-elect-resource-namespace", namespace.name()];
    let (code, _, errors) = run(cluster, &[&["handback", "--check"][..], &place].concat()).await;
    assert!(
        code == 1 && errors.contains("not by svcplane handback"),
        "{code} {errors}"
    );

    start_built_ins(cluster).await;
    namespace.set_pod_ready("web0-0", false).await.unwrap();
    becomes(&namespace, 0, PODS, false).await;
    cluster.settled(Duration::from_secs(2), MINUTE).await.unwrap();
    let (code, words) = take_back(cluster, &namespace).await;
    assert!(code == 0 && words.contains("asked anew"), "{code} {words}");
    let both = replica.wait_metric("svcplane_foreign_writer", &[("found_by", "canary")], SOON, |it| {
        it > 1.5
    });
    both.await.unwrap();
    namespace.set_pod_ready("web0-0", true).await.unwrap();
    becomes(&namespace, 0, PODS, true).await;
    for resource in ["endpoints", "endpointslices"] {
        let writes = replica.proxy().writes(resource, namespace.name());
        let of_web = writes.iter().filter(|it| it.request.name.starts_with("web"));
        assert_eq!(of_web.count(), 0, "{resource}");
    }
    cluster.stop_controller_manager().await.unwrap();
}

/// The marks of kube-controller-manager stay on what it made, as does its time: they are no sign that it lives.
#[tokio::test]
async fn what_was_written_before_svcplane_began_is_no_fight() {
    const ONE_EACH: &str = "--max-endpoints-per-slice=1";
    let _alone = alone().await;
    let cluster = cluster::shared();
    let namespace = create_namespace(cluster).await;
    cluster
        .restart_controller_manager(&ENDPOINT_CONTROLLERS, &[ONE_EACH])
        .await
        .unwrap();
    workloads(&namespace, 1, 5).await;
    let five = |all: &[EndpointSlice]| {
        let listed: usize = all.iter().map(|it| slices::endpoints(it).len()).sum();
        (all.len() == 5 && listed == 5)
            .then_some(())
            .ok_or_else(|| format!("{listed} endpoints in {} slices", all.len()))
    };
    eventually("five slices", SOON, &namespace.slices(), "", five)
        .await
        .unwrap();
    becomes(&namespace, 0, 5, true).await;
    cluster.settled(Duration::from_secs(2), SOON).await.unwrap();
    cluster.stop_controller_manager().await.unwrap();

    let replica = Replica::start(cluster, active(&namespace).arg(ONE_EACH)).await.unwrap();
    wait_mode(&replica, "active", SOON).await;
    replica.wait_idle().await.unwrap();
    let slices = namespace.slices();
    let first = slices.list(&Default::default()).await.unwrap().items.remove(0);
    slices
        .delete(first.metadata.name.as_ref().unwrap(), &Default::default())
        .await
        .unwrap();
    // The breaker asks for the time last, and then decides.
    let looked = Match::any().when(|request| request.path == "/version");
    let looks = replica.proxy().wait_requests(&looked, SOON, |all| all.len() > 1);
    looks.await.unwrap();
    eventually("five slices", SOON, &slices, "", five).await.unwrap();
    namespace.set_pod_ready("web0-0", false).await.unwrap();
    becomes(&namespace, 0, 5, false).await;
    wait_mode(&replica, "active", Duration::ZERO).await;
    let page = replica.metrics().await.unwrap();
    assert!(page.sum("svcplane_foreign_writer", &[]).abs() < 0.1);
    assert!(page.sum("svcplane_foreign_changes_total", &[]) > 0.5, "it was counted");
}

/// endpointslice-controller misses a slice only if this very process of it has made or written it.
#[tokio::test]
async fn a_built_in_controller_that_found_everything_made_is_seen_by_the_canary_and_handed_back_to() {
    const SLICES_ONLY: &str = "--controllers=endpointslice-controller";
    let _alone = alone().await;
    let cluster = cluster::shared();
    let namespace = create_namespace(cluster).await;
    let canary = format!("--canary={}", create_canary(&namespace).await);
    let of_canary = |slice: &&EndpointSlice| {
        let labels = slice.metadata.labels.as_ref();
        labels.and_then(|all| all.get(slices::SERVICE_NAME)).map(String::as_str) == Some("canary")
    };
    let placeholder = |all: &[EndpointSlice]| {
        let found = all.iter().filter(of_canary).count();
        (found == 1).then_some(()).ok_or_else(|| format!("{found} slices"))
    };
    let there = async || {
        eventually("its slice", SOON, &namespace.slices(), "", placeholder)
            .await
            .unwrap();
    };
    cluster
        .restart_controller_manager(&ENDPOINT_CONTROLLERS[1..2], &[])
        .await
        .unwrap();
    there().await;
    cluster
        .restart_controller_manager(&ENDPOINT_CONTROLLERS[1..2], &[])
        .await
        .unwrap();
    // It has looked at all that there was.
    workloads(&namespace, 1, PODS).await;
    slices_are_full(&namespace, 1, PODS, SOON).await;
    there().await;

    let replica = active(&namespace).arg(&canary).arg(SLICES_ONLY);
    let replica = Replica::start(cluster, replica).await.unwrap();
    let failed = "EndpointSlice of EndpointSlice";
    namespace
        .lease_is_annotated("svcplane.io/canary-result", "failed ", failed)
        .await
        .unwrap();
    wait_mode(&replica, "observe", SOON).await;
    let labels = [("found_by", "canary"), ("kind", "EndpointSlice")];
    assert!(replica.metrics().await.unwrap().sum("svcplane_foreign_writer", &labels) > 0.5);

    // endpoints-controller is off by choice, here and there: only the other one is waited for.
    let place = ["--leader-elect-resource-namespace", namespace.name()];
    let order = ["handback", "--timeout=1m", canary.as_str(), SLICES_ONLY];
    let (code, words, errors) = run(cluster, &[&order[..], &place].concat()).await;
    assert!(
        code == 0 && words.contains("keeps EndpointSlice again"),
        "{code} {words} {errors}"
    );
    cluster.stop_controller_manager().await.unwrap();
}

#[tokio::test]
async fn slices_of_its_own_are_kept_beside_the_built_ins_and_go_when_told() {
    let _alone = alone().await;
    let cluster = cluster::shared();
    let (namespace, _) = kept_by_built_ins(cluster).await;
    let managed_by = "endpointslice.kubernetes.io/managed-by";
    let of = |all: &[EndpointSlice], manager: &str| -> Vec<EndpointSlice> {
        let whose =
            |slice: &&EndpointSlice| slice.metadata.labels.as_ref().unwrap().get(managed_by).unwrap() == manager;
        let of_web = all
            .iter()
            .filter(|slice| slice.metadata.name.as_ref().unwrap().starts_with("web"));
        of_web.filter(whose).cloned().collect()
    };
    let theirs = |all: &[EndpointSlice]| of(all, "endpointslice-controller.k8s.io");
    let own = |all: &[EndpointSlice], ready: usize| {
        let own = of(all, "svcplane.io");
        let endpoints = own.iter().flat_map(slices::endpoints);
        let found = endpoints
            .filter(|it| it.conditions.as_ref().and_then(|it| it.ready) == Some(true))
            .count();
        (own.len() == 1 && found == ready)
            .then_some(())
            .ok_or_else(|| format!("{} slices, {found} ready", own.len()))
    };
    let everything = Default::default();
    let before = theirs(&namespace.slices().list(&everything).await.unwrap().items);
    let beside = active(&namespace)
        .without("--acknowledge-builtins-disabled")
        .arg("--identity=own")
        .arg("--controllers=endpointslice-controller");
    let replica = Replica::start(cluster, beside).await.unwrap();
    eventually("a slice of its own", SOON, &namespace.slices(), "", |all| {
        own(all, PODS)
    })
    .await
    .unwrap();
    cluster.settled(Duration::from_secs(2), MINUTE).await.unwrap();
    let after = theirs(&namespace.slices().list(&everything).await.unwrap().items);
    assert_eq!(after, before, "theirs are left alone");
    assert_eq!(replica.proxy().writes("endpoints", "").len(), 0);
    // Both follow.
    namespace.set_pod_ready("web0-0", false).await.unwrap();
    becomes(&namespace, 0, PODS, false).await;
    eventually("followed", SOON, &namespace.slices(), "", |all| own(all, PODS - 1))
        .await
        .unwrap();
    assert_eq!(replica.debug_state().await.unwrap()["mode"], "active", "nobody fights");

    let place = ["--leader-elect-resource-namespace", namespace.name()];
    let (code, words, errors) = run(cluster, &[&["handback", "--delete-own-slices"][..], &place].concat()).await;
    assert!(code == 0 && words.contains("are deleted"), "{code} {words} {errors}");
    let left = namespace.slices().list(&everything).await.unwrap().items;
    assert!(of(&left, "svcplane.io").is_empty(), "{left:?}");
    assert_eq!(theirs(&left).len(), 1);
    cluster.stop_controller_manager().await.unwrap();
}

/// kube-controller-manager, then svcplane, then kube-controller-manager again; each follows changes in its turn.
async fn hand_over_there_and_back(services: usize, pods: usize) {
    let _alone = alone().await;
    let cluster = cluster::shared();
    let namespace = create_namespace(cluster).await;
    let canary = create_canary(&namespace).await;
    start_built_ins(cluster).await;
    workloads(&namespace, services, pods).await;
    let endpoints = |all: &[Endpoints]| {
        let addresses = |it: &Endpoints| {
            it.subsets
                .iter()
                .flatten()
                .filter_map(|it| it.addresses.as_ref())
                .map(Vec::len)
                .sum::<usize>()
        };
        let full = all.iter().filter(|it| addresses(it) == pods).count();
        (full == services)
            .then_some(())
            .ok_or_else(|| format!("{full} are full"))
    };
    eventually("Endpoints", 5 * MINUTE, &namespace.endpoints(), "", endpoints)
        .await
        .unwrap();
    slices_are_full(&namespace, services, pods, 5 * MINUTE).await;
    cluster.settled(Duration::from_secs(2), MINUTE).await.unwrap();
    let made = versions(&namespace).await;
    assert_eq!(made.len(), 2 * services);

    let observer = Replica::start(cluster, active(&namespace).observe()).await.unwrap();
    observer.wait_idle().await.unwrap();
    let drift = observer.metrics().await.unwrap().sum("svcplane_drift", &[]);
    assert!(drift.abs() < 0.1, "drift {drift}");
    // What an observer would change is shown, and no more once it agrees.
    cluster.stop_controller_manager().await.unwrap();
    namespace.set_pod_ready("web0-0", false).await.unwrap();
    for (kind, reason) in [("Endpoints", "subsets"), ("EndpointSlice", "content")] {
        let labels = [("kind", kind), ("reason", reason)];
        let one = observer.wait_metric("svcplane_drift", &labels, SOON, |it| (it - 1.0).abs() < 0.1);
        one.await.unwrap();
    }
    namespace.set_pod_ready("web0-0", true).await.unwrap();
    let none = observer.wait_metric("svcplane_drift", &[], SOON, |it| it.abs() < 0.1);
    none.await.unwrap();
    observer.terminate().await.unwrap();

    let flag = format!("--canary={canary}");
    let leader = Replica::start(cluster, active(&namespace).arg(&flag)).await.unwrap();
    wait_mode(&leader, "active", SOON).await;
    leader.wait_idle().await.unwrap();
    cluster.settled(Duration::from_secs(2), MINUTE).await.unwrap();
    assert_eq!(versions(&namespace).await, made, "taking over has touched something");
    namespace.set_pod_ready("web0-0", false).await.unwrap();
    becomes(&namespace, 0, pods, false).await;
    cluster.settled(Duration::from_secs(2), MINUTE).await.unwrap();
    let kept = versions(&namespace).await;
    let moved = |before: &BTreeMap<_, _>, now: &BTreeMap<_, _>| {
        before.iter().filter(|(name, it)| now.get(*name) != Some(*it)).count()
    };
    assert_eq!(
        (kept.len(), moved(&made, &kept)),
        (made.len(), 2),
        "one Endpoints and one slice"
    );

    // Back. Until then it is not to be removed.
    let place = ["--leader-elect-resource-namespace", namespace.name()];
    let check = [&["handback", "--check"][..], &place].concat();
    let (code, _, errors) = run(cluster, &check).await;
    assert!(code == 1 && errors.contains("freeze"), "{code} {errors}");
    let order = [&["handback", "--timeout=2m", &flag][..], &place].concat();
    let (back, ()) = tokio::join!(run(cluster, &order), async {
        wait_mode(&leader, "observe", SOON).await;
        start_built_ins(cluster).await;
    });
    assert!(
        back.0 == 0 && back.1.contains("keeps Endpoints,EndpointSlice again"),
        "{back:?}"
    );
    let (code, words, _) = run(cluster, &check).await;
    assert!(code == 0 && words.contains("observe"), "{code} {words}");
    cluster.settled(Duration::from_secs(3), MINUTE).await.unwrap();
    assert_eq!(versions(&namespace).await, kept, "handing back has touched something");
    namespace.set_pod_ready("web0-0", true).await.unwrap();
    becomes(&namespace, 0, pods, true).await;

    // Taken back while they run: the canary, asked anew, does not let it write.
    let (code, words) = take_back(cluster, &namespace).await;
    assert!(code == 0 && words.contains("writes again"), "{code} {words}");
    let both = leader.wait_metric("svcplane_foreign_writer", &[("found_by", "canary")], SOON, |it| {
        it > 1.5
    });
    both.await.unwrap();
    assert_eq!(leader.debug_state().await.unwrap()["mode"], "observe");
    cluster.stop_controller_manager().await.unwrap();
}

#[tokio::test]
async fn handing_over_there_and_back_touches_nothing() {
    hand_over_there_and_back(50, 4).await;
}

#[tokio::test]
#[ignore = "5,000 Pods, a few minutes: make handover"]
async fn handing_over_500_services_there_and_back_touches_nothing() {
    hand_over_there_and_back(500, 10).await;
}

#[tokio::test]
async fn preflight_says_who_writes_and_what_is_missing() {
    let _alone = alone().await;
    let cluster = cluster::shared();
    let (namespace, canary) = kept_by_built_ins(cluster).await;
    cluster.stop_controller_manager().await.unwrap();
    let place = ["--leader-elect-resource-namespace", namespace.name()];
    let (code, words, errors) = run(cluster, &[&["preflight", "-o", "json"][..], &place].concat()).await;
    assert_eq!((code, errors.as_str()), (1, ""), "it wrote a moment ago: {words}");
    let rows: Vec<Value> = serde_json::from_str(&words).unwrap();
    let found = |subject: &str| {
        let row = rows.iter().find(|row| row["subject"] == subject);
        let row = row.unwrap_or_else(|| panic!("{subject}: {words}"));
        format!(
            "{} {} {}",
            row["state"].as_str().unwrap(),
            row["found"].as_str().unwrap(),
            row["todo"]
        )
    };
    assert!(found("Kubernetes").starts_with("ok v1.37"), "{words}");
    assert!(
        found("last writers").starts_with("act kube-controller-manager: Endpoints "),
        "{words}"
    );
    assert!(found("ranges").starts_with("ok 10.96.0.0/16"), "{words}");
    assert!(found("permissions").starts_with("ok "), "{words}");
    assert!(found("svcplane").contains("not installed"), "{words}");
    assert!(found("canary").contains(&canary), "{words}");
    assert!(
        found("built-in controllers").starts_with("unknown "),
        "no Pod shows them here: {words}"
    );
    assert!(found("nodePorts").starts_with("unknown "), "{words}");
    assert!(found("load balancers").starts_with("ok no pools"), "{words}");

    // Where the control plane's Pods are to be seen, their arguments tell.
    let system: Api<Pod> = Api::namespaced(cluster.client(), "kube-system");
    for (name, flag) in [
        (
            "kube-controller-manager-preflight",
            "--controllers=*,-endpoint,tokencleaner",
        ),
        ("kube-apiserver-preflight", "--service-node-port-range=20000-22767"),
    ] {
        let container = json!({"name": "it", "image": "it", "command": ["/it", "--v=2", flag]});
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [container]}});
        let pod = serde_json::from_value(pod).unwrap();
        system.create(&PostParams::default(), &pod).await.unwrap();
    }
    let (code, table, _) = run(cluster, &[&["preflight"][..], &place].concat()).await;
    for name in ["kube-controller-manager-preflight", "kube-apiserver-preflight"] {
        let now = DeleteParams::default().grace_period(0);
        system.delete(name, &now).await.unwrap();
    }
    assert!(code == 1 && table.contains("last writers"), "{table}");
    for part in [
        "kube-controller-manager-preflight: keeps EndpointSlice,MirroredEndpointSlice",
        "-> for active mode: --controllers=*,tokencleaner,-endpoints-controller,-endpointslice-controller,-endpointslice-mirroring-controller on",
        "-> svcplane needs it, too: --service-node-port-range=20000-22767 (chart: allocator.nodePort.range)",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
}
