//! Whatever happens to the Lease, there is one leader at a time and soon one again. Most of these replicas only
//! observe: elections are the same, and they may run beside each other.

use std::time::{Duration, Instant};

use http::Method;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::DeleteParams;
use serde_json::Value;
use svcplane_tests::cluster;
use svcplane_tests::eventually::stays;
use svcplane_tests::lease;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::process::Exit;
use svcplane_tests::proxy::{Action, FaultProxy, Match, Record, Refusal, Times};
use svcplane_tests::svcplane::{Builder, Replica, SHORT_LEASE, Svcplane, alone};

const SOON: Duration = Duration::from_secs(30);
/// From the check before a write to the proxy, on a busy machine.
const TRANSIT: Duration = Duration::from_millis(250);
const RENEW_DEADLINE: Duration = Duration::from_secs(2);
/// What a busy machine adds.
const SLACK: Duration = Duration::from_secs(2);

async fn namespace() -> TestNamespace {
    TestNamespace::create(cluster::shared()).await.unwrap()
}

fn observer(namespace: &TestNamespace) -> Builder {
    Svcplane::builder().observe().lease_in(namespace).short_lease()
}

async fn start(builder: Builder) -> Replica {
    Replica::start(cluster::shared(), builder).await.unwrap()
}

/// A leader, and one that waits.
async fn pair(builder: &Builder) -> [Replica; 2] {
    let leader = start(builder.clone().replica(1)).await;
    leader.wait_leader().await.unwrap();
    let standby = start(builder.clone().replica(2)).await;
    standby.wait_ready().await.unwrap();
    [leader, standby]
}

fn lease_writes() -> Match {
    Match::writes("leases")
}

fn body(record: &Record) -> Value {
    serde_json::from_slice(record.body.as_ref().unwrap()).unwrap()
}

async fn holds(namespace: &TestNamespace, identity: &str, duration: Duration) {
    let api = namespace.leases();
    let held = |leases: &[Lease]| {
        let spec = leases.first().and_then(|lease| lease.spec.as_ref()).ok_or("no Lease")?;
        match spec.holder_identity.as_deref() {
            Some(holder) if holder == identity => Ok(()),
            other => Err(format!("held by {other:?}")),
        }
    };
    stays("one holder", duration, &api, "metadata.name=svcplane", held)
        .await
        .unwrap();
}

/// B83.
#[tokio::test]
async fn the_duration_in_the_lease_counts_and_not_the_candidates_own() {
    const LONG: Duration = Duration::from_secs(8);
    let namespace = namespace().await;
    let patient = observer(&namespace).lease_times(LONG, Duration::from_secs(7), Duration::from_secs(5));
    let hasty = observer(&namespace).lease_times(RENEW_DEADLINE, SHORT_LEASE / 2, Duration::from_millis(500));
    let leader = start(patient.replica(1)).await;
    leader.wait_leader().await.unwrap();
    let candidate = start(hasty.replica(2)).await;
    let identity = leader.identity().await.unwrap();
    // Two renewals, with longer pauses than the candidate's own duration.
    holds(&namespace, &identity, Duration::from_secs(11)).await;
    leader.kill9().await.unwrap();
    let last = namespace.lease().await.unwrap();
    assert_eq!(
        (last.holder_identity, last.lease_transitions),
        (Some(identity), Some(0))
    );
    let next = candidate.identity().await.unwrap();
    let taken = namespace.wait_holder(&next, LONG + SLACK + SLACK).await.unwrap();
    let pause = taken.acquire_time.unwrap().0.duration_since(last.renew_time.unwrap().0);
    assert!(pause.as_millis() >= 8000, "taken over {pause:?} after the last renewal");
    assert_eq!(
        (taken.lease_transitions, taken.lease_duration_seconds),
        (Some(1), Some(2))
    );
}

