//! Whatever becomes of a watch or a list, every change is seen, and nothing is written for a state that is half known.

use std::time::{Duration, Instant};

use http::Method;
use k8s_openapi::api::core::v1::Endpoints;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use svcplane_tests::cluster;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{create_pods, pod, service};
use svcplane_tests::proxy::{Action, FaultProxy, Match, Record, Refusal, Times, WatchEnd};
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

    /// The writes of the Endpoints, once each has its reply: what a write does is seen before that.
    async fn answered_writes(&self) -> Vec<Record> {
        let writes = Match::writes("endpoints").name("web");
        let answered = |all: &[Record]| all.iter().all(|it| it.status.is_some());
        self.proxy().wait_requests(&writes, SOON, answered).await.unwrap()
    }

    /// Changes the Pod and waits until the Endpoints say so.
    async fn follows(&self) {
        for (ready, want) in [(false, NOT_READY), (true, READY)] {
            self.namespace.set_pod_ready("web-0", ready).await.unwrap();
            self.namespace.endpoints_become("web", want).await.unwrap();
        }
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

/// Spec endpoints.md 6.10: where the reference waits a second, or writes twice.
#[tokio::test]
async fn late_events_of_our_own_writes_cost_neither_a_write_nor_time() {
    const LATE: Duration = Duration::from_secs(1);
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
    let writes = rig.answered_writes().await;
    assert_eq!(writes.len(), 1 + changes.len(), "one to create, one per change");
    assert!(
        writes.iter().all(|it| matches!(it.status, Some(200 | 201))),
        "{writes:?}"
    );
}

/// Should the events of our own writes never come, what we know of them is enough; and nothing is missed afterwards.
#[tokio::test]
async fn events_of_our_own_writes_that_never_come_cost_nothing() {
    let rig = Rig::new().await;
    let dropped = rig
        .proxy()
        .rule(Match::watches("endpoints"), Action::DropEvents, Times::Always);
    rig.follows().await;
    rig.follows().await;
    dropped.wait_hits(4, SOON).await.unwrap();
    dropped.remove();
    rig.namespace.caught_up().await.unwrap();
    rig.follows().await;
    let writes = rig.answered_writes().await;
    let statuses: Vec<_> = writes.iter().map(|it| it.status).collect();
    assert_eq!(statuses[0], Some(201));
    assert_eq!(statuses[1..], [Some(200); 6], "one per change");
}

/// The watch is blind while it is created and while somebody deletes it, a list shows nothing of either, and only then the
/// reply to the creation comes.
#[tokio::test]
async fn a_reply_that_is_older_than_a_list_does_not_hide_a_deletion() {
    let rig = Rig::new().await;
    let watch = Match::watches("endpoints");
    let create = Match::writes("endpoints")
        .namespace(rig.namespace.name())
        .name("late")
        .method(Method::POST);
    // The only write until its reply comes: the Pod must be known before it.
    let pod = pod("late-0").label("app", "late").ip("10.201.0.2");
    pod.create(&rig.namespace).await.unwrap();
    rig.namespace.caught_up().await.unwrap();
    let blind = rig.proxy().rule(watch.clone(), Action::DropEvents, Times::Always);
    let reply = rig.proxy().rule(create.clone(), Action::HoldReply, Times::First(1));
    let late = service("late").selector("app", "late").port("", 80, 8080);
    late.create(&rig.namespace).await.unwrap();
    let right = ["10.201.0.2 -> :8080/TCP"];
    rig.namespace.endpoints_become("late", &right).await.unwrap();
    let created = rig.proxy().wait_requests(&create, SOON, |it| it[0].status.is_some());
    created.await.unwrap();
    rig.namespace
        .endpoints()
        .delete("late", &DeleteParams::default())
        .await
        .unwrap();
    blind.remove();
    let expired = WatchEnd::Error(Refusal::expired());
    assert_eq!(rig.proxy().end_watches(&watch, &expired), 1);
    rig.relists("endpoints", 1.0).await;
    // A hand edit that is healed shows that the list is complete.
    let edit = Patch::Merge(json!({ "subsets": null }));
    rig.namespace
        .endpoints()
        .patch("web", &PatchParams::default(), &edit)
        .await
        .unwrap();
    rig.namespace.endpoints_become("web", READY).await.unwrap();
    reply.remove();
    rig.namespace.endpoints_become("late", &right).await.unwrap();
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
    let _alone = alone().await;
    service("smew")
        .selector("app", "smew")
        .port("", 80, 8080)
        .create(&namespace)
        .await
        .unwrap();
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
        let writes = replica.proxy().writes("endpoints", namespace.name());
        assert_eq!(writes.len(), 0, "{resource}: {writes:?}");
        replica.terminate().await.unwrap();
    }
}

/// What nobody in the process needs is not asked for: Services cost memory by the thousand.
#[tokio::test]
async fn only_what_the_controllers_need_is_watched() {
    let namespace = TestNamespace::create(cluster::shared()).await.unwrap();
    for (controllers, wanted) in [
        ("repair-controller", &[][..]),
        ("endpoints-controller", &["endpoints", "pods", "services"]),
    ] {
        let builder = Svcplane::builder().lease_in(&namespace).observe();
        let builder = builder.arg(&format!("--controllers={controllers}"));
        let replica = Replica::start(cluster::shared(), builder).await.unwrap();
        replica.wait_ready().await.unwrap();
        let watches = replica.proxy().requests(&Match::all_watches());
        let mut kinds: Vec<String> = watches.into_iter().map(|it| it.request.resource).collect();
        kinds.sort();
        kinds.dedup();
        assert_eq!(kinds, wanted, "{controllers}");
        // An observer says what it does not write; who keeps no endpoints at all has nothing to observe.
        let said = replica.wait_log("leading", SOON).await.unwrap();
        let observing = "leading in observe mode: no Endpoints and no EndpointSlices are written";
        let (keeps, told) = (said.get("endpoints").is_none(), replica.log_entries(observing).len());
        assert_eq!((keeps, told), (!wanted.is_empty(), wanted.len().min(1)), "{said}");
        replica.terminate().await.unwrap();
    }
}
