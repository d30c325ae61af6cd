//! The repair controller on a real cluster: each planted fault is told once, as an Event and in the metrics, and is gone when it is mended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Event;
use kube::{Api, Client};
use serde_json::json;
use svcplane_tests::cluster::{Cluster, Flavour};
use svcplane_tests::eventually::eventually;
use svcplane_tests::governed::Governed;
use svcplane_tests::plant::{
    ADDRESSES, CIDRS, SERVICES, create_until_taken, delete, external, node_port, patch, post, service, shop,
};
use svcplane_tests::svcplane::Svcplane;

const SOON: Duration = Duration::from_secs(60);
/// Reason and object of each Event of the repair controller, and how often it was told.
fn told(events: &[Event]) -> BTreeMap<(String, String), i32> {
    let ours = events
        .iter()
        .filter(|it| it.reporting_component.as_deref() == Some("repair-controller"));
    let told = ours.map(|it| {
        let name = it.involved_object.name.clone().unwrap_or_default();
        assert!(it.involved_object.uid.is_some(), "{it:?}");
        let count = it.series.as_ref().and_then(|it| it.count).unwrap_or(1);
        ((it.reason.clone().unwrap_or_default(), name), count)
    });
    told.collect()
}

/// Faults that there are, by rule, once the metrics show these.
async fn found(svcplane: &Svcplane, want: &[(&str, f64)]) {
    let want: BTreeMap<String, f64> = want.iter().map(|(rule, count)| ((*rule).to_owned(), *count)).collect();
    svcplane
        .wait_metrics("faults", SOON, |page| {
            let faults = page
                .matching("svcplane_repair_faults", &[])
                .filter(|it| it.value > 0.5)
                .map(|it| (it.labels["rule"].clone(), it.value));
            let faults: BTreeMap<String, f64> = faults.collect();
            if faults == want {
                Ok(())
            } else {
                Err(format!("{faults:?}, not {want:?}"))
            }
        })
        .await
        .unwrap();
}

async fn more_looks(svcplane: &Svcplane, count: f64) {
    let labels = [("result", "ok")];
    let before = svcplane
        .metrics()
        .await
        .unwrap()
        .sum("svcplane_repair_looks_total", &labels);
    let enough = |looks: f64| looks >= before + count;
    svcplane
        .wait_metric("svcplane_repair_looks_total", &labels, SOON, enough)
        .await
        .unwrap();
}

/// What the webhook's books hold and count, as far as it does not change by itself.
async fn allocations(svcplane: &Svcplane) -> Vec<(String, f64)> {
    let page = svcplane.metrics().await.unwrap();
    let lasting = page.samples().iter().filter(|sample| {
        let of_books = sample.name == "svcplane_allocator_values" && sample.labels["state"] == "used";
        of_books || sample.name.starts_with("svcplane_allocation_")
    });
    lasting
        .map(|sample| (format!("{} {:?}", sample.name, sample.labels), sample.value))
        .collect()
}

