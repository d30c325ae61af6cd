//! While the apiserver is away or refuses, it is asked seldom; afterwards everything is made right, and nothing is
//! forgotten.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use futures::future::join_all;
use kube::api::DeleteParams;
use svcplane_tests::cluster;
use svcplane_tests::eventually::eventually_gone;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::process::Exit;
use svcplane_tests::proxy::{Action, FaultProxy, Match, Record, Refusal, Times};
use svcplane_tests::svcplane::{Replica, Svcplane, alone};

const SOON: Duration = Duration::from_secs(30);
const READY: &[&str] = &["10.201.0.1 -> :8080/TCP"];
const NOT_READY: &[&str] = &["!10.201.0.1 -> :8080/TCP"];

async fn namespace() -> TestNamespace {
    TestNamespace::create(cluster::shared()).await.unwrap()
}

/// Twenty Services of one Pod each.
struct Twenty(TestNamespace, Vec<String>);

impl Twenty {
    async fn new() -> Self {
        let names = (0..20).map(|number| format!("web-{number:02}")).collect();
        let twenty = Self(namespace().await, names);
        let make = async |name: &String| twenty.0.workload(name, &["10.201.0.1"]).await.unwrap();
        join_all(twenty.1.iter().map(make)).await;
        twenty
    }

    async fn set_ready(&self, ready: bool) {
        let set = async |name: &String| self.0.set_pod_ready(&format!("{name}-0"), ready).await.unwrap();
        join_all(self.1.iter().map(set)).await;
    }

    async fn become_all(&self, want: &[&str]) {
        let check = async |name: &String| self.0.endpoints_become(name, want).await.unwrap();
        join_all(self.1.iter().map(check)).await;
    }

    /// How often each was written to in vain or not, by name.
    fn tries(&self, writes: &[Record]) -> HashMap<String, usize> {
        let mut tries: HashMap<String, usize> = self.1.iter().map(|name| (name.clone(), 0)).collect();
        for write in writes {
            if let Some(count) = tries.get_mut(&write.request.name) {
                *count += 1;
            }
        }
        tries
    }
}

/// B25 (a). The proxy resets each connection after the request, so that requests can be counted.
#[tokio::test]
async fn an_apiserver_that_is_away_is_asked_more_and_more_seldom() {
    let namespace = namespace().await;
    let proxy = FaultProxy::start(cluster::shared()).unwrap();
    let away = proxy.rule(Match::any(), Action::ResetBefore, Times::Always);
    let started = Instant::now();
    let builder = Svcplane::builder().lease_in(&namespace).observe();
    let replica = Replica::start_behind(proxy, cluster::shared(), builder).await.unwrap();
    away.wait_hits(5, SOON).await.unwrap();
    // 0.8 s doubling, of which jitter leaves at least a half: five requests take 6 s or more.
    let took = started.elapsed();
    assert!(took >= Duration::from_secs(6), "{took:?}");
    assert!(replica.get("/livez").await.unwrap().0.is_success());
    assert!(!replica.readyz().await.unwrap());
    let lines = replica.log_lines();
    let complaints: Vec<_> = lines
        .iter()
        .filter(|line| line.contains("cannot reach the apiserver"))
        .collect();
    assert!((1..=2).contains(&complaints.len()), "{complaints:?}");
    let errors = lines.iter().filter(|line| line.contains("\"level\":\"ERROR\"")).count();
    assert_eq!(
        errors, 1,
        "what lasts is a warning, and nobody else complains: {lines:#?}"
    );
    away.remove();
    replica.wait_idle().await.unwrap();

    // The same for watches that were open.
    replica.proxy().clear_records();
    let cut = Instant::now();
    let away = replica.proxy().cut_off("");
    let pods = Match::any().resource("pods");
    let four = |requests: &[Record]| requests.len() >= 4;
    replica.proxy().wait_requests(&pods, SOON, four).await.unwrap();
    let took = cut.elapsed();
    assert!(took >= Duration::from_millis(2500), "{took:?}");
    assert!(replica.readyz().await.unwrap(), "readiness stays");
    away.remove();
    namespace.workload("web", &["10.201.0.1"]).await.unwrap();
    replica.wait_informed(&namespace.client()).await.unwrap();

    // Also the watches that have nothing to tell say that they are back.
    let back = || -> BTreeSet<String> {
        let entries = replica.log_entries("watch is back");
        let resources = entries.iter().filter_map(|entry| entry["resource"].as_str());
        resources.map(str::to_owned).collect()
    };
    let all = |_: f64| back().len() == 5;
    let errors = replica.wait_metric("svcplane_watch_errors_total", &[], Duration::from_mins(1), all);
    errors.await.unwrap_or_else(|error| panic!("{:?}: {error:#}", back()));
}

