//! Writes that fail: what is told, what is tried again, and that the end is right.

use std::time::Duration;

use http::Method;
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use svcplane_tests::eventually::{eventually, eventually_gone, eventually_one};
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{ServiceBuilder, pod, service};
use svcplane_tests::proxy::{Action, Match, Outcome, Record, Refusal, Times};
use svcplane_tests::svcplane::shared_behind_proxy;

const DEADLINE: Duration = Duration::from_secs(30);

fn to_web(name: &str) -> ServiceBuilder {
    service(name).selector("app", "web").port("", 80, 80)
}

fn endpoints_of(namespace: &TestNamespace, name: &str, method: Method) -> Match {
    Match::writes("endpoints")
        .namespace(namespace.name())
        .name(name)
        .method(method)
}

async fn one_pod() -> TestNamespace {
    let namespace = TestNamespace::served_behind_proxy().await.unwrap();
    pod("p1")
        .label("app", "web")
        .ip("10.1.0.1")
        .create(&namespace)
        .await
        .unwrap();
    namespace
}

const READY: &str = "10.1.0.1 -> :80/TCP";
const NOT_READY: &str = "!10.1.0.1 -> :80/TCP";

/// The only Event of this reason, as JSON.
async fn event(namespace: &TestNamespace, reason: &str) -> Value {
    eventually(reason, DEADLINE, &namespace.api::<Event>(), "", |events| {
        let mut found = events.iter().filter(|event| event.reason.as_deref() == Some(reason));
        match (found.next(), found.next()) {
            (Some(event), None) => Ok(serde_json::to_value(event).unwrap_or_default()),
            (None, _) => Err("none".into()),
            (Some(_), Some(_)) => Err("more than one".into()),
        }
    })
    .await
    .unwrap()
}

/// What these requests were answered, once all of them are.
async fn statuses(matcher: &Match) -> Vec<u16> {
    let (proxy, _) = shared_behind_proxy();
    let answered = |records: &[Record]| records.iter().all(|it| it.outcome != Outcome::Pending);
    let records = proxy.wait_requests(matcher, DEADLINE, answered).await.unwrap();
    records.iter().filter_map(|it| it.status).collect()
}

/// None of ours, that is: the apiserver tells of addresses that it repairs.
async fn no_event(namespace: &TestNamespace) {
    let events = namespace.api::<Event>();
    let mut events = events.list(&kube::api::ListParams::default()).await.unwrap().items;
    events.retain(|event| event.reporting_controller.as_deref() == Some("endpoint-controller"));
    assert!(events.is_empty(), "{events:?}");
}

#[tokio::test]
async fn a_create_that_is_refused_is_told_and_tried_again() {
    for refusal in [
        Refusal::internal_error(),
        Refusal::new(403, "Forbidden", "endpoints is forbidden: exceeded quota"),
        Refusal::new(409, "AlreadyExists", "endpoints \"web\" already exists"),
        Refusal::new(422, "Invalid", "Endpoints \"web\" is invalid: subsets[0]: made up"),
    ] {
        let namespace = one_pod().await;
        let (proxy, _) = shared_behind_proxy();
        let code = refusal.code();
        let creates = endpoints_of(&namespace, "web", Method::POST);
        proxy.rule(creates.clone(), Action::Refuse(refusal), Times::First(2));
        to_web("web").create(&namespace).await.unwrap();
        namespace.endpoints_become("web", &[READY]).await.unwrap();
        assert_eq!(statuses(&creates).await, [code, code, 201]);
        let event = event(&namespace, "FailedToCreateEndpoint").await;
        assert_eq!(
            (&event["type"], &event["reportingController"]),
            (&json!("Warning"), &json!("endpoint-controller"))
        );
        let about = &event["regarding"];
        let expected = json!({ "apiVersion": "v1", "kind": "Endpoints", "namespace": namespace.name(), "name": "web" });
        for field in ["apiVersion", "kind", "namespace", "name"] {
            assert_eq!(about[field], expected[field]);
        }
        let note = event["note"].as_str().unwrap();
        assert!(note.contains("web") && note.len() < 1024, "{note}");
    }
}

