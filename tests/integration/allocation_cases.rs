//! Faults of other allocators (docs/field-bugs.md), with the webhook on and choosing everywhere. Numbers that are written down are of the
//! lower band, 30000 to 30085, which nobody else is given.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use svcplane_tests::admission::{Said, send};
use svcplane_tests::cluster::Flavour;
use svcplane_tests::governed::{self, Governed, SOON, create, delete, node_port, patch, pool, post, values};
use svcplane_tests::namespace::TestNamespace;

fn governed() -> &'static Governed {
    governed::shared(Flavour::Ipv4Only)
}

async fn namespace() -> TestNamespace {
    TestNamespace::create(&governed().cluster).await.unwrap()
}

fn service(name: &str, spec: &Value) -> Value {
    json!({"metadata": {"name": name}, "spec": spec})
}

/// A Service of this type with these entries of `spec.ports`.
fn with_ports(name: &str, kind: &str, ports: &Value) -> Value {
    service(name, &json!({"type": kind, "ports": ports}))
}

async fn replace(namespace: &TestNamespace, name: &str, service: &Value) -> Said {
    let path = format!("/api/v1/namespaces/{}/services/{name}", namespace.name());
    send(&namespace.client(), "PUT", &path, Some(service)).await.unwrap()
}

/// What svcplane's books say of the nodePort range.
async fn booked(state: &str) -> f64 {
    let page = governed().svcplane.metrics().await.unwrap();
    page.sum(
        "svcplane_allocator_values",
        &[("range", "30000-32767"), ("state", state)],
    )
}

/// Asks again while a value that was freed is not free yet in the apiserver.
async fn create_soon(namespace: &TestNamespace, service: &Value) -> Value {
    let end = tokio::time::Instant::now() + SOON;
    loop {
        let said = create(namespace, service).await;
        if said.code.is_success() {
            return said.body;
        }
        assert!(tokio::time::Instant::now() < end, "{}", said.message());
    }
}

/// B33: what was freed a moment before is taken again by those who name it.
#[tokio::test]
async fn a_value_is_named_again_and_again() {
    let namespace = namespace().await;
    let mut crane = node_port("crane");
    crane["spec"]["clusterIP"] = json!("10.96.40.45");
    crane["spec"]["ports"][0]["nodePort"] = json!(30_045);
    for _ in 0..40 {
        let stored = create_soon(&namespace, &crane).await;
        assert_eq!(
            values(&stored),
            (vec!["10.96.40.45".to_owned()], BTreeSet::from([30_045]))
        );
        delete(&namespace, "crane").await;
    }
}

/// B36: a health check port is as taken as any other.
#[tokio::test]
async fn a_health_check_port_is_taken() {
    let namespace = namespace().await;
    let mut osprey = with_ports("osprey", "LoadBalancer", &json!([{"port": 80}]));
    osprey["spec"]["externalTrafficPolicy"] = json!("Local");
    osprey["spec"]["healthCheckNodePort"] = json!(30_077);
    create(&namespace, &osprey).await.accepted().unwrap();
    let harrier = with_ports("harrier", "NodePort", &json!([{"port": 80, "nodePort": 30_077}]));
    let end = tokio::time::Instant::now() + SOON;
    loop {
        let said = create(&namespace, &harrier).await;
        assert_eq!(
            (said.code.as_u16(), said.fields()),
            (422, vec!["spec.ports[0].nodePort"])
        );
        let owner = format!("30077 is taken by Service {}/osprey", namespace.name());
        if said.warnings.iter().any(|text| text.contains(&owner)) {
            return;
        }
        // The watch may not have shown it yet.
        assert!(tokio::time::Instant::now() < end, "{:?}", said.warnings);
    }
}

/// B37: what was chosen for Services that are refused is free again.
#[tokio::test]
async fn refused_creations_use_up_nothing() {
    let namespace = namespace().await;
    let taken = with_ports("taken", "NodePort", &json!([{"port": 80, "nodePort": 30_010}]));
    create(&namespace, &taken).await.accepted().unwrap();
    for _ in 0..50 {
        let ports = json!([{"name": "a", "port": 80, "nodePort": 30_010}, {"name": "b", "port": 81}]);
        let mut kite = with_ports("kite", "LoadBalancer", &ports);
        kite["spec"]["externalTrafficPolicy"] = json!("Local");
        assert_eq!(create(&namespace, &kite).await.code.as_u16(), 422);
    }
    // One Service that asks again gets the same number again.
    assert!(booked("pending").await <= 16.0, "{}", booked("pending").await);
}

