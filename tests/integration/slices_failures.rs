//! Writes of slices that fail or are late, and events that come late: what is told, what is tried again, and that the end is right.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::future::{join_all, try_join_all};
use http::Method;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use svcplane_tests::eventually::{eventually, eventually_gone, stays};
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{ServiceBuilder, pod, service};
use svcplane_tests::proxy::{Action, FaultProxy, Match, Record, Refusal, Times};
use svcplane_tests::slices::{self, belongs};
use svcplane_tests::svcplane::shared_behind_proxy;

const SOON: Duration = Duration::from_secs(30);
const READY: &str = "IPv4 10.1.0.1/rs- -> :80/TCP";
const NOT_READY: &str = "IPv4 10.1.0.1/--- -> :80/TCP";

async fn rig() -> (&'static FaultProxy, TestNamespace) {
    let (proxy, _) = shared_behind_proxy();
    proxy.keep_bodies(true);
    let namespace = TestNamespace::served_behind_proxy().await.unwrap();
    slices::node(namespace.client(), "node-1", Some("a")).await.unwrap();
    (proxy, namespace)
}

fn to_web(name: &str) -> ServiceBuilder {
    service(name).selector("app", "web").port("", 80, 80)
}

async fn one_pod(namespace: &TestNamespace) {
    pod("p1")
        .label("app", "web")
        .ip("10.1.0.1")
        .create(namespace)
        .await
        .unwrap();
}

fn writes(namespace: &TestNamespace) -> Match {
    Match::writes("endpointslices").namespace(namespace.name())
}

/// Answered, all of them.
async fn answered(proxy: &FaultProxy, matcher: &Match) -> Vec<Record> {
    let done = |all: &[Record]| all.iter().all(|it| it.status.is_some());
    proxy.wait_requests(matcher, SOON, done).await.unwrap()
}

/// B01: the events of our own writes come two seconds late, and Pods come meanwhile.
#[tokio::test]
async fn late_events_never_make_two_slices_list_one_pod() {
    let (proxy, namespace) = rig().await;
    let late = Action::DelayEvents(Duration::from_secs(2));
    let rule = proxy.rule(Match::watches("endpointslices"), late, Times::Always);
    to_web("tern").create(&namespace).await.unwrap();
    let slices = namespace.slices();
    let once = stays(
        "each address once",
        Duration::from_secs(6),
        &slices,
        "",
        |all: &[EndpointSlice]| {
            let mut places: BTreeMap<&String, Vec<String>> = BTreeMap::new();
            for slice in all.iter().filter(|slice| belongs(slice, "tern", None)) {
                for address in slices::endpoints(slice).iter().flat_map(|it| &it.addresses) {
                    places.entry(address).or_default().push(slice.name_any());
                }
            }
            match places.iter().find(|(_, places)| places.len() > 1) {
                Some(twice) => Err(format!("{twice:?}")),
                None => Ok(()),
            }
        },
    );
    let change = async {
        for number in 1..=8 {
            let one = pod(&format!("tern-{number}")).label("app", "web");
            one.ip(&format!("10.1.0.{number}")).create(&namespace).await.unwrap();
        }
    };
    let (once, ()) = tokio::join!(once, change);
    once.unwrap();
    let all: Vec<String> = (1..=8).map(|number| format!("10.1.0.{number}/rs-")).collect();
    let line = format!("IPv4 {} -> :80/TCP", all.join(" "));
    let one = namespace.slices_become("tern", &[&line]).await.unwrap();
    rule.remove();
    let made = writes(&namespace).method(Method::POST);
    let of_tern = |it: &&Record| {
        it.body
            .as_deref()
            .is_some_and(|body| String::from_utf8_lossy(body).contains("\"tern-\""))
    };
    assert_eq!(answered(proxy, &made).await.iter().filter(of_tern).count(), 1);
    assert_eq!(one.len(), 1);
}

/// B02: a slow watch, a conflict, and readiness there and back; what is stored in the end is right in both objects.
#[tokio::test]
async fn flips_over_a_slow_watch_and_a_conflict_end_right() {
    let (proxy, namespace) = rig().await;
    one_pod(&namespace).await;
    to_web("dunlin").create(&namespace).await.unwrap();
    namespace.slices_become("dunlin", &[READY]).await.unwrap();
    let slow = Action::DelayEvents(Duration::from_millis(500));
    let slow = proxy.rule(Match::watches("endpointslices"), slow, Times::Always);
    let puts = writes(&namespace).method(Method::PUT);
    let conflict = Action::Refuse(Refusal::conflict());
    let conflict = proxy.rule(puts, conflict, Times::First(1));
    for ready in [false, true, false, true] {
        namespace.set_pod_ready("p1", ready).await.unwrap();
    }
    conflict.wait_hits(1, SOON).await.unwrap();
    namespace.slices_become("dunlin", &[READY]).await.unwrap();
    namespace
        .endpoints_become("dunlin", &["10.1.0.1 -> :80/TCP"])
        .await
        .unwrap();
    namespace.caught_up().await.unwrap();
    slow.remove();
    namespace.slices_become("dunlin", &[READY]).await.unwrap();
}