#[tokio::test]
async fn an_update_that_is_refused_is_told_and_tried_again() {
    for refusal in [
        Refusal::conflict(),
        Refusal::internal_error(),
        Refusal::new(404, "NotFound", "endpoints \"web\" not found"),
    ] {
        let namespace = one_pod().await;
        let (proxy, _) = shared_behind_proxy();
        to_web("web").create(&namespace).await.unwrap();
        let created = namespace.endpoints_become("web", &[READY]).await.unwrap();
        proxy.rule(
            endpoints_of(&namespace, "web", Method::PUT),
            Action::Refuse(refusal),
            Times::First(1),
        );
        let unready =
            json!({"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2091-02-03T04:05:06Z"}]});
        namespace.patch_pod_status("p1", unready).await.unwrap();
        let written = namespace.endpoints_become("web", &[NOT_READY]).await.unwrap();
        // The time of the change, not of the try.
        let time = &written.annotations()["endpoints.kubernetes.io/last-change-trigger-time"];
        assert_eq!(time, "2091-02-03T04:05:06Z");
        let event = event(&namespace, "FailedToUpdateEndpoint").await;
        assert_eq!(
            (&event["type"], &event["reportingController"]),
            (&json!("Warning"), &json!("endpoint-controller"))
        );
        let about = &event["regarding"];
        assert_eq!((&about["kind"], &about["name"]), (&json!("Endpoints"), &json!("web")));
        assert_eq!(about["uid"], json!(created.uid()));
    }
}

#[tokio::test]
async fn a_deletion_that_is_refused_is_tried_again_and_not_told() {
    let namespace = one_pod().await;
    let (proxy, _) = shared_behind_proxy();
    to_web("web").create(&namespace).await.unwrap();
    namespace.endpoints_become("web", &[READY]).await.unwrap();
    let deletes = endpoints_of(&namespace, "web", Method::DELETE);
    proxy.rule(
        deletes.clone(),
        Action::Refuse(Refusal::internal_error()),
        Times::First(3),
    );
    namespace
        .services()
        .delete("web", &DeleteParams::default())
        .await
        .unwrap();
    eventually_gone("web", DEADLINE, &namespace.endpoints(), "web")
        .await
        .unwrap();
    assert_eq!(proxy.requests(&deletes).len(), 4);
    no_event(&namespace).await;
}

#[tokio::test]
async fn a_deletion_that_was_done_by_somebody_else_is_done() {
    let namespace = one_pod().await;
    let (proxy, _) = shared_behind_proxy();
    to_web("web").create(&namespace).await.unwrap();
    namespace.endpoints_become("web", &[READY]).await.unwrap();
    let deletes = endpoints_of(&namespace, "web", Method::DELETE);
    let held = proxy.rule(deletes.clone(), Action::Hold, Times::First(1));
    namespace
        .services()
        .delete("web", &DeleteParams::default())
        .await
        .unwrap();
    held.wait_hits(1, DEADLINE).await.unwrap();
    namespace
        .endpoints()
        .delete("web", &DeleteParams::default())
        .await
        .unwrap();
    held.remove();
    assert_eq!(statuses(&deletes).await, [404]);
    namespace.caught_up().await.unwrap();
    assert_eq!(proxy.requests(&deletes).len(), 1, "that was enough");
    no_event(&namespace).await;
}