/// B39: one number for both protocols of one Service, and for one Service alone.
#[tokio::test]
async fn tcp_and_udp_share_a_number_within_one_service_only() {
    let namespace = namespace().await;
    let both = |name: &str, number: u16| {
        let entry =
            |name: &str, protocol: &str| json!({"name": name, "port": 53, "protocol": protocol, "nodePort": number});
        with_ports(name, "NodePort", &json!([entry("dns-tcp", "TCP"), entry("dns", "UDP")]))
    };
    let hobby = create(&namespace, &both("hobby", 30_053)).await.accepted().unwrap();
    assert_eq!(values(&hobby).1, BTreeSet::from([30_053]));
    let buzzard = with_ports(
        "buzzard",
        "NodePort",
        &json!([{"port": 53, "protocol": "UDP", "nodePort": 30_053}]),
    );
    assert_eq!(create(&namespace, &buzzard).await.code.as_u16(), 422);
    let goshawk = create(&namespace, &both("goshawk", 0)).await.accepted().unwrap();
    assert_eq!(values(&goshawk).1.len(), 1, "{goshawk}");
}

/// B45: dry runs use up nothing, and see what is taken.
#[tokio::test]
async fn dry_runs_use_up_nothing() {
    let namespace = namespace().await;
    let used = async || booked("used").await + booked("pending").await;
    let before = used().await;
    for number in 0..60 {
        let service = node_port(&format!("s{number}"));
        post(&namespace, &service, "?dryRun=All").await.accepted().unwrap();
    }
    // The other tests of this process take some, too, but not sixty.
    assert!(used().await - before < 40.0);
    let taken = with_ports("taken", "NodePort", &json!([{"port": 80, "nodePort": 30_020}]));
    create(&namespace, &taken).await.accepted().unwrap();
    let again = with_ports("again", "NodePort", &json!([{"port": 80, "nodePort": 30_020}]));
    assert_eq!(post(&namespace, &again, "?dryRun=All").await.code.as_u16(), 422);
}

/// B46: an address exactly when the type needs one, and what is given back can be taken.
#[tokio::test]
async fn a_service_that_becomes_external_and_back_has_an_address_when_it_needs_one() {
    let namespace = namespace().await;
    let external = service(
        "shearwater",
        &json!({"type": "ExternalName", "externalName": "a.example"}),
    );
    create(&namespace, &external).await.accepted().unwrap();
    let to = async |spec: Value| {
        let said = patch(&namespace, "shearwater", &json!({"spec": spec})).await;
        said.accepted().unwrap()
    };
    let first = values(&to(json!({"type": "ClusterIP", "externalName": null, "ports": [{"port": 80}]})).await).0;
    assert_eq!(first.len(), 1);
    // The old address is sent again, as by a client that has read the Service.
    let gone =
        to(json!({"type": "ExternalName", "externalName": "a.example", "clusterIP": first[0], "clusterIPs": first}))
            .await;
    assert_eq!(values(&gone).0, [""; 0]);
    let gannet = service("gannet", &json!({"clusterIP": first[0], "ports": [{"port": 80}]}));
    create_soon(&namespace, &gannet).await;
    let (addresses, numbers) = values(&to(json!({"type": "NodePort", "externalName": null})).await);
    assert_eq!((addresses.len(), numbers.len()), (1, 1));
    assert_ne!(addresses, first);
    let (still, none) = values(&to(json!({"type": "ClusterIP"})).await);
    assert_eq!((still, none), (addresses, BTreeSet::new()));
}