/// B85.
#[tokio::test]
async fn who_cannot_renew_stops_writing_before_the_other_begins() {
    let _alone = alone().await;
    let namespace = namespace().await;
    namespace.workload("web", &["10.201.0.1"]).await.unwrap();
    let active = Svcplane::builder().lease_in(&namespace).short_lease();
    let [mut leader, mut standby] = pair(&active).await;
    let faults = [Action::Refuse(Refusal::too_many_requests(1)), Action::Hang];
    for fault in faults {
        let text = format!("{fault:?}");
        let next = standby.identity().await.unwrap();
        let rule = leader.proxy().rule(lease_writes(), fault, Times::Always);
        // Work all the time, until some of it is the other's.
        let mut ready = false;
        let started = Instant::now();
        let endpoints = Match::writes("endpoints").namespace(namespace.name());
        standby.proxy().clear_records();
        while standby.proxy().writes_of(&endpoints).len() < 5 {
            namespace.set_pod_ready("web-0", ready).await.unwrap();
            ready = !ready;
            assert!(started.elapsed() < SOON, "{text}: the standby does not write");
        }
        let taken = namespace.wait_holder(&next, SOON).await.unwrap();
        let acquired = taken.acquire_time.unwrap().0;
        let writes = leader.proxy().writes_of(&endpoints);
        let last = writes.last().unwrap();
        let wall = Timestamp::try_from(last.wall).unwrap();
        assert!(
            wall < acquired,
            "{text}: a write at {wall}, after the other's {acquired}"
        );
        let renewed = leader.proxy().requests(&lease_writes());
        let renewed = renewed.iter().rfind(|it| matches!(it.status, Some(200 | 201))).unwrap();
        let late = last.at.saturating_duration_since(renewed.at);
        // What leaves at the last moment is seen a moment later.
        assert!(
            late <= RENEW_DEADLINE + TRANSIT,
            "{text}: a write {late:?} after the last renewal was sent"
        );
        assert!(writes.len() > 5, "{text}: {} writes of the leader", writes.len());

        rule.remove();
        leader.proxy().clear_records();
        let looks = |reads: &[Record]| !reads.is_empty();
        let reads = Match::any().resource("leases").method(Method::GET);
        leader.proxy().wait_requests(&reads, SOON, looks).await.unwrap();
        namespace.caught_up().await.unwrap();
        assert_eq!(leader.proxy().writes_of(&endpoints).len(), 0, "{text}");
        std::mem::swap(&mut leader, &mut standby);
    }
    for replica in [&leader, &standby] {
        for write in replica.proxy().requests(&lease_writes().method(Method::PUT)) {
            let version = body(&write)["metadata"]["resourceVersion"].clone();
            assert!(version.as_str().is_some_and(|version| !version.is_empty()), "{version}");
        }
    }
}

/// B87.
#[tokio::test]
async fn names_that_are_equal_or_begin_alike_are_two_candidates() {
    for names in [["node-1", "node-1"], ["ctl-1", "ctl-10"]] {
        let namespace = namespace().await;
        let named = |number: usize| observer(&namespace).replica(number).env("POD_NAME", names[number]);
        let (one, other) = tokio::join!(start(named(0)), start(named(1)));
        let anybody = |spec: &LeaseSpec| spec.holder_identity.is_some();
        let spec = namespace.wait_lease("a holder", SOON, anybody).await.unwrap();
        let holder = spec.holder_identity.unwrap();
        let identities = [one.identity().await.unwrap(), other.identity().await.unwrap()];
        assert_ne!(identities[0], identities[1]);
        for (identity, name) in identities.iter().zip(names) {
            assert!(identity.starts_with(&format!("{name}_")), "{identity}");
        }
        holds(&namespace, &holder, SHORT_LEASE + SHORT_LEASE / 2).await;
        let leads = [one.leads().await.unwrap(), other.leads().await.unwrap()];
        assert_eq!(leads, identities.map(|identity| identity == holder), "{names:?}");
    }
}

