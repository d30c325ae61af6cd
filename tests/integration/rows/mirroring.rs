//! Hand-made Endpoints that the reference does not mirror at the first attempt, or not at all.

use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use svcplane_tests::eventually::eventually;
use svcplane_tests::objects::{endpoints, service};

use super::side::Side;

const SOON: Duration = Duration::from_secs(60);
const ROUNDS: i32 = 12;

fn subsets(port: i32) -> Value {
    json!([
        {"addresses": [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}], "ports": [{"name": "a", "port": port}]},
        {"addresses": [{"ip": "192.0.2.2"}, {"ip": "2001:db8::2"}], "ports": [{"name": "b", "port": port}]},
    ])
}

fn mirrored(port: i32) -> [String; 4] {
    [("IPv4", "192.0.2."), ("IPv6", "2001:db8::")]
        .map(|(family, address)| {
            [(1, "a"), (2, "b")].map(|(last, name)| format!("{family} {address}{last}/r?? -> {name}:{port}/TCP"))
        })
        .concat()
        .try_into()
        .unwrap()
}

/// Endpoints of both families whose ports change again and again, so that slices have to be used again.
async fn changing_ports(side: &Side) {
    let namespace = &side.namespace;
    service("db").port("", 80, 80).create(namespace).await.unwrap();
    let first = serde_json::from_value(json!({"metadata": {"name": "db"}, "subsets": subsets(8000)})).unwrap();
    namespace
        .endpoints()
        .create(&PostParams::default(), &first)
        .await
        .unwrap();
    becomes(side, 8000).await;
    for port in 8001..=8000 + ROUNDS {
        let changed = Patch::Merge(json!({"subsets": subsets(port)}));
        let params = PatchParams::default();
        namespace.endpoints().patch("db", &params, &changed).await.unwrap();
        becomes(side, port).await;
    }
}

async fn becomes(side: &Side, port: i32) {
    let lines = mirrored(port);
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    side.namespace.slices_become("db", &lines).await.unwrap();
}

#[tokio::test]
async fn ours_uses_mirrors_of_both_families_again_at_the_first_attempt() {
    let side = Side::ours().await;
    let (before, refused) = (
        side.cluster().writes("endpointslices").await.unwrap(),
        side.refused("409").await,
    );
    changing_ports(&side).await;
    let writes = side.cluster().writes("endpointslices").await.unwrap() - before;
    assert_eq!(
        writes,
        4 * (1 + u64::try_from(ROUNDS).unwrap()),
        "one per slice and change"
    );
    assert_eq!(side.refused("409").await, refused);
}

/// Which of its slices it uses again is a matter of chance: it may take several changes until it goes wrong. Then it is wrong for long.
#[tokio::test]
async fn the_reference_posts_names_of_mirrors_that_exist() {
    let side = Side::reference().await;
    let refused = side.refused("409").await;
    let first = serde_json::from_value(json!({"metadata": {"name": "db"}, "subsets": subsets(8000)})).unwrap();
    service("db").port("", 80, 80).create(&side.namespace).await.unwrap();
    let endpoints = side.namespace.endpoints();
    endpoints.create(&PostParams::default(), &first).await.unwrap();
    becomes(&side, 8000).await;
    for port in 8001..=8000 + ROUNDS {
        let changed = Patch::Merge(json!({"subsets": subsets(port)}));
        endpoints.patch("db", &PatchParams::default(), &changed).await.unwrap();
        if side.is_refused("409", refused, Duration::from_secs(5)).await {
            return;
        }
    }
    panic!("never refused");
}

/// Two subsets whose canonical form is one with two ports without a name, and beside them a good one.
async fn a_doubled_port_name(side: &Side) {
    let namespace = &side.namespace;
    service("db").port("", 80, 80).create(namespace).await.unwrap();
    endpoints("db")
        .subset(&["192.0.2.1"], &[("", 80)])
        .subset(&["192.0.2.1"], &[("", 81)])
        .subset(&["192.0.2.2"], &[("good", 82)])
        .create(namespace)
        .await
        .unwrap();
}

#[tokio::test]
async fn ours_mirrors_what_is_valid_and_names_the_doubled_port() {
    let side = Side::ours().await;
    let refused = side.refused("422").await;
    a_doubled_port_name(&side).await;
    let good = ["IPv4 192.0.2.2/r?? -> good:82/TCP"];
    side.namespace.slices_become("db", &good).await.unwrap();
    let events = side.namespace.events();
    let told = eventually("the Event", SOON, &events, "", |all: &[Event]| {
        let found = all.iter().find(|it| it.reason.as_deref() == Some("DuplicatePortName"));
        found.cloned().ok_or_else(|| format!("{} Events", all.len()))
    })
    .await
    .unwrap();
    let about = told.involved_object;
    assert_eq!(
        (about.kind.as_deref(), about.name.as_deref()),
        (Some("Endpoints"), Some("db"))
    );
    assert_eq!(told.type_.as_deref(), Some("Warning"));
    assert!(told.message.unwrap().contains("the port name \"\" stands twice"));
    assert_eq!(side.refused("422").await, refused);

    // A name for the second port, and all is mirrored.
    let named = json!({"subsets": [
        {"addresses": [{"ip": "192.0.2.1"}], "ports": [{"name": "one", "port": 80}, {"name": "two", "port": 81}]},
        {"addresses": [{"ip": "192.0.2.2"}], "ports": [{"name": "good", "port": 82}]},
    ]});
    let params = PatchParams::default();
    side.namespace
        .endpoints()
        .patch("db", &params, &Patch::Merge(named))
        .await
        .unwrap();
    let both = [good[0], "IPv4 192.0.2.1/r?? -> one:80/TCP two:81/TCP"];
    side.namespace.slices_become("db", &both).await.unwrap();
}

#[tokio::test]
async fn the_reference_is_refused_again_and_again_for_a_doubled_port_name() {
    let side = Side::reference().await;
    let before = side.refused("422").await;
    a_doubled_port_name(&side).await;
    // Twice: it tries again.
    assert!(side.is_refused("422", before + 1.0, SOON).await);
}
