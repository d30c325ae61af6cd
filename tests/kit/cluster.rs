//! The control plane starts in every flavour, serves several runtimes, counts, stops and comes back.

use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, Namespace, Pod, Service};
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use svcplane_tests::cluster::{self, Cluster, Flavour};
use svcplane_tests::eventually::{eventually, eventually_gone};
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects;

const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn one_runtime_uses_the_shared_cluster() {
    let services: Api<Service> = Api::namespaced(cluster::shared().client(), "default");
    assert!(services.get("kubernetes").await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_runtime_uses_the_shared_cluster() {
    let namespaces: Api<Namespace> = Api::all(cluster::shared().client());
    let names: Vec<String> = namespaces
        .list(&ListParams::default())
        .await
        .unwrap()
        .iter()
        .map(Namespace::name_any)
        .collect();
    assert!(names.contains(&"kube-system".to_string()), "{names:?}");
}

#[tokio::test]
async fn writes_are_counted() {
    let cluster = Cluster::start(Flavour::Ipv4Only).await.unwrap();
    let namespace = TestNamespace::create(&cluster).await.unwrap();
    let maps: Api<ConfigMap> = namespace.api();
    let quiet = Duration::from_millis(500);
    let settled = cluster.settled(quiet, DEADLINE).await.unwrap();
    let (posts, writes) = (
        cluster.request_total("POST", "configmaps"),
        cluster.writes("configmaps"),
    );
    let (posts, writes) = (posts.await.unwrap(), writes.await.unwrap());

    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some("a".into()),
            ..Default::default()
        },
        ..Default::default()
    };
    maps.create(&PostParams::default(), &map).await.unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap_err();
    maps.create(
        &PostParams {
            dry_run: true,
            ..Default::default()
        },
        &map,
    )
    .await
    .unwrap_err();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    maps.list(&ListParams::default()).await.unwrap();

    assert_eq!(cluster.settled(quiet, DEADLINE).await.unwrap(), settled + 2);
    assert_eq!(
        cluster.writes("configmaps").await.unwrap(),
        writes + 2,
        "one create and one delete"
    );
    assert_eq!(
        cluster.request_total("POST", "configmaps").await.unwrap(),
        posts + 3,
        "two were refused"
    );
    assert_eq!(
        cluster
            .writes_except(&["configmaps", "leases", "events"])
            .await
            .unwrap(),
        settled - writes
    );
}

#[tokio::test]
async fn users_have_only_the_rights_they_were_given() {
    let cluster = Cluster::builder(Flavour::DualStack)
        .user("eve", &["system:masters"])
        .start()
        .await
        .unwrap();
    let list = async |user: &str| {
        let services: Api<Service> = Api::all(cluster.client_for(user));
        services.list(&ListParams::default()).await.map(|_| ())
    };
    list("admin").await.unwrap();
    list("eve").await.unwrap();
    match list("svcplane").await.unwrap_err() {
        kube::Error::Api(status) => assert!(status.is_forbidden(), "{status:?}"),
        other => panic!("{other}"),
    }
    let config = kube::config::Kubeconfig::read_from(cluster.kubeconfig_for("eve")).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &Default::default())
        .await
        .unwrap();
    let services: Api<Service> = Api::all(kube::Client::try_from(config).unwrap());
    services.list(&ListParams::default()).await.unwrap();
}

#[tokio::test]
async fn families_follow_the_flavour() {
    let cases = [
        (Flavour::Ipv6Primary, &["fd00:10:96:", "10.96."][..]),
        (Flavour::Ipv4Only, &["10.96."][..]),
    ];
    for (flavour, expected) in cases {
        let cluster = Cluster::start(flavour).await.unwrap();
        let namespace = TestNamespace::create(&cluster).await.unwrap();
        let service = objects::service("web")
            .port("", 80, 8080)
            .families("PreferDualStack", &[]);
        let service = service.create(&namespace).await.unwrap();
        let addresses = service.spec.unwrap().cluster_ips.unwrap();
        assert_eq!(addresses.len(), expected.len(), "{flavour:?}: {addresses:?}");
        assert!(
            addresses
                .iter()
                .zip(expected)
                .all(|(address, prefix)| address.starts_with(prefix)),
            "{addresses:?}"
        );
    }
}

