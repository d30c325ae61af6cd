//! Where the ports of Endpoints come from, and the order in which everything is stored.

use kube::api::PostParams;
use serde_json::json;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{PodBuilder, pod, service};

fn web(name: &str, ip: &str) -> PodBuilder {
    pod(name).label("app", "web").ip(ip)
}

#[tokio::test]
async fn a_number_needs_no_container_port_and_a_name_is_looked_up_in_each_pod() {
    let namespace = TestNamespace::served().await.unwrap();
    let pods = [
        web("declares", "10.1.0.1").port("http", 8080),
        web("other-number", "10.1.0.2").port("http", 8081),
        web("first-of-two", "10.1.0.3").port("http", 8080).port("admin", 9000),
        web("udp-only", "10.1.0.4").port_with_protocol("UDP", "http", 8083),
        web("none", "10.1.0.5"),
        web("not-ready", "10.1.0.6").port("http", 8081).ready(false),
    ];
    for one in pods {
        one.create(&namespace).await.unwrap();
    }
    let named = service("named").selector("app", "web").port("", 80, "http");
    named.create(&namespace).await.unwrap();
    let number = service("number").selector("app", "web").port("", 80, 8443);
    number.create(&namespace).await.unwrap();
    let both = service("both").selector("app", "web").port("web", 80, "http");
    let both = both.port("admin", 81, "admin").port("raw", 82, 82);
    both.create(&namespace).await.unwrap();
    let by_protocol = service("by-protocol").selector("app", "web").port("tcp", 80, "http");
    let by_protocol = by_protocol.port_with_protocol("UDP", "udp", 80, "http");
    by_protocol.create(&namespace).await.unwrap();

    let named = ["10.1.0.1 10.1.0.3 -> :8080/TCP", "10.1.0.2 !10.1.0.6 -> :8081/TCP"];
    namespace.endpoints_become("named", &named).await.unwrap();
    let all = "10.1.0.1 10.1.0.2 10.1.0.3 10.1.0.4 10.1.0.5 !10.1.0.6 -> :8443/TCP";
    namespace.endpoints_become("number", &[all]).await.unwrap();
    let both = [
        "10.1.0.3 -> admin:9000/TCP",
        "10.1.0.1 10.1.0.2 10.1.0.3 10.1.0.4 10.1.0.5 !10.1.0.6 -> raw:82/TCP",
        "10.1.0.1 10.1.0.3 -> web:8080/TCP",
        "10.1.0.2 !10.1.0.6 -> web:8081/TCP",
    ];
    namespace.endpoints_become("both", &both).await.unwrap();
    let by_protocol = [
        "10.1.0.1 10.1.0.3 -> tcp:8080/TCP",
        "10.1.0.2 !10.1.0.6 -> tcp:8081/TCP",
        "10.1.0.4 -> udp:8083/UDP",
    ];
    namespace.endpoints_become("by-protocol", &by_protocol).await.unwrap();
}

#[tokio::test]
async fn sidecars_count_and_a_container_comes_before_them() {
    let namespace = TestNamespace::served().await.unwrap();
    let pods = [
        web("sidecar", "10.2.0.1").init_port("mesh", true, "http", 15001),
        web("both", "10.2.0.2")
            .init_port("mesh", true, "http", 15001)
            .port("http", 8080),
        web("init", "10.2.0.3").init_port("setup", false, "http", 7000),
        web("init-and-sidecar", "10.2.0.4")
            .init_port("setup", false, "http", 7000)
            .init_port("mesh", true, "http", 15001),
        web("two-sidecars", "10.2.0.5")
            .init_port("a", true, "http", 15001)
            .init_port("b", true, "http", 15002),
    ];
    for one in pods {
        one.create(&namespace).await.unwrap();
    }
    let mut two_containers = web("two-containers", "10.2.0.6").port("http", 8080).build();
    let containers = &mut two_containers.spec.as_mut().unwrap().containers;
    let mut second = containers[0].clone();
    second.name = "second".into();
    second.ports.as_mut().unwrap()[0].container_port = 8081;
    containers.push(second);
    namespace
        .pods()
        .create(&PostParams::default(), &two_containers)
        .await
        .unwrap();
    let status = json!({ "phase": "Running", "podIP": "10.2.0.6", "podIPs": [{ "ip": "10.2.0.6" }] });
    namespace.patch_pod_status("two-containers", status).await.unwrap();

    let service = service("web").selector("app", "web").port("", 80, "http");
    service.create(&namespace).await.unwrap();
    let subsets = [
        "10.2.0.2 !10.2.0.6 -> :8080/TCP",
        "10.2.0.1 10.2.0.4 10.2.0.5 -> :15001/TCP",
    ];
    namespace.endpoints_become("web", &subsets).await.unwrap();
}

