//! The real Helm on a real apiserver with the real Deployment and garbage-collector controllers: install, test, upgrade, rollback, uninstall. The
//! Pods' commands run as processes, with their ServiceAccount's token.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Endpoints, Secret};
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use svcplane_tests::balancer::Balancer;
use svcplane_tests::chart::{CHART, Helm, NAMESPACE};
use svcplane_tests::cluster::{Cluster, Flavour};
use svcplane_tests::eventually::{eventually_gone, eventually_one};
use svcplane_tests::governed::{cluster_ip, post};
use svcplane_tests::namespace::{TestNamespace, create_named};
use svcplane_tests::process_kubelet::{Place, ProcessKubelet};
use svcplane_tests::proxy::FaultProxy;

const SOON: Duration = Duration::from_secs(60);
const CONFIGURATION: &str = "zz-svcplane";
const SECRET: &str = "svcplane-webhook-tls";

/// The authority that the apiserver trusts, and the generations of what must not change by itself.
async fn published(client: &Client) -> (Vec<u8>, [Option<i64>; 2]) {
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let mutating = mutating.get(CONFIGURATION).await.unwrap();
    let validating = validating.get(CONFIGURATION).await.unwrap();
    let bundle = mutating.webhooks.unwrap()[0].client_config.ca_bundle.clone();
    (
        bundle.map(|it| it.0).unwrap_or_default(),
        [mutating.metadata.generation, validating.metadata.generation],
    )
}

async fn wait_published(client: &Client) {
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let trusts = |found: Option<&ValidatingWebhookConfiguration>| {
        let entries = found.into_iter().flat_map(|it| it.webhooks.iter().flatten());
        let mut bundles = entries.filter_map(|it| it.client_config.ca_bundle.as_ref());
        let any = bundles.any(|it| !it.0.is_empty());
        any.then_some(()).ok_or_else(|| "no authority".to_owned())
    };
    eventually_one("trust", SOON, &validating, CONFIGURATION, trusts)
        .await
        .unwrap();
}

/// Waits until this many replicas are listed for the webhook.
async fn served_by(namespace: &TestNamespace, count: usize) {
    let listed = |found: Option<&Endpoints>| {
        let subsets = found.into_iter().flat_map(|it| it.subsets.iter().flatten());
        let addresses: usize = subsets.map(|it| it.addresses.as_ref().map_or(0, Vec::len)).sum();
        (addresses == count)
            .then_some(())
            .ok_or_else(|| format!("{addresses} replicas"))
    };
    eventually_one("replicas", SOON, &namespace.endpoints(), "svcplane-webhook", listed)
        .await
        .unwrap();
}

/// What `svcplane handback` notes on the Lease, and takes off it.
async fn observe(namespace: &TestNamespace, mode: Option<&str>) {
    let reason = mode.map(|_| "handback");
    let notes = json!({"svcplane.io/mode": mode, "svcplane.io/mode-reason": reason});
    let note = Patch::Merge(json!({"metadata": {"annotations": notes}}));
    let leases = namespace.leases();
    leases.patch("svcplane", &PatchParams::default(), &note).await.unwrap();
}

