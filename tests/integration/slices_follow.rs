//! Slices follow Services, Pods and Nodes on a real apiserver, beside the Endpoints of the same Services.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{create_pods, pod, service};
use svcplane_tests::slices::{self, MANAGED_BY, SERVICE_NAME, belongs};

const OURS: &str = "endpointslice-controller.k8s.io";

async fn namespace() -> TestNamespace {
    let namespace = TestNamespace::served().await.unwrap();
    slices::node(namespace.client(), "node-1", Some("a")).await.unwrap();
    namespace
}

#[tokio::test]
async fn a_service_gets_a_placeholder_and_its_pods_come_and_go() {
    let namespace = namespace().await;
    let web = service("web").selector("app", "web").port("http", 80, 8080);
    let web = web.create(&namespace).await.unwrap();
    let placeholder = namespace.slices_become("web", &["IPv4"]).await.unwrap();
    let [slice] = &placeholder[..] else {
        panic!("{placeholder:?}")
    };
    assert_eq!(slice.metadata.generate_name.as_deref(), Some("web-"));
    let want: BTreeMap<String, String> = [(SERVICE_NAME, "web"), (MANAGED_BY, OURS)]
        .map(|(key, value)| (key.into(), value.into()))
        .into();
    assert_eq!(slice.labels(), &want);
    let owner = &slice.owner_references()[0];
    assert_eq!(
        (
            &*owner.kind,
            &*owner.name,
            Some(&owner.uid),
            owner.controller,
            owner.block_owner_deletion
        ),
        ("Service", "web", web.metadata.uid.as_ref(), Some(true), Some(true))
    );

    pod("p1")
        .label("app", "web")
        .ip("10.1.0.1")
        .create(&namespace)
        .await
        .unwrap();
    let one = namespace
        .slices_become("web", &["IPv4 10.1.0.1/rs- -> http:8080/TCP"])
        .await
        .unwrap();
    assert_eq!(one[0].name_any(), slice.name_any(), "the placeholder is taken over");
    let endpoint = &slices::endpoints(&one[0])[0];
    assert_eq!(
        (endpoint.node_name.as_deref(), endpoint.zone.as_deref()),
        (Some("node-1"), Some("a"))
    );
    let target = endpoint.target_ref.clone().unwrap();
    assert_eq!(
        (target.kind.as_deref(), target.name.as_deref()),
        (Some("Pod"), Some("p1"))
    );
    assert_eq!((target.api_version, target.resource_version), (None, None));

    namespace.set_pod_ready("p1", false).await.unwrap();
    namespace
        .slices_become("web", &["IPv4 10.1.0.1/--- -> http:8080/TCP"])
        .await
        .unwrap();
    namespace
        .endpoints_become("web", &["!10.1.0.1 -> http:8080/TCP"])
        .await
        .unwrap();
    namespace.set_pod_ready("p1", true).await.unwrap();
    namespace
        .slices_become("web", &["IPv4 10.1.0.1/rs- -> http:8080/TCP"])
        .await
        .unwrap();
    namespace.delete_pod("p1", Duration::from_secs(300)).await.unwrap();
    namespace
        .slices_become("web", &["IPv4 10.1.0.1/-st -> http:8080/TCP"])
        .await
        .unwrap();
    namespace.endpoints_become("web", &[]).await.unwrap();
    namespace.delete_pod("p1", Duration::ZERO).await.unwrap();
    namespace.slices_become("web", &["IPv4"]).await.unwrap();
}

#[tokio::test]
async fn a_pod_on_an_unknown_node_is_listed_when_the_node_appears() {
    let namespace = namespace().await;
    let name = format!("late-{}", namespace.name());
    service("web")
        .selector("app", "web")
        .port("", 80, 80)
        .create(&namespace)
        .await
        .unwrap();
    pod("p1")
        .label("app", "web")
        .ip("10.1.0.1")
        .create(&namespace)
        .await
        .unwrap();
    pod("p2")
        .label("app", "web")
        .ip("10.1.0.2")
        .node(&name)
        .create(&namespace)
        .await
        .unwrap();
    namespace
        .endpoints_become("web", &["10.1.0.1 10.1.0.2 -> :80/TCP"])
        .await
        .unwrap();
    namespace
        .slices_become("web", &["IPv4 10.1.0.1/rs- -> :80/TCP"])
        .await
        .unwrap();
    slices::node(namespace.client(), &name, Some("b")).await.unwrap();
    let all = namespace
        .slices_become("web", &["IPv4 10.1.0.1/rs- 10.1.0.2/rs- -> :80/TCP"])
        .await
        .unwrap();
    let zones: Vec<_> = slices::endpoints(&all[0])
        .iter()
        .filter_map(|endpoint| endpoint.zone.clone())
        .collect();
    assert_eq!(zones.len(), 2);
    // The Node moves to another zone, and goes.
    let nodes: Api<Node> = namespace.cluster_wide();
    let moved = Patch::Merge(json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "c"}}}));
    nodes.patch(&name, &PatchParams::default(), &moved).await.unwrap();
    svcplane_tests::eventually::eventually(
        "zone c",
        Duration::from_secs(30),
        &namespace.slices(),
        "",
        |all: &[EndpointSlice]| {
            let zones = all.iter().filter(|slice| belongs(slice, "web", Some(OURS)));
            let mut zones = zones
                .flat_map(slices::endpoints)
                .filter_map(|endpoint| endpoint.zone.as_deref());
            zones
                .any(|zone| zone == "c")
                .then_some(())
                .ok_or_else(|| "not there".into())
        },
    )
    .await
    .unwrap();
    nodes.delete(&name, &DeleteParams::default()).await.unwrap();
    namespace
        .slices_become("web", &["IPv4 10.1.0.1/rs- -> :80/TCP"])
        .await
        .unwrap();
}

