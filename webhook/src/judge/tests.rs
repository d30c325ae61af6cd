//! The judge by hand-made examples, each with the fields and reasons that the apiserver names, and by random ones.
#![allow(clippy::needless_pass_by_value, reason = "examples are literals")]

mod random;

use serde_json::{Value, json};

use super::*;
use crate::cause::Cause;

/// A Service of this name with this spec; `metadata` is laid over.
fn service(spec: Value, metadata: Value) -> Service {
    let mut all = json!({"name": "web", "namespace": "shop"});
    all.as_object_mut()
        .unwrap()
        .extend(metadata.as_object().unwrap().clone());
    serde_json::from_value(json!({"metadata": all, "spec": spec})).unwrap()
}

fn words(causes: &[Cause]) -> Vec<String> {
    let reason = |cause: &Cause| cause.reason.as_str().trim_start_matches("FieldValue").to_owned();
    let mut words: Vec<_> = causes
        .iter()
        .map(|cause| format!("{} {}", cause.field, reason(cause)))
        .collect();
    words.sort();
    words.dedup();
    words
}

fn created(spec: Value) -> Vec<String> {
    words(judge(&service(spec, json!({})), None).causes())
}

fn named(metadata: Value) -> Vec<String> {
    words(judge(&service(json!({"ports": [{"port": 80}]}), metadata), None).causes())
}

fn changed(old: Value, new: Value) -> Vec<String> {
    words(judge(&service(new, json!({})), Some(&service(old, json!({})))).causes())
}

/// A spec with one port and this beside it.
fn with(more: Value) -> Value {
    let mut spec = json!({"ports": [{"port": 80}]});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}

#[test]
fn what_the_apiserver_takes() {
    for spec in [
        with(json!({})),
        with(json!({"clusterIP": "None"})),
        json!({"clusterIP": "None"}),
        with(json!({"clusterIP": "10.96.0.7"})),
        with(json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"})),
        with(json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 86400}}})),
        with(json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv6", "IPv4"]})),
        with(json!({"externalIPs": ["239.1.1.1", "250.0.0.1"]})),
        with(json!({"loadBalancerIP": "nonsense", "publishNotReadyAddresses": true})),
        json!({"type": "ExternalName", "externalName": "192.0.2.15", "internalTrafficPolicy": "Cluster"}),
        json!({"type": "ExternalName", "externalName": "example.com.", "ports": [{"port": 1, "nodePort": 70000}]}),
        json!({"ports": [{"name": "a", "port": 53}, {"name": "b", "port": 53, "protocol": "UDP"}]}),
        json!({"type": "NodePort", "ports": [{"name": "1", "port": 53, "nodePort": 31053},
            {"name": "2", "port": 53, "protocol": "UDP", "nodePort": 31053}]}),
    ] {
        assert_eq!(created(spec.clone()), [""; 0], "{spec}");
    }
}

