//! What becomes of connections: ports of slices that fit none of the Service's, traffic from outside, addresses that are pending.

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use svcplane_tests::objects::service;
use svcplane_tests::slices;

use super::run::{cluster_ip, namespace, screen, section, web, web_pod};

#[tokio::test]
async fn slices_made_by_hand_whose_port_fits_none() {
    let namespace = namespace().await;
    let stored = service("ext").port("http", 80, 80).create(&namespace).await.unwrap();
    let slice = json!({"metadata": {"name": "ext-1", "labels": {"kubernetes.io/service-name": "ext"}}, "addressType": "IPv4",
        "ports": [{"name": "web", "port": 8080}], "endpoints": [{"addresses": ["192.0.2.42"]}]});
    let slice = serde_json::from_value(slice).unwrap();
    namespace.slices().create(&PostParams::default(), &slice).await.unwrap();
    let told = screen(&namespace, "ext").await;
    let proxied = section(&told, "kube-proxy");
    let none = [
        format!("{}:80 TCP -> no endpoints", cluster_ip(&stored)),
        r#"does not use slice ext-1: its port name "web" matches none of the Service's ports (names "http")"#
            .to_owned(),
    ];
    assert_eq!(proxied[..2], none);
    let row = "ext-1 IPv4  192.0.2.42 -> web:8080/TCP  left alone: kept by nobody that it names; kube-proxy and DNS read it too";
    assert_eq!(section(&told, "EndpointSlices"), [row]);

    let named = json!({"ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]});
    namespace.patch_slice("ext-1", &named).await.unwrap();
    let told = screen(&namespace, "ext").await;
    let proxied = section(&told, "kube-proxy");
    let leads = format!("{}:80 TCP -> 192.0.2.42:8080", cluster_ip(&stored));
    assert_eq!(proxied[0], leads);
    assert!(proxied[1].starts_with("iptables"), "{told}");
}

#[tokio::test]
async fn a_local_policy_without_any_endpoint() {
    let namespace = namespace().await;
    let mut local = web(&namespace).type_("NodePort").port("http", 80, 8080).build();
    let spec = local.spec.as_mut().unwrap();
    spec.external_traffic_policy = Some("Local".into());
    spec.session_affinity = Some("ClientIP".into());
    let services = namespace.services();
    let stored: Service = services.create(&PostParams::default(), &local).await.unwrap();
    let node_port = stored.spec.as_ref().unwrap().ports.as_ref().unwrap()[0]
        .node_port
        .unwrap();
    let ip = cluster_ip(&stored);
    namespace.slices_become("web", &["IPv4"]).await.unwrap();
    let told = screen(&namespace, "web").await;
    assert_eq!(
        section(&told, "Service")[1],
        format!("port http 80/TCP -> 8080, nodePort {node_port}")
    );
    assert_eq!(section(&told, "Pods"), ["the selector matches none; near misses: none"]);
    let refused = |how| format!("refuses connections to {ip}:80 NODE:{node_port}: no endpoints ({how})");
    let want = [
        format!("{ip}:80 NODE:{node_port} TCP -> no endpoints"),
        format!("iptables  {}", refused("REJECT")),
        format!("nftables  {}", refused("reject")),
        format!("ipvs      {}", refused("a virtual server without destinations")),
    ];
    assert_eq!(section(&told, "kube-proxy"), want);

    let pod = web_pod(&namespace, "p1").ip("10.1.0.1");
    pod.create(&namespace).await.unwrap();
    let slices = ["IPv4 10.1.0.1/rs- -> http:8080/TCP"];
    namespace.slices_become("web", &slices).await.unwrap();
    let told = screen(&namespace, "web").await;
    let want = format!(
        "iptables  sends each new connection to an endpoint at random; keeps a client at its endpoint until it has made no connection \
         for 10800 s (match recent); from outside, to NODE:{node_port}: to endpoints on the Node that it comes to, with the client's \
         address; on a Node without one dropped"
    );
    assert_eq!(section(&told, "kube-proxy")[1], want);
}

#[tokio::test]
async fn hints_for_zones() {
    let namespace = namespace().await;
    slices::node(namespace.client(), "node-nowhere", None).await.unwrap();
    let mut close = web(&namespace).port("http", 80, 8080).build();
    close.spec.as_mut().unwrap().traffic_distribution = Some("PreferSameZone".into());
    namespace
        .services()
        .create(&PostParams::default(), &close)
        .await
        .unwrap();
    let placed = web_pod(&namespace, "p1").ip("10.1.0.1");
    placed.create(&namespace).await.unwrap();
    let made = namespace
        .slices_become("web", &["IPv4 10.1.0.1/rs-{a} -> http:8080/TCP"])
        .await
        .unwrap();
    let told = screen(&namespace, "web").await;
    assert_eq!(section(&told, "Service")[2], "trafficDistribution PreferSameZone");
    let slice = format!("{} IPv4  10.1.0.1 (zone a, hints a)", made[0].name_any());
    assert_eq!(
        section(&told, "EndpointSlices"),
        [format!("{slice} -> http:8080/TCP  same")]
    );
    let hints = "hints are used: in zone a to 10.1.0.1:8080 alone; to every endpoint from anywhere else";
    assert_eq!(section(&told, "kube-proxy")[1], hints);

    // One on a Node without a zone has none, and that ends it for all.
    let stray = web_pod(&namespace, "p2").ip("10.1.0.2").node("node-nowhere");
    stray.create(&namespace).await.unwrap();
    let both = "IPv4 10.1.0.1/rs-{a} 10.1.0.2/rs- -> http:8080/TCP";
    namespace.slices_become("web", &[both]).await.unwrap();
    let told = screen(&namespace, "web").await;
    let slice = format!("{slice} 10.1.0.2 (no zone, no hints) -> http:8080/TCP  same");
    assert_eq!(section(&told, "EndpointSlices"), [slice]);
    let hints = "hints are not used, because not every ready endpoint has some (none: 10.1.0.2:8080)";
    assert_eq!(section(&told, "kube-proxy")[1], hints);
}

#[tokio::test]
async fn the_address_of_a_load_balancer() {
    let namespace = namespace().await;
    let mut balanced = web(&namespace).type_("LoadBalancer").port("http", 80, 8080).build();
    balanced.spec.as_mut().unwrap().load_balancer_class = Some("example.com/lb".into());
    let services = namespace.services();
    services.create(&PostParams::default(), &balanced).await.unwrap();
    let told = screen(&namespace, "web").await;
    let about = section(&told, "Service");
    let class = "loadBalancerClass example.com/lb";
    let pending = "load balancer address pending (status.loadBalancer.ingress is empty)";
    assert_eq!(about[2..], [pending, class]);
    let written = Patch::Merge(json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.5"}]}}}));
    let params = PatchParams::default();
    services.patch_status("web", &params, &written).await.unwrap();
    let told = screen(&namespace, "web").await;
    assert_eq!(section(&told, "Service")[2..], ["load balancer 192.0.2.5", class]);
    assert!(
        section(&told, "kube-proxy")[0].contains(" 192.0.2.5:80 NODE:"),
        "{told}"
    );
}
