//! The chart on a real apiserver: it takes every object, its Pods are restricted, and the rendered roles are enough.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use svcplane_tests::admission::{address, install_crds};
use svcplane_tests::chart::{Helm, NAMESPACE, Rendered, container, create, install, token, value_files};
use svcplane_tests::cluster::{Cluster, Flavour};
use svcplane_tests::eventually::eventually_one;
use svcplane_tests::governed::{cluster_ip, post};
use svcplane_tests::namespace::{TestNamespace, create_named};
use svcplane_tests::objects::endpoints;
use svcplane_tests::process::Exit;
use svcplane_tests::proxy::{FaultProxy, Match};
use svcplane_tests::rights::nothing_was_forbidden;
use svcplane_webhook::pools::LoadBalancerPool;

const SOON: Duration = Duration::from_secs(30);

/// Kinds that only other projects serve.
const FOREIGN: [&str; 4] = ["Certificate", "PodMonitor", "PrometheusRule", "ServiceMonitor"];

fn helm() -> Helm {
    Helm::of("helm4").unwrap()
}

#[tokio::test]
async fn the_apiserver_takes_every_object_and_every_pod_is_restricted() {
    let cluster = Cluster::start(Flavour::DualStack).await.unwrap();
    let client = cluster.client();
    let level =
        json!({"metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(level).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    for file in value_files().unwrap() {
        let rendered = helm().values(&file).tests().template().unwrap();
        for object in &rendered.objects {
            let kind = object["kind"].as_str().unwrap();
            if FOREIGN.contains(&kind) {
                continue;
            }
            let mut object = object.clone();
            if object["metadata"]["namespace"].is_null() && kind == "ConfigMap" {
                object["metadata"]["namespace"] = NAMESPACE.into();
            }
            if kind == "Pod" {
                // Its admission check is not on here, nor is there anybody to schedule.
                object["spec"]["nodeName"] = "node-1".into();
            }
            let said = create(&client, &object, true).await.unwrap();
            assert!(said.code.is_success(), "{file}: {kind}: {}", said.message());
            // Only of what profile controlPlane is for.
            let warned = said
                .warnings
                .iter()
                .filter(|it| !it.ends_with(": host namespaces (hostNetwork=true)"));
            assert_eq!(warned.count(), 0, "{file}: {kind}: {:?}", said.warnings);
            if kind == "Deployment" {
                let said = create(&client, &pod(&object), true).await.unwrap();
                let host = object["spec"]["template"]["spec"]["hostNetwork"] == true;
                assert_eq!(said.code.is_success(), !host, "{file}: {}", said.message());
                if host {
                    // That and the ports are all that is wrong with it.
                    let wrong = said.message().split_once(": ").unwrap().1;
                    let others = ["seccomp", "runAsNonRoot", "capabilities", "allowPrivilegeEscalation"];
                    assert!(
                        wrong.contains("host") && others.iter().all(|it| !wrong.contains(it)),
                        "{wrong}"
                    );
                }
            }
        }
    }
}

fn pod(deployment: &Value) -> Value {
    let mut spec = deployment["spec"]["template"]["spec"].clone();
    // Its admission check is not on here, nor is there anybody to schedule.
    spec["nodeName"] = "node-1".into();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "svcplane-0", "namespace": NAMESPACE}, "spec": spec})
}

/// What it does with Endpoints and EndpointSlices.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    Them,
    Watch,
    Nothing,
}