/// Both flip there and back while the controller sees its own writes late and one of them is refused.
#[tokio::test]
async fn flips_over_a_slow_watch_and_a_conflict_end_right() {
    let namespace = one_pod().await;
    let (proxy, _) = shared_behind_proxy();
    pod("p2")
        .label("app", "web")
        .ip("10.1.0.2")
        .create(&namespace)
        .await
        .unwrap();
    to_web("dunlin").create(&namespace).await.unwrap();
    let both = ["10.1.0.1 10.1.0.2 -> :80/TCP"];
    namespace.endpoints_become("dunlin", &both).await.unwrap();
    let slow = proxy.rule(
        Match::watches("endpoints"),
        Action::DelayEvents(Duration::from_millis(500)),
        Times::Always,
    );
    let updates = endpoints_of(&namespace, "dunlin", Method::PUT);
    let conflict = proxy.rule(updates, Action::Refuse(Refusal::conflict()), Times::First(1));
    let flip = async |ready: bool| {
        let (one, two) = (
            namespace.set_pod_ready("p1", ready),
            namespace.set_pod_ready("p2", ready),
        );
        tokio::try_join!(one, two).unwrap();
    };
    for _ in 0..3 {
        flip(false).await;
        namespace
            .endpoints_become("dunlin", &["!10.1.0.1 !10.1.0.2 -> :80/TCP"])
            .await
            .unwrap();
        // Before the controller has been shown what it wrote: what it was shown last looks right already.
        flip(true).await;
        namespace.endpoints_become("dunlin", &both).await.unwrap();
    }
    assert_eq!(conflict.hits(), 1);
    for ready in [false, true, false, true] {
        flip(ready).await;
    }
    namespace.caught_up().await.unwrap();
    namespace.endpoints_become("dunlin", &both).await.unwrap();
    slow.remove();
    namespace.caught_up().await.unwrap();
    namespace.endpoints_become("dunlin", &both).await.unwrap();
}

#[tokio::test]
async fn somebody_elses_write_in_between_is_not_overwritten_unseen() {
    let namespace = one_pod().await;
    let (proxy, _) = shared_behind_proxy();
    to_web("web").create(&namespace).await.unwrap();
    let created = namespace.endpoints_become("web", &[READY]).await.unwrap();
    let updates = endpoints_of(&namespace, "web", Method::PUT);
    let held = proxy.rule(updates.clone(), Action::Hold, Times::First(1));
    namespace.set_pod_ready("p1", false).await.unwrap();
    held.wait_hits(1, DEADLINE).await.unwrap();
    let note = Patch::Merge(json!({ "metadata": { "annotations": { "example.org/note": "mine" } } }));
    namespace
        .endpoints()
        .patch("web", &PatchParams::default(), &note)
        .await
        .unwrap();
    held.remove();
    let written = namespace.endpoints_become("web", &[NOT_READY]).await.unwrap();
    assert_eq!(
        written.annotations().get("example.org/note").map(String::as_str),
        Some("mine")
    );
    assert_eq!(written.uid(), created.uid());
    assert_eq!(statuses(&updates).await, [409, 200]);
}

#[tokio::test]
async fn an_object_that_is_deleted_under_an_update_is_made_anew() {
    let namespace = one_pod().await;
    let (proxy, _) = shared_behind_proxy();
    to_web("web").create(&namespace).await.unwrap();
    let created = namespace.endpoints_become("web", &[READY]).await.unwrap();
    let updates = endpoints_of(&namespace, "web", Method::PUT);
    let held = proxy.rule(updates.clone(), Action::Hold, Times::First(1));
    namespace.set_pod_ready("p1", false).await.unwrap();
    held.wait_hits(1, DEADLINE).await.unwrap();
    namespace
        .endpoints()
        .delete("web", &DeleteParams::default())
        .await
        .unwrap();
    held.remove();
    let anew = namespace.endpoints_become("web", &[NOT_READY]).await.unwrap();
    assert_ne!(anew.uid(), created.uid());
}

/// The create reaches the apiserver after the Service has gone. Nobody else would remember to take these Endpoints away.
#[tokio::test]
async fn endpoints_created_after_their_service_has_gone_go_too() {
    let namespace = one_pod().await;
    let (proxy, _) = shared_behind_proxy();
    let creates = Match::writes("endpoints")
        .namespace(namespace.name())
        .method(Method::POST);
    let creates = creates.when(|request| request.name.starts_with("gone-"));
    for round in 0..6 {
        // One worker of the five stays free, to look at the deletions.
        let names: Vec<String> = (0..4).map(|number| format!("gone-{round}-{number}")).collect();
        let held = proxy.rule(creates.clone(), Action::Hold, Times::Always);
        for name in &names {
            to_web(name).create(&namespace).await.unwrap();
        }
        held.wait_hits(4, DEADLINE).await.unwrap();
        for name in &names {
            let services = namespace.services();
            services.delete(name, &DeleteParams::default()).await.unwrap();
        }
        namespace.caught_up().await.unwrap();
        held.remove();
        assert_eq!(statuses(&creates).await, vec![201; 4 * (round + 1)]);
    }
    eventually(
        "no Endpoints of a Service that has gone",
        DEADLINE,
        &namespace.endpoints(),
        "",
        |found| {
            let left: Vec<_> = found
                .iter()
                .map(kube::ResourceExt::name_any)
                .filter(|name| name.starts_with("gone-"))
                .collect();
            left.is_empty().then_some(()).ok_or_else(|| format!("{left:?}"))
        },
    )
    .await
    .unwrap();
}

