//! EndpointSlices, Nodes, and what a Service says about hints.

use serde_json::{Value, json};

use super::super::*;
use super::service;
use crate::model::*;

fn slice(value: Value) -> Option<Slice> {
    serde_json::from_value::<WireSlice>(value)
        .unwrap()
        .into_model(&mut Interner::default())
}

/// As the real controller writes one, and the apiserver stores it.
fn stored() -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {
            "name": "web-abc12", "generateName": "web-", "namespace": "marsh", "uid": "0b8f3c1e-5a51-4c3c-9f0e-1f2e3d4c5b6a",
            "resourceVersion": "7", "generation": 1,
            "labels": {
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                "kubernetes.io/service-name": "web",
            },
            "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2026-11-30T10:00:00Z"},
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Service", "name": "web", "uid": "u", "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "ports": [
            {"name": "metrics", "port": 9090, "protocol": "TCP"},
            {"name": "", "port": 8080, "protocol": "TCP", "appProtocol": "http"},
        ],
        "endpoints": [
            {
                "addresses": ["10.0.0.1", "10.0.0.2"], "conditions": {"ready": true, "serving": true, "terminating": false},
                "hostname": "db-0", "nodeName": "n1", "zone": "a",
                "targetRef": {"kind": "Pod", "namespace": "marsh", "name": "p1", "uid": "1b8f3c1e-5a51-4c3c-9f0e-1f2e3d4c5b6a"},
                "hints": {"forZones": [{"name": "a"}], "forNodes": [{"name": "n1"}]},
            },
            {
                "addresses": ["10.0.0.3"], "conditions": {"ready": false, "serving": true, "terminating": true}, "nodeName": "n2",
                "targetRef": {"kind": "Pod", "namespace": "marsh", "name": "p2", "uid": "2b8f3c1e-5a51-4c3c-9f0e-1f2e3d4c5b6a"},
            },
        ],
    })
}

/// What is read is what would be written: nothing is lost, and nothing else would be sent.
#[test]
fn a_slice_is_written_as_it_was_read() {
    let slice = slice(stored()).unwrap();
    assert!(slice.content.endpoints.iter().all(|it| it.as_pod().is_some()));
    assert_eq!(
        (slice.content.manager, slice.content.family),
        (Manager::Selector, Some(IpFamily::V4))
    );
    let body = write_slice(&slice.key, &slice.content, Some((&slice.uid, slice.revision))).unwrap();
    let mut want = stored();
    want["metadata"].as_object_mut().unwrap().remove("generation");
    // The order of ports means nothing; ours is by name.
    want["ports"].as_array_mut().unwrap().reverse();
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), want);
}

/// Ten endpoints of a hundred bytes, not the buffer in which sixteen of four hundred were read.
#[test]
fn what_is_kept_of_a_list_has_no_spare_room() {
    let mut value = stored();
    let one = value["endpoints"][0].clone();
    value["endpoints"] = Value::Array(vec![one; 10]);
    let SliceContent {
        endpoints,
        owner_references,
        ..
    } = slice(value).unwrap().content;
    assert_eq!((endpoints.len(), endpoints.capacity()), (10, 10));
    assert_eq!((owner_references.len(), owner_references.capacity()), (1, 1));
}

#[test]
fn empty_lists_come_as_null() {
    let mut value = stored();
    (value["ports"], value["endpoints"]) = (Value::Null, Value::Null);
    let slice = slice(value).unwrap();
    assert!(slice.content.ports.is_empty() && slice.content.endpoints.is_empty());
}

#[test]
fn only_slices_of_our_controllers_are_read() {
    for (label, value) in [
        ("endpointslice.kubernetes.io/managed-by", json!("night-shift")),
        ("endpointslice.kubernetes.io/managed-by", json!("")),
        ("kubernetes.io/service-name", json!("")),
    ] {
        let mut other = stored();
        other["metadata"]["labels"][label] = value;
        assert_eq!(slice(other), None, "{label}");
    }
}

/// What somebody wrote by hand is not taken for a Pod of ours, so that it is put right.
#[test]
fn an_endpoint_in_another_form_is_none_of_our_pods() {
    for (field, value) in [
        ("addresses", json!(["010.0.0.1"])),
        ("addresses", json!(["example.org"])),
        ("conditions", json!({"ready": true})),
        ("zone", json!("")),
        ("targetRef", Value::Null),
        (
            "targetRef",
            json!({"kind": "Pod", "namespace": "fen", "name": "p1", "uid": "u"}),
        ),
        (
            "targetRef",
            json!({"kind": "Pod", "namespace": "marsh", "name": "p1", "uid": "u", "fieldPath": "x"}),
        ),
        ("deprecatedTopology", json!({"a": "b"})),
    ] {
        let mut odd = stored();
        odd["endpoints"][0][field] = value.clone();
        let endpoint = &slice(odd).unwrap().content.endpoints[0];
        assert_eq!(endpoint.as_pod(), None, "{field}: {value}");
    }
}

