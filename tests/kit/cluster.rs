//! The control plane starts, is used by several runtimes, and counts.

use std::time::Instant;

use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::Api;
use kube::api::{ListParams, PostParams};
use svcplane_tests::cluster::{self, Cluster, Flavour};

#[tokio::test]
async fn the_shared_cluster_is_usable_from_one_runtime() {
    let services: Api<Service> = Api::namespaced(cluster::shared().client(), "default");
    assert!(services.get("kubernetes").await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shared_cluster_is_usable_from_another_runtime() {
    let namespaces: Api<Namespace> = Api::all(cluster::shared().client());
    assert!(namespaces.list(&ListParams::default()).await.unwrap().items.len() >= 4);
}

#[tokio::test]
async fn start_time() {
    let started = Instant::now();
    let cluster = Cluster::start(Flavour::Ipv4Only).await.unwrap();
    println!("cluster: {:?}", started.elapsed());
    let started = Instant::now();
    cluster.start_controller_manager().await.unwrap();
    println!("controller-manager: {:?}", started.elapsed());
    let started = Instant::now();
    cluster.restart_apiserver().await.unwrap();
    println!("restart: {:?}", started.elapsed());
    let before = cluster.writes("namespaces").await.unwrap();
    let ns = Namespace {
        metadata: kube::api::ObjectMeta {
            name: Some("a".into()),
            ..Default::default()
        },
        ..Default::default()
    };
    Api::all(cluster.client())
        .create(&PostParams::default(), &ns)
        .await
        .unwrap();
    println!("{before} {}", cluster.writes("namespaces").await.unwrap());
    let started = Instant::now();
    drop(cluster);
    println!("end: {:?}", started.elapsed());
}
