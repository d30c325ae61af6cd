//! Namespaces that go, with the real namespace controller.

use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use svcplane_tests::cluster;
use svcplane_tests::eventually::{eventually, eventually_gone, eventually_one};
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{ServiceBuilder, pod, service};
use svcplane_tests::proxy::{Match, Outcome};
use svcplane_tests::svcplane::shared_behind_proxy;
use tokio::sync::OnceCell;

const DEADLINE: Duration = Duration::from_secs(60);

async fn namespace() -> TestNamespace {
    static CONTROLLERS: OnceCell<()> = OnceCell::const_new();
    let start = async || cluster::shared().start_controller_manager().await.unwrap();
    let namespace = TestNamespace::served_behind_proxy().await.unwrap();
    CONTROLLERS.get_or_init(start).await;
    namespace
}

fn to_web(name: &str) -> ServiceBuilder {
    service(name).selector("app", "web").port("", 80, 80)
}

/// Its Endpoints go while its Service is held: to make them again is refused, which is nobody's mistake. That they go and that the Service is to
/// go are two reasons to look, in either order; the refusal is none.
#[tokio::test]
async fn what_cannot_be_created_in_a_namespace_that_goes_is_not_missed() {
    let namespace = namespace().await;
    let (proxy, svcplane) = shared_behind_proxy();
    pod("p1")
        .label("app", "web")
        .ip("10.1.0.1")
        .create(&namespace)
        .await
        .unwrap();
    let mut held = to_web("held").build();
    held.metadata.finalizers = Some(vec!["example.org/hold".into()]);
    namespace
        .services()
        .create(&PostParams::default(), &held)
        .await
        .unwrap();
    namespace
        .endpoints_become("held", &["10.1.0.1 -> :80/TCP"])
        .await
        .unwrap();
    namespace.delete().await.unwrap();
    // The namespace controller waits for Pods before it looks at anything else, and there is no kubelet.
    namespace.delete_pod("p1", Duration::ZERO).await.unwrap();
    let creates = Match::writes("endpoints")
        .namespace(namespace.name())
        .name("held")
        .method(Method::POST);
    let refused = |records: &[svcplane_tests::proxy::Record]| records.iter().any(|it| it.status == Some(403));
    proxy.wait_requests(&creates, DEADLINE, refused).await.unwrap();
    eventually_gone("held", DEADLINE, &namespace.endpoints(), "held")
        .await
        .unwrap();

    let to_go = |held: Option<&Service>| {
        let when = held.and_then(|held| held.metadata.deletion_timestamp.as_ref());
        when.map(|_| ()).ok_or_else(|| "not to go".to_owned())
    };
    eventually_one("held", DEADLINE, &namespace.services(), "held", to_go)
        .await
        .unwrap();

    // Its slices go too, which is one more reason to look, after a moment of patience.
    let none_left = |slices: &[EndpointSlice]| match slices.len() {
        0 => Ok(()),
        count => Err(format!("{count} slices")),
    };
    let slices = namespace.slices();
    eventually("no slices", DEADLINE, &slices, "", none_left).await.unwrap();
    svcplane.wait_idle().await.unwrap();

    // Another namespace shows that everything was looked at; had it been retried, there would be more by then.
    let elsewhere = TestNamespace::served_behind_proxy().await.unwrap();
    elsewhere.caught_up().await.unwrap();
    let statuses = || -> Vec<_> { proxy.requests(&creates).iter().filter_map(|it| it.status).collect() };
    let once_all_is_said = statuses();
    // One for each reason to look: the Endpoints have gone, the Service is to go, a slice has gone.
    assert!(
        matches!(&once_all_is_said[..], [201, tries @ ..] if (1..=3).contains(&tries.len()) && tries.iter().all(|it| *it == 403)),
        "{once_all_is_said:?}"
    );
    for _ in 0..3 {
        elsewhere.caught_up().await.unwrap();
    }
    assert_eq!(statuses(), once_all_is_said);
    // Nobody is told: such an Event could not be written either.
    let told = proxy.requests(&Match::writes("events").namespace(namespace.name()));
    assert!(told.is_empty(), "{told:?}");

    let free = json!({ "metadata": { "finalizers": null } });
    namespace.patch_service("held", &free).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(namespace.client());
    eventually_gone("namespace", DEADLINE, &namespaces, namespace.name())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_namespace_that_comes_back_under_its_name_is_served_again() {
    let namespace = namespace().await;
    let (proxy, _) = shared_behind_proxy();
    for round in 1..=2 {
        pod("p1")
            .label("app", "web")
            .ip(&format!("10.2.0.{round}"))
            .create(&namespace)
            .await
            .unwrap();
        for number in 0..10 {
            to_web(&format!("web-{number}")).create(&namespace).await.unwrap();
        }
        for number in 0..10 {
            let line = format!("10.2.0.{round} -> :80/TCP");
            namespace
                .endpoints_become(&format!("web-{number}"), &[&line])
                .await
                .unwrap();
        }
        namespace.delete().await.unwrap();
        let namespaces: Api<Namespace> = Api::all(namespace.client());
        namespace.delete_pod("p1", Duration::ZERO).await.ok();
        eventually_gone("namespace", DEADLINE, &namespaces, namespace.name())
            .await
            .unwrap();
        let metadata = ObjectMeta {
            name: Some(namespace.name().into()),
            ..ObjectMeta::default()
        };
        let again = Namespace {
            metadata,
            ..Namespace::default()
        };
        namespaces.create(&PostParams::default(), &again).await.unwrap();
    }
    // Nothing was left in flight that would make Endpoints without Service.
    to_web("last").create(&namespace).await.unwrap();
    let last = namespace.endpoints_become("last", &[]).await.unwrap();
    namespace.caught_up().await.unwrap();
    let all = namespace
        .endpoints()
        .list(&kube::api::ListParams::default())
        .await
        .unwrap();
    let names: Vec<String> = all
        .items
        .iter()
        .map(kube::ResourceExt::name_any)
        .filter(|it| !it.starts_with("caught-up"))
        .collect();
    assert_eq!(names, ["last"]);
    assert!(last.uid().is_some());
    let records = proxy.requests(&Match::writes("endpoints").namespace(namespace.name()));
    assert!(records.iter().all(|it| it.outcome != Outcome::Pending));
}

/// Endpoints have no owner: the garbage collector leaves them alone, and svcplane removes them.
#[tokio::test]
async fn a_real_deployment_is_followed_and_a_deleted_service_takes_its_endpoints_along() {
    let namespace = namespace().await;
    let kubelet = svcplane_tests::kubelet::StatusKubelet::builder(namespace.client());
    let _kubelet = kubelet
        .namespace(namespace.name())
        .exit_after(Duration::ZERO)
        .start()
        .await
        .unwrap();
    let deployment = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" }, "spec": {
        "replicas": 3, "selector": { "matchLabels": { "app": "web" } },
        "template": { "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [{ "name": "main", "image": "none.invalid/none",
            "ports": [{ "name": "http", "containerPort": 8080 }] }] } } } });
    let deployment = serde_json::from_value(deployment).unwrap();
    namespace
        .deployments()
        .create(&PostParams::default(), &deployment)
        .await
        .unwrap();
    service("web")
        .selector("app", "web")
        .port("http", 80, "http")
        .create(&namespace)
        .await
        .unwrap();
    let count = async |expected: usize| {
        eventually_one(
            &format!("{expected} addresses"),
            DEADLINE,
            &namespace.endpoints(),
            "web",
            |found| {
                let subsets = found.and_then(|found| found.subsets.clone()).unwrap_or_default();
                let ready: usize = subsets.iter().map(|it| it.addresses.as_ref().map_or(0, Vec::len)).sum();
                let other: usize = subsets
                    .iter()
                    .map(|it| it.not_ready_addresses.as_ref().map_or(0, Vec::len))
                    .sum();
                let right = (ready, other) == (expected, 0) && found.is_some();
                right.then_some(()).ok_or_else(|| format!("{ready} ready, {other} not"))
            },
        )
        .await
        .unwrap();
    };
    count(3).await;
    for replicas in [5, 1, 0, 2] {
        let scale = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        namespace
            .deployments()
            .patch("web", &PatchParams::default(), &scale)
            .await
            .unwrap();
        count(replicas).await;
    }
    // A rollout replaces every Pod.
    let old = namespace.pods().list(&kube::api::ListParams::default()).await.unwrap();
    let rollout = json!({ "spec": { "template": { "metadata": { "annotations": { "round": "2" } } } } });
    namespace
        .deployments()
        .patch("web", &PatchParams::default(), &Patch::Merge(rollout))
        .await
        .unwrap();
    eventually_one("no Pod of before", DEADLINE, &namespace.endpoints(), "web", |found| {
        let text = serde_json::to_string(&found.map(|it| &it.subsets)).unwrap_or_default();
        let left = old.items.iter().filter(|pod| text.contains(&pod.name_any())).count();
        (left == 0 && text.contains("targetRef"))
            .then_some(())
            .ok_or_else(|| format!("{left} left"))
    })
    .await
    .unwrap();
    count(2).await;
    namespace
        .services()
        .delete("web", &DeleteParams::default())
        .await
        .unwrap();
    eventually_gone("web", DEADLINE, &namespace.endpoints(), "web")
        .await
        .unwrap();
}