/// Each line: what is created, and the fields and reasons of the refusal.
#[test]
fn what_it_refuses() {
    for (spec, refused) in [
        (json!({}), vec!["spec.ports Required"]),
        (with(json!({"type": "Foo"})), vec!["spec.type NotSupported"]),
        (
            with(json!({"type": "NodePort", "clusterIP": "None"})),
            vec!["spec.clusterIPs[0] Invalid"],
        ),
        (
            json!({"type": "ExternalName", "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}),
            vec![
                "spec.clusterIPs Forbidden",
                "spec.externalName Required",
                "spec.ipFamilies Forbidden",
                "spec.ipFamilyPolicy Forbidden",
            ],
        ),
        (
            json!({"type": "ExternalName", "externalName": "Db.example"}),
            vec!["spec.externalName Invalid"],
        ),
        (
            json!({"ports": [{"port": 0, "protocol": "tcp", "targetPort": 65536, "appProtocol": "a/b/c", "nodePort": 1}]}),
            vec![
                "spec.ports[0].appProtocol Invalid",
                "spec.ports[0].nodePort Forbidden",
                "spec.ports[0].port Invalid",
                "spec.ports[0].protocol NotSupported",
                "spec.ports[0].targetPort Invalid",
            ],
        ),
        (
            json!({"ports": [{"port": 80, "name": "Web"}, {"port": 80}, {"port": 81, "name": "Web", "targetPort": "8080"}]}),
            vec![
                "spec.ports[0].name Invalid",
                "spec.ports[1] Duplicate",
                "spec.ports[1].name Required",
                "spec.ports[2].name Duplicate",
                "spec.ports[2].name Invalid",
                "spec.ports[2].targetPort Invalid",
            ],
        ),
        // 11.9: one of them would get the other's.
        (
            json!({"type": "NodePort", "ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]}),
            vec!["spec.ports[1] Duplicate", "spec.ports[1].nodePort Duplicate"],
        ),
        // B54 c, and what the allocator says before anybody else.
        (
            json!({"type": "NodePort", "ports": [{"port": 80, "name": "A", "nodePort": 31090},
                {"port": 81, "name": "b", "protocol": "UDP", "nodePort": 31090}]}),
            vec!["spec.ports[1].nodePort Invalid"],
        ),
        (
            with(json!({"selector": {"a b": "c d"}, "sessionAffinity": "Client"})),
            vec!["spec.selector Invalid", "spec.sessionAffinity NotSupported"],
        ),
        (
            with(json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 0}}})),
            vec!["spec.sessionAffinityConfig.clientIP.timeoutSeconds Invalid"],
        ),
        // A wrong address is told alone.
        (
            json!({"clusterIP": "foo", "type": "Foo"}),
            vec!["spec.clusterIPs[0] Invalid"],
        ),
        (
            with(json!({"clusterIPs": ["10.0.0.1"]})),
            vec!["spec.clusterIPs Invalid"],
        ),
        (
            with(json!({"clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.1"]})),
            vec!["spec.clusterIPs Invalid"],
        ),
        (
            with(
                json!({"clusterIP": "None", "clusterIPs": ["None", "x"], "ipFamilies": ["IPv5", "IPv5"],
                "ipFamilyPolicy": "Both"}),
            ),
            vec![
                "spec.clusterIPs Invalid",
                "spec.clusterIPs[1] Invalid",
                "spec.ipFamilies[0] NotSupported",
                "spec.ipFamilies[1] Duplicate",
                "spec.ipFamilies[1] NotSupported",
                "spec.ipFamilyPolicy NotSupported",
            ],
        ),
        (
            with(json!({"clusterIP": "10.0.0.1", "ipFamilies": ["IPv6"]})),
            vec!["spec.clusterIPs[0] Invalid"],
        ),
        (
            with(json!({"ipFamilies": ["IPv4", "IPv6"]})),
            vec!["spec.ipFamilyPolicy Invalid"],
        ),
        (
            with(json!({"externalIPs": ["127.0.0.1", "::ffff:169.254.1.1", "ff02::1", "0.0.0.0", "x", "10.0.0.1"]})),
            (0..5)
                .map(|i| {
                    [
                        "spec.externalIPs[0] Invalid",
                        "spec.externalIPs[1] Invalid",
                        "spec.externalIPs[2] Invalid",
                        "spec.externalIPs[3] Invalid",
                        "spec.externalIPs[4] Invalid",
                    ][i]
                })
                .collect(),
        ),
        (
            with(
                json!({"loadBalancerSourceRanges": ["10.0.0.0"], "loadBalancerClass": "x", "externalTrafficPolicy": "Local",
                "allocateLoadBalancerNodePorts": true, "healthCheckNodePort": 31000}),
            ),
            vec![
                "spec.LoadBalancerSourceRanges Forbidden",
                "spec.LoadBalancerSourceRanges[0] Invalid",
                "spec.allocateLoadBalancerNodePorts Forbidden",
                "spec.externalTrafficPolicy Invalid",
                "spec.healthCheckNodePort Invalid",
                "spec.loadBalancerClass Forbidden",
            ],
        ),
        (
            with(
                json!({"type": "LoadBalancer", "loadBalancerClass": "-", "externalTrafficPolicy": "local",
                "internalTrafficPolicy": "", "trafficDistribution": ""}),
            ),
            vec![
                "spec.externalTrafficPolicy NotSupported",
                "spec.internalTrafficPolicy NotSupported",
                "spec.loadBalancerClass Invalid",
                "spec.trafficDistribution NotSupported",
            ],
        ),
    ] {
        assert_eq!(created(spec.clone()), refused, "{spec}");
    }
}

