//! Whatever becomes of a watch or a list, every change is seen, and nothing is written for a state that is half known.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Endpoints;
use serde_json::Value;
use svcplane_tests::cluster;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{create_pods, pod, service};
use svcplane_tests::proxy::{Action, FaultProxy, Match, Refusal, Times, WatchEnd};
use svcplane_tests::subsets::lines;
use svcplane_tests::svcplane::{Replica, Svcplane, alone};
use tokio::sync::MutexGuard;

const SOON: Duration = Duration::from_secs(30);
const READY: &[&str] = &["10.201.0.1 -> :8080/TCP"];
const NOT_READY: &[&str] = &["!10.201.0.1 -> :8080/TCP"];

/// A namespace, and a svcplane behind a proxy that leads and has nothing to do. It ends before the next one starts.
struct Rig {
    replica: Replica,
    namespace: TestNamespace,
    _alone: MutexGuard<'static, ()>,
}

impl Rig {
    /// With a Service `web` of one Pod, whose readiness the tests change, and its Endpoints.
    async fn new() -> Self {
        let namespace = TestNamespace::create(cluster::shared()).await.unwrap();
        namespace.workload("web", &["10.201.0.1"]).await.unwrap();
        let alone = alone().await;
        let builder = Svcplane::builder().lease_in(&namespace);
        let replica = Replica::start(cluster::shared(), builder).await.unwrap();
        namespace.endpoints_become("web", READY).await.unwrap();
        replica.wait_idle().await.unwrap();
        Self {
            replica,
            namespace,
            _alone: alone,
        }
    }

    fn proxy(&self) -> &FaultProxy {
        self.replica.proxy()
    }

    /// Changes the Pod and waits until the Endpoints say so.
    async fn follows(&self) {
        for (ready, want) in [(false, NOT_READY), (true, READY)] {
            self.namespace.set_pod_ready("web-0", ready).await.unwrap();
            self.namespace.endpoints_become("web", want).await.unwrap();
        }
    }

    async fn wait_watches(&self, resource: &str) {
        let open = |_: &[_]| self.proxy().open_watches(&Match::watches(resource)) == 1;
        let all = Match::watches(resource);
        self.proxy().wait_requests(&all, SOON, open).await.unwrap();
    }

    async fn relists(&self, resource: &str, want: f64) {
        let labels = [("resource", resource)];
        let relists = "svcplane_watch_relists_total";
        let counted = self.replica.wait_metric(relists, &labels, SOON, |it| it >= want);
        assert!((counted.await.unwrap() - want).abs() < 0.1, "{resource}");
    }

    fn lines_of_level(&self, level: &str) -> Vec<String> {
        let mut lines = self.replica.log_lines();
        lines.retain(|line| line.contains(&format!("\"level\":\"{level}\"")));
        lines
    }
}

/// B22.
#[tokio::test]
async fn a_watch_that_is_too_old_is_listed_again_once() {
    let rig = Rig::new().await;
    let pods = Match::watches("pods");
    // As the answer to the next watch.
    let refusal = Action::Refuse(Refusal::expired());
    let rule = rig.proxy().rule(pods.clone(), refusal, Times::First(1));
    assert_eq!(rig.proxy().end_watches(&pods, &WatchEnd::Close), 1);
    rule.wait_hits(1, SOON).await.unwrap();
    rig.follows().await;
    rig.relists("pods", 1.0).await;
    // As an event in a stream that has begun well.
    let error = WatchEnd::Error(Refusal::expired());
    assert_eq!(rig.proxy().end_watches(&pods, &error), 1);
    rig.relists("pods", 2.0).await;
    rig.follows().await;
    rig.relists("pods", 2.0).await;
    assert_eq!(rig.lines_of_level("ERROR"), Vec::<String>::new());
    let warnings = rig.lines_of_level("WARN");
    assert!(warnings.len() <= 4, "{warnings:?}");
    assert_eq!(rig.replica.process().exit(), None);
}

#[tokio::test]
async fn a_watch_that_ends_in_any_way_goes_on_where_it_was() {
    let rig = Rig::new().await;
    for how in [WatchEnd::Close, WatchEnd::Fin, WatchEnd::Reset, WatchEnd::MidEvent] {
        for resource in ["pods", "services", "endpoints"] {
            rig.wait_watches(resource).await;
            let ended = rig.proxy().end_watches(&Match::watches(resource), &how);
            assert_eq!(ended, 1, "{resource} {how:?}");
        }
        let started = Instant::now();
        rig.follows().await;
        let took = started.elapsed();
        assert!(took < Duration::from_secs(10), "{how:?}: {took:?}");
    }
    for resource in ["pods", "services", "endpoints"] {
        rig.relists(resource, 0.0).await;
    }
    let writes = rig.proxy().writes("endpoints", rig.namespace.name());
    assert_eq!(writes.len(), 1 + 2 * 4, "one to create, one per change");
}

