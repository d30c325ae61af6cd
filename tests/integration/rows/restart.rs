//! What a restart costs, and what is forgotten in it.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{pod, service};

use super::side::Side;

const SOON: Duration = Duration::from_secs(60);
const QUIET: Duration = Duration::from_secs(3);
const LABELLED: usize = 8;

/// Services that carry labels of the controllers' own, and a restart. Which of their Endpoints and slices were written for it.
async fn written_by_a_restart(side: &mut Side) -> Vec<String> {
    let one = pod("p1").label("app", "web").ip("10.1.0.1");
    one.create(&side.namespace).await.unwrap();
    for number in 0..LABELLED {
        let key = ["service.kubernetes.io/headless", "endpoints.kubernetes.io/managed-by"][number % 2];
        let name = format!("labelled-{number}");
        let labelled = service(&name).selector("app", "web").port("", 80, 80).label(key, "x");
        labelled.create(&side.namespace).await.unwrap();
        let lines = ["10.1.0.1 -> :80/TCP"];
        side.namespace.endpoints_become(&name, &lines).await.unwrap();
        let lines = ["IPv4 10.1.0.1/rs- -> :80/TCP"];
        side.namespace.slices_become(&name, &lines).await.unwrap();
        // A write without a change of a Pod: the reference drops the trigger time in it, and has it back after a restart.
        touch(side, &name).await;
    }
    side.cluster().settled(QUIET, SOON).await.unwrap();
    let before = versions(&side.namespace).await;
    assert_eq!(before.len(), 2 * LABELLED);
    side.restart().await;
    side.cluster().settled(QUIET, SOON).await.unwrap();
    let after = versions(&side.namespace).await;
    let changed = before
        .into_iter()
        .filter(|(name, version)| after.get(name) != Some(version));
    changed.map(|(name, _)| name).collect()
}

/// Something happens to the Service that concerns no address.
async fn touch(side: &Side, service: &str) {
    let touched = json!({"metadata": {"labels": {"touched": "yes"}}});
    side.namespace.patch_service(service, &touched).await.unwrap();
}

async fn versions(namespace: &TestNamespace) -> BTreeMap<String, Option<String>> {
    let endpoints = namespace.endpoints().list(&ListParams::default()).await.unwrap();
    let slices = namespace.slices().list(&ListParams::default()).await.unwrap();
    let endpoints = endpoints
        .iter()
        .map(|it| (format!("Endpoints {}", it.name_any()), it.resource_version()));
    let slices = slices
        .iter()
        .map(|it| (format!("slice {}", it.name_any()), it.resource_version()));
    endpoints.chain(slices).collect()
}

#[tokio::test]
async fn ours_writes_nothing_when_it_restarts() {
    let mut side = Side::ours().await;
    assert_eq!(written_by_a_restart(&mut side).await, Vec::<String>::new());
}

#[tokio::test]
async fn the_reference_writes_endpoints_of_labelled_services_when_it_restarts() {
    let mut side = Side::reference().await;
    let written = written_by_a_restart(&mut side).await;
    assert!(
        written.iter().any(|it| it.starts_with("Endpoints labelled-")),
        "{written:?}"
    );
}

const ONE: [&str; 1] = ["IPv4 10.1.0.1/rs- -> :8080/TCP"];

/// After a restart somebody deletes a slice that is right, so that the new process has not written it.
async fn a_slice_goes_after_a_restart(side: &mut Side) {
    side.namespace.workload("web", &["10.1.0.1"]).await.unwrap();
    let slice = side.namespace.slices_become("web", &ONE).await.unwrap()[0].name_any();
    side.restart().await;
    side.rests().await;
    let slices = side.namespace.slices();
    slices.delete(&slice, &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn ours_puts_back_a_slice_that_it_has_not_written() {
    let mut side = Side::ours().await;
    a_slice_goes_after_a_restart(&mut side).await;
    side.namespace.slices_become("web", &ONE).await.unwrap();
}

#[tokio::test]
async fn the_reference_does_not_miss_a_slice_that_it_has_not_written() {
    let mut side = Side::reference().await;
    a_slice_goes_after_a_restart(&mut side).await;
    side.never_lists("web", "10.1.0.1").await;
    // Until something happens to the Service.
    touch(&side, "web").await;
    side.namespace.slices_become("web", &ONE).await.unwrap();
}
