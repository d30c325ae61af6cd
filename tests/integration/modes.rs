//! Observe mode writes no Endpoints, however it is asked for, and says what it would write.

use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::Value;
use svcplane_tests::cluster;
use svcplane_tests::eventually::never_changes;
use svcplane_tests::lease;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::proxy::Match;
use svcplane_tests::svcplane::{Replica, Svcplane, alone};

const SOON: Duration = Duration::from_secs(30);
const SERVICES: [&str; 3] = ["blue", "green", "red"];
const READY: &[&str] = &["10.201.0.1 10.201.0.2 -> :8080/TCP"];
const NOT_READY: &[&str] = &["10.201.0.2 !10.201.0.1 -> :8080/TCP"];

async fn workloads(namespace: &TestNamespace) {
    let make = async |name: &&str| {
        namespace.workload(name, &["10.201.0.1", "10.201.0.2"]).await.unwrap();
    };
    join_all(SERVICES.iter().map(make)).await;
}

async fn set_ready(namespace: &TestNamespace, ready: bool) {
    for name in SERVICES {
        namespace.set_pod_ready(&format!("{name}-0"), ready).await.unwrap();
    }
}

async fn all_become(namespace: &TestNamespace, want: &[&str]) {
    for name in SERVICES {
        namespace.endpoints_become(name, want).await.unwrap();
    }
}

/// Writes that a replica logged as planned for this namespace, as (Service, verb).
fn planned(replica: &Replica, namespace: &TestNamespace) -> Vec<(String, String)> {
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    let entries = replica.log_entries("would write (observe mode)");
    let pairs = entries
        .iter()
        .map(|entry| (text(entry, "endpoints"), text(entry, "verb")));
    let prefix = format!("{}/", namespace.name());
    let own = pairs.filter_map(|(key, verb)| Some((key.strip_prefix(&prefix)?.to_owned(), verb)));
    let mut own: Vec<_> = own.collect();
    own.sort();
    own
}

async fn wait_planned(replica: &Replica, namespace: &TestNamespace, count: usize) {
    let enough = |_: f64| planned(replica, namespace).len() >= count;
    let total = "svcplane_planned_operations_total";
    replica.wait_metric(total, &[], SOON, enough).await.unwrap();
}

async fn start(builder: svcplane_tests::svcplane::Builder) -> Replica {
    Replica::start(cluster::shared(), builder).await.unwrap()
}

#[tokio::test]
async fn the_default_mode_plans_counts_and_logs_and_writes_no_endpoints() {
    let _alone = alone().await;
    let namespace = TestNamespace::create(cluster::shared()).await.unwrap();
    workloads(&namespace).await;
    let before = cluster::shared().writes("endpoints").await.unwrap();
    let replica = start(Svcplane::builder().lease_in(&namespace).observe()).await;
    assert_eq!(replica.debug_state().await.unwrap()["mode"], "observe");
    replica.wait_idle().await.unwrap();
    let created = SERVICES.map(|name| (name.to_owned(), "create".to_owned()));
    assert_eq!(planned(&replica, &namespace), created);

    // Endpoints by hand, wrong but for one: plans are for what is stored.
    let by_hand = svcplane_tests::objects::endpoints("blue").subset(&["10.201.0.9"], &[("", 8080)]);
    by_hand.create(&namespace).await.unwrap();
    wait_planned(&replica, &namespace, 4).await;
    let last = planned(&replica, &namespace);
    assert!(last.contains(&("blue".into(), "update".into())), "{last:?}");
    let entries = replica.log_entries("would write (observe mode)");
    let blue = format!("{}/blue", namespace.name());
    let is_update = |entry: &&Value| entry["verb"] == "update" && entry["endpoints"] == blue;
    let update = entries.iter().find(is_update).unwrap();
    let change = update["change"].as_str().unwrap();
    assert!(
        change.starts_with("+10.201.0.1, +10.201.0.2, -10.201.0.9, label "),
        "{change}"
    );

    let page = replica.metrics().await.unwrap();
    let total = |operation: &str| page.sum("svcplane_planned_operations_total", &[("operation", operation)]);
    assert!(total("create") >= 3.0 && total("update") >= 1.0);
    assert!(page.sum("svcplane_operations_total", &[]).abs() < 0.1);
    let sent = replica.proxy().writes_of(&Match::all_writes());
    let own = ["leases", "events"];
    let others: Vec<_> = sent
        .iter()
        .map(|it| &it.request.resource)
        .filter(|it| !own.contains(&it.as_str()))
        .collect();
    assert_eq!(others, Vec::<&String>::new());
    assert_eq!(
        cluster::shared().writes("endpoints").await.unwrap(),
        before + 1,
        "only the one by hand"
    );
}