/// B30, with the reference's give-up (15 tries) in reach: after 13 tries the back-off is 20 s.
#[tokio::test]
async fn no_key_is_given_up_while_writes_fail() {
    let twenty = Twenty::new().await;
    let _alone = alone().await;
    let builder = Svcplane::builder().lease_in(&twenty.0).short_lease();
    let replica = Replica::start(cluster::shared(), builder).await.unwrap();
    twenty.become_all(READY).await;

    // Only Endpoints: it goes on leading, and tries each at growing intervals.
    let refused = || Action::Refuse(Refusal::internal_error());
    let started = Instant::now();
    let endpoints = Match::writes("endpoints").namespace(twenty.0.name());
    replica.proxy().clear_records();
    let rule = replica.proxy().rule(endpoints.clone(), refused(), Times::Always);
    twenty.set_ready(false).await;
    let tried = |writes: &[Record]| twenty.tries(writes).values().all(|&count| count >= 10);
    let writes = replica.proxy().wait_requests(&endpoints, SOON, tried).await.unwrap();
    let took = started.elapsed();
    let most = *twenty.tries(&writes).values().max().unwrap();
    let bound = (took.as_secs_f64() / 0.0025).log2() + 3.0;
    assert!(
        most <= bound.round() as usize,
        "{most} tries of one Service in {took:?}"
    );
    assert!(replica.leads().await.unwrap());
    rule.remove();
    twenty.become_all(NOT_READY).await;

    // All that it writes, its Lease included.
    let rule = replica.proxy().rule(Match::all_writes(), refused(), Times::Always);
    twenty.set_ready(true).await;
    replica
        .wait_metric("leader_election_master_status", &[], SOON, |it| it < 0.5)
        .await
        .unwrap();
    twenty.0.workload("late", &["10.201.0.1"]).await.unwrap();
    rule.remove();
    twenty.become_all(READY).await;
    twenty.0.endpoints_become("late", READY).await.unwrap();
    replica.wait_idle().await.unwrap();
}

#[tokio::test]
async fn what_changed_during_an_outage_is_made_right_by_one_write_each() {
    let twenty = Twenty::new().await;
    let _alone = alone().await;
    let builder = Svcplane::builder().lease_in(&twenty.0);
    let replica = Replica::start(cluster::shared(), builder).await.unwrap();
    twenty.become_all(READY).await;
    replica.wait_idle().await.unwrap();
    replica.proxy().refuse_connections().await.unwrap();
    twenty.set_ready(false).await;
    let services = twenty.0.services();
    services.delete("web-19", &DeleteParams::default()).await.unwrap();
    twenty.0.workload("late", &["10.201.0.1"]).await.unwrap();
    let errors = [("resource", "pods")];
    let failed = replica.wait_metric("svcplane_watch_errors_total", &errors, SOON, |it| it >= 2.0);
    failed.await.unwrap();
    replica.proxy().clear_records();
    replica.proxy().accept_connections().await.unwrap();
    let back = Instant::now();
    twenty.0.endpoints_become("late", READY).await.unwrap();
    eventually_gone("Endpoints", SOON, &twenty.0.endpoints(), "web-19")
        .await
        .unwrap();
    let check = async |name: &String| twenty.0.endpoints_become(name, NOT_READY).await.unwrap();
    join_all(twenty.1[..19].iter().map(check)).await;
    let took = back.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    twenty.0.caught_up().await.unwrap();
    let writes = replica.proxy().writes("endpoints", twenty.0.name());
    let mut tries = twenty.tries(&writes);
    // One to put it right with the Pod as it was last, one to delete it, if the two watches come back in that order.
    let deleted = tries.remove("web-19").unwrap();
    assert!((1..=2).contains(&deleted), "{deleted}");
    assert!(tries.values().all(|&count| count == 1), "{tries:?}");
}

/// "About a second": the writes under way get 0.6 s, the Lease 1 s.
const QUICKLY: Duration = Duration::from_secs(3);

async fn ends_well(replica: &Svcplane, how: &str) {
    let told = Instant::now();
    let exit = replica.terminate().await.unwrap();
    let took = told.elapsed();
    assert_eq!(exit, Exit::Code(0), "{how}");
    assert!(took < QUICKLY, "{how}: {took:?}");
}

#[tokio::test]
async fn sigterm_ends_it_while_the_apiserver_is_away() {
    let namespace = namespace().await;
    namespace.workload("web", &["10.201.0.1"]).await.unwrap();
    let builder = || Svcplane::builder().lease_in(&namespace);

    // It has never been there.
    let proxy = FaultProxy::start(cluster::shared()).unwrap();
    proxy.refuse_connections().await.unwrap();
    let replica = Replica::start_behind(proxy, cluster::shared(), builder().observe())
        .await
        .unwrap();
    ends_well(&replica, "never there").await;

    // It is there and says nothing.
    let proxy = FaultProxy::start(cluster::shared()).unwrap();
    let rule = proxy.rule(Match::any(), Action::Hold, Times::Always);
    let replica = Replica::start_behind(proxy, cluster::shared(), builder().observe())
        .await
        .unwrap();
    rule.wait_hits(1, SOON).await.unwrap();
    ends_well(&replica, "never answered").await;

    let _alone = alone().await;
    let replica = Replica::start(cluster::shared(), builder()).await.unwrap();
    namespace.endpoints_become("web", READY).await.unwrap();
    replica.wait_idle().await.unwrap();
    replica.proxy().refuse_connections().await.unwrap();
    ends_well(&replica, "gone").await;

    // It fell silent with a write under way, and the Lease cannot be given back.
    let lease = namespace.leases();
    lease
        .delete(svcplane_tests::lease::NAME, &DeleteParams::default())
        .await
        .unwrap();
    let replica = Replica::start(cluster::shared(), builder()).await.unwrap();
    replica.wait_idle().await.unwrap();
    let writes = Match::writes("endpoints").namespace(namespace.name());
    let under_way = replica.proxy().rule(writes, Action::Hold, Times::Always);
    namespace.set_pod_ready("web-0", false).await.unwrap();
    under_way.wait_hits(1, SOON).await.unwrap();
    replica.proxy().partition("");
    ends_well(&replica, "silent").await;
}