#[test]
fn metadata_of_a_new_one() {
    for (metadata, refused) in [
        (json!({"name": "1-web"}), vec![]),
        (json!({"name": null, "generateName": "web-"}), vec![]),
        (json!({"name": ""}), vec!["metadata.name Required"]),
        (
            json!({"name": "", "generateName": "a.b-"}),
            vec!["metadata.generateName Invalid", "metadata.name Invalid"],
        ),
        // What is too long is cut before the name is made.
        (
            json!({"name": "", "generateName": "a".repeat(64)}),
            vec!["metadata.generateName Invalid"],
        ),
        (json!({"generation": -1}), vec!["metadata.generation Invalid"]),
        (
            json!({"labels": {"a/b/c": "x"}, "annotations": {"Example.com/A": ""}}),
            vec!["metadata.labels Invalid"],
        ),
        (
            json!({"annotations": {"a b": ""}}),
            vec!["metadata.annotations Invalid"],
        ),
        (
            json!({"annotations": {"a": "x".repeat(256 * 1024)}}),
            vec!["metadata.annotations TooLong"],
        ),
        (
            json!({"finalizers": ["orphan", "foregroundDeletion", "mine", "a/b"]}),
            vec!["metadata.finalizers Invalid", "metadata.finalizers[2] Invalid"],
        ),
        (
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "1", "controller": true},
                {"apiVersion": "a/b/c", "controller": true}]}),
            vec![
                "metadata.ownerReferences Invalid",
                "metadata.ownerReferences[0] Invalid",
                "metadata.ownerReferences[1].apiVersion Invalid",
                "metadata.ownerReferences[1].kind Required",
                "metadata.ownerReferences[1].name Required",
                "metadata.ownerReferences[1].uid Required",
            ],
        ),
        (
            json!({"annotations": {"service.kubernetes.io/topology-mode": "Auto",
                "service.kubernetes.io/topology-aware-hints": "auto"}}),
            vec!["metadata.annotations[service.kubernetes.io/topology-mode] Invalid"],
        ),
        (
            json!({"annotations": {"service.beta.kubernetes.io/load-balancer-source-ranges": "10.0.0.0/8,x"}}),
            vec![
                "metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges] Forbidden",
                "metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges] Invalid",
            ],
        ),
    ] {
        assert_eq!(named(metadata.clone()), refused, "{metadata}");
    }
}

/// A stored Service of this type, with what the apiserver fills in.
fn stored(more: Value) -> Value {
    let mut spec = json!({"type": "ClusterIP", "clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"],
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "ports": [{"port": 80}]});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}