/// B88.
#[tokio::test]
async fn who_lost_the_lease_contends_again() {
    let namespace = namespace().await;
    let [mut leader, mut standby] = pair(&observer(&namespace)).await;
    // Each three times, by turns.
    for round in 0..6 {
        let refusal = Action::Refuse(Refusal::internal_error());
        let rule = leader.proxy().rule(lease_writes(), refusal, Times::Always);
        let next = standby.identity().await.unwrap();
        let held = namespace.wait_holder(&next, 2 * SHORT_LEASE).await;
        held.unwrap_or_else(|error| panic!("round {round}: {error:#}"));
        assert!(!leader.leads().await.unwrap(), "round {round}: two leaders");
        rule.remove();
        std::mem::swap(&mut leader, &mut standby);
    }
    assert_eq!(namespace.lease().await.unwrap().lease_transitions, Some(6));
}

/// B89; the death of the election's task is the supervisor's own test.
#[tokio::test]
async fn a_lease_that_is_deleted_or_cannot_be_reached_has_a_leader_again() {
    let namespace = namespace().await;
    let replicas = pair(&observer(&namespace)).await;
    let leases = namespace.leases();
    leases.delete(lease::NAME, &DeleteParams::default()).await.unwrap();
    let anybody = |spec: &LeaseSpec| spec.holder_identity.is_some();
    namespace
        .wait_lease("a holder after the deletion", 2 * SHORT_LEASE, anybody)
        .await
        .unwrap();

    let refused = Action::Refuse(Refusal::internal_error());
    let all = Match::any().resource("leases");
    let rules = [0, 1].map(|of| replicas[of].proxy().rule(all.clone(), refused.clone(), Times::Always));
    let started = Instant::now();
    let before = [0, 1].map(|of| replicas[of].process().cpu_time().unwrap());
    for (replica, rule) in replicas.iter().zip(&rules) {
        rule.wait_hits(12, SOON).await.unwrap();
        assert!(!replica.leads().await.unwrap(), "leads without a Lease");
        assert!(replica.get("/livez").await.unwrap().0.is_success());
    }
    let (took, hits) = (started.elapsed(), [rules[0].hits(), rules[1].hits()]);
    for (of, before) in before.into_iter().enumerate() {
        let cpu = replicas[of].process().cpu_time().unwrap() - before;
        assert!(cpu * 4 < took, "{cpu:?} of processor time in {took:?}");
        let most = took.as_millis() / 250 + 8;
        assert!(u128::from(hits[of]) < most, "{hits:?} tries in {took:?}");
    }
    let healed = MicroTime(Timestamp::now());
    for rule in rules {
        rule.remove();
    }
    namespace
        .wait_lease("renewed", SOON, |spec| spec.renew_time.as_ref() > Some(&healed))
        .await
        .unwrap();
    let leader = namespace.wait_leader_among(&replicas).await.unwrap();
    assert!(!replicas[1 - leader].leads().await.unwrap(), "both lead");
}

/// B91.
#[tokio::test]
async fn times_have_six_digits_and_change_when_they_should() {
    let namespace = namespace().await;
    let [leader, standby] = pair(&observer(&namespace)).await;
    let times =
        |lease: &Value| ["acquireTime", "renewTime"].map(|field| lease["spec"][field].as_str().unwrap().to_owned());
    let six_digits = |time: &str| {
        let fraction = time.split_once('.').and_then(|(_, rest)| rest.strip_suffix('Z'));
        fraction.is_some_and(|digits| digits.len() == 6 && digits.bytes().all(|it| it.is_ascii_digit()))
    };
    let many = |writes: &[Record]| writes.iter().filter(|it| it.status == Some(200)).count() >= 8;
    let writes = leader.proxy().wait_requests(&lease_writes(), SOON, many).await.unwrap();
    let stored = namespace.lease_text().await.unwrap();
    let [acquired, _] = times(&stored);
    for lease in writes.iter().map(body).chain([stored]) {
        let times = times(&lease);
        assert!(times.iter().all(|time| six_digits(time)), "{times:?}");
        assert_eq!(
            (&times[0], &lease["spec"]["leaseTransitions"]),
            (&acquired, &Value::from(0))
        );
    }
    leader.kill9().await.unwrap();
    let next = standby.identity().await.unwrap();
    namespace.wait_holder(&next, SOON).await.unwrap();
    let stored = namespace.lease_text().await.unwrap();
    let times = times(&stored);
    assert!(times.iter().all(|time| six_digits(time)), "{times:?}");
    assert!(times[0] > acquired, "{times:?}");
    assert_eq!(stored["spec"]["leaseTransitions"], 1);
}