/// Services come and go while the leader looks.
async fn bustle(client: &Client) {
    let one = |number: usize| async move {
        for round in 0..6 {
            let name = format!("bustle-{number}-{round}");
            let made = service(&name, &json!({"type": "NodePort", "ipFamilyPolicy": "PreferDualStack"}));
            post(client, SERVICES, &made).await;
            let path = format!("{SERVICES}/{name}");
            let external =
                json!({"spec": {"type": "ExternalName", "externalName": "a.example", "ports": [{"port": 80}]}});
            if round % 2 == 0 {
                patch(client, &path, &external).await;
            }
            delete(client, &path).await;
        }
    };
    join_all((0..8).map(one)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_fault_is_told_once_and_is_gone_when_it_is_mended() {
    let cluster = Cluster::start(Flavour::DualStack).await.unwrap();
    let client = cluster.client();
    let flags = ["--allocate=off", "--early-validation=false", "--repair-period=1s"];
    let governed = Governed::start_with(cluster, &flags).await.unwrap();
    let svcplane = &governed.svcplane;
    svcplane.wait_leader().await.unwrap();
    shop(&client).await;

    // In a cluster in order nothing is told, whatever goes on.
    post(
        &client,
        SERVICES,
        &service("first", &json!({"clusterIP": "10.96.0.77"})),
    )
    .await;
    post(&client, SERVICES, &service("headless", &json!({"clusterIP": "None"}))).await;
    post(&client, SERVICES, &node_port("port-first", 30_001)).await;
    bustle(&client).await;
    more_looks(svcplane, 3.0).await;
    found(svcplane, &[]).await;
    let before = allocations(svcplane).await;
    more_looks(svcplane, 3.0).await;
    assert_eq!(allocations(svcplane).await, before, "a look is no allocation");
    let events: Api<Event> = Api::all(client.clone());
    let list = async || events.list(&kube::api::ListParams::default()).await.unwrap().items;
    assert_eq!(told(&list().await), BTreeMap::new());

    // Whoever may delete an IPAddress can give an address twice; the apiserver's own repair cannot mend that.
    delete(&client, &format!("{ADDRESSES}/10.96.0.77")).await;
    create_until_taken(&client, &service("second", &json!({"clusterIP": "10.96.0.77"}))).await;
    // A deleted ExternalName Service frees the number that it carries, whoever has it.
    post(&client, SERVICES, &external("thief", 30_001)).await;
    delete(&client, &format!("{SERVICES}/thief")).await;
    create_until_taken(&client, &node_port("port-second", 30_001)).await;
    post(&client, SERVICES, &external("carrier", 30_002)).await;
    let cidr = json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.99.0.0/24"]}});
    post(&client, CIDRS, &cidr).await;
    create_until_taken(&client, &service("stranded", &json!({"clusterIP": "10.99.0.7"}))).await;
    delete(&client, &format!("{CIDRS}/more")).await;

    let faults = [
        ("ClusterIPAlreadyAllocated", "second"),
        ("PortAlreadyAllocated", "port-second"),
        ("ExternalNameHoldsPort", "carrier"),
        ("ClusterIPOutOfRange", "stranded"),
    ];
    // The two Services take the IPAddress from each other only if one of them is changed.
    found(svcplane, &faults.map(|(rule, _)| (rule, 1.0))).await;
    let once: BTreeMap<(String, String), i32> = faults
        .iter()
        .map(|(rule, name)| (((*rule).to_owned(), (*name).to_owned()), 1))
        .collect();
    let all_told = |events: &[Event]| {
        let told = told(events);
        if told == once { Ok(()) } else { Err(format!("{told:?}")) }
    };
    eventually("Events", SOON, &events, "", all_told).await.unwrap();
    more_looks(svcplane, 4.0).await;
    assert_eq!(told(&list().await), once, "not once a look");

    // Only the leader looks, and only where it is to.
    let standby = governed.restart().await.unwrap();
    let off = Svcplane::builder().cluster(&governed.cluster).observe();
    let off = off.arg("--controllers=*,-repair-controller").replica(3);
    let off = off.start().await.unwrap();
    more_looks(svcplane, 2.0).await;
    let page = standby.metrics().await.unwrap();
    assert!(page.sum("svcplane_repair_looks_total", &[]) < 0.5);
    let names: BTreeSet<String> = {
        let page = off.metrics().await.unwrap();
        page.names().into_iter().map(str::to_owned).collect()
    };
    assert!(!names.contains("svcplane_repair_faults"), "{names:?}");

    for name in ["second", "port-second", "carrier", "stranded"] {
        delete(&client, &format!("{SERVICES}/{name}")).await;
    }
    // The IPAddress went with the Service that had got it; the apiserver makes it again for the other one once that is looked at.
    let touched = json!({"metadata": {"labels": {"touched": "true"}}});
    patch(&client, &format!("{SERVICES}/first"), &touched).await;
    found(svcplane, &[]).await;
    let told_total = svcplane.metrics().await.unwrap();
    for (rule, _) in faults {
        let count = told_total.sum("svcplane_repair_told_total", &[("rule", rule)]);
        assert!((count - 1.0).abs() < 0.5, "{rule}: {count}");
    }
}
