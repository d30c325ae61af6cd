use serde_json::{Value, json};
use svcplane_webhook::ledger::Ranges;
use svcplane_webhook::service::Service;

use super::gather::{Kept, Known, Stored};
use super::*;
use crate::wire::WireService;

const NOW: i64 = 1_800_000_000;

fn read<T: serde::de::DeserializeOwned>(object: &Value) -> T {
    serde_json::from_value(object.clone()).unwrap()
}

fn service(name: &str, created: &str, spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "shop", "name": name, "creationTimestamp": created},
        "spec": spec})
}

fn plain(name: &str, created: &str, address: &str) -> Value {
    let spec = json!({"type": "ClusterIP", "clusterIP": address, "clusterIPs": [address], "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]});
    service(name, created, &spec)
}

fn with_port(name: &str, created: &str, address: &str, port: u16) -> Value {
    let mut object = plain(name, created, address);
    object["spec"]["type"] = json!("NodePort");
    object["spec"]["externalTrafficPolicy"] = json!("Cluster");
    object["spec"]["ports"][0]["nodePort"] = json!(port);
    object
}

fn address(name: &str, service: &str, created: &str) -> Value {
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": {"name": name, "creationTimestamp": created, "labels":
            {"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io", "ipaddress.kubernetes.io/ip-family": "IPv4"}},
        "spec": {"parentRef": {"group": "", "resource": "services", "namespace": "shop", "name": service}}})
}

const EARLY: &str = "2026-01-01T00:00:00Z";
const LATE: &str = "2026-01-02T00:00:00Z";

fn stored(services: &[Value], addresses: &[Value], pools: &[Value]) -> Stored {
    let known = services.iter().map(|object| Known {
        holder: read::<WireService>(object).holder(),
        uid: String::new(),
        service: Service::parse(&object.to_string()).unwrap(),
    });
    let cidr = json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": ["10.96.0.0/16"]}});
    let ranges = Ranges {
        cidrs: Vec::new(),
        ports: "30000-32767".parse().unwrap(),
    };
    let pools = (None, Some(pools.iter().map(read).collect()), None);
    let kept = Kept {
        services: known.collect(),
        addresses: Some(addresses.iter().map(read).collect()),
        cidrs: Some(vec![read(&cidr)]),
        now: NOW,
    };
    Stored::of(ranges, kept, pools, None).unwrap()
}

fn found(services: &[Value], addresses: &[Value], pools: &[Value]) -> Vec<(&'static str, String)> {
    let findings = service_findings(&stored(services, addresses, pools));
    findings
        .into_iter()
        .map(|finding| (finding.rule, finding.object.to_string()))
        .collect()
}

#[test]
fn a_cluster_in_order_has_no_findings() {
    let services = [
        plain("a", EARLY, "10.96.0.7"),
        with_port("b", LATE, "10.96.0.8", 30_080),
    ];
    let addresses = [address("10.96.0.7", "a", EARLY), address("10.96.0.8", "b", LATE)];
    assert_eq!(found(&services, &addresses, &[]), []);
}

