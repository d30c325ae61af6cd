//! However a leader goes, the other one takes over in time, and the old one changes nothing afterwards.

use std::time::{Duration, Instant};

use futures::future::join_all;
use http::Method;
use kube::api::DeleteParams;
use svcplane_tests::cluster;
use svcplane_tests::eventually::never_changes;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::process::Exit;
use svcplane_tests::proxy::{Action, Match, Record, Times};
use svcplane_tests::svcplane::{Builder, Replica, SHORT_LEASE, Svcplane, alone};
use tokio::sync::MutexGuard;

const SOON: Duration = Duration::from_secs(30);
/// What a busy machine adds.
const SLACK: Duration = Duration::from_secs(3);
const READY: &[&str] = &["10.201.0.1 -> :8080/TCP"];
const NOT_READY: &[&str] = &["!10.201.0.1 -> :8080/TCP"];

/// Two active replicas, the first of which leads, alone on the cluster. The Service `web` has one Pod.
struct Rig {
    leader: Replica,
    standby: Replica,
    namespace: TestNamespace,
    _alone: MutexGuard<'static, ()>,
}

impl Rig {
    async fn new(configure: impl Fn(Builder) -> Builder) -> Self {
        let namespace = TestNamespace::create(cluster::shared()).await.unwrap();
        namespace.workload("web", &["10.201.0.1"]).await.unwrap();
        let _alone = alone().await;
        let start = async |number| {
            let builder = Svcplane::builder().lease_in(&namespace).replica(number);
            Replica::start(cluster::shared(), configure(builder)).await.unwrap()
        };
        let leader = start(1).await;
        leader.wait_idle().await.unwrap();
        let standby = start(2).await;
        standby.wait_ready().await.unwrap();
        namespace.endpoints_become("web", READY).await.unwrap();
        Self {
            leader,
            standby,
            namespace,
            _alone,
        }
    }

    async fn set_ready(&self, ready: bool) {
        self.namespace.set_pod_ready("web-0", ready).await.unwrap();
    }

    async fn web_becomes(&self, want: &[&str]) {
        self.namespace.endpoints_become("web", want).await.unwrap();
    }

    async fn standby_holds_the_lease(&self) {
        let identity = self.standby.identity().await.unwrap();
        self.namespace.wait_holder(&identity, SOON).await.unwrap();
    }

    /// The leader has seen that it does not lead any more, and looks at the Lease again and again.
    async fn leader_contends(&self) {
        let reads = Match::any().resource("leases").method(Method::GET);
        let seen = self.leader.proxy().requests(&reads).len();
        let looks = |reads: &[Record]| reads[seen..].iter().filter(|it| it.status == Some(200)).count() >= 2;
        self.leader.proxy().wait_requests(&reads, SOON, looks).await.unwrap();
        assert!(!self.leader.leads().await.unwrap());
        assert!(self.leader.get("/livez").await.unwrap().0.is_success());
    }
}

fn endpoint_writes(namespace: &TestNamespace) -> Match {
    Match::writes("endpoints").namespace(namespace.name())
}

#[tokio::test]
async fn after_kill_9_the_other_writes_within_the_lease_time() {
    let rig = Rig::new(Builder::short_lease).await;
    rig.leader.kill9().await.unwrap();
    let killed = Instant::now();
    rig.set_ready(false).await;
    rig.web_becomes(NOT_READY).await;
    let took = killed.elapsed();
    assert!(took < SHORT_LEASE + SLACK, "{took:?}");
}