/// B47: left out of a replacement is carried over, by the names of ports.
#[tokio::test]
async fn a_replacement_keeps_what_it_leaves_out() {
    let namespace = namespace().await;
    let ports =
        json!([{"name": "http", "port": 80, "nodePort": 30_080}, {"name": "https", "port": 443, "nodePort": 30_043}]);
    let mut fulmar = with_ports("fulmar", "NodePort", &ports);
    fulmar["spec"]["clusterIP"] = json!("10.96.40.80");
    create(&namespace, &fulmar).await.accepted().unwrap();
    let other_order = json!([{"name": "https", "port": 443}, {"name": "http", "port": 80}]);
    let replaced = replace(&namespace, "fulmar", &with_ports("fulmar", "NodePort", &other_order)).await;
    let replaced = replaced.accepted().unwrap();
    assert_eq!(replaced["spec"]["clusterIP"], "10.96.40.80");
    let numbers: Vec<_> = replaced["spec"]["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| port["nodePort"].clone())
        .collect();
    assert_eq!(numbers, [json!(30_043), json!(30_080)]);
}

/// B48: with allocation switched off a number can be taken away, and one that is written down is held.
#[tokio::test]
async fn allocation_of_node_ports_can_be_switched_off() {
    let namespace = namespace().await;
    let skua = with_ports("skua", "LoadBalancer", &json!([{"port": 80, "nodePort": 30_021}]));
    create(&namespace, &skua).await.accepted().unwrap();
    let off = json!({"spec": {"allocateLoadBalancerNodePorts": false, "ports": [{"port": 80, "nodePort": 0}]}});
    let stored = patch(&namespace, "skua", &off).await.accepted().unwrap();
    assert_eq!(values(&stored).1, BTreeSet::new(), "{stored}");
    create_soon(
        &namespace,
        &with_ports("other", "NodePort", &json!([{"port": 80, "nodePort": 30_021}])),
    )
    .await;
    let mut kept = with_ports(
        "kept",
        "LoadBalancer",
        &json!([{"name": "a", "port": 80, "nodePort": 30_022}, {"name": "b", "port": 81}]),
    );
    kept["spec"]["allocateLoadBalancerNodePorts"] = json!(false);
    let stored = create(&namespace, &kept).await.accepted().unwrap();
    assert_eq!(values(&stored).1, BTreeSet::from([30_022]), "{stored}");
}

/// B50: whatever a patch makes of the list, the books follow what is stored.
#[tokio::test]
async fn the_books_follow_what_a_patch_has_left() {
    let namespace = namespace().await;
    let auk = with_ports(
        "auk",
        "NodePort",
        &json!([{"port": 5353, "protocol": "UDP", "nodePort": 30_035}]),
    );
    create(&namespace, &auk).await.accepted().unwrap();
    let left = json!({"spec": {"ports": [{"port": 5353, "protocol": "TCP", "nodePort": 30_036}]}});
    let stored = patch(&namespace, "auk", &left).await.accepted().unwrap();
    assert_eq!(values(&stored).1, BTreeSet::from([30_036]));
    create_soon(
        &namespace,
        &with_ports("free", "NodePort", &json!([{"port": 80, "nodePort": 30_035}])),
    )
    .await;
    let held = with_ports("held", "NodePort", &json!([{"port": 80, "nodePort": 30_036}]));
    assert_eq!(create(&namespace, &held).await.code.as_u16(), 422);
}

/// With several ServiceCIDRs the apiserver shows a stand-in for an address in a dry run: no value of anybody's.
#[tokio::test]
async fn a_dry_run_under_an_enforced_pool_is_judged_by_what_the_user_chose() {
    let (governed, namespace) = (governed(), namespace().await);
    let cidr = json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "more"},
        "spec": {"cidrs": ["10.99.0.0/24"]}});
    let cidrs = "/apis/networking.k8s.io/v1/servicecidrs";
    send(&governed.client(), "POST", cidrs, Some(&cidr))
        .await
        .unwrap()
        .accepted()
        .unwrap();
    let spec = json!({"ranges": ["10.96.60.0/30"], "enforce": true, "selector": {"namespaces": [namespace.name()]}});
    pool(governed, &namespace, "ClusterIPPool", "dry", &spec).await;
    let end = tokio::time::Instant::now() + SOON;
    // svcplane knows both ServiceCIDRs.
    while governed
        .svcplane
        .metrics()
        .await
        .unwrap()
        .sum("svcplane_allocator_values", &[("range", "10.99.0.0/24")])
        < 1.0
    {
        assert!(tokio::time::Instant::now() < end, "the ServiceCIDR is not known");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    for kind in ["ClusterIP", "NodePort"] {
        let service = with_ports("web", kind, &json!([{"port": 80}]));
        post(&namespace, &service, "?dryRun=All").await.accepted().unwrap();
    }
    let mut outside = with_ports("web", "ClusterIP", &json!([{"port": 80}]));
    outside["spec"]["clusterIP"] = json!("10.96.61.1");
    let end = tokio::time::Instant::now() + SOON;
    loop {
        let said = post(&namespace, &outside, "?dryRun=All").await;
        if said.message().contains("must be from pool \"dry\"") {
            return;
        }
        // While the namespace is new, or the apiserver looks into the wrong ServiceCIDR.
        assert!(tokio::time::Instant::now() < end, "{} {}", said.code, said.message());
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}