#[tokio::test]
async fn a_headless_service_without_ports_lists_its_pods_alone() {
    let namespace = TestNamespace::served().await.unwrap();
    let service = service("sanderling").headless().selector("app", "web");
    service.create(&namespace).await.unwrap();
    web("a", "10.3.0.1").create(&namespace).await.unwrap();
    web("b", "10.3.0.2")
        .port("http", 8080)
        .create(&namespace)
        .await
        .unwrap();
    web("c", "10.3.0.3").ready(false).create(&namespace).await.unwrap();
    namespace
        .endpoints_become("sanderling", &["10.3.0.1 10.3.0.2 !10.3.0.3"])
        .await
        .unwrap();
    let ports = json!({ "spec": { "ports": [{ "name": "http", "port": 80, "targetPort": "http" }] } });
    namespace.patch_service("sanderling", &ports).await.unwrap();
    namespace
        .endpoints_become("sanderling", &["10.3.0.2 -> http:8080/TCP"])
        .await
        .unwrap();
    let none = json!({ "spec": { "ports": null } });
    namespace.patch_service("sanderling", &none).await.unwrap();
    namespace
        .endpoints_become("sanderling", &["10.3.0.1 10.3.0.2 !10.3.0.3"])
        .await
        .unwrap();
}

#[tokio::test]
async fn names_protocols_and_app_protocols_are_the_services() {
    let namespace = TestNamespace::served().await.unwrap();
    web("a", "10.4.0.1").port("x", 4000).create(&namespace).await.unwrap();
    let long = "telemetry-ingest-over-grpc-with-a-name-of-sixty-three-chars-abc";
    let builder = service("web").selector("app", "web");
    let builder = builder
        .port("http", 80, 8080)
        .port_with_protocol("UDP", "dns-udp", 53, 5353)
        .port_with_protocol("TCP", "dns-tcp", 53, 5353)
        .port_with_protocol("SCTP", "sctp", 99, 99)
        .port(long, 443, "x");
    let mut object = builder.build();
    let ports = object.spec.as_mut().unwrap().ports.as_mut().unwrap();
    ports[0].app_protocol = Some("kubernetes.io/h2c".into());
    ports[4].app_protocol = Some("https".into());
    namespace
        .services()
        .create(&PostParams::default(), &object)
        .await
        .unwrap();
    let line = format!(
        "10.4.0.1 -> dns-tcp:5353/TCP dns-udp:5353/UDP http:8080/TCP=kubernetes.io/h2c sctp:99/SCTP {long}:4000/TCP=https"
    );
    namespace.endpoints_become("web", &[&line]).await.unwrap();
}

#[tokio::test]
async fn changes_of_the_services_ports_are_followed() {
    let namespace = TestNamespace::served().await.unwrap();
    web("a", "10.5.0.1")
        .port("http", 8080)
        .create(&namespace)
        .await
        .unwrap();
    let builder = service("web").selector("app", "web").port("web", 80, 80);
    builder.create(&namespace).await.unwrap();
    let table = [
        (
            json!([{ "name": "web", "port": 80, "targetPort": 81 }]),
            &["10.5.0.1 -> web:81/TCP"] as &[&str],
        ),
        (
            json!([{ "name": "www", "port": 80, "targetPort": 81 }]),
            &["10.5.0.1 -> www:81/TCP"],
        ),
        (
            json!([{ "name": "www", "port": 80, "targetPort": "http" }]),
            &["10.5.0.1 -> www:8080/TCP"],
        ),
        (json!([{ "name": "www", "port": 80, "targetPort": "grpc" }]), &[]),
        (
            json!([{ "name": "www", "port": 80, "targetPort": "http", "protocol": "UDP" }]),
            &[],
        ),
        (
            json!([{ "name": "www", "port": 80, "targetPort": 82, "appProtocol": "http" }]),
            &["10.5.0.1 -> www:82/TCP=http"],
        ),
        (
            json!([{ "name": "a", "port": 80, "targetPort": 8 }, { "name": "b", "port": 81, "targetPort": 8 }]),
            &["10.5.0.1 -> a:8/TCP b:8/TCP"],
        ),
        (json!([{ "port": 83 }]), &["10.5.0.1 -> :83/TCP"]),
    ];
    for (ports, subsets) in table {
        let patch = json!({ "spec": { "ports": ports } });
        namespace.patch_service("web", &patch).await.unwrap();
        namespace.endpoints_become("web", subsets).await.unwrap();
    }
}

/// Addresses by their text, ports by name, number and protocol, subsets by their ports: any order would do, a stable one
/// saves writes.
#[tokio::test]
async fn the_stored_order_does_not_depend_on_the_order_of_events() {
    let namespace = TestNamespace::served().await.unwrap();
    for number in [10, 9, 2, 100, 1] {
        let name = format!("p{number}");
        let one = web(&name, &format!("10.6.0.{number}")).port("http", 8080 - number % 2);
        one.create(&namespace).await.unwrap();
    }
    let builder = service("web").selector("app", "web");
    let builder = builder.port("z", 1, 1).port("a", 3, "http").port("m", 2, 2);
    builder.create(&namespace).await.unwrap();
    let subsets = [
        "10.6.0.1 10.6.0.9 -> a:8079/TCP",
        "10.6.0.10 10.6.0.100 10.6.0.2 -> a:8080/TCP",
        "10.6.0.1 10.6.0.10 10.6.0.100 10.6.0.2 10.6.0.9 -> m:2/TCP z:1/TCP",
    ];
    namespace.endpoints_become("web", &subsets).await.unwrap();
}
