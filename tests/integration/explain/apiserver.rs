//! `default/kubernetes`, whose Endpoints and slice the apiserver writes itself.

use std::net::Ipv4Addr;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use svcplane_tests::cluster::{self, Cluster, Flavour};
use svcplane_tests::eventually::eventually_one;
use svcplane_tests::namespace::TestNamespace;

use super::run::{SOON, run, section};

#[tokio::test]
async fn what_it_keeps_is_no_drift() {
    let advertise = Ipv4Addr::new(192, 0, 2, 10);
    let cluster = Cluster::start(Flavour::LeaseReconciler { advertise }).await.unwrap();
    let default = TestNamespace::existing(cluster.client(), "default");
    let written = |slice: Option<&EndpointSlice>| {
        let port = slice.and_then(|slice| slice.ports.as_ref()?.first()?.port);
        port.ok_or_else(|| format!("{slice:?}"))
    };
    let port = eventually_one("its slice", SOON, &default.slices(), "kubernetes", written)
        .await
        .unwrap();
    let ran = run(&cluster.kubeconfig(), &["default/kubernetes", "--check"]).await;
    assert_eq!((ran.code, &*ran.stderr), (0, ""), "{}", ran.stdout);
    let listed = format!("192.0.2.10 -> https:{port}/TCP  left alone: the apiserver keeps it itself");
    assert_eq!(section(&ran.stdout, "Endpoints"), [format!("kubernetes  {listed}")]);
    let slice = format!("kubernetes IPv4  {listed}; kube-proxy and DNS read it too");
    assert_eq!(section(&ran.stdout, "EndpointSlices"), [slice]);
    assert_eq!(section(&ran.stdout, "Mirroring"), Vec::<&str>::new());
    let leads = format!("-> 192.0.2.10:{port}");
    assert!(
        section(&ran.stdout, "kube-proxy")[0].ends_with(&leads),
        "{}",
        ran.stdout
    );
}

/// This apiserver runs with `--endpoint-reconciler-type=none`.
#[tokio::test]
async fn what_it_does_not_write_nobody_should() {
    let ran = run(&cluster::shared().kubeconfig(), &["default/kubernetes", "--check"]).await;
    assert_eq!((ran.code, &*ran.stderr), (0, ""), "{}", ran.stdout);
    for heading in ["Endpoints", "EndpointSlices"] {
        let none = "none: the apiserver keeps them itself";
        assert_eq!(section(&ran.stdout, heading), [none]);
    }
}
