use serde_json::json;

use super::*;
use crate::model::*;

mod slices;

fn pod(value: serde_json::Value) -> LabelledPod {
    serde_json::from_value::<WirePod>(value)
        .unwrap()
        .into_model(&mut Interner::default())
}

fn service(value: serde_json::Value) -> Service {
    serde_json::from_value::<WireService>(value)
        .unwrap()
        .into_model(&mut Interner::default())
}

fn endpoints(value: serde_json::Value) -> EndpointsObject {
    serde_json::from_value::<WireEndpoints>(value)
        .unwrap()
        .parse()
        .unwrap()
        .into_model(&mut Interner::default())
}

#[test]
fn a_pod_is_read_with_its_sidecars_ports_and_first_ready_condition() {
    let (pod, labels) = pod(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "stint-1", "namespace": "marsh", "uid": "0b8f3c1e-5a51-4c3c-9f0e-1f2e3d4c5b6a", "resourceVersion": "815",
            "labels": {"app": "stint"}, "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
            "deletionTimestamp": "2026-11-30T10:00:00Z"
        },
        "spec": {
            "nodeName": "n1", "hostname": "h", "subdomain": "s",
            "containers": [{"name": "a", "ports": [{"containerPort": 9000}, {"name": "web", "containerPort": 8080}]}],
            "initContainers": [
                {"name": "setup", "ports": [{"name": "setup", "containerPort": 1}]},
                {"name": "mesh", "restartPolicy": "Always", "ports": [{"name": "web", "containerPort": 2, "protocol": "UDP"}]}
            ]
        },
        "status": {
            "phase": "Running", "podIP": "10.201.4.9",
            "podIPs": [{"ip": "010.201.4.9"}, {"ip": "FD5A:77::9"}, {"ip": "nonsense"}],
            "conditions": [
                {"type": "Initialized", "status": "False"},
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-30T09:59:00Z"},
                {"type": "Ready", "status": "False"}
            ]
        }
    }));
    assert_eq!(
        (&*pod.namespace, &*pod.name, pod.revision),
        ("marsh", "stint-1", Revision(815))
    );
    assert_eq!(pod.uid.to_string(), "0b8f3c1e-5a51-4c3c-9f0e-1f2e3d4c5b6a");
    assert!(pod.ready && pod.terminating && pod.phase == Phase::Active);
    assert_eq!(pod.ready_transition, Some(Timestamp(1_796_032_740)));
    assert_eq!(
        pod.ips.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["10.201.4.9", "fd5a:77::9"]
    );
    let ports: Vec<_> = pod
        .ports
        .iter()
        .map(|port| (&*port.name, port.port, port.protocol.as_str()))
        .collect();
    assert_eq!(ports, [("web", 8080, "TCP"), ("web", 2, "UDP")]);
    assert_eq!(labels, Labels::from([("app".into(), "stint".into())]));
}

#[test]
fn null_empty_and_absent_are_the_same() {
    let bare = json!({"metadata": {"name": "p", "namespace": "marsh"}});
    let nulls = json!({
        "metadata": {"name": "p", "namespace": "marsh", "labels": null, "uid": null},
        "spec": {"nodeName": "", "containers": null, "initContainers": null, "hostname": ""},
        "status": {"phase": null, "podIPs": null, "conditions": null}
    });
    assert_eq!(pod(bare.clone()), pod(nulls));
    assert_eq!(pod(bare).0.node_name, None);

    let bare = json!({"metadata": {"name": "s", "namespace": "marsh"}});
    let nulls = json!({"metadata": {"name": "s", "namespace": "marsh"}, "spec": {"selector": null, "ports": null, "ipFamilies": null}});
    assert_eq!(service(bare), service(nulls));

    let bare = json!({"metadata": {"name": "e", "namespace": "marsh"}});
    let nulls = json!({"metadata": {"name": "e", "namespace": "marsh", "annotations": null}, "subsets": null});
    assert_eq!(endpoints(bare), endpoints(nulls));
}

/// A Pod that cannot be read would end the watch of all Pods, and whoever may write its status sets this time.
#[test]
fn a_transition_time_of_any_year_is_read_or_passed_over() {
    let transition = |time: serde_json::Value| {
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": time});
        let (pod, _) = pod(json!({"metadata": {"name": "p", "namespace": "marsh"}, "status": {"conditions": [ready]}}));
        assert!(pod.ready);
        pod.ready_transition
    };
    for (time, want) in [
        ("2026-11-30T09:59:00Z", Some(1_796_032_740)),
        ("9999-12-31T23:59:59Z", Some(253_402_300_799)),
        ("0001-01-01T00:00:00Z", Some(-62_135_596_800)),
        ("10000-01-01T00:00:00Z", None),
        ("", None),
    ] {
        assert_eq!(transition(json!(time)), want.map(Timestamp), "{time}");
    }
    assert_eq!(transition(json!(null)), None);
}

