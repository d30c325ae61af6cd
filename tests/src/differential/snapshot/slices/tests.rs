use std::collections::{HashMap, HashSet};

use serde_json::json;

use super::*;

const NOBODYS: &str = "uid-of-nobody";

fn sliced(slices: &[EndpointSlice]) -> Sliced {
    let words = Words {
        spaces: &HashMap::from([("ns".into(), 3)]),
        pods: &HashMap::from([
            ("uid-1".into(), "incarnation 1".into()),
            ("uid-2".into(), "incarnation 2".into()),
        ]),
        created: &HashMap::new(),
        owners: &HashSet::from(["uid-of-service".into()]),
    };
    let mut sliced = Sliced::default();
    for slice in slices {
        words.add_slice(&Key::new(3, "s"), slice.clone(), &mut sliced);
    }
    sliced
}

fn slice(name: &str, family: &str, endpoints: &[(&str, &str)]) -> EndpointSlice {
    let endpoints: Vec<_> = endpoints
        .iter()
        .map(|(ip, uid)| {
            json!({
                "addresses": [ip], "conditions": {"ready": true, "serving": true, "terminating": false},
                "targetRef": {"kind": "Pod", "namespace": "ns", "name": "p", "uid": uid},
            })
        })
        .collect();
    let owner = json!({
        "apiVersion": "v1", "kind": "Service", "name": "s", "uid": "uid-of-service", "controller": true,
        "blockOwnerDeletion": true,
    });
    let slice = json!({
        "metadata": {
            "name": name, "namespace": "ns", "resourceVersion": format!("version of {name}"),
            "labels": {SLICE_MANAGED_BY: "endpointslice-controller.k8s.io"}, "ownerReferences": [owner],
            "annotations": {super::super::TRIGGER_TIME: "then"},
        },
        "addressType": family,
        "endpoints": endpoints,
        "ports": [{"name": "", "port": 80, "protocol": "TCP"}],
    });
    serde_json::from_value(slice).unwrap()
}

#[test]
fn how_endpoints_are_spread_does_not_matter_and_everything_else_does() {
    let (one, two) = (("10.0.0.1", "uid-1"), ("10.0.0.2", "uid-2"));
    let apart = sliced(&[slice("x", "IPv4", &[two]), slice("y", "IPv4", &[one])]);
    let together = sliced(&[slice("z", "IPv4", &[one, two])]);
    assert_eq!(apart.content, together.content);
    assert_ne!(apart.sizes, together.sizes);

    let differs = |change: &dyn Fn(&mut EndpointSlice)| {
        let mut other = slice("z", "IPv4", &[one, two]);
        change(&mut other);
        sliced(&[other]).content != together.content
    };
    assert!(!differs(&|it| it.metadata.name = Some("elsewhere".into())));
    assert!(differs(&|it| it
        .metadata
        .labels
        .as_mut()
        .unwrap()
        .extend([("a".into(), "b".into())])));
    assert!(differs(&|it| it
        .metadata
        .annotations
        .as_mut()
        .unwrap()
        .extend([("a".into(), "b".into())])));
    assert!(differs(
        &|it| it.metadata.owner_references.as_mut().unwrap()[0].kind = "Endpoints".into()
    ));
    assert!(differs(&|it| it.metadata.owner_references = None));
    assert!(differs(&|it| it.ports.as_mut().unwrap()[0].name = None));
    assert!(differs(
        &|it| it.endpoints.as_mut().unwrap()[0].zone = Some("zone".into())
    ));
    assert!(differs(&|it| it.endpoints.as_mut().unwrap()[0].conditions = None));
    assert!(differs(&|it| it.endpoints.as_mut().unwrap()[1].target_ref = None));
    let hints = json!({"forZones": [{"name": "zone"}]});
    let hints: EndpointHints = serde_json::from_value(hints).unwrap();
    assert!(differs(
        &|it| it.endpoints.as_mut().unwrap()[1].hints = Some(hints.clone())
    ));
}

#[test]
fn a_trigger_time_is_told_apart_from_other_annotations() {
    let sliced = sliced(&[slice("x", "IPv4", &[])]);
    let group = &sliced.content.groups["IPv4 :80/TCP"];
    assert_eq!(group.annotations, BTreeSet::from([Labels::new()]));
    assert_eq!(sliced.triggers["x"].as_deref(), Some("then"));
    assert_eq!(sliced.versions["x"], "version of x");
}

#[test]
fn faults_of_one_side_alone() {
    let (one, two) = (("10.0.0.1", "uid-1"), ("10.0.0.2", "uid-2"));
    let fault = |slices: &[EndpointSlice], limit| sliced(slices).fault(limit);
    let both = slice("x", "IPv4", &[one, two]);
    assert_eq!(fault(std::slice::from_ref(&both), 2), None);
    assert_eq!(
        fault(std::slice::from_ref(&both), 1),
        Some("svcplane's: a slice is over the limit")
    );
    let again = slice("y", "IPv4", &[one]);
    assert_eq!(
        fault(&[both.clone(), again], 2),
        Some("svcplane's: an endpoint is listed twice")
    );
    let v6 = slice("y", "IPv6", &[("fd00::1", "uid-1")]);
    assert_eq!(fault(&[both.clone(), v6], 2), None, "one Pod in both families");
    let empty = |name: &str| slice(name, "IPv4", &[]);
    assert_eq!(fault(&[empty("x")], 2), None);
    assert_eq!(
        fault(&[empty("x"), empty("y")], 2),
        Some("svcplane's: there are more slices than endpoints")
    );
    let mut otherwise_empty = empty("y");
    otherwise_empty.ports = None;
    let told_twice = Some("svcplane's: more than one slice says that nothing is listed");
    assert_eq!(fault(&[empty("x"), otherwise_empty], 2), told_twice);
    let mut earlier = both;
    earlier.metadata.owner_references.as_mut().unwrap()[0].uid = NOBODYS.into();
    assert_eq!(
        fault(&[earlier], 2),
        Some("svcplane's: a slice of an earlier owner is there")
    );
}
