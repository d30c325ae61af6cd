//! Choices while svcplane sees the cluster badly: watches that break, fall behind or lose their place. It chooses late or not at all, but
//! never what somebody has.

use std::collections::BTreeSet;

use futures::future::join_all;
use serde_json::json;
use svcplane_tests::admission::{send, wait_choosing};
use svcplane_tests::cluster::{Cluster, Flavour};
use svcplane_tests::governed::{Governed, SOON, cluster_ip, create, delete, node_port, pool, values};
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::proxy::{Action, FaultProxy, Match, Refusal, Times, WatchEnd};

const WRITERS: usize = 8;

/// svcplane behind a proxy of its own.
async fn behind_a_proxy(flags: &[&str]) -> (FaultProxy, Governed, TestNamespace) {
    let cluster = Cluster::start(Flavour::DualStack).await.unwrap();
    let proxy = FaultProxy::start(&cluster).unwrap();
    let governed = Governed::start_behind(&proxy, cluster, flags).await.unwrap();
    let namespace = TestNamespace::create(&governed.cluster).await.unwrap();
    (proxy, governed, namespace)
}

/// The watch of this kind is broken, and so is each further try, until the rules are cleared.
async fn break_for_good(proxy: &FaultProxy, governed: &Governed, kind: &str) {
    for matcher in [Match::watches(kind), Match::lists(kind)] {
        proxy.rule(matcher, Action::Refuse(Refusal::unavailable()), Times::Always);
    }
    // The ledger's, and those of controllers.
    assert!(proxy.end_watches(&Match::watches(kind), &WatchEnd::Reset) >= 1);
    wait_live(governed, kind, 0.0).await;
}

async fn wait_live(governed: &Governed, kind: &str, live: f64) {
    let labels = [("resource", kind)];
    let svcplane = &governed.svcplane;
    svcplane
        .wait_metric("svcplane_allocator_source_live", &labels, SOON, |it| it == live)
        .await
        .unwrap();
}

async fn chosen(governed: &Governed) -> f64 {
    governed.counted("svcplane_allocation_chosen_total", "clusterips").await
}

/// Of whatever kind. The apiserver allocates meanwhile, and what it gave is adopted.
#[tokio::test]
async fn without_one_of_its_sources_svcplane_chooses_nothing() {
    let (proxy, governed, namespace) = behind_a_proxy(&["--allocate=all"]).await;
    for kind in ["services", "ipaddresses", "nodeportpools"] {
        break_for_good(&proxy, &governed, kind).await;
        let before = chosen(&governed).await;
        let stored = create(&namespace, &node_port(kind)).await.accepted().unwrap();
        assert_eq!(values(&stored).1.len(), 1, "{kind}: the apiserver allocates");
        assert_eq!(chosen(&governed).await, before, "{kind}");
        assert!(governed.svcplane.readyz().await.unwrap(), "{kind}");
        proxy.clear_rules();
        wait_live(&governed, kind, 1.0).await;
        wait_choosing(&governed.svcplane).await.unwrap();
        create(&namespace, &node_port(&format!("{kind}-again")))
            .await
            .accepted()
            .unwrap();
        assert_eq!(chosen(&governed).await, before + 1.0, "{kind}");
    }
}

/// What cannot be checked against an enforced pool is let through with a Warning and counted, or refused by those who say so; others wait
/// for nothing.
#[tokio::test]
async fn an_enforced_pool_that_cannot_be_enforced_is_passed_or_closed() {
    for (flags, code) in [
        (&["--allocate=pooled"][..], 201),
        (&["--allocate=pooled", "--webhook-strict"], 403),
    ] {
        let (proxy, governed, namespace) = behind_a_proxy(flags).await;
        let selector = json!({"namespaces": [namespace.name()]});
        let spec = json!({"ranges": ["10.96.230.0/28"], "enforce": true, "selector": selector});
        pool(&governed, &namespace, "ClusterIPPool", "shut", &spec).await;
        let other = TestNamespace::create(&governed.cluster).await.unwrap();
        break_for_good(&proxy, &governed, "services").await;
        let said = create(&namespace, &cluster_ip("web")).await;
        assert_eq!(
            said.code.as_u16(),
            code,
            "{flags:?}: {} {:?}",
            said.message(),
            said.warnings
        );
        let words = format!("{} {}", said.message(), said.warnings.join(" "));
        assert!(
            words.contains("a pool is enforced for this Service"),
            "{flags:?}: {words}"
        );
        let passed = create(&other, &cluster_ip("web")).await;
        assert_eq!(passed.code.as_u16(), 201, "{flags:?}: {}", passed.message());
        proxy.clear_rules();
        wait_live(&governed, "services", 1.0).await;
        wait_choosing(&governed.svcplane).await.unwrap();
        let stored = create(&namespace, &cluster_ip("later")).await.accepted().unwrap();
        assert!(values(&stored).0[0].starts_with("10.96.230."), "{stored}");
    }
}

