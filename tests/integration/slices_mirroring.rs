//! Hand-made Endpoints are mirrored into slices on a real apiserver.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use svcplane_tests::eventually::eventually;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{endpoints, service};
use svcplane_tests::slices::MANAGED_BY;

const DEADLINE: Duration = Duration::from_secs(20);
const OURS: &str = "endpointslicemirroring-controller.k8s.io";

#[tokio::test]
async fn hand_made_endpoints_are_mirrored_as_long_as_they_are_to_be() {
    let namespace = TestNamespace::served().await.unwrap();
    service("db").port("", 3306, 3306).create(&namespace).await.unwrap();
    endpoints("db")
        .subset(&["192.0.2.42"], &[("", 3306)])
        .create(&namespace)
        .await
        .unwrap();
    let mirrored = ["IPv4 192.0.2.42/r?? -> :3306/TCP"];
    let all = namespace.slices_become("db", &mirrored).await.unwrap();
    assert_eq!(all[0].metadata.labels.as_ref().unwrap()[MANAGED_BY], OURS);
    assert_eq!(all[0].metadata.owner_references.as_ref().unwrap()[0].kind, "Endpoints");

    // Somebody edits the mirror.
    let name = all[0].metadata.name.clone().unwrap();
    let emptied = json!({"endpoints": []});
    namespace.patch_slice(&name, &emptied).await.unwrap();
    namespace.slices_become("db", &mirrored).await.unwrap();

    let skip =
        |value| Patch::Merge(json!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": value}}}));
    namespace
        .endpoints()
        .patch("db", &PatchParams::default(), &skip(Some("true")))
        .await
        .unwrap();
    namespace.slices_become("db", &[]).await.unwrap();
    namespace
        .endpoints()
        .patch("db", &PatchParams::default(), &skip(None))
        .await
        .unwrap();
    namespace.slices_become("db", &mirrored).await.unwrap();

    namespace
        .endpoints()
        .delete("db", &DeleteParams::default())
        .await
        .unwrap();
    namespace.slices_become("db", &[]).await.unwrap();
}

#[tokio::test]
async fn a_service_that_goes_takes_its_mirrors_with_it() {
    let namespace = TestNamespace::served().await.unwrap();
    service("db").port("", 3306, 3306).create(&namespace).await.unwrap();
    endpoints("db")
        .subset(&["192.0.2.42", "2001:db8::42"], &[("", 3306)])
        .create(&namespace)
        .await
        .unwrap();
    namespace
        .slices_become(
            "db",
            &["IPv4 192.0.2.42/r?? -> :3306/TCP", "IPv6 2001:db8::42/r?? -> :3306/TCP"],
        )
        .await
        .unwrap();
    namespace
        .services()
        .delete("db", &DeleteParams::default())
        .await
        .unwrap();
    namespace.slices_become("db", &[]).await.unwrap();
}

/// All labels, and all annotations but kubectl's and the trigger time; they follow.
#[tokio::test]
async fn a_mirror_bears_what_the_endpoints_bear() {
    let namespace = TestNamespace::served().await.unwrap();
    service("db").port("", 3306, 3306).create(&namespace).await.unwrap();
    endpoints("db")
        .label("tier", "data")
        .annotation("example.org/note", "kept")
        .annotation("kubectl.kubernetes.io/last-applied-configuration", "{}")
        .annotation(
            "endpoints.kubernetes.io/last-change-trigger-time",
            "2020-01-01T00:00:00Z",
        )
        .subset(&["192.0.2.42"], &[("", 3306)])
        .create(&namespace)
        .await
        .unwrap();
    let bears = async |note: &str| {
        let what = format!("a mirror with the note {note:?}");
        eventually(&what, DEADLINE, &namespace.slices(), "", |all: &[EndpointSlice]| {
            let [slice] = all else {
                return Err(format!("{} slices", all.len()));
            };
            let annotations = slice.metadata.annotations.clone().unwrap_or_default();
            let tier = slice.metadata.labels.as_ref().and_then(|labels| labels.get("tier"));
            if annotations == BTreeMap::from([("example.org/note".into(), note.into())]) && tier.is_some() {
                Ok(())
            } else {
                Err(format!("{annotations:?} {tier:?}"))
            }
        })
        .await
        .unwrap();
    };
    bears("kept").await;
    let other = Patch::Merge(json!({"metadata": {"annotations": {"example.org/note": "other"}}}));
    let endpoints = namespace.endpoints();
    endpoints.patch("db", &PatchParams::default(), &other).await.unwrap();
    bears("other").await;
}
