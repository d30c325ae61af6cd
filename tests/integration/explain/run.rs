//! Runs `svcplane explain` and takes its screen apart.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use svcplane_tests::cluster;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{PodBuilder, ServiceBuilder, pod, service};
use svcplane_tests::ran::{self, Ran};
use svcplane_tests::slices;

pub const SOON: Duration = Duration::from_secs(30);

pub async fn run(kubeconfig: &Path, args: &[&str]) -> Ran {
    ran::svcplane(kubeconfig, &[&["explain"], args].concat(), SOON)
        .await
        .unwrap()
}

/// The screen of a Service of the shared cluster.
pub async fn screen(namespace: &TestNamespace, name: &str) -> String {
    let key = format!("{}/{name}", namespace.name());
    let ran = run(&cluster::shared().kubeconfig(), &[&key]).await;
    assert_eq!((ran.code, &*ran.stderr), (0, ""), "{key}");
    ran.stdout
}

/// The lines under the headings that begin so.
pub fn section<'a>(screen: &'a str, heading: &str) -> Vec<&'a str> {
    let lines = screen.lines().skip_while(|line| !line.starts_with(heading)).skip(1);
    lines.take_while(|line| !line.is_empty()).map(str::trim).collect()
}

pub async fn namespace() -> TestNamespace {
    let namespace = TestNamespace::served().await.unwrap();
    slices::node(namespace.client(), "node-1", Some("a")).await.unwrap();
    namespace
}

/// Selects what no other test has.
pub fn web(namespace: &TestNamespace) -> ServiceBuilder {
    service("web").selector("app", namespace.name())
}

pub fn web_pod(namespace: &TestNamespace, name: &str) -> PodBuilder {
    pod(name).label("app", namespace.name())
}

/// `web`, and its Pod `p1`, which is ready.
pub async fn web_with_a_pod(namespace: &TestNamespace) {
    web(namespace).port("http", 80, 8080).create(namespace).await.unwrap();
    web_pod(namespace, "p1").ip("10.1.0.1").create(namespace).await.unwrap();
}

pub fn cluster_ip(service: &Service) -> String {
    service.spec.as_ref().unwrap().cluster_ip.clone().unwrap()
}