#[test]
fn changes() {
    let dual = json!({"clusterIPs": ["10.96.0.7", "fd00::7"], "ipFamilies": ["IPv4", "IPv6"],
        "ipFamilyPolicy": "RequireDualStack"});
    let none = json!({"clusterIP": "None", "clusterIPs": ["None"]});
    let node_port = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 31000}]});
    let local = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 31001});
    let external = json!({"type": "ExternalName", "externalName": "a.b", "clusterIP": "", "clusterIPs": [],
        "ipFamilies": [], "ipFamilyPolicy": null});
    for (old, new, refused) in [
        (json!({}), with(json!({})), vec![]),
        // B52.
        (
            json!({}),
            stored(json!({"clusterIP": "10.96.0.8"})),
            vec!["spec.clusterIPs[0] Invalid"],
        ),
        (
            json!({}),
            stored(json!({"clusterIP": "None"})),
            vec!["spec.clusterIPs[0] Invalid"],
        ),
        (none.clone(), stored(json!({})), vec!["spec.clusterIPs[0] Invalid"]),
        (none.clone(), with(json!({})), vec![]),
        // 11.10.
        (
            json!({}),
            stored(json!({"clusterIP": "None", "ipFamilyPolicy": "RequireDualStack"})),
            vec!["spec.clusterIPs Invalid", "spec.clusterIPs[0] Invalid"],
        ),
        (
            json!({}),
            with(json!({"clusterIP": "None", "ipFamilyPolicy": "RequireDualStack", "selector": {"a": "b"}})),
            vec!["spec.clusterIPs Invalid", "spec.clusterIPs[0] Invalid"],
        ),
        // B61.
        (
            dual.clone(),
            stored(json!({"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"]})),
            vec!["spec.clusterIPs[0] Invalid"],
        ),
        (dual.clone(), stored(json!({"ipFamilyPolicy": "SingleStack"})), vec![]),
        (
            dual.clone(),
            stored(json!({"ipFamilyPolicy": "RequireDualStack"})),
            vec!["spec.ipFamilyPolicy Invalid"],
        ),
        (json!({}), stored(json!({"ipFamilyPolicy": "PreferDualStack"})), vec![]),
        (
            json!({}),
            stored(json!({"clusterIPs": ["10.96.0.7"], "ipFamilies": []})),
            vec![],
        ),
        // Types.
        (
            node_port.clone(),
            stored(json!({"ports": [{"port": 80, "nodePort": 31000}]})),
            vec![],
        ),
        (
            node_port.clone(),
            stored(json!({"ports": [{"port": 80, "nodePort": 31001}]})),
            vec!["spec.ports[0].nodePort Forbidden"],
        ),
        (
            json!({}),
            stored(json!({"type": "ExternalName", "externalName": "a.b"})),
            vec![],
        ),
        (external.clone(), stored(json!({})), vec![]),
        (
            local.clone(),
            stored(json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"})),
            vec![],
        ),
        (
            local.clone(),
            stored(json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 31002})),
            vec!["spec.healthCheckNodePort Forbidden"],
        ),
        (
            local.clone(),
            stored(json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 31001})),
            vec![],
        ),
        (
            local.clone(),
            stored(json!({"externalTrafficPolicy": "Cluster"})),
            vec!["spec.externalTrafficPolicy Invalid"],
        ),
        (
            json!({"type": "LoadBalancer"}),
            stored(json!({"type": "LoadBalancer", "loadBalancerClass": "a/b"})),
            vec!["spec.loadBalancerClass Invalid"],
        ),
        // What was stored is taken again, if it can be read.
        (
            json!({"externalIPs": ["010.1.1.1"]}),
            stored(json!({"externalIPs": ["010.1.1.1"]})),
            vec![],
        ),
        (
            json!({"externalIPs": ["foo", "127.0.0.1"]}),
            stored(json!({"externalIPs": ["foo", "127.0.0.1"]})),
            vec!["spec.externalIPs[0] Invalid", "spec.externalIPs[1] Invalid"],
        ),
        (
            json!({"clusterIP": "foo", "clusterIPs": ["foo"]}),
            stored(json!({"clusterIP": "foo", "clusterIPs": ["foo"]})),
            vec![],
        ),
    ] {
        assert_eq!(changed(stored(old.clone()), new.clone()), refused, "{old} -> {new}");
    }
}

#[test]
fn addresses_with_leading_zeros_are_doubted_not_refused() {
    let spec = with(
        json!({"clusterIP": "10.0.0.01", "externalIPs": ["::ffff:10.0.0.1"], "type": "LoadBalancer",
        "loadBalancerSourceRanges": [" 10.0.0.5/24 "]}),
    );
    let found = judge(&service(spec, json!({})), None);
    assert_eq!(found.causes(), []);
    let doubted = [
        "spec.LoadBalancerSourceRanges[0] Invalid",
        "spec.clusterIPs[0] Invalid",
        "spec.externalIPs[0] Invalid",
    ];
    assert_eq!(words(found.doubts()), doubted);
}

