use serde_json::{Value, json};

use super::*;

fn service(namespace: &str, name: &str, spec: &Value) -> Service {
    let object = json!({"metadata": {"namespace": namespace, "name": name}, "spec": spec});
    serde_json::from_value(object).unwrap()
}

fn lines(service: &Service) -> Vec<String> {
    let variables = from_service(service);
    variables.iter().map(|it| format!("{}={}", it.name, it.value)).collect()
}

/// The seven lines of Kubernetes' documentation.
#[test]
fn redis_master_is_as_documented() {
    let redis = service(
        "default",
        "redis-master",
        &json!({"clusterIP": "10.0.0.11", "ports": [{"port": 6379, "protocol": "TCP"}]}),
    );
    let want = [
        "REDIS_MASTER_SERVICE_HOST=10.0.0.11",
        "REDIS_MASTER_SERVICE_PORT=6379",
        "REDIS_MASTER_PORT=tcp://10.0.0.11:6379",
        "REDIS_MASTER_PORT_6379_TCP=tcp://10.0.0.11:6379",
        "REDIS_MASTER_PORT_6379_TCP_PROTO=tcp",
        "REDIS_MASTER_PORT_6379_TCP_PORT=6379",
        "REDIS_MASTER_PORT_6379_TCP_ADDR=10.0.0.11",
    ];
    assert_eq!(lines(&redis), want);
}

/// Expected values: `envvars.FromServices` of the pinned Kubernetes.
#[test]
fn names_protocols_and_families() {
    let dns = json!({"clusterIP": "10.96.0.10", "ports": [
        {"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"}]});
    let want = [
        "KUBE_DNS_SERVICE_HOST=10.96.0.10",
        "KUBE_DNS_SERVICE_PORT=53",
        "KUBE_DNS_SERVICE_PORT_DNS=53",
        "KUBE_DNS_SERVICE_PORT_DNS_TCP=53",
        "KUBE_DNS_PORT=udp://10.96.0.10:53",
        "KUBE_DNS_PORT_53_UDP=udp://10.96.0.10:53",
        "KUBE_DNS_PORT_53_UDP_PROTO=udp",
        "KUBE_DNS_PORT_53_UDP_PORT=53",
        "KUBE_DNS_PORT_53_UDP_ADDR=10.96.0.10",
        "KUBE_DNS_PORT_53_TCP=tcp://10.96.0.10:53",
        "KUBE_DNS_PORT_53_TCP_PROTO=tcp",
        "KUBE_DNS_PORT_53_TCP_PORT=53",
        "KUBE_DNS_PORT_53_TCP_ADDR=10.96.0.10",
    ];
    assert_eq!(lines(&service("kube-system", "kube-dns", &dns)), want);

    let six = json!({"clusterIP": "fd00::5", "clusterIPs": ["fd00::5", "10.0.0.5"], "ports": [{"port": 80}]});
    let want = [
        "A__B_SERVICE_HOST=fd00::5",
        "A__B_SERVICE_PORT=80",
        "A__B_PORT=tcp://[fd00::5]:80",
        "A__B_PORT_80_TCP=tcp://[fd00::5]:80",
        "A__B_PORT_80_TCP_PROTO=tcp",
        "A__B_PORT_80_TCP_PORT=80",
        "A__B_PORT_80_TCP_ADDR=fd00::5",
    ];
    assert_eq!(lines(&service("x", "a--b", &six)), want);
}

#[test]
fn without_an_address_there_are_none() {
    let port = json!([{"port": 80}]);
    for spec in [
        json!({"clusterIP": "None", "ports": port}),
        json!({"clusterIP": "", "ports": port}),
        json!({"type": "ExternalName", "externalName": "example.com"}),
    ] {
        assert_eq!(lines(&service("x", "web", &spec)), Vec::<String>::new());
    }
}

#[test]
fn which_services_a_pod_is_told_of() {
    let spec = |ip: &str| json!({"clusterIP": ip, "ports": [{"port": 443}]});
    let master = service("default", "kubernetes", &spec("10.96.0.1"));
    let web = service("shop", "web", &spec("10.96.0.2"));
    let headless = service("shop", "db", &spec("None"));
    let other = service("stage", "web", &spec("10.96.0.3"));
    let shadow = service("shop", "kubernetes", &spec("10.96.0.4"));
    let names = |services: &[Service], links: bool| -> Vec<String> {
        let found = visible(services, "shop", links);
        let mut ips: Vec<String> = found.iter().filter_map(|it| cluster_ip(it).map(Into::into)).collect();
        ips.sort();
        ips
    };
    let plain = [master.clone(), web.clone(), headless, other];
    assert_eq!(names(&plain, true), ["10.96.0.1", "10.96.0.2"]);
    assert_eq!(names(&plain, false), ["10.96.0.1"]);
    let shadowed = [shadow.clone(), master.clone(), web];
    assert_eq!(names(&shadowed, true), ["10.96.0.2", "10.96.0.4"]);
    assert_eq!(names(&shadowed, false), ["10.96.0.1"]);
    assert!(shadows_the_apiserver(&shadow) && !shadows_the_apiserver(&master));
}
