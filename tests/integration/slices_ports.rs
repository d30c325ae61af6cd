//! Ports and families of slices: cases in which others wrote none, or the wrong ones.

use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::json;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{pod, service};
use svcplane_tests::slices;

async fn namespace() -> TestNamespace {
    let namespace = TestNamespace::served().await.unwrap();
    slices::node(namespace.client(), "node-1", Some("a")).await.unwrap();
    namespace
}

async fn web(namespace: &TestNamespace, name: &str, addresses: &[&str]) {
    let mut one = pod(name).label("app", "web");
    for address in addresses {
        one = one.ip(address);
    }
    one.create(namespace).await.unwrap();
}

/// B12.
#[tokio::test]
async fn names_protocols_and_app_protocols_are_the_services() {
    let namespace = namespace().await;
    web(&namespace, "p1", &["10.1.0.1"]).await;
    let mut turnstone = service("turnstone")
        .selector("app", "web")
        .port("telemetry-ingest-grpc", 4317, 4317)
        .port_with_protocol("UDP", "dns", 53, 5353)
        .port_with_protocol("SCTP", "web", 80, 8080)
        .build();
    turnstone.spec.as_mut().unwrap().ports.as_mut().unwrap()[0].app_protocol = Some("kubernetes.io/h2c".into());
    namespace
        .services()
        .create(&Default::default(), &turnstone)
        .await
        .unwrap();
    let ports = "dns:5353/UDP telemetry-ingest-grpc:4317/TCP=kubernetes.io/h2c web:8080/SCTP";
    let line = format!("IPv4 10.1.0.1/rs- -> {ports}");
    namespace.slices_become("turnstone", &[&line]).await.unwrap();
}

/// B13: and nothing is written again, though the apiserver gives back `ports: null`.
#[tokio::test]
async fn a_headless_service_without_ports_lists_its_pods_alone() {
    let namespace = namespace().await;
    web(&namespace, "p1", &["10.1.0.1"]).await;
    web(&namespace, "p2", &["10.1.0.2"]).await;
    let sanderling = service("sanderling").selector("app", "web").headless();
    sanderling.create(&namespace).await.unwrap();
    let line = ["IPv4 10.1.0.1/rs- 10.1.0.2/rs-"];
    let version = |found: &[EndpointSlice]| found[0].metadata.resource_version.clone();
    let found = namespace.slices_become("sanderling", &line).await.unwrap();
    let label = found[0].metadata.labels.as_ref().unwrap();
    assert_eq!(label["service.kubernetes.io/headless"], "");
    // A look at it for another reason.
    let note = json!({"metadata": {"annotations": {"note": "x"}}});
    namespace.patch_service("sanderling", &note).await.unwrap();
    namespace.caught_up().await.unwrap();
    let after = namespace.slices_become("sanderling", &line).await.unwrap();
    assert_eq!(version(&after), version(&found));
}

/// B17.
#[tokio::test]
async fn each_slice_holds_addresses_of_its_family() {
    let namespace = namespace().await;
    let families: [(&str, &str, &[&str]); 4] = [
        ("grebe4", "SingleStack", &["IPv4"]),
        ("grebe6", "SingleStack", &["IPv6"]),
        ("grebe46", "RequireDualStack", &["IPv4", "IPv6"]),
        ("grebe64", "RequireDualStack", &["IPv6", "IPv4"]),
    ];
    for (name, policy, families) in families {
        let grebe = service(name).selector("app", "web").port("", 80, 80);
        grebe.families(policy, families).create(&namespace).await.unwrap();
    }
    let (four, six) = ("IPv4 10.1.0.61/rs- -> :80/TCP", "IPv6 fd5a:77::61/rs- -> :80/TCP");
    web(&namespace, "both", &["10.1.0.61", "fd5a:77::61"]).await;
    namespace.slices_become("grebe4", &[four]).await.unwrap();
    namespace.slices_become("grebe6", &[six]).await.unwrap();
    namespace.slices_become("grebe46", &[four, six]).await.unwrap();
    namespace.slices_become("grebe64", &[four, six]).await.unwrap();
    namespace
        .endpoints_become("grebe46", &["10.1.0.61 -> :80/TCP"])
        .await
        .unwrap();
    namespace
        .endpoints_become("grebe64", &["fd5a:77::61 -> :80/TCP"])
        .await
        .unwrap();

    // One that had no address gets one of IPv6 alone.
    web(&namespace, "late", &[]).await;
    let status = json!({"podIP": "fd5a:77::62", "podIPs": [{"ip": "fd5a:77::62"}],
        "conditions": [{"type": "Ready", "status": "True"}]});
    namespace.patch_pod_status("late", status).await.unwrap();
    let six = "IPv6 fd5a:77::61/rs- fd5a:77::62/rs- -> :80/TCP";
    namespace.slices_become("grebe6", &[six]).await.unwrap();
    namespace.slices_become("grebe46", &[four, six]).await.unwrap();
    namespace.slices_become("grebe4", &[four]).await.unwrap();
}

/// A Service that gets a second family, and loses it again.
#[tokio::test]
async fn a_family_that_comes_and_goes_brings_and_takes_its_slices() {
    let namespace = namespace().await;
    web(&namespace, "both", &["10.1.0.1", "fd00::1"]).await;
    let web = service("web").selector("app", "web").port("", 80, 80);
    web.families("SingleStack", &["IPv4"]).create(&namespace).await.unwrap();
    let (four, six) = ("IPv4 10.1.0.1/rs- -> :80/TCP", "IPv6 fd00::1/rs- -> :80/TCP");
    let first = namespace.slices_become("web", &[four]).await.unwrap();
    let both = json!({"spec": {"ipFamilyPolicy": "PreferDualStack"}});
    namespace.patch_service("web", &both).await.unwrap();
    namespace.slices_become("web", &[four, six]).await.unwrap();
    let one = json!({"spec": {"ipFamilyPolicy": "SingleStack"}});
    namespace.patch_service("web", &one).await.unwrap();
    let last = namespace.slices_become("web", &[four]).await.unwrap();
    assert_eq!(last[0].metadata.resource_version, first[0].metadata.resource_version);
}