/// The reply to a create is lost: the second create meets the first one's slice, and there is no second one.
#[tokio::test]
async fn a_lost_reply_makes_no_second_slice() {
    let (proxy, namespace) = rig().await;
    one_pod(&namespace).await;
    let posts = writes(&namespace).method(Method::POST);
    let lost = proxy.rule(posts.clone(), Action::LoseReply, Times::First(1));
    to_web("web").create(&namespace).await.unwrap();
    lost.wait_hits(1, SOON).await.unwrap();
    namespace.slices_become("web", &[READY]).await.unwrap();
    namespace.set_pod_ready("p1", false).await.unwrap();
    namespace.caught_up().await.unwrap();
    namespace.slices_become("web", &[NOT_READY]).await.unwrap();
}

/// B15 and B30: a write that is refused again and again is told once, does not storm, and is made in the end; no Service is given up.
#[tokio::test]
async fn refused_writes_do_not_storm_and_none_is_given_up() {
    let (proxy, namespace) = rig().await;
    let names: Vec<String> = (0..20).map(|number| format!("web-{number:02}")).collect();
    let make = async |name: &String| namespace.workload(name, &["10.1.0.1"]).await;
    try_join_all(names.iter().map(make)).await.unwrap();
    let become_all = async |line: &str| {
        let check = async |name: &String| namespace.slices_become(name, &[line]).await.map(drop);
        join_all(names.iter().map(check))
            .await
            .into_iter()
            .for_each(Result::unwrap);
    };
    let ready = "IPv4 10.1.0.1/rs- -> :8080/TCP";
    become_all(ready).await;
    let started = Instant::now();
    let seen = proxy.requests(&writes(&namespace)).len();
    let refused = Action::Refuse(Refusal::internal_error());
    let rule = proxy.rule(writes(&namespace), refused, Times::Always);
    let flip = async |name: &String| namespace.set_pod_ready(&format!("{name}-0"), false).await;
    try_join_all(names.iter().map(flip)).await.unwrap();
    let tries = |all: &[Record]| {
        let mut tries: BTreeMap<String, usize> = BTreeMap::new();
        for one in all.iter().skip(seen) {
            *tries.entry(one.request.name.clone()).or_default() += 1;
        }
        tries
    };
    let each = |all: &[Record]| tries(all).len() == 20 && tries(all).values().all(|count| *count >= 9);
    let all = proxy.wait_requests(&writes(&namespace), SOON, each).await.unwrap();
    // 5 ms, and twice as long each time.
    let bound = (started.elapsed().as_secs_f64() / 0.0025).log2() + 3.0;
    let most = tries(&all).into_values().max().unwrap();
    assert!(most <= bound.round() as usize, "{most} tries of one slice");
    rule.remove();
    become_all("IPv4 10.1.0.1/--- -> :8080/TCP").await;
    let told = |all: &[Event]| {
        let of_first = all
            .iter()
            .filter(|it| it.reason.as_deref() == Some("FailedToUpdateEndpointSlices"));
        let about: BTreeMap<_, _> = of_first
            .map(|it| (it.involved_object.name.clone(), it.type_.clone()))
            .collect();
        let warned = about.values().all(|kind| kind.as_deref() == Some("Warning"));
        (about.len() == 20 && warned)
            .then_some(())
            .ok_or_else(|| format!("{about:?}"))
    };
    eventually("an Event for each", SOON, &namespace.events(), "", told)
        .await
        .unwrap();
}

