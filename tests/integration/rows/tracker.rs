//! Slices that leave the controller: the reference goes on counting them and takes its cache for out of date.

use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use svcplane_tests::eventually::eventually;
use svcplane_tests::objects::pod;
use svcplane_tests::slices::{SERVICE_NAME, belongs, endpoints};

use super::side::{OURS, Side, claimed_by};

const SOON: Duration = Duration::from_secs(60);
const ONE: &str = "IPv4 10.1.0.1/rs- -> :8080/TCP";
const BOTH: &str = "IPv4 10.1.0.1/rs- 10.1.0.2/rs- -> :8080/TCP";
const LEFT: [&str; 3] = ["renamed", "claimed", "held"];

async fn patch(side: &Side, slice: &str, patch: &Value) {
    side.namespace.patch_slice(slice, patch).await.unwrap();
}

/// Three Services whose slices leave their controller, each in another way; then each gets a second Pod. The slice held by a finalizer is
/// returned.
async fn steps(side: &Side) -> String {
    let mut held = String::new();
    for service in LEFT {
        side.namespace.workload(service, &["10.1.0.1"]).await.unwrap();
        let slice = side.namespace.slices_become(service, &[ONE]).await.unwrap()[0].name_any();
        match service {
            "renamed" => {
                patch(
                    side,
                    &slice,
                    &json!({"metadata": {"labels": {SERVICE_NAME: "elsewhere"}}}),
                )
                .await
            }
            "claimed" => patch(side, &slice, &claimed_by("night-shift.example.org")).await,
            _ => {
                patch(side, &slice, &json!({"metadata": {"finalizers": ["example.org/held"]}})).await;
                let slices = side.namespace.slices();
                slices.delete(&slice, &DeleteParams::default()).await.unwrap();
                held = slice;
            }
        }
    }
    for service in LEFT {
        let second = pod(&format!("{service}-second")).label("app", service).ip("10.1.0.2");
        second.create(&side.namespace).await.unwrap();
    }
    held
}

/// Waits until a slice of the controller's own holds both Pods.
async fn heals(side: &Side, service: &str) {
    let slices = side.namespace.slices();
    eventually(service, SOON, &slices, "", |all| {
        let ours = all.iter().filter(|slice| belongs(slice, service, Some(OURS)));
        let mut living = ours.filter(|slice| slice.metadata.deletion_timestamp.is_none());
        let whole = living.any(|slice| endpoints(slice).len() == 2);
        whole.then_some(()).ok_or_else(|| "not yet".to_owned())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn ours_goes_on_without_slices_that_left_it() {
    let side = Side::ours().await;
    let held = steps(&side).await;
    side.namespace.slices_become("renamed", &[BOTH]).await.unwrap();
    // What somebody else has claimed, and what is being deleted, is left as it was.
    side.namespace.slices_become("claimed", &[ONE, BOTH]).await.unwrap();
    side.namespace.slices_become("held", &[ONE, BOTH]).await.unwrap();
    patch(&side, &held, &json!({"metadata": {"finalizers": null}})).await;
    side.namespace.slices_become("held", &[BOTH]).await.unwrap();
}

#[tokio::test]
async fn the_reference_wedges_until_the_slice_is_gone_or_it_restarts() {
    let mut side = Side::reference().await;
    let held = steps(&side).await;
    tokio::join!(
        side.never_lists("renamed", "10.1.0.2"),
        side.never_lists("claimed", "10.1.0.2"),
        side.never_lists("held", "10.1.0.2"),
    );
    side.is_at_work("other").await;
    patch(&side, &held, &json!({"metadata": {"finalizers": null}})).await;
    heals(&side, "held").await;
    side.restart().await;
    heals(&side, "renamed").await;
    heals(&side, "claimed").await;
}