/// A finalizer keeps the object, and the watch tells so before the reply to the deletion does.
#[tokio::test]
async fn an_object_that_outlives_its_deletion_is_not_forgotten() {
    let namespace = one_pod().await;
    let (proxy, _) = shared_behind_proxy();
    to_web("web").create(&namespace).await.unwrap();
    namespace.endpoints_become("web", &[READY]).await.unwrap();
    let finalizers = |list: Value| Patch::Merge(json!({ "metadata": { "finalizers": list } }));
    let (api, params) = (namespace.endpoints(), PatchParams::default());
    api.patch("web", &params, &finalizers(json!(["example.org/hold"])))
        .await
        .unwrap();
    namespace.caught_up().await.unwrap();
    let deletes = endpoints_of(&namespace, "web", Method::DELETE);
    proxy.rule(
        deletes.clone(),
        Action::DelayReply(Duration::from_millis(700)),
        Times::First(1),
    );
    let services = namespace.services();
    services.delete("web", &DeleteParams::default()).await.unwrap();
    let replied = |records: &[Record]| records.iter().any(|it| it.outcome == Outcome::Delivered);
    proxy.wait_requests(&deletes, DEADLINE, replied).await.unwrap();
    namespace.caught_up().await.unwrap();
    namespace.set_pod_ready("p1", false).await.unwrap();
    to_web("web").create(&namespace).await.unwrap();
    namespace.endpoints_become("web", &[NOT_READY]).await.unwrap();
    api.patch("web", &params, &finalizers(Value::Null)).await.unwrap();
    eventually_one("another object", DEADLINE, &api, "web", |found| {
        let deleting = found.is_some_and(|found| found.metadata.deletion_timestamp.is_some());
        (found.is_some() && !deleting)
            .then_some(())
            .ok_or_else(|| "not yet".to_owned())
    })
    .await
    .unwrap();
    namespace.endpoints_become("web", &[NOT_READY]).await.unwrap();
}

/// Attempts grow apart, others are served meanwhile, and the end comes soon after the trouble ends.
#[tokio::test]
async fn a_write_that_is_refused_again_and_again_does_not_storm() {
    let namespace = one_pod().await;
    let (proxy, _) = shared_behind_proxy();
    to_web("rail").create(&namespace).await.unwrap();
    namespace.endpoints_become("rail", &[READY]).await.unwrap();
    let updates = endpoints_of(&namespace, "rail", Method::PUT);
    let refused = proxy.rule(
        updates.clone(),
        Action::Refuse(Refusal::internal_error()),
        Times::Always,
    );
    namespace.set_pod_ready("p1", false).await.unwrap();
    refused.wait_hits(9, DEADLINE).await.unwrap();
    to_web("crake").create(&namespace).await.unwrap();
    namespace.endpoints_become("crake", &[NOT_READY]).await.unwrap();
    let mut records = proxy.requests(&updates);
    // The Service may have been seen before its Pod, and then there was an update before all this.
    records.retain(|it| it.outcome == Outcome::Refused);
    let gaps: Vec<Duration> = records.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    // The nth pause is at least half of 5 ms doubled n times.
    for (gap, exponent) in gaps.iter().zip(0..) {
        let least = Duration::from_micros(2500) * 2_u32.pow(exponent);
        assert!(*gap >= least, "{gaps:?}");
    }
    refused.remove();
    namespace.endpoints_become("rail", &[NOT_READY]).await.unwrap();
    let event = event(&namespace, "FailedToUpdateEndpoint").await;
    assert!(
        event["series"]["count"].as_i64().is_none_or(|count| count >= 2),
        "{event}"
    );
}
