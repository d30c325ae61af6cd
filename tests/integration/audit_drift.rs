//! `svcplane audit` finds Endpoints and EndpointSlices that are not what they should be, and invents none.

use std::collections::BTreeSet;

use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use svcplane_tests::cluster::{Cluster, Flavour};
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{endpoints, service};
use svcplane_tests::plant::audited;
use svcplane_tests::process::Exit;
use svcplane_tests::svcplane::Svcplane;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planted_drift_is_found_and_none_is_invented() {
    let cluster = Cluster::start(Flavour::DualStack).await.unwrap();
    let namespace = TestNamespace::create(&cluster).await.unwrap();
    let svcplane = Svcplane::builder().cluster(&cluster).start().await.unwrap();
    for name in ["fine", "edited", "unsliced"] {
        namespace.workload(name, &["10.201.0.1", "10.201.0.2"]).await.unwrap();
        let ready = ["10.201.0.1 10.201.0.2 -> :8080/TCP"];
        namespace.endpoints_become(name, &ready).await.unwrap();
    }
    // Made by hand, and mirrored.
    service("manual").port("", 80, 80).create(&namespace).await.unwrap();
    let manual = endpoints("manual").subset(&["192.0.2.1"], &[("", 80)]);
    manual.create(&namespace).await.unwrap();
    let mirrored = ["IPv4 192.0.2.1/r?? -> :80/TCP"];
    namespace.slices_become("manual", &mirrored).await.unwrap();
    svcplane.wait_idle().await.unwrap();
    assert_eq!(audited(&cluster).await, (BTreeSet::new(), 0));
    assert_eq!(svcplane.terminate().await.unwrap(), Exit::Code(0));
    assert_eq!(
        audited(&cluster).await,
        (BTreeSet::new(), 0),
        "nobody runs, nothing has changed"
    );

    // Somebody else's slice, and Endpoints of nobody that no controller made, are none of it.
    let foreign = json!({"metadata": {"name": "fine-other", "labels":
        {"kubernetes.io/service-name": "fine", "endpointslice.kubernetes.io/managed-by": "other"}},
        "addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.9"]}], "ports": []});
    let foreign = serde_json::from_value(foreign).unwrap();
    namespace
        .slices()
        .create(&PostParams::default(), &foreign)
        .await
        .unwrap();
    let lone = endpoints("lone").subset(&["192.0.2.1"], &[("", 80)]);
    lone.create(&namespace).await.unwrap();
    // Nor is the time of the last change.
    let time = json!({"metadata": {"annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2020-01-01T00:00:00Z"}}});
    let merge = PatchParams::default();
    namespace
        .endpoints()
        .patch("fine", &merge, &Patch::Merge(time))
        .await
        .unwrap();
    assert_eq!(audited(&cluster).await, (BTreeSet::new(), 0));

    let edit = json!({"subsets": [{"addresses": [{"ip": "192.0.2.7"}], "ports": [{"port": 8080, "protocol": "TCP"}]}]});
    namespace
        .endpoints()
        .patch("edited", &merge, &Patch::Merge(edit))
        .await
        .unwrap();
    let slices = namespace.slices();
    for name in ["unsliced", "manual"] {
        let of_it = ListParams::default().labels(&format!("kubernetes.io/service-name={name}"));
        for slice in slices.list(&of_it).await.unwrap() {
            slices
                .delete(&slice.name_any(), &DeleteParams::default())
                .await
                .unwrap();
        }
    }
    let leftover = endpoints("leftover").label("endpoints.kubernetes.io/managed-by", "endpoint-controller");
    let leftover = leftover.subset(&["192.0.2.1"], &[("", 80)]);
    leftover.create(&namespace).await.unwrap();
    let expected = [
        ("EndpointsDrift", "edited"),
        ("EndpointSliceDrift", "unsliced"),
        ("EndpointSliceDrift", "manual"),
        ("EndpointsDrift", "leftover"),
    ];
    let expected = expected.map(|(rule, name)| (rule.to_owned(), format!("Service {}/{name}", namespace.name())));
    assert_eq!(audited(&cluster).await, (BTreeSet::from(expected), 1));
}