#[tokio::test]
async fn sigterm_hands_over_at_once_and_ends_with_exit_code_0() {
    // With the default lease of 15 s: a hand-over that waits for its end would be seen.
    let rig = Rig::new(|builder| builder).await;
    // A write that is under way is waited for; it is not made again by the other one.
    let puts = endpoint_writes(&rig.namespace).method(Method::PUT);
    let late = Action::DelayReply(Duration::from_millis(400));
    let rule = rig.leader.proxy().rule(puts.clone(), late, Times::First(1));
    rig.set_ready(false).await;
    rule.wait_hits(1, SOON).await.unwrap();
    let told = Instant::now();
    rig.leader.signal(svcplane_tests::process::Signal::TERM);
    rig.standby_holds_the_lease().await;
    let taken = told.elapsed();
    assert_eq!(rig.leader.wait_exit(SOON).await.unwrap(), Exit::Code(0));
    let ended = told.elapsed();
    rig.set_ready(true).await;
    rig.web_becomes(READY).await;
    let writes = [&rig.leader, &rig.standby].map(|it| it.proxy().writes_of(&puts).len());
    assert_eq!(writes, [1, 1], "one change each");
    assert!(
        taken < SLACK && ended < SLACK,
        "taken over after {taken:?}, ended after {ended:?}"
    );
    let lease = rig.namespace.lease().await.unwrap();
    assert_eq!(lease.lease_transitions, Some(1));
}

#[tokio::test]
async fn who_was_stopped_for_longer_than_the_lease_changes_nothing_when_it_wakes() {
    let rig = Rig::new(Builder::short_lease).await;
    let puts = endpoint_writes(&rig.namespace).method(Method::PUT);
    // A write is on its way to the apiserver, and stays there until the other one has written.
    let under_way = rig.leader.proxy().rule(puts.clone(), Action::Hold, Times::First(1));
    rig.set_ready(false).await;
    under_way.wait_hits(1, SOON).await.unwrap();
    rig.leader.stop();
    rig.web_becomes(NOT_READY).await;
    rig.standby_holds_the_lease().await;
    // Whatever the old leader still believes is wrong now.
    rig.set_ready(true).await;
    rig.web_becomes(READY).await;
    under_way.remove();
    let answered = |puts: &[Record]| puts.iter().all(|it| it.status.is_some());
    let late = rig.leader.proxy().wait_requests(&puts, SOON, answered).await.unwrap();
    assert_eq!(late.iter().map(|it| it.status).collect::<Vec<_>>(), [Some(409)]);
    rig.leader.proxy().clear_records();
    rig.leader.cont();
    rig.leader_contends().await;
    rig.namespace.caught_up().await.unwrap();
    let writes = rig.leader.proxy().writes("endpoints", "");
    assert_eq!(writes.len(), 0, "{writes:?}");
    rig.web_becomes(READY).await;

    // It is a candidate like any other.
    rig.standby.kill9().await.unwrap();
    rig.set_ready(false).await;
    rig.web_becomes(NOT_READY).await;
}

/// What waited in its queue was decided in another time: its versions are still good, its knowledge is not.
#[tokio::test]
async fn old_work_of_a_leader_that_was_stopped_is_not_done() {
    const PERIOD: Duration = Duration::from_secs(6);
    const SERVICES: usize = 60;
    let rig = Rig::new(|builder| builder.short_lease().arg("--endpoint-updates-batch-period=6s")).await;
    let names: Vec<String> = (0..SERVICES).map(|number| format!("web-{number}")).collect();
    let make = async |name: &String| rig.namespace.workload(name, &["10.201.0.1"]).await.unwrap();
    join_all(names.iter().map(make)).await;
    let become_ready = async |name: &String| rig.namespace.endpoints_become(name, READY).await.unwrap();
    join_all(names.iter().map(become_ready)).await;
    rig.leader.wait_idle().await.unwrap();

    let set_all = async |ready: bool| {
        let set = async |name: &String| rig.namespace.set_pod_ready(&format!("{name}-0"), ready).await.unwrap();
        join_all(names.iter().map(set)).await;
    };
    let noticed = Instant::now();
    set_all(false).await;
    let waiting = |depth: f64| depth >= SERVICES as f64;
    rig.leader
        .wait_metric("svcplane_workqueue_delayed", &[], SOON, waiting)
        .await
        .unwrap();
    assert!(noticed.elapsed() < PERIOD, "the machine is too slow for this test");
    rig.leader.stop();
    set_all(true).await;
    rig.standby_holds_the_lease().await;
    rig.standby.wait_idle().await.unwrap();
    let left = PERIOD.saturating_sub(noticed.elapsed()) + Duration::from_millis(200);
    never_changes("Endpoints", left, &rig.namespace.endpoints(), "")
        .await
        .unwrap();
    rig.leader.proxy().clear_records();
    rig.leader.cont();
    rig.leader_contends().await;
    for replica in [&rig.leader, &rig.standby] {
        let writes = replica.proxy().requests(&endpoint_writes(&rig.namespace));
        let updates = writes.iter().filter(|it| it.request.method == Method::PUT).count();
        assert_eq!(updates, 0);
    }
}