/// Spec endpoints.md 6.10: where the reference waits a second, or syncs twice. One write per change, and no wait.
#[tokio::test]
async fn every_change_costs_one_write_whenever_its_event_comes() {
    let (proxy, namespace) = rig().await;
    one_pod(&namespace).await;
    to_web("web").create(&namespace).await.unwrap();
    namespace.slices_become("web", &[READY]).await.unwrap();
    namespace.caught_up().await.unwrap();
    let name = namespace.slices_become("web", &[READY]).await.unwrap()[0].name_any();
    let of_web = writes(&namespace).name(&name);
    let mut made = answered(proxy, &of_web).await.len();
    let late = [
        proxy.rule(
            of_web.clone(),
            Action::DelayReply(Duration::from_millis(300)),
            Times::Always,
        ),
        proxy.rule(
            Match::watches("endpointslices"),
            Action::DelayEvents(Duration::from_millis(600)),
            Times::Always,
        ),
    ];
    for rule in late {
        for (ready, line) in [(false, NOT_READY), (true, READY)] {
            namespace.set_pod_ready("p1", ready).await.unwrap();
            namespace.slices_become("web", &[line]).await.unwrap();
            made += 1;
            namespace.caught_up().await.unwrap();
            assert_eq!(answered(proxy, &of_web).await.len(), made);
        }
        rule.remove();
    }
}

/// A PUT names the version that it replaces, a DELETE version and uid.
#[tokio::test]
async fn every_write_says_what_it_replaces() {
    let (proxy, namespace) = rig().await;
    pod("p1")
        .label("app", "web")
        .ip("10.1.0.1")
        .ip("fd00::1")
        .create(&namespace)
        .await
        .unwrap();
    let both = to_web("web").families("RequireDualStack", &["IPv4", "IPv6"]);
    both.create(&namespace).await.unwrap();
    let six = "IPv6 fd00::1/--- -> :80/TCP";
    namespace
        .slices_become("web", &[READY, "IPv6 fd00::1/rs- -> :80/TCP"])
        .await
        .unwrap();
    namespace.set_pod_ready("p1", false).await.unwrap();
    let stored = namespace.slices_become("web", &[NOT_READY, six]).await.unwrap();
    let gone = stored.iter().find(|slice| slice.address_type == "IPv6").unwrap();
    let one = json!({"spec": {"ipFamilyPolicy": "SingleStack"}});
    namespace.patch_service("web", &one).await.unwrap();
    let slices = namespace.slices();
    eventually_gone("the second family", SOON, &slices, &gone.name_any())
        .await
        .unwrap();

    let of_it = writes(&namespace).name(&gone.name_any());
    let body = |method: Method| {
        let all = proxy.writes_of(&of_it.clone().method(method.clone()));
        assert_eq!(all.len(), 1, "{method}");
        serde_json::from_slice::<Value>(all[0].body.as_ref().unwrap()).unwrap()
    };
    let put = body(Method::PUT);
    assert!(
        put["metadata"]["resourceVersion"]
            .as_str()
            .is_some_and(|it| !it.is_empty()),
        "{put}"
    );
    let delete = body(Method::DELETE);
    let preconditions = json!({"uid": gone.uid(), "resourceVersion": gone.resource_version()});
    assert_eq!(delete["preconditions"], preconditions);
}

/// Somebody changes a slice while its deletion is under way: the deletion is not of what it was meant for, and is made anew.
#[tokio::test]
async fn a_deletion_is_of_the_version_that_was_seen() {
    let (proxy, namespace) = rig().await;
    one_pod(&namespace).await;
    let both = to_web("web").families("RequireDualStack", &["IPv4", "IPv6"]);
    both.create(&namespace).await.unwrap();
    let found = namespace.slices_become("web", &[READY, "IPv6"]).await.unwrap();
    let six = found
        .iter()
        .find(|slice| slice.address_type == "IPv6")
        .unwrap()
        .name_any();
    let deletes = writes(&namespace).name(&six).method(Method::DELETE);
    let slow = Action::Delay(Duration::from_millis(800));
    let rule = proxy.rule(deletes.clone(), slow, Times::First(1));
    let one = json!({"spec": {"ipFamilyPolicy": "SingleStack"}});
    namespace.patch_service("web", &one).await.unwrap();
    rule.wait_hits(1, SOON).await.unwrap();
    let claimed = json!({"metadata": {"labels": {slices::MANAGED_BY: "night-shift"}}});
    namespace.patch_slice(&six, &claimed).await.unwrap();
    let tries = answered(proxy, &deletes).await;
    assert_eq!(tries.iter().map(|it| it.status).collect::<Vec<_>>(), [Some(409)]);
    namespace.caught_up().await.unwrap();
    // It is somebody else's now, and stays.
    let slices = namespace.slices();
    assert_eq!(
        slices.get(&six).await.unwrap().labels()[slices::MANAGED_BY],
        "night-shift"
    );
    slices.delete(&six, &DeleteParams::default()).await.unwrap();
}
