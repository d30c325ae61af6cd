//! The whole election under paused time, against a small Lease server that refuses, hangs and forgets on demand.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::body::Body as Answer;
use http::{Method, Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant, sleep};

use super::*;
use crate::leader::record::Timing;
use crate::leader::{LeaseName, NotLeader, annotate, look};
use crate::metrics::{BuildInfo, Metrics};

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is served.
    Served,
    /// It is answered with this status and not served.
    Status(u16),
    /// No answer ever comes.
    Hangs,
    /// It is served, and the answer does not come.
    ReplyLost,
}

#[derive(Default)]
struct State {
    lease: Option<Value>,
    version: u64,
    calls: Vec<(Instant, Method)>,
    /// All that was stored: `(holder, acquireTime, transitions)`.
    stored: Vec<(String, Value, i64)>,
}

/// The server.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<State>>);

/// The way of one replica to the server.
#[derive(Clone, Default)]
struct Wire {
    /// The fate of the next calls, and then of all others.
    next: Arc<Mutex<VecDeque<Fate>>>,
    all: Arc<Mutex<Option<Fate>>>,
}

impl Wire {
    fn set(&self, fate: Fate) {
        *self.all.lock() = Some(fate);
    }

    fn fate(&self) -> Fate {
        self.next
            .lock()
            .pop_front()
            .or(*self.all.lock())
            .unwrap_or(Fate::Served)
    }
}

fn answer(code: u16, body: &Value) -> Response<Answer> {
    let body = Answer::from(serde_json::to_vec(body).unwrap());
    Response::builder().status(code).body(body).unwrap()
}

fn status(code: u16, reason: &str) -> Response<Answer> {
    let message = format!("leases.coordination.k8s.io \"svcplane\": {reason}");
    answer(
        code,
        &json!({"kind": "Status", "status": "Failure", "reason": reason, "code": code, "message": message}),
    )
}

impl Server {
    fn client(&self, wire: &Wire) -> Client {
        let (server, wire) = (self.clone(), wire.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (server, wire) = (server.clone(), wire.clone());
            async move { Ok::<_, std::io::Error>(server.answer(&wire, request).await) }
        });
        Client::new(service, "svcplane")
    }

    async fn answer(&self, wire: &Wire, request: Request<Body>) -> Response<Answer> {
        let (parts, body) = request.into_parts();
        if let Some(query) = parts.uri.query().filter(|query| query.contains("watch=true")) {
            return self.watch(query);
        }
        self.0.lock().calls.push((Instant::now(), parts.method.clone()));
        let body = body.collect_bytes().await.unwrap();
        match wire.fate() {
            Fate::Served => self.serve(&parts.method, &body),
            Fate::Status(code) => {
                let reason = match code {
                    404 => "NotFound",
                    429 => "TooManyRequests",
                    _ => "InternalError",
                };
                status(code, reason)
            }
            Fate::Hangs => std::future::pending().await,
            Fate::ReplyLost => {
                self.serve(&parts.method, &body);
                std::future::pending().await
            }
        }
    }

    fn serve(&self, method: &Method, body: &[u8]) -> Response<Answer> {
        let mut state = self.0.lock();
        if method == Method::GET {
            return state
                .lease
                .as_ref()
                .map_or_else(|| status(404, "NotFound"), |lease| answer(200, lease));
        }
        let mut sent: Value = serde_json::from_slice(body).unwrap();
        let version = sent["metadata"]["resourceVersion"].as_str().map(ToOwned::to_owned);
        let current = state
            .lease
            .as_ref()
            .map(|lease| lease["metadata"]["resourceVersion"].as_str().unwrap().to_owned());
        match (method.as_str(), &current) {
            ("POST", Some(_)) => return status(409, "AlreadyExists"),
            ("PUT", None) => return status(404, "NotFound"),
            ("PUT", Some(_)) if version.is_none() => panic!("a PUT without a resourceVersion"),
            ("PUT", Some(_)) if version != current => return status(409, "Conflict"),
            _ => {}
        }
        for time in ["acquireTime", "renewTime"] {
            let time = sent["spec"][time].as_str().unwrap();
            let fraction = time.strip_suffix('Z').and_then(|time| time.split_once('.')).unwrap().1;
            assert_eq!(fraction.len(), 6, "B91: {time}");
        }
        state.version += 1;
        sent["metadata"]["resourceVersion"] = json!(state.version.to_string());
        let spec = &sent["spec"];
        let holder = spec["holderIdentity"].as_str().unwrap().to_owned();
        let stored = (
            holder,
            spec["acquireTime"].clone(),
            spec["leaseTransitions"].as_i64().unwrap(),
        );
        state.stored.push(stored);
        state.lease = Some(sent.clone());
        answer(200, &sent)
    }

    /// An event for each version that is seen after the one asked for.
    fn watch(&self, query: &str) -> Response<Answer> {
        let asked = query.split('&').find_map(|it| it.strip_prefix("resourceVersion="));
        let events = futures::stream::unfold((self.clone(), asked.map(ToOwned::to_owned)), async |(server, last)| {
            loop {
                let lease = server.0.lock().lease.clone();
                let version = |lease: &Value| lease["metadata"]["resourceVersion"].as_str().map(ToOwned::to_owned);
                if let Some(lease) = lease.filter(|lease| version(lease) != last) {
                    let event = format!("{}\n", json!({"type": "MODIFIED", "object": lease}));
                    return Some((Ok::<_, std::io::Error>(event), (server, version(&lease))));
                }
                sleep(Duration::from_millis(5)).await;
            }
        });
        Response::new(Answer::from_stream(events))
    }

    fn edit(&self, change: impl FnOnce(&mut Value)) {
        let mut state = self.0.lock();
        state.version += 1;
        let version = state.version.to_string();
        let lease = state.lease.as_mut().unwrap();
        change(lease);
        lease["metadata"]["resourceVersion"] = json!(version);
    }

    fn lease(&self) -> Value {
        self.0.lock().lease.clone().unwrap()
    }
}