/// svcplane runs as its ServiceAccount with exactly the rendered roles, and lives its whole life: nothing is forbidden.
async fn lives_without_a_refusal(helm: Helm, keeps: Keeps) {
    let cluster = Cluster::start(Flavour::DualStack).await.unwrap();
    let client = cluster.client();
    create_named(&client, NAMESPACE).await.unwrap();
    let own = TestNamespace::existing(client.clone(), NAMESPACE);
    install_crds(&client).await.unwrap();
    let helm = helm.set(&[
        "webhook.tls.extraNames={127.0.0.1}",
        "allocator.allocate=all",
        "leaderElection.leaseDuration=3s",
        "leaderElection.renewDeadline=2s",
        "leaderElection.retryPeriod=500ms",
    ]);
    let rendered = helm.template().unwrap();
    let kinds = [
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "Service",
        "Deployment",
    ];
    install(&client, &rendered, &kinds).await.unwrap();
    let token = token(&own, "svcplane").await.unwrap();
    let proxies = [0, 1].map(|_| FaultProxy::start(&cluster).unwrap());
    let start = async |of: usize| {
        let kubeconfig = proxies[of].kubeconfig(&token).unwrap();
        let builder = container(&rendered, &own, &format!("uid-{of}"));
        builder.kubeconfig(kubeconfig).replica(of).start().await.unwrap()
    };
    let leader = start(0).await;
    leader.wait_leader().await.unwrap();
    leader.wait_ready().await.unwrap();
    let standby = start(1).await;
    standby.wait_ready().await.unwrap();

    // Both configurations come when it serves; it publishes itself in them.
    let url = format!("webhook.url=https://{}", address(&leader).await.unwrap());
    let hooks = helm.clone().set(&[&url]).template().unwrap();
    let hooks = Rendered {
        objects: hooks
            .objects
            .into_iter()
            .filter(|it| it["kind"].as_str().unwrap().ends_with("WebhookConfiguration"))
            .collect(),
        text: String::new(),
    };
    let kinds = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
    install(&client, &hooks, &kinds).await.unwrap();
    leader
        .wait_metric("svcplane_webhook_ca_published", &[("kind", "mutating")], SOON, |it| {
            it > 0.5
        })
        .await
        .unwrap();

    let namespace = TestNamespace::create(&cluster).await.unwrap();
    namespace.workload("web", &["10.201.0.1"]).await.unwrap();
    if keeps == Keeps::Them {
        namespace
            .endpoints_become("web", &["10.201.0.1 -> :8080/TCP"])
            .await
            .unwrap();
        let by_hand = endpoints("by-hand").subset(&["10.201.0.9"], &[("", 80)]);
        let service = json!({"metadata": {"name": "by-hand"}, "spec": {"ports": [{"port": 80}]}});
        post(&namespace, &service, "").await.accepted().unwrap();
        by_hand.create(&namespace).await.unwrap();
        leader.wait_idle().await.unwrap();
        namespace.set_pod_ready("web-0", false).await.unwrap();
        namespace
            .endpoints_become("web", &["!10.201.0.1 -> :8080/TCP"])
            .await
            .unwrap();
    }
    // Also where the name is yet to be made, which a condition must not stumble over.
    let mut generated = cluster_ip("asked");
    generated["metadata"] = json!({"generateName": "asked-"});
    for service in [cluster_ip("asked"), generated] {
        let reviews = async || {
            let page = leader.metrics().await.unwrap();
            ["mutate", "validate"].map(|it| page.sum("svcplane_admission_reviews_total", &[("endpoint", it)]))
        };
        let end = tokio::time::Instant::now() + SOON;
        loop {
            let before = reviews().await;
            post(&namespace, &service, "?dryRun=All").await.accepted().unwrap();
            let after = reviews().await;
            if after[0] > before[0] && after[1] > before[1] {
                break;
            }
            assert!(tokio::time::Instant::now() < end, "svcplane is not asked: {after:?}");
        }
    }
    // The status of a pool is written by the leader.
    let pool = json!({"apiVersion": "svcplane.io/v1alpha1", "kind": "NodePortPool", "metadata": {"name": "pool"},
        "spec": {"ranges": ["30010-30012"]}});
    create(&client, &pool, false).await.unwrap().accepted().unwrap();
    proxies[0]
        .wait_requests(&Match::writes("nodeportpools"), SOON, |them| !them.is_empty())
        .await
        .unwrap();
    addresses_are_given(&client, &namespace).await;
    // Leadership goes over; the new leader keeps the Secret and both configurations.
    assert_eq!(leader.terminate().await.unwrap(), Exit::Code(0));
    standby.wait_leader().await.unwrap();
    if keeps != Keeps::Nothing {
        standby.wait_idle().await.unwrap();
    }
    standby
        .wait_metric("svcplane_webhook_ca_published", &[("kind", "validating")], SOON, |it| {
            it > 0.5
        })
        .await
        .unwrap();
    assert_eq!(standby.terminate().await.unwrap(), Exit::Code(0));
    for proxy in &proxies {
        let endpoints = ["endpoints", "endpointslices"].map(|it| proxy.writes_of(&Match::writes(it)).len());
        assert!(keeps == Keeps::Them || endpoints == [0, 0], "{endpoints:?}");
    }
    nothing_was_forbidden(&cluster, &proxies).await;
}

/// A pool of LoadBalancer addresses gives one, and tells so in its status.
async fn addresses_are_given(client: &Client, namespace: &TestNamespace) {
    let pool = json!({"apiVersion": "svcplane.io/v1alpha1", "kind": "LoadBalancerPool", "metadata": {"name": "public"},
        "spec": {"ranges": ["203.0.113.64/28"]}});
    create(client, &pool, false).await.unwrap().accepted().unwrap();
    let service = json!({"metadata": {"name": "balanced"},
        "spec": {"type": "LoadBalancer", "loadBalancerClass": "svcplane.io/lb", "ports": [{"port": 80}]}});
    post(namespace, &service, "").await.accepted().unwrap();
    let given = |service: Option<&Service>| {
        let balancer = service.and_then(|it| it.status.as_ref()?.load_balancer.as_ref());
        let ingress = balancer.and_then(|it| it.ingress.as_ref()?.first()?.ip.clone());
        ingress
            .filter(|ip| ip.starts_with("203.0.113."))
            .map(drop)
            .ok_or_else(|| "no address".to_owned())
    };
    eventually_one("an address", SOON, &namespace.services(), "balanced", given)
        .await
        .unwrap();
    let pools: Api<LoadBalancerPool> = Api::all(client.clone());
    let told = |pool: Option<&LoadBalancerPool>| {
        let status = serde_json::to_value(pool.and_then(|it| it.status.as_ref())).unwrap();
        let used = status["ipv4"]["used"] == 1;
        // It is said only by who may see Nodes and ServiceCIDRs.
        let conditions = status["conditions"].as_array();
        let looks = conditions
            .into_iter()
            .flatten()
            .any(|it| it["type"] == "OverlapsNodes" && it["status"] == "False");
        (used && looks).then_some(()).ok_or_else(|| status.to_string())
    };
    eventually_one("the pool's status", SOON, &pools, "public", told)
        .await
        .unwrap();
}

#[tokio::test]
async fn the_rendered_roles_are_enough_to_write() {
    let active = helm().set(&["mode=active", "takeover.acknowledgeBuiltinsDisabled=true"]);
    lives_without_a_refusal(active, Keeps::Them).await;
}

#[tokio::test]
async fn the_rendered_roles_are_enough_to_observe() {
    lives_without_a_refusal(helm(), Keeps::Watch).await;
}

#[tokio::test]
async fn the_rendered_roles_are_enough_on_a_managed_cluster() {
    lives_without_a_refusal(helm().values("profiles/values-managed.yaml"), Keeps::Nothing).await;
}