#[test]
fn selectors_nil_and_empty_are_told_apart() {
    let with = |selector: serde_json::Value| {
        service(json!({"metadata": {"name": "s", "namespace": "marsh"}, "spec": {"selector": selector}})).selector
    };
    assert_eq!(with(json!(null)), None);
    assert_eq!(with(json!({})), Some(Labels::new()));
    assert_eq!(with(json!({"a": "b"})), Some(Labels::from([("a".into(), "b".into())])));
}

#[test]
fn the_family_is_the_first_of_the_list_else_that_of_the_cluster_ip() {
    let family =
        |spec: serde_json::Value| service(json!({"metadata": {"name": "s", "namespace": "m"}, "spec": spec})).family;
    let table = [
        (
            json!({"ipFamilies": ["IPv6", "IPv4"], "clusterIP": "10.96.0.1"}),
            Some(IpFamily::V6),
        ),
        (json!({"ipFamilies": ["IPv4"]}), Some(IpFamily::V4)),
        (json!({"clusterIP": "fd5a:99::1"}), Some(IpFamily::V6)),
        (json!({"clusterIP": "10.96.0.1"}), Some(IpFamily::V4)),
        (json!({"clusterIP": "None"}), None),
        (json!({}), None),
    ];
    for (spec, want) in table {
        assert_eq!(family(spec.clone()), want, "{spec}");
    }
}

#[test]
fn target_ports_are_numbers_names_or_the_port_itself() {
    let service = service(json!({"metadata": {"name": "s", "namespace": "m"}, "spec": {
        "type": "ExternalName", "clusterIP": "None",
        "ports": [{"port": 80, "targetPort": 8080}, {"port": 81, "targetPort": "web"}, {"port": 82, "protocol": "UDP", "appProtocol": "h2c"}]
    }}));
    let targets: Vec<_> = service.ports.iter().map(|port| port.target.clone()).collect();
    assert_eq!(
        targets,
        [
            TargetPort::Number(8080),
            TargetPort::Name("web".into()),
            TargetPort::Number(82)
        ]
    );
    assert_eq!(service.ports[2].app_protocol.as_deref(), Some("h2c"));
    assert_eq!(service.kind, ServiceType::ExternalName);
    assert!(service.headless && service.cluster_ip_none);
}

fn whole_endpoints() -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {
            "name": "e", "namespace": "marsh", "generateName": "e-", "uid": "u-1", "resourceVersion": "7",
            "labels": {"l": "1"}, "annotations": {"a": "2"}, "finalizers": ["example.net/keep"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u-2", "controller": true, "blockOwnerDeletion": false}]
        },
        "subsets": [{
            "addresses": [{"ip": "10.0.0.1", "hostname": "h", "nodeName": "n1", "targetRef": {
                "kind": "Pod", "namespace": "marsh", "name": "p", "uid": "u-3", "apiVersion": "v1", "fieldPath": "x"}}],
            "notReadyAddresses": [{"ip": "10.0.0.2", "nodeName": ""}, {"ip": "10.0.0.3"}],
            "ports": [{"name": "web", "port": 80, "protocol": "TCP", "appProtocol": "http"}, {"port": 53, "protocol": "UDP"}]
        }]
    })
}

#[test]
fn what_is_kept_of_subsets_has_no_spare_room() {
    let mut value = whole_endpoints();
    let one = value["subsets"][0]["addresses"][0].clone();
    value["subsets"][0]["addresses"] = serde_json::Value::Array(vec![one; 10]);
    let subsets = endpoints(value).subsets;
    assert_eq!(subsets.capacity(), subsets.len());
    assert_eq!((subsets[0].addresses.len(), subsets[0].addresses.capacity()), (10, 10));
    assert_eq!(subsets[0].ports.capacity(), subsets[0].ports.len());
}