/// One running replica.
struct Replica {
    wire: Wire,
    handle: TermHandle,
    metrics: LeaderElectionMetrics,
    progress: Progress,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl Replica {
    fn start(server: &Server, identity: &str) -> Self {
        let timing = Timing {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        };
        let config = LeaseConfig {
            namespace: "svcplane".to_owned(),
            name: "svcplane".to_owned(),
            timing,
        };
        let build = BuildInfo {
            version: "0",
            kubernetes: "1.37",
        };
        let metrics = Metrics::new(Registry::new(), build)
            .unwrap()
            .leader_election("svcplane");
        let wire = Wire::default();
        let client = server.client(&wire);
        let (election, handle) = LeaderElection::new(client, config, identity.to_owned(), metrics.clone());
        let (progress, shutdown) = (election.progress(), CancellationToken::new());
        let task = tokio::spawn(election.run(shutdown.clone()));
        Self {
            wire,
            handle,
            metrics,
            progress,
            shutdown,
            task,
        }
    }

    fn leads(&self) -> bool {
        self.handle.check_at(Stamp::now()).is_ok()
    }

    async fn stop(self) -> Duration {
        let start = Instant::now();
        self.shutdown.cancel();
        self.task.await.unwrap();
        start.elapsed()
    }
}

/// Waits until `condition`, at most for `seconds`. Returns how long it took.
async fn until(seconds: u64, what: &str, condition: impl Fn() -> bool) -> Duration {
    let start = Instant::now();
    while !condition() {
        assert!(
            start.elapsed() < Duration::from_secs(seconds),
            "not within {seconds} s: {what}"
        );
        sleep(Duration::from_millis(10)).await;
    }
    start.elapsed()
}

/// Asserts `condition` all the time for `seconds`.
async fn always(seconds: u64, what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(seconds) {
        assert!(condition(), "after {:?}: {what}", start.elapsed());
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_a_release_hands_over_within_a_second() {
    let server = Server::default();
    let a = Replica::start(&server, "node-1_a");
    until(1, "a leads", || a.leads()).await;
    // B87: the same host name, another process.
    let b = Replica::start(&server, "node-1_b");
    always(60, "a leads alone", || a.leads() && !b.leads()).await;
    assert_eq!((a.metrics.master_status.get(), b.metrics.master_status.get()), (1, 0));
    assert_eq!(
        b.handle.check_at(Stamp::now()),
        Err(NotLeader::Follower {
            holder: "node-1_a".to_owned()
        })
    );
    let (metrics, handle) = (a.metrics.clone(), a.handle.clone());
    assert!(a.stop().await < Duration::from_secs(1));
    assert!(handle.check_at(Stamp::now()).is_err());
    assert_eq!((metrics.master_status.get(), metrics.transitions.get()), (0, 2));
    let took = until(2, "b leads", || b.leads()).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(server.lease()["spec"]["leaseTransitions"], 1);
    assert_eq!(b.metrics.slowpath.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_dead_leader_is_succeeded_a_lease_duration_after_its_last_renewal() {
    // Several, since a look at the right moment would do as well as a watch.
    for wait in [4100, 5300, 6700, 7900] {
        let server = Server::default();
        let a = Replica::start(&server, "a");
        until(1, "a leads", || a.leads()).await;
        let b = Replica::start(&server, "b");
        sleep(Duration::from_millis(wait)).await;
        let renewals = server.0.lock().stored.len();
        until(3, "a renews", || server.0.lock().stored.len() > renewals).await;
        a.task.abort();
        let took = until(20, "b leads", || b.leads()).await;
        assert!(took >= Duration::from_millis(14_980), "{took:?}");
        assert!(took <= Duration::from_millis(15_200), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn however_often_the_lease_changes_it_is_not_read_in_a_hot_loop() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    until(1, "a leads", || a.leads()).await;
    let b = Replica::start(&server, "b");
    sleep(Duration::from_secs(1)).await;
    let before = server.0.lock().calls.len();
    for number in 0..2000 {
        server.edit(|lease| lease["metadata"]["annotations"] = json!({"number": number.to_string()}));
        sleep(Duration::from_millis(5)).await;
    }
    // 10 s: the candidate's looks, the leader's renewals and what their conflicts cost.
    let calls = server.0.lock().calls.len() - before;
    assert!(calls < 10 * 20 + 60, "{calls}");
    assert!(a.leads() && !b.leads());
}

#[tokio::test(start_paused = true)]
async fn acquire_time_and_transitions_change_only_with_the_holder() {
    let server = Server::default();
    for round in 0..3 {
        let replica = Replica::start(&server, &format!("ctl-1{}", "0".repeat(round)));
        until(20, "leads", || replica.leads()).await;
        sleep(Duration::from_secs(20)).await;
        replica.stop().await;
    }
    let stored = server.0.lock().stored.clone();
    assert!(stored.len() > 24, "{}", stored.len());
    for pair in stored.windows(2) {
        let [(holder, acquired, transitions), (next, next_acquired, next_transitions)] = pair else {
            panic!()
        };
        if next.is_empty() {
            assert_eq!(transitions, next_transitions, "a release");
        } else if holder == next {
            assert_eq!((acquired, transitions), (next_acquired, next_transitions));
        } else {
            assert_ne!(acquired, next_acquired);
            assert_eq!(transitions + 1, *next_transitions);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_before_another_starts() {
    // B85, with an error answer and with silence.
    for fate in [Fate::Status(429), Fate::Hangs] {
        let server = Server::default();
        let a = Replica::start(&server, "a");
        until(1, "a leads", || a.leads()).await;
        let b = Replica::start(&server, "b");
        sleep(Duration::from_secs(5)).await;
        a.wire.set(fate);
        let lost = until(11, "a stops", || !a.leads()).await;
        assert!(lost <= Duration::from_secs(10), "{lost:?}");
        until(1, "a knows it", || a.handle.term().standing == Standing::Follower).await;
        assert_eq!(a.metrics.master_status.get(), 0);
        until(20, "b leads", || b.leads()).await;
        a.wire.set(Fate::Served);
        always(60, "b leads alone", || b.leads() && !a.leads()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_loser_contends_again_each_time() {
    // B88: each loses the lease three times by turns.
    let server = Server::default();
    let mut replicas = [Replica::start(&server, "a"), Replica::start(&server, "b")];
    for _ in 0..6 {
        until(30, "somebody leads", || replicas.iter().any(Replica::leads)).await;
        if !replicas[0].leads() {
            replicas.swap(0, 1);
        }
        replicas[0].wire.set(Fate::Status(500));
        sleep(Duration::from_secs(20)).await;
        assert!(!replicas[0].leads());
        replicas[0].wire.set(Fate::Served);
    }
    until(30, "somebody leads", || replicas.iter().any(Replica::leads)).await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_comes_back_with_its_annotations() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    until(1, "a leads", || a.leads()).await;
    server.edit(|lease| {
        lease["metadata"]["annotations"] = json!({"svcplane.io/mode": "observe", "team": "marsh"});
        lease["metadata"]["labels"] = json!({"app": "svcplane"});
        lease["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "svcplane", "uid": "u-1"}]);
        lease["spec"]["strategy"] = json!("OldestEmulationVersion");
    });
    until(3, "observe is forced", || a.handle.term().forced_observe).await;
    assert!(a.leads());
    sleep(Duration::from_secs(10)).await;
    let lease = server.lease();
    assert_eq!(lease["metadata"]["labels"]["app"], "svcplane");
    assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], "u-1");
    assert_eq!(lease["spec"]["strategy"], "OldestEmulationVersion");

    // B89: deleted while leading. The mode outlives it.
    server.0.lock().lease = None;
    let back = until(3, "the lease is back", || server.0.lock().lease.is_some()).await;
    assert!(back < Duration::from_millis(2100), "{back:?}");
    assert!(a.leads() && a.handle.term().forced_observe);
    let metadata = server.lease()["metadata"].clone();
    assert_eq!(
        metadata["annotations"],
        json!({"svcplane.io/mode": "observe", "team": "marsh"})
    );
    assert_eq!(
        metadata.get("ownerReferences"),
        None,
        "an owner that is gone would take it away again"
    );
    server.edit(|lease| lease["metadata"]["annotations"] = json!({}));
    until(3, "observe ends", || !a.handle.term().forced_observe).await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_a_hand_has_spoilt_is_mended_or_taken_over() {
    let spoilt = [
        ("renewTime", json!("9999-12-31T23:59:59.000000Z"), 15),
        ("acquireTime", json!("10000-01-01T00:59:59.000000Z"), 15),
        ("leaseDurationSeconds", json!(i32::MAX), 150),
    ];
    for (field, value, believed) in spoilt {
        let server = Server::default();
        let a = Replica::start(&server, "a");
        until(1, "a leads", || a.leads()).await;
        let b = Replica::start(&server, "b");
        sleep(Duration::from_secs(5)).await;
        let good = server.lease()["spec"].clone();
        server.edit(|lease| lease["spec"][field] = value.clone());
        always(10, "a leads", || a.leads() && !b.leads()).await;
        let mended = server.lease()["spec"].clone();
        for field in ["holderIdentity", "leaseDurationSeconds", "leaseTransitions"] {
            assert_eq!(mended[field], good[field]);
        }
        assert!(mended["renewTime"].as_str() > good["renewTime"].as_str() && mended["renewTime"].as_str() < Some("9"));

        // Nobody is left to mend it.
        a.task.abort();
        server.edit(|lease| lease["spec"][field] = value.clone());
        let took = until(believed + 5, "b leads", || b.leads()).await;
        assert!(took >= Duration::from_secs(believed), "{took:?}");
        assert_eq!(server.lease()["spec"]["leaseDurationSeconds"], 15);
    }
}

#[tokio::test(start_paused = true)]
async fn a_minute_of_errors_is_survived_without_spinning() {
    // B89.
    let server = Server::default();
    let a = Replica::start(&server, "a");
    until(1, "a leads", || a.leads()).await;
    a.wire.set(Fate::Status(500));
    let before = server.0.lock().calls.len();
    sleep(Duration::from_mins(1)).await;
    let calls = server.0.lock().calls.len() - before;
    assert!((15..=45).contains(&calls), "{calls} calls in a minute");
    assert_eq!(a.progress.check(Stamp::now().monotonic), Ok(()));
    a.wire.set(Fate::Served);
    until(5, "a leads again", || a.leads()).await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_does_not_exist_is_named_and_waited_for() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    a.wire.set(Fate::Status(404));
    let unseen = a.progress.seen().unwrap_err();
    assert_eq!(unseen, "Lease svcplane/svcplane was not looked at yet");
    always(90, "nobody leads", || !a.leads()).await;
    let unseen = a.progress.seen().unwrap_err();
    for part in [
        "cannot write Lease svcplane/svcplane: ",
        "namespace svcplane does not exist: create it, or name another with --leader-elect-resource-namespace",
    ] {
        assert!(unseen.contains(part), "{unseen}");
    }
    assert_eq!(a.progress.check(Stamp::now().monotonic), Ok(()));
    a.wire.set(Fate::Served);
    until(5, "a leads", || a.leads()).await;
    assert_eq!(a.progress.seen(), Ok(()));
    a.wire.set(Fate::Status(500));
    until(15, "a stops", || !a.leads()).await;
    assert_eq!(a.progress.seen(), Ok(()), "once seen is enough");

    // Another's Lease will do.
    let b = Replica::start(&server, "b");
    until(1, "b has looked", || b.progress.seen().is_ok()).await;
    assert!(!b.leads());
}

#[tokio::test(start_paused = true)]
async fn one_or_two_failed_renewals_change_nothing() {
    // B93; each renewal that fails is followed by a read.
    for (fates, slow) in [
        (vec![Fate::Status(500)], 1),
        (
            vec![
                Fate::Status(500),
                Fate::Status(500),
                Fate::Status(500),
                Fate::Status(500),
            ],
            2,
        ),
        (vec![Fate::Hangs], 1),
        (vec![Fate::ReplyLost], 1),
    ] {
        let server = Server::default();
        let a = Replica::start(&server, "a");
        until(1, "a leads", || a.leads()).await;
        a.wire.next.lock().extend(fates.iter().copied());
        always(60, "a leads", || a.leads()).await;
        assert_eq!(a.metrics.slowpath.get(), slow, "{fates:?}");
        assert_eq!(a.metrics.transitions.get(), 1);
        assert_eq!(server.lease()["spec"]["leaseTransitions"], 0);
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_is_bounded_and_settles_a_renewal_that_was_cut_short() {
    // No answer any more: the task ends within a second all the same.
    let server = Server::default();
    let a = Replica::start(&server, "a");
    until(1, "a leads", || a.leads()).await;
    a.wire.set(Fate::Hangs);
    sleep(Duration::from_secs(3)).await;
    assert!(a.stop().await <= Duration::from_millis(1010));

    // The renewal under way was served but not answered: the release finds the new version.
    let server = Server::default();
    let a = Replica::start(&server, "a");
    until(1, "a leads", || a.leads()).await;
    a.wire.next.lock().push_back(Fate::ReplyLost);
    sleep(Duration::from_millis(2100)).await;
    assert_eq!(server.0.lock().stored.len(), 2);
    assert!(a.stop().await < Duration::from_millis(100));
    assert_eq!(server.lease()["spec"]["holderIdentity"], "");
    assert_eq!(server.lease()["spec"]["leaseDurationSeconds"], 1);

    // A follower writes nothing.
    let server = Server::default();
    let a = Replica::start(&server, "a");
    until(1, "a leads", || a.leads()).await;
    let b = Replica::start(&server, "b");
    sleep(Duration::from_secs(1)).await;
    b.stop().await;
    assert_eq!(server.lease()["spec"]["holderIdentity"], "a");
}

#[tokio::test(start_paused = true)]
async fn a_silent_task_fails_the_health_check() {
    let server = Server::default();
    let a = Replica::start(&server, "a");
    until(1, "a leads", || a.leads()).await;
    always(60, "healthy", || a.progress.check(Stamp::now().monotonic).is_ok()).await;
    a.task.abort();
    sleep(Duration::from_secs(31)).await;
    let error = a.progress.check(Stamp::now().monotonic).unwrap_err();
    assert!(
        error.starts_with("the leader election has done nothing for 3"),
        "{error}"
    );
    assert!(!a.leads());
}

#[test]
fn identities_are_unique_to_the_process() {
    let (one, other) = (identity(), identity());
    assert_ne!(one, other);
    let (name, unique) = one.rsplit_once('_').unwrap();
    assert!(!name.is_empty());
    assert_eq!(unique.len(), 36);
}

#[tokio::test(start_paused = true)]
async fn notes_are_seen_by_every_replica_and_cost_no_term() {
    const NOTE: &str = "svcplane.io/canary-result";
    let server = Server::default();
    let [a, b] = ["a", "b"].map(|name| Replica::start(&server, name));
    until(20, "one leads", || a.leads() || b.leads()).await;
    let leading = || a.leads() || b.leads();
    let (client, limit) = (server.client(&Wire::default()), Duration::from_secs(1));
    let lease = LeaseName {
        namespace: "svcplane".to_owned(),
        name: "svcplane".to_owned(),
    };
    let holder = server.lease()["spec"]["holderIdentity"].clone();
    // At every distance from a renewal.
    for number in 0..40 {
        let text = Some(format!("passed {number}"));
        annotate(&client, &lease, &[(NOTE, text)], limit).await.unwrap();
        sleep(Duration::from_millis(130)).await;
        assert!(leading(), "after note {number}");
    }
    let noted = |replica: &Replica| replica.handle.term().notes.get(NOTE).cloned();
    let last = Some("passed 39".to_owned());
    until(5, "both have read it", || noted(&a) == last && noted(&b) == last).await;
    let stored = look(&client, &lease, limit).await.unwrap().unwrap();
    assert_eq!(
        (stored.notes.get(NOTE), &json!(stored.record.holder)),
        (last.as_ref(), &holder)
    );
    assert_eq!(server.lease()["spec"]["leaseTransitions"], 0);

    let version = || server.lease()["metadata"]["resourceVersion"].clone();
    let puts = || {
        server
            .0
            .lock()
            .calls
            .iter()
            .filter(|(_, method)| *method == Method::PUT)
            .count()
    };
    let (before, sent) = (version(), puts());
    annotate(&client, &lease, &[(NOTE, last)], limit).await.unwrap();
    assert_eq!(
        (version(), puts()),
        (before, sent),
        "what is noted already is not written"
    );
    annotate(&client, &lease, &[(NOTE, None)], limit).await.unwrap();
    until(5, "it is taken off", || noted(&a).is_none() && noted(&b).is_none()).await;
    assert!(leading());
}
