//! A Service of two Pods with one slice, and waiting until it is right again.

use std::time::Duration;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::api::PostParams;
use serde_json::Value;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{create_pods, pod, service};
use svcplane_tests::slices::{self, lines};

pub const OURS: &str = "endpointslice-controller.k8s.io";
pub const DEADLINE: Duration = Duration::from_secs(30);
pub const RIGHT: &str = "IPv4 10.1.0.1/rs- 10.1.0.2/rs- -> http:8080/TCP";

pub async fn namespace() -> TestNamespace {
    let namespace = TestNamespace::served().await.unwrap();
    slices::node(namespace.client(), "node-1", Some("a")).await.unwrap();
    let pods = [1, 2].map(|number| {
        let one = pod(&format!("p{number}")).label("app", "web");
        one.ip(&format!("10.1.0.{number}"))
    });
    create_pods(pods, &namespace).await.unwrap();
    namespace
}

/// A Service of both Pods, and its slice.
pub async fn served(namespace: &TestNamespace, name: &str) -> EndpointSlice {
    let plover = service(name).selector("app", "web").port("http", 80, 8080);
    plover.label("a", "1").create(namespace).await.unwrap();
    let mut found = namespace.slices_become(name, &[RIGHT]).await.unwrap();
    found.remove(0)
}

pub async fn patch(namespace: &TestNamespace, slice: &str, patch: &Value) -> EndpointSlice {
    namespace.patch_slice(slice, patch).await.unwrap()
}

/// Waits until this Service has one slice of ours that says what `right` says.
pub async fn heals(namespace: &TestNamespace, what: &str, name: &str, right: &EndpointSlice) -> EndpointSlice {
    let says_the_same = |found: &_, right: &_| lines([found]) == lines([right]) && sorted(found) == sorted(right);
    let healed = namespace.slice_heals(what, (name, OURS), right, says_the_same);
    healed.await.unwrap()
}

/// No order is promised.
pub fn sorted(slice: &EndpointSlice) -> Vec<Endpoint> {
    let mut endpoints = slices::endpoints(slice).to_vec();
    endpoints.sort_by(|one, other| one.addresses.cmp(&other.addresses));
    endpoints
}

/// A new slice like that one, with metadata of its own.
pub fn copy(of: &EndpointSlice, name: &str) -> EndpointSlice {
    let mut copy = of.clone();
    copy.metadata = kube::api::ObjectMeta {
        name: Some(name.into()),
        labels: of.metadata.labels.clone(),
        owner_references: of.metadata.owner_references.clone(),
        ..Default::default()
    };
    copy
}

pub async fn create(namespace: &TestNamespace, slice: &EndpointSlice) -> EndpointSlice {
    let created = namespace.slices().create(&PostParams::default(), slice).await;
    created.unwrap()
}