#[tokio::test]
async fn pods_are_grouped_by_the_ports_that_they_resolve() {
    let namespace = namespace().await;
    let web = service("web")
        .selector("app", "web")
        .port("http", 80, "web")
        .port("plain", 81, 81);
    web.create(&namespace).await.unwrap();
    for (name, ip, port) in [
        ("p1", "10.1.0.1", 8080),
        ("p2", "10.1.0.2", 8080),
        ("p3", "10.1.0.3", 9090),
    ] {
        pod(name)
            .label("app", "web")
            .ip(ip)
            .port("web", port)
            .create(&namespace)
            .await
            .unwrap();
    }
    pod("p4")
        .label("app", "web")
        .ip("10.1.0.4")
        .create(&namespace)
        .await
        .unwrap();
    namespace
        .slices_become(
            "web",
            &[
                "IPv4 10.1.0.1/rs- 10.1.0.2/rs- -> http:8080/TCP plain:81/TCP",
                "IPv4 10.1.0.3/rs- -> http:9090/TCP plain:81/TCP",
                "IPv4 10.1.0.4/rs- -> plain:81/TCP",
            ],
        )
        .await
        .unwrap();
}

#[tokio::test]
async fn many_pods_are_packed_into_few_slices_and_a_flip_touches_one() {
    let namespace = namespace().await;
    let pods = (0..250).map(|number| {
        pod(&format!("p{number}"))
            .label("app", "web")
            .ip(&format!("10.1.1.{number}"))
    });
    create_pods(pods, &namespace).await.unwrap();
    service("web")
        .selector("app", "web")
        .port("", 80, 80)
        .create(&namespace)
        .await
        .unwrap();
    let sizes = |all: &[EndpointSlice]| {
        let mut sizes: Vec<usize> = all
            .iter()
            .filter(|slice| belongs(slice, "web", Some(OURS)))
            .map(|slice| slices::endpoints(slice).len())
            .collect();
        sizes.sort_unstable();
        sizes
    };
    let wait = async |want: &'static [usize], ready: usize| {
        svcplane_tests::eventually::eventually(
            "sizes",
            Duration::from_secs(30),
            &namespace.slices(),
            "",
            |all: &[EndpointSlice]| {
                let endpoints = all
                    .iter()
                    .filter(|slice| belongs(slice, "web", Some(OURS)))
                    .flat_map(slices::endpoints);
                let is_ready = endpoints
                    .filter(|it| it.conditions.as_ref().and_then(|it| it.ready) == Some(true))
                    .count();
                if sizes(all) == want && is_ready == ready {
                    Ok(all.to_vec())
                } else {
                    Err(format!("{:?} {is_ready}", sizes(all)))
                }
            },
        )
        .await
        .unwrap()
    };
    let before = wait(&[50, 100, 100], 250).await;
    namespace.set_pod_ready("p7", false).await.unwrap();
    let after = wait(&[50, 100, 100], 249).await;
    let versions = |all: &[EndpointSlice]| -> BTreeMap<String, Option<String>> {
        all.iter()
            .map(|slice| (slice.name_any(), slice.resource_version()))
            .collect()
    };
    let (before, after) = (versions(&before), versions(&after));
    let changed = before
        .iter()
        .filter(|(name, version)| after.get(*name) != Some(version))
        .count();
    assert_eq!((changed, before.len(), after.len()), (1, 3, 3));
}

#[tokio::test]
async fn hints_follow_traffic_distribution() {
    let namespace = namespace().await;
    let mut web = service("web").selector("app", "web").port("", 80, 80).build();
    web.spec.as_mut().unwrap().traffic_distribution = Some("PreferSameNode".into());
    namespace.services().create(&PostParams::default(), &web).await.unwrap();
    pod("p1")
        .label("app", "web")
        .ip("10.1.0.1")
        .create(&namespace)
        .await
        .unwrap();
    namespace
        .slices_become("web", &["IPv4 10.1.0.1/rs-{a;node-1} -> :80/TCP"])
        .await
        .unwrap();
    let close = json!({"spec": {"trafficDistribution": "PreferClose"}});
    namespace.patch_service("web", &close).await.unwrap();
    namespace
        .slices_become("web", &["IPv4 10.1.0.1/rs-{a} -> :80/TCP"])
        .await
        .unwrap();
    let none = json!({"spec": {"trafficDistribution": null}});
    namespace.patch_service("web", &none).await.unwrap();
    namespace
        .slices_become("web", &["IPv4 10.1.0.1/rs- -> :80/TCP"])
        .await
        .unwrap();
}
