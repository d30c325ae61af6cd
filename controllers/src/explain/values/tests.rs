use std::time::Instant;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};
use svcplane_webhook::ledger::Ranges;
use svcplane_webhook::pools::{ClusterIPPool, NodePortPool};

use super::*;
use crate::books::{feed, ranges_and_pools};
use crate::wire::WireService;

fn read<T: DeserializeOwned>(objects: &[Json]) -> Vec<T> {
    let objects = objects.iter().cloned();
    objects.map(|object| serde_json::from_value(object).unwrap()).collect()
}

fn pool(kind: &str, name: &str, spec: Json) -> Json {
    let metadata = json!({"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"});
    let mut pool = json!({"apiVersion": "svcplane.io/v1alpha1", "kind": kind, "metadata": metadata});
    pool["spec"] = spec;
    pool
}

fn ips(name: &str, spec: Json) -> Json {
    pool("ClusterIPPool", name, spec)
}

fn ports(name: &str, spec: Json) -> Json {
    pool("NodePortPool", name, spec)
}

/// A Service of namespace `shop`.
fn service(address: &str, port: u16, owned: Json) -> Json {
    let owned: Vec<Json> = serde_json::from_value(owned).unwrap();
    let managed = owned.into_iter().map(|fields| {
        json!({"manager": "kubectl-create", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": fields}})
    });
    json!({"metadata": {"namespace": "shop", "name": "web", "labels": {"tier": "web"}, "managedFields": managed.collect::<Vec<_>>()},
        "spec": {"type": "NodePort", "clusterIP": address, "clusterIPs": [address], "ipFamilies": ["IPv4"],
            "ports": [{"port": 80, "protocol": "TCP", "nodePort": port}]}})
}

fn told(service: &Json, pools: &[Json]) -> Allocation {
    let of = |kind: &str| -> Vec<Json> { pools.iter().filter(|pool| pool["kind"] == kind).cloned().collect() };
    let cidr = json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": ["10.96.0.0/16"]}});
    let now = Instant::now();
    let ranges = Ranges {
        cidrs: Vec::new(),
        ports: "30000-32767".parse().unwrap(),
    };
    let (cidrs, cluster_ips, node_ports) = (
        read::<ServiceCIDR>(&[cidr]),
        read::<ClusterIPPool>(&of("ClusterIPPool")),
        read::<NodePortPool>(&of("NodePortPool")),
    );
    let mut ledger = ranges_and_pools(ranges, Some(&cidrs), Some(&cluster_ips), Some(&node_ports), now).unwrap();
    let namespace = json!({"metadata": {"name": "shop", "labels": {"team": "front"}}});
    feed(&mut ledger, Some(&read::<Namespace>(&[namespace])), now);
    feed(
        &mut ledger,
        Some(&read::<WireService>(std::slice::from_ref(service))),
        now,
    );
    Allocation::of(&ledger, &serde_json::from_value(service.clone()).unwrap())
}

fn places(allocation: &Allocation) -> Vec<&str> {
    allocation.values.iter().map(|it| it.place.as_str()).collect()
}

fn pools_said(allocation: &Allocation) -> Vec<String> {
    let said = allocation.pools.iter();
    said.map(|it| format!("{} {}: {}", it.name, it.values, it.said))
        .collect()
}

#[test]
fn a_value_is_placed_in_its_pool_or_band_as_the_pools_are_now() {
    let plain = service("10.96.1.7", 30_100, json!([]));
    let (lower, away) = (
        service("10.96.0.7", 30_100, json!([])),
        service("10.97.0.7", 30_100, json!([])),
    );
    let front = |spec: &[(&str, Json)]| {
        let mut all = json!({"ranges": ["10.96.1.0/24"]});
        for (field, value) in spec {
            all[*field] = value.clone();
        }
        ips("front", all)
    };
    let elsewhere = ips("elsewhere", json!({"ranges": ["10.96.9.0/24"]}));
    let mine = json!([{"value": "10.96.1.7", "service": "shop/web"}]);
    let table: [(&Json, Vec<Json>, &str); 8] = [
        (&plain, vec![], "in no pool, in the upper band of 10.96.0.0/16"),
        (&lower, vec![], "in no pool, in the lower band of 10.96.0.0/16"),
        (&away, vec![], "in no range of this cluster"),
        (&plain, vec![front(&[])], "in pool front, which governs this Service"),
        (
            &plain,
            vec![front(&[("reservations", mine)])],
            "in pool front, which reserves it for this Service",
        ),
        (
            &plain,
            vec![front(&[("selector", json!({"namespaces": ["bank"]}))])],
            "in pool front, which does not serve this Service now",
        ),
        (
            &plain,
            vec![front(&[("mode", json!("Drain"))])],
            "in pool front, which does not serve this Service now",
        ),
        (
            &plain,
            vec![elsewhere],
            "in no pool, in the upper band of 10.96.0.0/16; outside of what governs this Service (elsewhere): written by hand, from before the \
             pool, or while the pool was full or svcplane away",
        ),
    ];
    for (service, pools, want) in table {
        assert_eq!(places(&told(service, &pools))[0], want);
    }
    let node_ports = ports("nodes", json!({"ranges": ["30100-30109"]}));
    assert_eq!(
        places(&told(&plain, &[node_ports]))[1],
        "in pool nodes, which governs this Service"
    );
}

#[test]
fn why_a_pool_does_not_apply_is_said_of_each() {
    let plain = service("10.96.1.7", 30_100, json!([]));
    let mut asks = plain.clone();
    asks["metadata"]["annotations"] = json!({"svcplane.io/cluster-ip-pool": "b"});
    let spec = |more: Json| {
        let mut all = json!({"ranges": ["10.96.2.0/30"]});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let one = |more: Json| vec![ips("a", spec(more))];
    let full = json!({"ranges": ["10.96.1.7"]});
    let table: [(&Json, Vec<Json>, Vec<&str>); 11] = [
        (
            &plain,
            one(json!({})),
            vec!["a IPv4: serves it, before all others; 4 of 4 free"],
        ),
        (
            &plain,
            vec![ips("a", full)],
            vec!["a IPv4: serves it, before all others; it is exhausted"],
        ),
        (
            &plain,
            one(json!({"selector": {"namespaces": ["bank"]}})),
            vec!["a IPv4: does not select it: spec.selector.namespaces does not match"],
        ),
        (
            &plain,
            one(json!({"selector": {"namespaceSelector": {"matchLabels": {"team": "back"}}}})),
            vec!["a IPv4: does not select it: spec.selector.namespaceSelector does not match"],
        ),
        (
            &plain,
            one(json!({"selector": {"serviceSelector": {"matchLabels": {"tier": "db"}}}})),
            vec!["a IPv4: does not select it: spec.selector.serviceSelector does not match"],
        ),
        (
            &plain,
            one(json!({"autoAssign": false})),
            vec![
                "a IPv4: autoAssign is false, and the Service does not ask for it: annotation svcplane.io/cluster-ip-pool: a",
            ],
        ),
        (
            &plain,
            one(json!({"mode": "Drain"})),
            vec!["a IPv4: mode is Drain: it gives nothing new"],
        ),
        (
            &plain,
            one(json!({"mode": "Disabled"})),
            vec!["a IPv4: mode is Disabled"],
        ),
        (
            &plain,
            vec![ips("a", json!({"ranges": ["fd00::/120"]}))],
            vec!["a IPv4: has no such values, or older pools have them all"],
        ),
        (
            &plain,
            vec![
                ips("a", spec(json!({"priority": 5}))),
                ips("b", json!({"ranges": ["10.96.3.0/30"], "enforce": true})),
            ],
            vec![
                "b IPv4: serves it, before all others; 4 of 4 free",
                "a IPv4: pool b is enforced for the Service, this one is not",
            ],
        ),
        (
            &asks,
            vec![ips("a", spec(json!({}))), ips("b", json!({"ranges": ["10.96.3.0/30"]}))],
            vec![
                "a IPv4: the Service asks for another one: annotation svcplane.io/cluster-ip-pool: b",
                "b IPv4: serves it, before all others; 4 of 4 free",
            ],
        ),
    ];
    for (service, pools, want) in table {
        assert_eq!(pools_said(&told(service, &pools)), want);
    }
    let ordered = [
        ips("late", spec(json!({"priority": 5}))),
        ips("early", json!({"ranges": ["10.96.3.0/30"]})),
    ];
    assert_eq!(
        pools_said(&told(&plain, &ordered)),
        [
            "early IPv4: serves it, before all others; 4 of 4 free",
            "late IPv4: serves it, after early (priority, then name); 4 of 4 free"
        ]
    );
    let nothing = told(&asks, &[]);
    assert_eq!(
        nothing.notes,
        ["annotation svcplane.io/cluster-ip-pool: there is no pool \"b\""]
    );
}

#[test]
fn who_has_written_a_value_is_said_as_far_as_it_is_known() {
    let named = "named in a request of kubectl-create";
    let nobody = "named in no request: chosen at admission, as by svcplane, or by the apiserver";
    let unknown = "who wrote it is not known: managedFields do not tell";
    let table = [
        (json!([]), [unknown, unknown]),
        (json!([{"f:type": {}}]), [nobody, nobody]),
        (json!([{"f:clusterIP": {}}]), [named, nobody]),
        (json!([{"f:clusterIPs": {}}]), [named, nobody]),
        (
            json!([{"f:ports": {".": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:nodePort": {}}}}]),
            [nobody, named],
        ),
        (
            json!([{"f:ports": {"k:{\"port\":80,\"protocol\":\"UDP\"}": {"f:nodePort": {}}, "k:{\"port\":80,\"protocol\":\"TCP\"}": {"f:port": {}}}}]),
            [nobody, nobody],
        ),
    ];
    for (owned, want) in table {
        let allocation = told(&service("10.96.1.7", 30_100, owned.clone()), &[]);
        let written: Vec<&str> = allocation.values.iter().map(|it| it.written.as_str()).collect();
        assert_eq!(written, want, "{owned}");
    }
    let mut before = service("10.96.1.7", 30_100, json!([{"f:clusterIP": {}}]));
    before["metadata"]["managedFields"][0]["manager"] = json!("before-first-apply");
    assert_eq!(told(&before, &[]).values[0].written, unknown);
}

#[test]
fn a_service_without_values_has_none_and_the_label_is_said() {
    let mut external = service("", 30_100, json!([]));
    external["spec"] = json!({"type": "ExternalName", "externalName": "a.example"});
    let front = ips("front", json!({"ranges": ["10.96.1.0/24"]}));
    assert_eq!(told(&external, std::slice::from_ref(&front)), Allocation::default());
    let mut headless = service("None", 30_100, json!([]));
    headless["spec"]["type"] = json!("ClusterIP");
    assert_eq!(told(&headless, &[front]), Allocation::default());
    let mut skips = service("10.96.1.7", 30_100, json!([]));
    skips["metadata"]["labels"] = json!({"svcplane.io/skip": ""});
    assert_eq!(
        told(&skips, &[]).notes,
        ["it has the label svcplane.io/skip: svcplane chooses nothing for it"]
    );
}