#[test]
fn a_mirrored_slice_keeps_every_field() {
    let mut mirrored = stored();
    mirrored["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] =
        "endpointslicemirroring-controller.k8s.io".into();
    mirrored["endpoints"] = json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": true}, "hostname": "a"}]);
    let slice = slice(mirrored.clone()).unwrap();
    let body = write_slice(&slice.key, &slice.content, None).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["endpoints"], mirrored["endpoints"]);
    assert_eq!(body["metadata"].get("resourceVersion"), None);
}

#[test]
fn a_node_counts_by_its_cpus_unless_it_is_not_ready_or_a_control_plane() {
    let node = |labels: Value, cpu: &str, ready: &str| {
        let value = json!({
            "metadata": {"name": "n1", "resourceVersion": "3", "labels": labels},
            "status": {"allocatable": {"cpu": cpu}, "conditions": [{"type": "Ready", "status": ready}]},
        });
        let node = serde_json::from_value::<WireNode>(value).unwrap();
        let node = node.into_model(&mut Interner::default());
        (node.zone.map(|zone| zone.to_string()), node.cpu)
    };
    let zone = json!({"topology.kubernetes.io/zone": "a"});
    for (cpu, want) in [
        ("2G", 2_000_000_000_000),
        ("2Ki", 2_048_000),
        ("1Mi", 1_048_576_000),
        ("1e3", 1_000_000),
        ("25E-1", 2500),
        ("1E", u64::MAX),
        ("99Ei", u64::MAX),
        ("1x", 0),
        ("4", 4000),
        ("3920m", 3920),
        ("0.5", 500),
        ("1k", 1_000_000),
        ("", 0),
        ("lots", 0),
    ] {
        assert_eq!(node(zone.clone(), cpu, "True"), (Some("a".into()), Some(want)), "{cpu}");
    }
    assert_eq!(node(zone, "4", "Unknown").1, None);
    assert_eq!(
        node(json!({"node-role.kubernetes.io/control-plane": ""}), "4", "True"),
        (None, None)
    );
    assert_eq!(
        node(json!({"topology.kubernetes.io/zone": ""}), "4", "True"),
        (None, Some(4000))
    );
}

#[test]
fn where_a_service_wants_its_traffic_first() {
    let distribution = |annotations: Value, field: Value| {
        service(json!({
            "metadata": {"name": "web", "namespace": "marsh", "annotations": annotations},
            "spec": {"trafficDistribution": field},
        }))
        .distribution
    };
    let (mode, older) = (
        "service.kubernetes.io/topology-mode",
        "service.kubernetes.io/topology-aware-hints",
    );
    for (annotations, field, want) in [
        (Value::Null, Value::Null, Distribution::Anywhere),
        (Value::Null, json!("PreferClose"), Distribution::SameZone),
        (Value::Null, json!("PreferSameZone"), Distribution::SameZone),
        (Value::Null, json!("PreferSameNode"), Distribution::SameNode),
        (Value::Null, json!("Elsewhere"), Distribution::Anywhere),
        (json!({mode: "Auto"}), json!("PreferClose"), Distribution::Auto),
        (json!({mode: "auto"}), Value::Null, Distribution::Auto),
        (json!({mode: "aUto"}), json!("PreferClose"), Distribution::SameZone),
        (
            json!({mode: "Auto", older: "Disabled"}),
            Value::Null,
            Distribution::Anywhere,
        ),
        (json!({older: "Auto"}), Value::Null, Distribution::Auto),
    ] {
        assert_eq!(
            distribution(annotations.clone(), field.clone()),
            want,
            "{annotations} {field}"
        );
    }
}

#[test]
fn the_families_that_slices_are_made_for() {
    let families = |spec: Value| {
        let service = service(json!({"metadata": {"name": "web", "namespace": "marsh"}, "spec": spec}));
        service.families().collect::<Vec<_>>()
    };
    let (v4, v6) = (IpFamily::V4, IpFamily::V6);
    for (spec, want) in [
        (json!({"ipFamilies": ["IPv6"], "clusterIP": "fd00::1"}), &[v6][..]),
        (
            json!({"ipFamilies": ["IPv6", "IPv4"], "clusterIP": "fd00::1"}),
            &[v6, v4],
        ),
        (json!({"clusterIP": "fd00::1"}), &[v6]),
        // Nothing says which: as upstream, both.
        (json!({"clusterIP": "None"}), &[v4, v6]),
    ] {
        assert_eq!(families(spec.clone()), want, "{spec}");
    }
}
