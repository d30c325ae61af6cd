//! `default/kubernetes` is the apiserver's: its Endpoints are never touched, whatever happens to them or to its Service.

use std::net::Ipv4Addr;
use std::time::Duration;

use k8s_openapi::api::core::v1::Endpoints;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use svcplane_tests::cluster::{Cluster, Flavour};
use svcplane_tests::eventually::eventually_one;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{pod, service};
use svcplane_tests::proxy::{FaultProxy, Match};
use svcplane_tests::subsets::lines;
use svcplane_tests::svcplane::Svcplane;

/// The apiserver looks after its own every 10 s.
const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_endpoints_of_the_apiserver_are_left_to_it() {
    let advertise = Ipv4Addr::new(192, 0, 2, 10);
    let cluster = Cluster::start(Flavour::LeaseReconciler { advertise }).await.unwrap();
    let proxy = FaultProxy::start(&cluster).unwrap();
    let kubeconfig = proxy.kubeconfig(cluster.admin_token()).unwrap();
    let default = TestNamespace::existing(cluster.client(), "default");
    let before = apiservers_own(&default, |_| true).await;
    let writes = || proxy.requests(&Match::writes("endpoints").namespace("default").name("kubernetes"));

    for _ in 0..2 {
        let svcplane = Svcplane::builder().kubeconfig(&kubeconfig).start().await.unwrap();
        svcplane.wait_leader().await.unwrap();
        // It does serve that namespace.
        default.caught_up().await.unwrap();
        svcplane.terminate().await.unwrap();
    }
    assert_eq!(default.endpoints().get("kubernetes").await.unwrap(), before);

    let svcplane = Svcplane::builder().kubeconfig(&kubeconfig).start().await.unwrap();
    svcplane.wait_leader().await.unwrap();
    let params = PatchParams::default();
    // Changed by hand, deleted by hand, Service changed by hand: the apiserver's affair.
    let note = Patch::Merge(json!({ "metadata": { "labels": { "a": "1" } }, "subsets": null }));
    default.endpoints().patch("kubernetes", &params, &note).await.unwrap();
    let label = json!({ "metadata": { "labels": { "b": "2" } } });
    default.patch_service("kubernetes", &label).await.unwrap();
    default.caught_up().await.unwrap();
    apiservers_own(&default, |found| lines(found) == lines(&before)).await;
    default
        .endpoints()
        .delete("kubernetes", &DeleteParams::default())
        .await
        .unwrap();
    default.caught_up().await.unwrap();
    apiservers_own(&default, |found| found.metadata.uid != before.metadata.uid).await;
    assert_eq!(writes().len(), 0);

    // Even its Service, which the apiserver makes again.
    let before = apiservers_own(&default, |_| true).await;
    default
        .services()
        .delete("kubernetes", &DeleteParams::default())
        .await
        .unwrap();
    let back = |found: Option<&_>| {
        found
            .map(|_: &k8s_openapi::api::core::v1::Service| ())
            .ok_or_else(|| "gone".to_owned())
    };
    eventually_one("its Service", DEADLINE, &default.services(), "kubernetes", back)
        .await
        .unwrap();
    default.caught_up().await.unwrap();
    assert_eq!(writes().len(), 0);
    let after = apiservers_own(&default, |_| true).await;
    assert_eq!(after.metadata.uid, before.metadata.uid);

    // A Service of that name elsewhere is anybody's.
    let elsewhere = TestNamespace::create(&cluster).await.unwrap();
    pod("p1")
        .label("app", "web")
        .ip("10.1.0.1")
        .create(&elsewhere)
        .await
        .unwrap();
    service("kubernetes")
        .selector("app", "web")
        .port("", 80, 80)
        .create(&elsewhere)
        .await
        .unwrap();
    elsewhere
        .endpoints_become("kubernetes", &["10.1.0.1 -> :80/TCP"])
        .await
        .unwrap();
    svcplane.terminate().await.unwrap();
}

/// The object with what the apiserver writes into it, once it is accepted.
async fn apiservers_own(default: &TestNamespace, accept: impl Fn(&Endpoints) -> bool) -> Endpoints {
    eventually_one(
        "default/kubernetes",
        DEADLINE,
        &default.endpoints(),
        "kubernetes",
        |found| match found {
            Some(found) if found.subsets.is_some() && accept(found) => Ok(found.clone()),
            other => Err(format!("{:?}", other.map(lines))),
        },
    )
    .await
    .unwrap()
}
