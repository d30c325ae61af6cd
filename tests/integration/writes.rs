//! Whatever becomes of a write or of its reply, the right object is stored in the end, by as few writes as can be.

use std::time::Duration;

use http::Method;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use svcplane_tests::eventually::eventually_gone;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{create_pods, pod, service};
use svcplane_tests::proxy::{Action, FaultProxy, Match, Record, Refusal, Times};
use svcplane_tests::svcplane::shared_behind_proxy;

const SOON: Duration = Duration::from_secs(30);
const READY: &[&str] = &["10.201.0.1 10.201.0.2 -> :8080/TCP"];
const ONE_NOT_READY: &[&str] = &["10.201.0.2 !10.201.0.1 -> :8080/TCP"];

/// A namespace of the test's own on the shared svcplane, whose requests are seen and spoilt by the proxy.
struct Rig {
    proxy: &'static FaultProxy,
    namespace: TestNamespace,
}

impl Rig {
    async fn new() -> Self {
        let (proxy, _) = shared_behind_proxy();
        proxy.keep_bodies(true);
        let namespace = TestNamespace::served_behind_proxy().await.unwrap();
        Self { proxy, namespace }
    }

    /// A Service with two ready Pods, and its Endpoints. The Pods are known before the Service, so that the first write is
    /// complete: watches of different kinds run beside each other.
    async fn web(&self, name: &str) {
        let namespace = &self.namespace;
        let pods = [1, 2].map(|last| {
            pod(&format!("{name}-{last}"))
                .label("app", name)
                .ip(&format!("10.201.0.{last}"))
        });
        create_pods(pods, namespace).await.unwrap();
        namespace.caught_up().await.unwrap();
        let service = service(name).selector("app", name).port("", 80, 8080);
        service.create(namespace).await.unwrap();
        namespace.endpoints_become(name, READY).await.unwrap();
    }

    async fn set_ready(&self, name: &str, ready: bool) {
        let pod = format!("{name}-1");
        self.namespace.set_pod_ready(&pod, ready).await.unwrap();
    }

    fn of(&self, name: &str, method: &Method) -> Match {
        let all = Match::writes("endpoints").namespace(self.namespace.name()).name(name);
        all.method(method.clone())
    }

    /// Writes of this kind that changed the stored object, or may have.
    fn changes(&self, name: &str, method: &Method) -> usize {
        self.proxy.writes_that_changed(&self.of(name, method)).len()
    }
}

#[tokio::test]
async fn retry_after_is_waited_for_whatever_happens_meanwhile() {
    const WAIT: Duration = Duration::from_secs(2);
    let rig = Rig::new().await;
    rig.web("web").await;
    let writes = rig.of("web", &Method::PUT);
    let refusal = Action::Refuse(Refusal::too_many_requests(WAIT.as_secs()));
    let rule = rig.proxy.rule(writes.clone(), refusal, Times::First(1));
    rig.set_ready("web", false).await;
    rule.wait_hits(1, SOON).await.unwrap();
    // Each of these would be a reason to write at once.
    rig.set_ready("web", true).await;
    rig.set_ready("web", false).await;
    rig.namespace.set_pod_ready("web-2", false).await.unwrap();
    rig.namespace
        .endpoints_become("web", &["!10.201.0.1 !10.201.0.2 -> :8080/TCP"])
        .await
        .unwrap();
    let tries = rig.proxy.requests(&writes);
    assert_eq!(tries.len(), 2, "one refused, one for all that came meanwhile");
    let pause = tries[1].at - tries[0].at;
    assert!(pause >= WAIT, "{pause:?}");
}

#[tokio::test]
async fn a_write_that_is_never_answered_is_given_up_and_holds_up_nobody_else() {
    let rig = Rig::new().await;
    rig.web("web").await;
    let writes = rig.of("web", &Method::PUT);
    let rule = rig.proxy.rule(writes.clone(), Action::Hang, Times::First(1));
    rig.set_ready("web", false).await;
    rule.wait_hits(1, SOON).await.unwrap();
    rig.web("other").await;
    assert_eq!(
        rig.proxy.requests(&writes).len(),
        1,
        "no second write of the same object meanwhile"
    );
    rig.namespace.endpoints_become("web", ONE_NOT_READY).await.unwrap();
    assert_eq!(rig.changes("web", &Method::PUT), 1);
}