/// Spec endpoints.md 6.10: where the reference waits a second, or writes twice.
#[tokio::test]
async fn late_events_of_our_own_writes_cost_neither_a_write_nor_time() {
    const LATE: Duration = Duration::from_millis(500);
    let rig = Rig::new().await;
    let late = Action::DelayEvents(LATE);
    rig.proxy().rule(Match::watches("endpoints"), late, Times::Always);
    let changes = [(false, NOT_READY), (true, READY)].repeat(4);
    let started = Instant::now();
    for (ready, want) in &changes {
        rig.namespace.set_pod_ready("web-0", *ready).await.unwrap();
        rig.namespace.endpoints_become("web", want).await.unwrap();
    }
    let took = started.elapsed() / 8;
    assert!(
        took < LATE,
        "each change took {took:?}: it waits for the event of the last"
    );
    rig.namespace.caught_up().await.unwrap();
    let writes = rig.proxy().requests(&Match::writes("endpoints").name("web"));
    assert_eq!(writes.len(), 1 + changes.len(), "one to create, one per change");
    assert!(
        writes.iter().all(|it| matches!(it.status, Some(200 | 201))),
        "{writes:?}"
    );
}

/// B21.
#[tokio::test]
async fn all_pages_of_the_first_list_are_there_before_the_first_write() {
    const PODS: usize = 1300;
    let namespace = TestNamespace::create(cluster::shared()).await.unwrap();
    // Lists are in the order of names. Only those on the third page matter, and only those have addresses.
    let numbered = |number: usize| match number {
        1290.. => pod(&format!("p-{number:04}"))
            .label("app", "smew")
            .ip(&format!("10.201.1.{}", number - 1289)),
        _ => pod(&format!("p-{number:04}")),
    };
    create_pods((0..PODS).map(numbered), &namespace).await.unwrap();
    service("smew")
        .selector("app", "smew")
        .port("", 80, 8080)
        .create(&namespace)
        .await
        .unwrap();

    let _alone = alone().await;
    let builder = Svcplane::builder().lease_in(&namespace).arg("--watch-list=off");
    let replica = Replica::start(cluster::shared(), builder).await.unwrap();
    let ips: Vec<String> = (1..=10).map(|last| format!("10.201.1.{last}")).collect();
    let mut sorted = ips.clone();
    sorted.sort();
    let want = format!("{} -> :8080/TCP", sorted.join(" "));
    let written = namespace.endpoints_become("smew", &[&want]).await.unwrap();
    replica.wait_idle().await.unwrap();

    let known = replica
        .metrics()
        .await
        .unwrap()
        .sum("svcplane_objects", &[("resource", "pods")]);
    assert!(known >= 1300.0, "{known} Pods known");
    let pages = replica.proxy().requests(&Match::lists("pods"));
    assert!(
        pages.len() >= 3 && pages[0].request.query.contains("limit=500"),
        "{pages:?}"
    );
    let writes = replica.proxy().writes("endpoints", namespace.name());
    assert_eq!(writes.len(), 1, "complete on the first write");
    assert!(
        pages.iter().all(|page| page.seq < writes[0].seq),
        "written before the last page"
    );
    let first: Endpoints = serde_json::from_slice(writes[0].body.as_ref().unwrap()).unwrap();
    assert_eq!(lines(&first), lines(&written));
}

#[tokio::test]
async fn nothing_is_written_while_one_of_the_first_lists_is_late() {
    let rig = Rig::new().await;
    let Rig {
        replica,
        namespace,
        _alone,
    } = rig;
    drop(replica);
    for resource in ["pods", "endpoints", "services"] {
        let proxy = FaultProxy::start(cluster::shared()).unwrap();
        let late = Action::Delay(Duration::from_secs(2));
        let rule = proxy.rule(Match::watches(resource), late, Times::First(1));
        let builder = Svcplane::builder().lease_in(&namespace);
        let replica = Replica::start_behind(proxy, cluster::shared(), builder).await.unwrap();
        rule.wait_hits(1, SOON).await.unwrap();
        replica.wait_leader().await.unwrap();
        assert!(!replica.readyz().await.unwrap(), "ready without {resource}");
        replica.wait_idle().await.unwrap();
        let writes = replica.proxy().writes("endpoints", "");
        assert_eq!(writes.len(), 0, "{resource}: {writes:?}");
        replica.terminate().await.unwrap();
    }
}

/// The server's time-out for a watch is a minute, ours 5 s more.
#[tokio::test]
async fn a_watch_that_falls_silent_is_noticed() {
    let namespace = TestNamespace::create(cluster::shared()).await.unwrap();
    namespace.workload("web", &["10.201.0.1"]).await.unwrap();
    let builder = Svcplane::builder().lease_in(&namespace).observe();
    let replica = Replica::start(cluster::shared(), builder).await.unwrap();
    let planned = || {
        let entries = replica.log_entries("would write (observe mode)");
        let key = Value::from(format!("{}/web", namespace.name()));
        entries.iter().filter(|entry| entry["endpoints"] == key).count()
    };
    replica.wait_idle().await.unwrap();
    let pods = Match::watches("pods");
    let before = (planned(), replica.proxy().requests(&pods).len());
    assert_eq!(before.0, 1);
    let rule = replica.proxy().rule(pods.clone(), Action::Silence, Times::First(1));
    namespace.set_pod_ready("web-0", false).await.unwrap();
    rule.wait_hits(1, SOON).await.unwrap();
    let deadline = Duration::from_secs(80);
    let again = |watches: &[_]| watches.len() > before.1;
    replica.proxy().wait_requests(&pods, deadline, again).await.unwrap();
    let labels = [("operation", "create")];
    let planned_total = "svcplane_planned_operations_total";
    let seen = replica.wait_metric(planned_total, &labels, SOON, |_| planned() > before.0);
    seen.await.unwrap();
}