/// The text is what kube-apiserver 1.36 sends: its order of fields is the one that we write.
#[test]
fn an_echo_repeats_what_was_written_word_for_word() {
    let metadata =
        r#""metadata":{"name":"web","namespace":"marsh","uid":"u-1","resourceVersion":"7","labels":{"l":"m"}}"#;
    let address = r#"{"ip":"10.0.0.1","hostname":"h","nodeName":"n1","targetRef":{"kind":"Pod","namespace":"marsh","name":"p","uid":"u-3"}}"#;
    let subsets = format!(
        r#"[{{"addresses":[{address}],"notReadyAddresses":[{{"ip":"10.0.0.2"}}],"ports":[{{"name":"web","port":80,"protocol":"TCP","appProtocol":"http"}}]}}]"#
    );
    let read = |text: &str| serde_json::from_str::<WireEndpoints>(text).unwrap();
    let text = format!(r#"{{"kind":"Endpoints","apiVersion":"v1",{metadata},"subsets":{subsets}}}"#);
    let known = read(&text).parse().unwrap().into_model(&mut Interner::default());
    assert!(read(&text).repeats(&known));
    assert!(read(&text.replace(r#""resourceVersion":"7""#, r#""resourceVersion":"8""#)).repeats(&known));
    for (from, to) in [
        ("10.0.0.2", "10.0.0.20"),
        (r#""l":"m""#, r#""l":"n""#),
        (r#""port":80"#, r#""port":8"#),
        (r#","appProtocol":"http""#, ""),
        (r#""http"}]}]"#, r#""http"}]},{}]"#),
    ] {
        assert!(text.contains(from));
        assert!(!read(&text.replace(from, to)).repeats(&known), "{from} -> {to}");
    }
    let empty = EndpointsObject {
        subsets: Vec::new(),
        ..known
    };
    assert!(read(&format!("{{{metadata}}}")).repeats(&empty));
    assert!(read(&format!(r#"{{{metadata},"subsets":null}}"#)).repeats(&empty));
    assert!(!read(&text).repeats(&empty));
}

#[test]
fn subsets_that_are_none_are_an_error() {
    let wire: WireEndpoints = serde_json::from_value(json!({"metadata": {}, "subsets": [{"ports": "all"}]})).unwrap();
    assert!(wire.parse().is_err());
}

/// What is not word for word the same may still say the same.
#[test]
fn endpoints_say_what_they_were_read_as_and_nothing_else() {
    let stored = whole_endpoints();
    let known = endpoints(stored.clone());
    let says = |value: &serde_json::Value| {
        let wire: WireEndpoints = serde_json::from_value(value.clone()).unwrap();
        assert!(!wire.repeats(&known), "its fields are in alphabetical order");
        wire.parse().unwrap().says(&known)
    };
    assert!(says(&stored));
    let mut turned = stored.clone();
    turned["subsets"][0]["ports"].as_array_mut().unwrap().reverse();
    assert!(says(&turned), "the order of ports is the apiserver's");
    let mut newer = stored.clone();
    newer["metadata"]["resourceVersion"] = json!("8");
    assert!(says(&newer), "a version is not content");
    let address = "/subsets/0/addresses/0";
    for place in [
        "/metadata/labels/l".to_owned(),
        "/metadata/annotations/a".into(),
        "/metadata/finalizers/0".into(),
        "/metadata/ownerReferences/0/uid".into(),
        "/subsets/0/notReadyAddresses/0/ip".into(),
        "/subsets/0/ports/0/name".into(),
        "/subsets/0/ports/0/appProtocol".into(),
        "/subsets/0/ports/0/protocol".into(),
        format!("{address}/ip"),
        format!("{address}/hostname"),
        format!("{address}/nodeName"),
        format!("{address}/targetRef/kind"),
        format!("{address}/targetRef/namespace"),
        format!("{address}/targetRef/name"),
        format!("{address}/targetRef/uid"),
        format!("{address}/targetRef/apiVersion"),
        format!("{address}/targetRef/fieldPath"),
    ] {
        let mut other = stored.clone();
        *other.pointer_mut(&place).unwrap() = json!("other");
        assert!(!says(&other), "{place}");
    }
    for place in [
        "/metadata/labels",
        "/metadata/finalizers",
        "/metadata/ownerReferences",
        "/subsets",
        "/subsets/0/addresses",
        "/subsets/0/notReadyAddresses",
        "/subsets/0/notReadyAddresses/0/nodeName",
        "/subsets/0/addresses/0/targetRef",
        "/subsets/0/ports",
    ] {
        let mut other = stored.clone();
        *other.pointer_mut(place).unwrap() = json!(null);
        assert!(!says(&other), "{place}");
    }
    let mut other = stored;
    other["subsets"][0]["ports"][0]["port"] = json!(81);
    assert!(!says(&other));
}

/// What a PUT leaves out is deleted: everything that was read goes back.
#[test]
fn endpoints_are_written_back_whole() {
    let stored = whole_endpoints();
    let object = endpoints(stored.clone());
    let body = write_endpoints(&object, Some((&object.uid, object.revision))).unwrap();
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&body).unwrap(), stored);
    let body: serde_json::Value = serde_json::from_slice(&write_endpoints(&object, None).unwrap()).unwrap();
    assert_eq!(
        (&body["metadata"]["uid"], &body["metadata"]["resourceVersion"]),
        (&json!(null), &json!(null))
    );
}