/// B93.
#[tokio::test]
async fn one_or_two_failed_renewals_cost_nothing() {
    let namespace = namespace().await;
    let leader = start(observer(&namespace)).await;
    leader.wait_leader().await.unwrap();
    let refused = || Action::Refuse(Refusal::internal_error());
    let renewed = |writes: &[Record]| writes.last().is_some_and(|it| it.status == Some(200));
    let before = namespace.lease().await.unwrap();
    for failures in [1, 2] {
        let rule = leader.proxy().rule(lease_writes(), refused(), Times::First(failures));
        rule.wait_hits(failures, SOON).await.unwrap();
        leader
            .proxy()
            .wait_requests(&lease_writes(), SOON, renewed)
            .await
            .unwrap();
    }
    let transitions = "svcplane_leader_election_transitions_total";
    let metrics = leader.metrics().await.unwrap();
    assert_eq!(metrics.get(transitions, &[]), Some(1.0), "it has led all the time");
    let after = namespace.lease().await.unwrap();
    assert_eq!(after.acquire_time, before.acquire_time);
    assert!(after.renew_time > before.renew_time);

    // All fail: three tries or more before it gives up.
    let rule = leader.proxy().rule(lease_writes(), refused(), Times::Always);
    leader.wait_metric(transitions, &[], SOON, |it| it > 1.5).await.unwrap();
    assert!(rule.hits() >= 3, "{} tries", rule.hits());
}

/// The server did it and we do not know.
#[tokio::test]
async fn a_lost_reply_costs_no_leadership() {
    let namespace = namespace().await;
    let proxy = FaultProxy::start(cluster::shared()).unwrap();
    let create = lease_writes().method(Method::POST);
    let rule = proxy.rule(create, Action::LoseReply, Times::First(1));
    let replica = Replica::start_behind(proxy, cluster::shared(), observer(&namespace))
        .await
        .unwrap();
    rule.wait_hits(1, SOON).await.unwrap();
    replica.wait_leader().await.unwrap();
    let before = namespace.lease().await.unwrap();
    let conflict = Action::Refuse(Refusal::conflict());
    for fault in [Action::LoseReply, Action::CutReply, Action::ResetBefore, conflict] {
        let text = format!("{fault:?}");
        let writes = lease_writes().method(Method::PUT);
        let rule = replica.proxy().rule(writes.clone(), fault, Times::First(1));
        rule.wait_hits(1, SOON).await.unwrap();
        replica.proxy().clear_records();
        let renewed = |writes: &[Record]| writes.iter().any(|it| it.status == Some(200));
        let renewed = replica.proxy().wait_requests(&writes, SOON, renewed).await;
        renewed.unwrap_or_else(|error| panic!("{text}: {error:#}"));
        assert!(replica.leads().await.unwrap(), "{text}");
    }
    let after = namespace.lease().await.unwrap();
    assert_eq!(
        (after.acquire_time, after.lease_transitions),
        (before.acquire_time, Some(0))
    );
    let page = replica.metrics().await.unwrap();
    assert_eq!(page.get("svcplane_leader_election_transitions_total", &[]), Some(1.0));
}

#[tokio::test]
async fn without_an_election_there_is_no_lease_and_it_writes() {
    let _alone = alone().await;
    let namespace = namespace().await;
    namespace.workload("web", &["10.201.0.1"]).await.unwrap();
    let builder = Svcplane::builder().lease_in(&namespace).arg("--leader-elect=false");
    let replica = start(builder).await;
    namespace
        .endpoints_become("web", &["10.201.0.1 -> :8080/TCP"])
        .await
        .unwrap();
    assert_eq!(replica.proxy().requests(&Match::any().resource("leases")).len(), 0);
    assert_eq!(replica.debug_state().await.unwrap()["leading"], true);
    assert_eq!(replica.terminate().await.unwrap(), Exit::Code(0));
}