/// Spec endpoints.md 6.10: the watch event of our own write overtakes the reply.
#[tokio::test]
async fn an_event_that_overtakes_the_reply_is_no_reason_for_a_second_write() {
    const LATE: Duration = Duration::from_millis(600);
    let rig = Rig::new().await;
    rig.web("web").await;
    let writes = rig.of("web", &Method::PUT);
    rig.proxy.rule(writes.clone(), Action::DelayReply(LATE), Times::Always);
    rig.set_ready("web", false).await;
    rig.namespace.endpoints_become("web", ONE_NOT_READY).await.unwrap();
    rig.namespace.caught_up().await.unwrap();
    let answered = |tries: &[Record]| tries.iter().all(|it| it.status == Some(200));
    rig.proxy.wait_requests(&writes, SOON, answered).await.unwrap();
    assert_eq!(rig.proxy.requests(&writes).len(), 1);

    // Changes that come while a write is under way are seen by the next one, and never are two under way.
    for ready in [true, false, true, false, true] {
        rig.set_ready("web", ready).await;
    }
    rig.namespace.endpoints_become("web", READY).await.unwrap();
    rig.proxy.wait_requests(&writes, SOON, answered).await.unwrap();
    rig.namespace.caught_up().await.unwrap();
    let tries = rig.proxy.requests(&writes);
    assert!((2..=6).contains(&tries.len()), "{} writes", tries.len());
    for pair in tries.windows(2) {
        let pause = pair[1].at - pair[0].at;
        assert!(pause >= LATE, "two writes of one object at the same time: {pause:?}");
    }
}

#[tokio::test]
async fn somebody_elses_change_under_a_write_is_kept_and_the_write_made_again() {
    let rig = Rig::new().await;
    rig.web("web").await;
    let writes = rig.of("web", &Method::PUT);
    let slow = Action::Delay(Duration::from_millis(800));
    let rule = rig.proxy.rule(writes.clone(), slow, Times::First(1));
    rig.set_ready("web", false).await;
    rule.wait_hits(1, SOON).await.unwrap();
    let note = Patch::Merge(json!({ "metadata": { "annotations": { "example.org/note": "mine" } } }));
    let endpoints = rig.namespace.endpoints();
    endpoints.patch("web", &PatchParams::default(), &note).await.unwrap();
    let stored = rig.namespace.endpoints_become("web", ONE_NOT_READY).await.unwrap();
    assert_eq!(stored.metadata.annotations.unwrap()["example.org/note"], "mine");
    let answered = |tries: &[Record]| tries.iter().all(|it| it.status.is_some());
    let tries = rig.proxy.wait_requests(&writes, SOON, answered).await.unwrap();
    let statuses: Vec<_> = tries.iter().map(|it| it.status).collect();
    assert_eq!(statuses, [Some(409), Some(200)]);
}

#[tokio::test]
async fn every_write_names_what_it_replaces() {
    let rig = Rig::new().await;
    rig.web("web").await;
    rig.set_ready("web", false).await;
    let stored = rig.namespace.endpoints_become("web", ONE_NOT_READY).await.unwrap();
    let services = rig.namespace.services();
    services.delete("web", &DeleteParams::default()).await.unwrap();
    eventually_gone("Endpoints", SOON, &rig.namespace.endpoints(), "web")
        .await
        .unwrap();

    let body = |method: &Method| -> Value {
        let writes = rig.proxy.writes_of(&rig.of("web", method));
        assert_eq!(writes.len(), 1, "{method}");
        serde_json::from_slice(writes[0].body.as_ref().unwrap()).unwrap()
    };
    let uid = Value::from(stored.metadata.uid.unwrap());
    assert_eq!(body(&Method::POST)["metadata"]["resourceVersion"], Value::Null);
    let put = body(&Method::PUT);
    assert!(
        !put["metadata"]["resourceVersion"].as_str().unwrap().is_empty(),
        "{put}"
    );
    let delete = body(&Method::DELETE);
    let version = Value::from(stored.metadata.resource_version.unwrap());
    assert_eq!(
        delete["preconditions"],
        json!({ "uid": uid, "resourceVersion": version })
    );
}