#[tokio::test]
async fn a_leader_cut_off_from_the_apiserver_is_replaced_and_comes_back_as_a_candidate() {
    let rig = Rig::new(Builder::short_lease).await;
    let cut = rig.leader.proxy().partition("");
    rig.set_ready(false).await;
    rig.web_becomes(NOT_READY).await;
    rig.standby_holds_the_lease().await;
    assert!(!rig.leader.leads().await.unwrap());
    assert!(rig.leader.get("/livez").await.unwrap().0.is_success());
    assert!(rig.leader.readyz().await.unwrap(), "readiness is not leadership");
    rig.set_ready(true).await;
    rig.web_becomes(READY).await;
    rig.leader.proxy().clear_records();
    cut.remove();
    rig.leader_contends().await;
    rig.namespace.caught_up().await.unwrap();
    let writes = rig.leader.proxy().writes_that_changed(&endpoint_writes(&rig.namespace));
    assert_eq!(writes.len(), 0, "{writes:?}");

    // Its caches are as good as ever.
    rig.standby.kill9().await.unwrap();
    rig.set_ready(false).await;
    rig.web_becomes(NOT_READY).await;
}

#[tokio::test]
async fn a_standby_knows_everything_and_takes_over_without_a_write() {
    const SERVICES: usize = 40;
    let rig = Rig::new(Builder::short_lease).await;
    let names: Vec<String> = (0..SERVICES).map(|number| format!("web-{number}")).collect();
    let make = async |name: &String| {
        rig.namespace
            .workload(name, &["10.201.0.1", "10.201.0.2"])
            .await
            .unwrap();
        let want = ["10.201.0.1 10.201.0.2 -> :8080/TCP"];
        rig.namespace.endpoints_become(name, &want).await.unwrap();
    };
    join_all(names.iter().map(make)).await;
    let services = rig.namespace.services();
    services.delete("web-0", &DeleteParams::default()).await.unwrap();
    rig.namespace.caught_up().await.unwrap();

    let objects = async |replica: &Replica| {
        let page = replica.metrics().await.unwrap();
        ["services", "pods", "endpoints"].map(|it| page.get("svcplane_objects", &[("resource", it)]).unwrap())
    };
    let known = objects(&rig.leader).await;
    assert!(known[0] >= 40.0 && known[1] >= 81.0 && known[2] >= 40.0, "{known:?}");
    let same = |page: &svcplane_tests::metrics::Metrics| {
        let its = ["services", "pods", "endpoints"].map(|it| page.sum("svcplane_objects", &[("resource", it)]));
        if its == known {
            Ok(())
        } else {
            Err(format!("{its:?} instead of {known:?}"))
        }
    };
    rig.standby.wait_metrics("as well informed", SOON, same).await.unwrap();
    assert_eq!(
        rig.standby.proxy().writes("endpoints", "").len(),
        0,
        "a standby writes nothing"
    );

    let before = cluster::shared().settled(Duration::from_secs(1), SOON).await.unwrap();
    rig.leader.kill9().await.unwrap();
    rig.standby.wait_idle().await.unwrap();
    let after = cluster::shared().settled(Duration::from_secs(1), SOON).await.unwrap();
    assert_eq!(after, before);
    assert_eq!(rig.standby.proxy().writes("endpoints", "").len(), 0);
    let page = rig.standby.metrics().await.unwrap();
    for controller in ["endpoints-controller", "endpointslice-controller"] {
        let unchanged = [("controller", controller), ("result", "unchanged")];
        assert!(page.sum("svcplane_syncs_total", &unchanged) >= 40.0, "it did look");
    }
}