#[test]
fn each_fault_is_found_at_its_object() {
    let named = |rule, object: &str| vec![(rule, object.to_owned())];
    let own = |services: &[Value]| -> Vec<Value> {
        let addresses = services.iter().filter_map(|it| {
            let ip = it["spec"]["clusterIP"]
                .as_str()
                .filter(|ip| *ip != "None" && !ip.is_empty())?;
            Some(address(ip, it["metadata"]["name"].as_str()?, EARLY))
        });
        addresses.collect()
    };
    let alone = |services: &[Value]| found(services, &own(services), &[]);

    let twice = [plain("a", EARLY, "10.96.0.7"), plain("b", LATE, "10.96.0.7")];
    let one = [address("10.96.0.7", "a", EARLY)];
    assert_eq!(
        found(&twice, &one, &[]),
        named("ClusterIPAlreadyAllocated", "Service shop/b")
    );

    assert_eq!(
        alone(&[plain("a", EARLY, "10.97.0.7")]),
        named("ClusterIPOutOfRange", "Service shop/a")
    );
    assert_eq!(
        found(&[plain("a", EARLY, "10.96.0.7")], &[], &[]),
        named("ClusterIPNotAllocated", "Service shop/a")
    );
    let ports = [
        with_port("a", EARLY, "10.96.0.7", 30_080),
        with_port("b", LATE, "10.96.0.8", 30_080),
    ];
    assert_eq!(alone(&ports), named("PortAlreadyAllocated", "Service shop/b"));
    assert_eq!(
        alone(&[with_port("a", EARLY, "10.96.0.7", 28_080)]),
        named("PortOutOfRange", "Service shop/a")
    );

    let nobodys = [address("10.96.0.9", "gone", EARLY)];
    assert_eq!(
        found(&[], &nobodys, &[]),
        named("IPAddressNotAllocated", "IPAddress 10.96.0.9")
    );
    let a = plain("a", EARLY, "10.96.0.7");
    let wrong = [address("10.96.0.7", "a", EARLY), address("10.96.0.9", "a", EARLY)];
    assert_eq!(
        found(&[a], &wrong, &[]),
        named("IPAddressWrongReference", "IPAddress 10.96.0.9")
    );

    let mut lost = plain("a", EARLY, "");
    lost["spec"]["clusterIPs"] = json!([]);
    assert!(alone(&[lost]).contains(&("ClusterIPMissing", "Service shop/a".to_owned())));
    let external = json!({"type": "ExternalName", "externalName": "a.example", "sessionAffinity": "None",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80, "nodePort": 30_080}]});
    assert_eq!(
        alone(&[service("a", EARLY, &external)]),
        named("ExternalNameHoldsPort", "Service shop/a")
    );
    let mut invalid = plain("a", EARLY, "10.96.0.7");
    invalid["spec"]["sessionAffinity"] = json!("Sticky");
    assert_eq!(alone(&[invalid]), named("ServiceInvalid", "Service shop/a"));
    let mut skips = plain("a", EARLY, "10.96.0.7");
    skips["metadata"]["labels"] = json!({"svcplane.io/skip": ""});
    assert_eq!(alone(&[skips]), named("SkipsSvcplane", "Service shop/a"));
}

#[test]
fn a_value_from_past_an_enforced_pool_is_found() {
    let pool = json!({"apiVersion": "svcplane.io/v1alpha1", "kind": "NodePortPool", "metadata": {"name": "bank", "creationTimestamp": EARLY},
        "spec": {"ranges": ["30080-30089"], "enforce": true, "selector": {"namespaces": ["bank"]}}});
    let services = [
        with_port("a", EARLY, "10.96.0.7", 30_080),
        with_port("b", LATE, "10.96.0.8", 30_090),
    ];
    let addresses = [address("10.96.0.7", "a", EARLY), address("10.96.0.8", "b", LATE)];
    assert_eq!(
        found(&services, &addresses, &[pool]),
        [("PoolBypassed", "Service shop/a".to_owned())]
    );
}

#[test]
fn what_has_only_just_been_made_is_not_held_against_it() {
    let seconds_ago = |seconds: i64| {
        let time = k8s_openapi::jiff::Timestamp::from_second(NOW - seconds).unwrap();
        [address("10.96.0.9", "coming", &time.to_string())]
    };
    assert_eq!(found(&[], &seconds_ago(30), &[]), []);
    assert_eq!(found(&[], &seconds_ago(90), &[]).len(), 1);
}

#[test]
fn the_report_counts_and_groups() {
    let services = [plain("a", EARLY, "10.97.0.7"), plain("b", EARLY, "10.97.0.8")];
    let addresses = [address("10.97.0.7", "a", EARLY), address("10.97.0.8", "b", EARLY)];
    let findings = service_findings(&stored(&services, &addresses, &[]));
    assert_eq!(
        report::text(&findings, 2),
        "ClusterIPOutOfRange\n  Service shop/a: spec.clusterIPs[0]: 10.97.0.7 lies in no ServiceCIDR\n  Service shop/b: \
         spec.clusterIPs[0]: 10.97.0.8 lies in no ServiceCIDR\n\n2 Services looked at: 2 found wrong, 0 to know\n"
    );
    assert_eq!(report::text(&[], 3), "3 Services looked at: 0 found wrong, 0 to know\n");
}