/// Services come and go in a gap of the watch that ends with 410: values that are used then are given to nobody, and those that were
/// used are free again.
#[tokio::test]
async fn a_gap_frees_nothing_that_is_used() {
    let (proxy, governed, namespace) = behind_a_proxy(&["--allocate=pooled"]).await;
    let selector = json!({"namespaces": [namespace.name()]});
    let spec = json!({"ranges": ["10.96.220.0/28"], "enforce": true, "selector": selector});
    pool(&governed, &namespace, "ClusterIPPool", "gap", &spec).await;
    for number in 0..8 {
        create(&namespace, &cluster_ip(&format!("old-{number}")))
            .await
            .accepted()
            .unwrap();
    }
    // Nothing of what follows is seen until the lists that come after the gap.
    for kind in ["services", "ipaddresses"] {
        proxy.rule(Match::watches(kind), Action::DropEvents, Times::Always);
    }
    for number in 0..4 {
        delete(&namespace, &format!("old-{number}")).await;
    }
    for number in 0..4 {
        let mut literal = cluster_ip(&format!("new-{number}"));
        // Free for all that svcplane can know, but the apiserver has the last word.
        literal["spec"]["clusterIP"] = json!(free(&namespace).await);
        create(&namespace, &literal).await.accepted().unwrap();
    }
    proxy.clear_rules();
    let expired = WatchEnd::Error(Refusal::expired());
    for kind in ["services", "ipaddresses"] {
        let ended = proxy.end_watches(&Match::watches(kind), &expired);
        assert!(ended >= 1, "{kind}");
        let labels = [("resource", kind)];
        let svcplane = &governed.svcplane;
        svcplane
            .wait_metric("svcplane_watch_relists_total", &labels, SOON, |it| it >= ended as f64)
            .await
            .unwrap();
    }
    wait_choosing(&governed.svcplane).await.unwrap();
    // Sixteen are in the pool; eight are used.
    for number in 0..8 {
        let name = format!("more-{number}");
        let end = tokio::time::Instant::now() + SOON;
        loop {
            let said = create(&namespace, &cluster_ip(&name)).await;
            if said.code.is_success() {
                break;
            }
            // What was freed rests until its IPAddress is gone; a refusal by the apiserver would be 422.
            assert_eq!(said.code.as_u16(), 403, "{}", said.message());
            assert!(tokio::time::Instant::now() < end, "{}", said.message());
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }
    assert_eq!(used(&namespace).await.len(), 16, "each value once");
    let full = create(&namespace, &cluster_ip("full")).await;
    assert_eq!(full.code.as_u16(), 403, "{}", full.message());
}

async fn used(namespace: &TestNamespace) -> BTreeSet<String> {
    let path = format!("/api/v1/namespaces/{}/services", namespace.name());
    let list = send(&namespace.client(), "GET", &path, None)
        .await
        .unwrap()
        .accepted()
        .unwrap();
    let items = list["items"].as_array().unwrap().iter();
    items.flat_map(|item| values(item).0).collect()
}

async fn free(namespace: &TestNamespace) -> String {
    let used = used(namespace).await;
    let mut all = (0..16).map(|last| format!("10.96.220.{last}"));
    all.find(|ip| !used.contains(ip)).expect("a free value")
}

/// Watches end in every way while eight writers create and delete: no value twice (the apiserver would refuse) and no refusal at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_watches_cause_no_refusal() {
    let (proxy, governed, namespace) = behind_a_proxy(&["--allocate=all"]).await;
    let before = chosen(&governed).await;
    let writer = async |writer: usize| {
        for number in 0..30 {
            let name = format!("s{writer}-{number}");
            let stored = create(&namespace, &node_port(&name)).await.accepted().unwrap();
            assert_eq!(values(&stored).1.len(), 1);
            if number % 3 == 0 {
                delete(&namespace, &name).await;
            }
        }
    };
    let trouble = async {
        for round in 0..10 {
            let how = [
                WatchEnd::Close,
                WatchEnd::Fin,
                WatchEnd::Reset,
                WatchEnd::MidEvent,
                WatchEnd::Error(Refusal::expired()),
            ];
            for kind in ["services", "ipaddresses", "namespaces"] {
                proxy.end_watches(&Match::watches(kind), &how[round % how.len()]);
                if round % 2 == 0 {
                    proxy.rule(
                        Match::watches(kind),
                        Action::Refuse(Refusal::too_many_requests(1)),
                        Times::First(1),
                    );
                    proxy.rule(Match::lists(kind), Action::CutReply, Times::First(1));
                }
            }
            tokio::time::sleep(std::time::Duration::from_millis(150)).await;
        }
    };
    tokio::join!(join_all((0..WRITERS).map(writer)), trouble);
    proxy.clear_rules();
    wait_choosing(&governed.svcplane).await.unwrap();
    assert!(chosen(&governed).await > before, "it chose all the same");
    for (range, kept) in [("10.96.0.0/16", 161.0), ("30000-32767", 160.0)] {
        let labels = [("range", range), ("state", "used")];
        let svcplane = &governed.svcplane;
        svcplane
            .wait_metric("svcplane_allocator_values", &labels, SOON, |it| it == kept)
            .await
            .unwrap();
    }
}