#[tokio::test]
async fn an_annotation_on_the_lease_stops_all_writes_until_it_is_taken_off() {
    let _alone = alone().await;
    let namespace = TestNamespace::create(cluster::shared()).await.unwrap();
    workloads(&namespace).await;
    let active = Svcplane::builder().lease_in(&namespace).short_lease();
    let leader = start(active.clone().replica(1)).await;
    leader.wait_leader().await.unwrap();
    let standby = start(active.replica(2)).await;
    standby.wait_ready().await.unwrap();
    all_become(&namespace, READY).await;
    leader.wait_idle().await.unwrap();

    namespace.set_lease_mode(Some("observe")).await.unwrap();
    let noticed = leader.wait_log("the lease's annotation svcplane.io/mode changed", SOON);
    noticed.await.unwrap();
    let state = leader.debug_state().await.unwrap();
    assert_eq!(
        (&state["mode"], &state["forcedObserve"], &state["leading"]),
        (&"observe".into(), &true.into(), &true.into())
    );
    set_ready(&namespace, false).await;
    wait_planned(&leader, &namespace, SERVICES.len()).await;

    // It survives renewals, and the leader.
    let renewals = |spec: &k8s_openapi::api::coordination::v1::LeaseSpec| spec.renew_time.clone();
    let first = renewals(&namespace.lease().await.unwrap());
    namespace
        .wait_lease("renewed", SOON, |spec| spec.renew_time > first)
        .await
        .unwrap();
    leader.kill9().await.unwrap();
    let identity = standby.identity().await.unwrap();
    namespace.wait_holder(&identity, SOON).await.unwrap();
    wait_planned(&standby, &namespace, SERVICES.len()).await;
    let lease: Lease = namespace.leases().get(lease::NAME).await.unwrap();
    assert_eq!(lease.metadata.annotations.unwrap()["svcplane.io/mode"], "observe");
    let quiet = Duration::from_secs(2);
    never_changes("Endpoints", quiet, &namespace.endpoints(), "")
        .await
        .unwrap();
    assert_eq!(standby.proxy().writes("endpoints", "").len(), 0);
    all_become(&namespace, READY).await;

    namespace.set_lease_mode(None).await.unwrap();
    all_become(&namespace, NOT_READY).await;
    set_ready(&namespace, true).await;
    all_become(&namespace, READY).await;
}

#[tokio::test]
async fn the_annotation_cannot_switch_writing_on() {
    let _alone = alone().await;
    let namespace = TestNamespace::create(cluster::shared()).await.unwrap();
    workloads(&namespace).await;
    let replica = start(Svcplane::builder().lease_in(&namespace).short_lease().observe()).await;
    replica.wait_idle().await.unwrap();
    namespace.set_lease_mode(Some("active")).await.unwrap();
    let first = namespace.lease().await.unwrap().renew_time;
    namespace
        .wait_lease("renewed", SOON, |spec| spec.renew_time > first)
        .await
        .unwrap();
    set_ready(&namespace, false).await;
    wait_planned(&replica, &namespace, 2 * SERVICES.len()).await;
    assert_eq!(replica.debug_state().await.unwrap()["mode"], "observe");
    assert_eq!(replica.proxy().writes("endpoints", "").len(), 0);
}