#[tokio::test]
async fn the_lease_reconciler_writes_its_own_endpoints_and_others_do_not() {
    let flavour = Flavour::LeaseReconciler {
        advertise: "203.0.113.7".parse().unwrap(),
    };
    let cluster = Cluster::start(flavour).await.unwrap();
    let endpoints: Api<Endpoints> = Api::namespaced(cluster.client(), "default");
    let address = eventually("default/kubernetes has an address", DEADLINE, &endpoints, "", |all| {
        let address = all
            .first()
            .and_then(|one| one.subsets.as_ref()?.first()?.addresses.as_ref()?.first().cloned());
        address.ok_or("no address".into())
    });
    assert_eq!(address.await.unwrap().ip, "203.0.113.7");

    let endpoints: Api<Endpoints> = Api::all(cluster::shared().client());
    assert!(endpoints.list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn an_apiserver_that_was_away_has_the_same_address_and_objects() {
    let cluster = Cluster::start(Flavour::Ipv4Only).await.unwrap();
    let namespace = TestNamespace::create(&cluster).await.unwrap();
    let (url, pid) = (cluster.server_url(), cluster.apiserver_pid());
    for kill in [false, true] {
        if kill {
            cluster.kill_apiserver().await.unwrap()
        } else {
            cluster.stop_apiserver().await.unwrap()
        }
        assert_eq!(cluster.apiserver_pid(), None);
        namespace.services().list(&ListParams::default()).await.unwrap_err();
        cluster.start_apiserver().await.unwrap();
        assert_eq!(cluster.server_url(), url);
        assert_ne!(cluster.apiserver_pid(), pid);
        namespace
            .cluster_wide::<Namespace>()
            .get(namespace.name())
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn the_controller_manager_makes_it_a_cluster() {
    let cluster = Cluster::start(Flavour::DualStack).await.unwrap();
    cluster.start_controller_manager().await.unwrap();
    cluster.start_controller_manager().await.unwrap_err();
    let namespace = TestNamespace::create(&cluster).await.unwrap();
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [{ "name": "main", "image": "none" }] } },
        },
    }))
    .unwrap();
    namespace
        .deployments()
        .create(&PostParams::default(), &deployment)
        .await
        .unwrap();
    objects::service("web")
        .selector("app", "web")
        .port("", 80, 8080)
        .create(&namespace)
        .await
        .unwrap();
    let pods: Api<Pod> = namespace.pods();
    eventually("two Pods", DEADLINE, &pods, "", |pods| match pods.len() {
        2 => Ok(()),
        count => Err(format!("{count} Pods")),
    })
    .await
    .unwrap();
    // The endpoint controllers are off: this is svcplane's work.
    assert!(
        namespace
            .endpoints()
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
    assert!(
        namespace
            .slices()
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
    namespace.delete().await.unwrap();
    eventually_gone(
        "the namespace goes",
        DEADLINE,
        &namespace.cluster_wide::<Namespace>(),
        namespace.name(),
    )
    .await
    .unwrap();
    let metrics = cluster.controller_manager_metrics().await.unwrap();
    assert!(metrics.sum("workqueue_adds_total", &[]) > 0.0, "it has worked");
    cluster.stop_controller_manager().await.unwrap();
    assert_eq!(cluster.controller_manager_pid(), None);
    cluster.controller_manager_metrics().await.unwrap_err();

    let flag = ["--kube-api-qps=77"];
    cluster
        .start_controller_manager_as("admin", &["endpoints-controller"], &flag)
        .await
        .unwrap();
    let pid = cluster.controller_manager_pid().unwrap();
    let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(command.contains(flag[0]), "{command}");
    cluster.kill_controller_manager().await.unwrap();
    assert_eq!(cluster.controller_manager_pid(), None);
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "killed");
}

#[tokio::test]
async fn a_wrong_flag_is_an_error_with_the_log() {
    let started = Instant::now();
    let error = Cluster::builder(Flavour::DualStack)
        .apiserver_arg("--no-such-flag")
        .start()
        .await
        .unwrap_err();
    let error = format!("{error:#}");
    assert!(
        error.contains("unknown flag: --no-such-flag") && error.contains("kube-apiserver.log"),
        "{error}"
    );
    assert!(started.elapsed() < DEADLINE, "it must not wait for what has ended");
}

#[tokio::test]
async fn etcd_leaves_no_data_behind() {
    let cluster = Cluster::start(Flavour::Ipv4Only).await.unwrap();
    let command = std::fs::read_to_string(format!("/proc/{}/cmdline", cluster.etcd_pid())).unwrap();
    let data = command
        .split('\0')
        .find_map(|arg| arg.strip_prefix("--data-dir="))
        .unwrap()
        .to_string();
    assert!(std::path::Path::new(&data).exists());
    drop(cluster);
    assert!(!std::path::Path::new(&data).exists());
}