/// A release's life with this Helm; `flags`: of install and upgrade.
async fn life(helm: &str, flags: &[&str]) {
    let cluster = Cluster::start(Flavour::DualStack).await.unwrap();
    cluster.start_controller_manager().await.unwrap();
    let client = cluster.client();
    create_named(&client, NAMESPACE).await.unwrap();
    let own = TestNamespace::existing(client.clone(), NAMESPACE);
    let proxy = Arc::new(FaultProxy::start(&cluster).unwrap());
    let kubelet = ProcessKubelet::start(&cluster, Arc::clone(&proxy), NAMESPACE, Place::Loopback);
    // In place of kube-proxy: nothing leads to the address of a Service here.
    let balancer = Balancer::start(Vec::new()).await.unwrap();
    let url = format!("--set=webhook.url=https://{}", balancer.address());
    let helm = Helm::of(helm).unwrap();
    let run = async |command: &[&str]| helm.run_on(&cluster, command).await;
    let values = [
        url.as_str(),
        "--set=mode=active",
        "--set=takeover.acknowledgeBuiltinsDisabled=true",
        "--set=preStopSeconds=0",
        "--set=leaderElection.leaseDuration=3s",
        "--set=leaderElection.renewDeadline=2s",
        "--set=leaderElection.retryPeriod=500ms",
        "--timeout=3m",
    ];
    let change = async |command: &str, more: &[&str]| {
        let mut all = vec![command, "svcplane", CHART, "--wait"];
        all.extend(flags.iter().chain(&values).chain(more));
        run(&all).await
    };
    let notes = change("install", &[]).await.unwrap();
    assert!(notes.contains("BEFORE YOU UNINSTALL"), "{notes}");
    assert!(notes.contains("kubectl delete mutatingwebhookconfiguration"), "{notes}");
    balancer.point_at(kubelet.webhooks());
    wait_published(&client).await;
    served_by(&own, 2).await;
    let tested = run(&["test", "svcplane"]).await.unwrap();
    assert!(tested.contains("Succeeded"), "{tested}");

    // B106: the same values again and again change nothing; others change only themselves, with the authority in place.
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let generation = async || deployments.get("svcplane").await.unwrap().metadata.generation;
    let (before, deployed) = (published(&client).await, generation().await);
    for _ in 0..3 {
        change("upgrade", &[]).await.unwrap();
        assert_eq!(published(&client).await, before);
        assert_eq!(generation().await, deployed);
    }
    let more = [
        "--set=replicas=3",
        "--set=webhook.mutating.timeoutSeconds=3",
        "--set=podLabels.a=b",
    ];
    change("upgrade", &more).await.unwrap();
    let after = published(&client).await;
    assert_eq!(after.0, before.0);
    assert_eq!(after.1, [before.1[0].map(|it| it + 1), before.1[1]]);
    served_by(&own, 3).await;
    run(&["rollback", "svcplane", "1", "--wait"]).await.unwrap();
    assert_eq!(published(&client).await.0, before.0);
    served_by(&own, 2).await;
    // Somebody rewrites a selector, as AKS does without the annotation that the chart gives: the authority stays.
    let rewritten = json!({"webhooks": [{"name": "mutate.services.svcplane.io", "namespaceSelector": {"matchLabels": {"a": "b"}}}]});
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let params = PatchParams {
        field_manager: Some("admissionsenforcer".into()),
        ..PatchParams::default()
    };
    mutating
        .patch(CONFIGURATION, &params, &Patch::Strategic(rewritten))
        .await
        .unwrap();
    assert_eq!(published(&client).await.0, before.0);

    assert_eq!(proxy.forbidden().len(), 0, "{:?}", proxy.forbidden());

    // Neither are its values forgotten while it keeps endpoints, nor is it removed: nobody would follow Pods any more.
    let forgotten = run(&["upgrade", "svcplane", CHART, "--set=preStopSeconds=0"]).await;
    let forgotten = forgotten.unwrap_err().to_string();
    assert!(forgotten.contains("from active to observe"), "{forgotten}");
    let uninstall = ["uninstall", "svcplane", "--wait", "--timeout=3m"];
    let refused = run(&uninstall).await.unwrap_err().to_string();
    assert!(refused.contains("svcplane-uninstall"), "{refused}");
    served_by(&own, 2).await;
    observe(&own, Some("observe")).await;
    // The Secret goes with the Deployment; the resources stay. The roles go before the Pods do.
    run(&uninstall).await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    eventually_gone("the Secret", SOON, &secrets, SECRET).await.unwrap();
    assert!(mutating.get_opt(CONFIGURATION).await.unwrap().is_none());
    let roles: Api<ClusterRole> = Api::all(client.clone());
    assert!(roles.get_opt("svcplane").await.unwrap().is_none());
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    assert_eq!(crds.list(&ListParams::default()).await.unwrap().items.len(), 3);
    // B102: a Service can be made at once, and the release installed again.
    let namespace = TestNamespace::create(&cluster).await.unwrap();
    post(&namespace, &cluster_ip("after"), "").await.accepted().unwrap();
    proxy.clear_records();
    observe(&own, None).await;
    change("install", &[]).await.unwrap();
    wait_published(&client).await;
    served_by(&own, 2).await;
    assert_eq!(proxy.forbidden().len(), 0, "{:?}", proxy.forbidden());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn helm_4_by_server_side_apply() {
    life("helm4", &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn helm_4_by_client_side_apply() {
    life("helm4", &["--server-side=false"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn helm_3() {
    life("helm3", &[]).await;
}
