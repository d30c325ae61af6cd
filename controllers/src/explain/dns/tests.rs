use serde_json::{Value, json};

use super::*;

fn lines(service: Value, slices: Value) -> Vec<String> {
    let service: Service = serde_json::from_value(service).unwrap();
    let slices: Vec<EndpointSlice> = serde_json::from_value(slices).unwrap();
    let records = records(&service, &slices, "cluster.local");
    records
        .iter()
        .map(|it| format!("{} {} {}", it.name, it.kind, it.value))
        .collect()
}

fn service(namespace: &str, name: &str, spec: &Value) -> Value {
    json!({"metadata": {"namespace": namespace, "name": name}, "spec": spec})
}

#[test]
fn with_cluster_ips() {
    let spec = json!({"clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7", "fd00:10:96::7"], "ports": [
        {"name": "http", "port": 80, "protocol": "TCP"}, {"name": "dns", "port": 53, "protocol": "UDP"}, {"port": 8080}]});
    let want = [
        "web.shop.svc.cluster.local A 10.96.0.7",
        "web.shop.svc.cluster.local AAAA fd00:10:96::7",
        "_http._tcp.web.shop.svc.cluster.local SRV 80 web.shop.svc.cluster.local",
        "_dns._udp.web.shop.svc.cluster.local SRV 53 web.shop.svc.cluster.local",
        "7.0.96.10.in-addr.arpa PTR web.shop.svc.cluster.local",
        "7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.1.0.0.0.0.d.f.ip6.arpa PTR web.shop.svc.cluster.local",
    ];
    assert_eq!(lines(service("shop", "web", &spec), json!([])), want);
    // An old object without clusterIPs.
    let spec = json!({"clusterIP": "10.96.0.7", "ports": [{"port": 80}]});
    let want = [
        "web.shop.svc.cluster.local A 10.96.0.7",
        "7.0.96.10.in-addr.arpa PTR web.shop.svc.cluster.local",
    ];
    assert_eq!(lines(service("shop", "web", &spec), json!([])), want);
}

/// Kubernetes' documentation: `busybox-1.default-subdomain`.
#[test]
fn headless() {
    let spec = json!({"clusterIP": "None", "clusterIPs": ["None"], "ports": [{"name": "foo", "port": 1234}]});
    let busybox = service("marsh", "default-subdomain", &spec);
    let slice = json!({"metadata": {}, "addressType": "IPv4", "ports": [{"name": "foo", "port": 4321, "protocol": "TCP"}],
    "endpoints": [
        {"addresses": ["10.1.0.1"], "hostname": "busybox-1", "conditions": {"ready": true}},
        {"addresses": ["10.1.0.2"], "conditions": {}},
        {"addresses": ["10.1.0.3"], "conditions": {"ready": false, "serving": true, "terminating": true}}]});
    let own = "default-subdomain.marsh.svc.cluster.local";
    let want = [
        format!("{own} A 10.1.0.1"),
        format!("{own} A 10.1.0.2"),
        format!("busybox-1.{own} A 10.1.0.1"),
        format!("10-1-0-2.{own} A 10.1.0.2"),
        format!("_foo._tcp.{own} SRV 4321 busybox-1.{own}"),
        format!("_foo._tcp.{own} SRV 4321 10-1-0-2.{own}"),
        format!("1.0.1.10.in-addr.arpa PTR busybox-1.{own}"),
        format!("2.0.1.10.in-addr.arpa PTR 10-1-0-2.{own}"),
    ];
    // The same endpoint in two slices is answered once.
    assert_eq!(lines(busybox.clone(), json!([slice, slice])), want);
    assert_eq!(lines(busybox, json!([])), Vec::<String>::new());
}

#[test]
fn external_name_and_nothing() {
    let spec = json!({"type": "ExternalName", "externalName": "my.database.example.com", "ports": [{"name": "sql", "port": 1}]});
    let want = ["my-service.prod.svc.cluster.local CNAME my.database.example.com"];
    assert_eq!(lines(service("prod", "my-service", &spec), json!([])), want);
    // Not allocated yet.
    let spec = json!({"clusterIP": "", "ports": [{"name": "http", "port": 80}]});
    assert_eq!(lines(service("shop", "web", &spec), json!([])), Vec::<String>::new());
}