#[test]
fn one_that_is_being_deleted_can_be_changed_in_any_way() {
    let old = service(
        with(json!({})),
        json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}),
    );
    let new = service(json!({"type": "Foo"}), json!({"finalizers": ["nonsense"]}));
    assert_eq!(judge(&new, Some(&old)).causes(), []);
}

#[test]
fn a_service_full_of_faults_has_a_short_answer() {
    let ports: Vec<_> = (0..20_000).map(|_| json!({"port": 0, "protocol": "x"})).collect();
    let found = judge(&service(json!({"ports": ports}), json!({})), None);
    assert_eq!(found.causes().len(), crate::cause::MOST_CAUSES);
    assert!(found.left_out() > 50_000);
}

/// B53: a port's name is a DNS label of at most 63 characters, that of a target port an IANA name of at most 15.
#[test]
fn two_kinds_of_port_names() {
    let one = |port: Value| json!({"ports": [port]});
    let two =
        |first: Value, second: Value| json!({"ports": [{"port": 80, "name": first}, {"port": 81, "name": second}]});
    for (spec, refused) in [
        (one(json!({"port": 80, "name": "a".repeat(40)})), vec![]),
        (
            one(json!({"port": 80, "targetPort": "sixteen-chars-xx"})),
            vec!["spec.ports[0].targetPort Invalid"],
        ),
        (
            one(json!({"port": 80, "targetPort": "8080"})),
            vec!["spec.ports[0].targetPort Invalid"],
        ),
        (two(json!("web"), Value::Null), vec!["spec.ports[1].name Required"]),
        (two(json!("web"), json!("web")), vec!["spec.ports[1].name Duplicate"]),
        (one(json!({"port": 80})), vec![]),
        (
            one(json!({"port": 80, "name": "Web"})),
            vec!["spec.ports[0].name Invalid"],
        ),
    ] {
        assert_eq!(created(spec.clone()), refused, "{spec}");
    }
    let found = judge(&service(one(json!({"port": 80, "name": "Web"})), json!({})), None);
    let message =
        "\"Web\": use lower-case letters, digits and '-', with a letter or digit at both ends; \"web\" would do";
    assert_eq!(found.causes()[0].message, message);
}

/// B54: the pair of protocol and number counts.
#[test]
fn the_same_port_twice() {
    let pair = |a: Value, b: Value| {
        let (mut a, mut b) = (a, b);
        (a["name"], b["name"]) = (json!("a"), json!("b"));
        json!({"type": "NodePort", "ports": [a, b]})
    };
    let tcp = |port: u16| json!({"port": port, "protocol": "TCP"});
    let udp = |port: u16| json!({"port": port, "protocol": "UDP"});
    let at = |mut port: Value| {
        port["nodePort"] = json!(31_090);
        port
    };
    for (spec, refused) in [
        (
            pair(tcp(80), tcp(80)),
            vec!["spec.ports[1] Duplicate", "spec.ports[1].nodePort Duplicate"],
        ),
        (pair(tcp(80), udp(80)), vec![]),
        (pair(at(tcp(80)), at(tcp(81))), vec!["spec.ports[1].nodePort Invalid"]),
        (pair(at(tcp(80)), at(udp(80))), vec![]),
    ] {
        assert_eq!(created(spec.clone()), refused, "{spec}");
    }
}

/// B56.
#[test]
fn external_names() {
    for (name, refused) in [
        ("mirror.example.net.", vec![]),
        ("db_north.example.net", vec!["spec.externalName Invalid"]),
        ("Mirror.example.net", vec!["spec.externalName Invalid"]),
        ("192.0.2.15", vec![]),
        ("", vec!["spec.externalName Required"]),
    ] {
        assert_eq!(
            created(json!({"type": "ExternalName", "externalName": name})),
            refused,
            "{name}"
        );
    }
}
