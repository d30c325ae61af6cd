//! When a write is due, and what it keeps.

use super::super::fixtures::*;
use super::*;
use crate::model::Address;

fn two_ports() -> Vec<Subset> {
    let (a, b) = (address("10.0.0.1", "uid-a"), address("10.0.0.2", "uid-b"));
    vec![
        subset([&a], [&b], &[port("dns", 53), port("web", 80)]),
        subset(&[a, b], &[], &[port("raw", 9)]),
    ]
}

/// What is planned for Endpoints that were right until `change`.
fn after(service: &Service, change: impl FnOnce(&mut EndpointsObject)) -> Option<Operation> {
    let mut observed = stored(service, two_ports());
    change(&mut observed);
    plan(service, two_ports(), Some(&observed), None)
}

fn reason(operation: Option<&Operation>) -> Option<Reason> {
    operation.map(|operation| operation.reason)
}

fn put(map: &mut Labels, key: &str, value: &str) {
    map.insert(key.into(), value.into());
}

fn many(count: usize) -> Vec<Address> {
    (0..count)
        .map(|n| address(&format!("10.9.{}.{:03}", n / 256, n % 256), "u"))
        .collect()
}

#[test]
fn a_missing_object_is_created() {
    let service = Service {
        labels: labels(&[("app", "rail")]),
        ..service("rail")
    };
    let operation = plan(&service, two_ports(), None, Some(Timestamp(1_514_764_800))).unwrap();
    assert_eq!(
        operation,
        Operation {
            reason: Reason::Missing,
            replaces: None,
            content: Content {
                key: ObjectKey::new("marsh", "rail"),
                generate_name: None,
                labels: labels(&[("app", "rail"), (MANAGED_BY_LABEL, MANAGED_BY)]),
                annotations: labels(&[(TRIGGER_TIME_ANNOTATION, "2018-01-01T00:00:00Z")]),
                finalizers: vec![],
                owner_references: vec![],
                subsets: two_ports(),
            },
        }
    );
}

#[test]
fn a_service_without_pods_still_gets_its_object() {
    let operation = plan(&service("crake"), vec![], None, None).unwrap();
    assert_eq!((operation.reason, operation.content.subsets), (Reason::Missing, vec![]));
}

#[test]
fn what_is_right_is_left_alone() {
    let service = Service {
        labels: labels(&[("app", "rail"), ("tier", "web")]),
        ..service("rail")
    };
    assert_eq!(after(&service, |_| {}), None);
    // A new trigger time alone is no reason.
    let observed = stored(&service, two_ports());
    assert_eq!(plan(&service, two_ports(), Some(&observed), Some(Timestamp(9))), None);
}

type Change = fn(&mut EndpointsObject);

#[test]
fn which_differences_are_a_reason() {
    let service = Service {
        labels: labels(&[("app", "rail"), ("tier", "web")]),
        ..service("rail")
    };
    let rows: [(&str, Change, Option<Reason>); 29] = [
        (
            "address gone",
            |o| drop(o.subsets[1].addresses.pop()),
            Some(Reason::Subsets),
        ),
        (
            "address added",
            |o| o.subsets[1].addresses.push(bare("10.0.0.9")),
            Some(Reason::Subsets),
        ),
        ("all gone", |o| o.subsets.clear(), Some(Reason::Subsets)),
        (
            "state",
            |o| {
                let moved = o.subsets[0].not_ready_addresses.remove(0);
                o.subsets[0].addresses.push(moved);
            },
            Some(Reason::Subsets),
        ),
        (
            "IP spelling",
            |o| o.subsets[0].addresses[0].ip = "010.0.0.1".into(),
            Some(Reason::Subsets),
        ),
        (
            "hostname",
            |o| o.subsets[1].addresses[0].hostname = Some("h".into()),
            Some(Reason::Subsets),
        ),
        (
            "nodeName absent",
            |o| o.subsets[1].addresses[0].node_name = None,
            Some(Reason::Subsets),
        ),
        (
            "nodeName empty",
            |o| o.subsets[1].addresses[0].node_name = Some("".into()),
            Some(Reason::Subsets),
        ),
        (
            "targetRef absent",
            |o| o.subsets[1].addresses[0].target = None,
            Some(Reason::Subsets),
        ),
        (
            "targetRef of another incarnation",
            |o| {
                for subset in &mut o.subsets {
                    subset.addresses[0].target.as_mut().unwrap().uid = Uid::parse("uid-z");
                }
            },
            Some(Reason::Subsets),
        ),
        (
            "targetRef apiVersion",
            |o| {
                for subset in &mut o.subsets {
                    let rest = &mut subset.addresses[0].target.as_mut().unwrap().rest;
                    rest.get_or_insert_default().api_version = "v1".into();
                }
            },
            Some(Reason::Subsets),
        ),
        (
            "port number",
            |o| o.subsets[0].ports[0].port = 54,
            Some(Reason::Subsets),
        ),
        (
            "port name",
            |o| o.subsets[0].ports[0].name = "x".into(),
            Some(Reason::Subsets),
        ),
        (
            "appProtocol",
            |o| o.subsets[0].ports[0].app_protocol = Some("http".into()),
            Some(Reason::Subsets),
        ),
        ("order of subsets", |o| o.subsets.reverse(), None),
        ("order of ports", |o| o.subsets[0].ports.reverse(), None),
        ("order of addresses", |o| o.subsets[1].addresses.reverse(), None),
        (
            "subsets not merged",
            |o| {
                let mut half = o.subsets[0].clone();
                half.ports.remove(0);
                o.subsets[0].ports.truncate(1);
                o.subsets.push(half);
            },
            None,
        ),
        (
            "an address twice",
            |o| {
                let twice = o.subsets[1].addresses[0].clone();
                o.subsets[1].addresses.push(twice);
            },
            None,
        ),
        (
            "an address twice, the second with another hostname",
            |o| {
                let mut twice = o.subsets[1].addresses[0].clone();
                twice.hostname = Some("h".into());
                o.subsets[1].addresses.push(twice);
            },
            Some(Reason::Subsets),
        ),
        (
            "an address ready and not ready",
            |o| {
                let other = o.subsets[0].not_ready_addresses.clone();
                o.subsets[0].addresses.extend(other);
            },
            Some(Reason::Subsets),
        ),
        (
            "an address ready in one subset and not in another",
            |o| {
                let mut other = o.subsets[0].clone();
                other.addresses = std::mem::take(&mut other.not_ready_addresses);
                o.subsets.push(other);
            },
            Some(Reason::Subsets),
        ),
        (
            "label added",
            |o| put(&mut o.labels, "extra", "1"),
            Some(Reason::Labels),
        ),
        ("label gone", |o| drop(o.labels.remove("tier")), Some(Reason::Labels)),
        (
            "label changed",
            |o| put(&mut o.labels, "tier", "db"),
            Some(Reason::Labels),
        ),
        (
            "managed-by gone",
            |o| drop(o.labels.remove(MANAGED_BY_LABEL)),
            Some(Reason::Labels),
        ),
        (
            "managed-by of another",
            |o| put(&mut o.labels, MANAGED_BY_LABEL, "someone"),
            Some(Reason::Labels),
        ),
        ("headless label alone", |o| put(&mut o.labels, HEADLESS_LABEL, ""), None),
        (
            "annotations, finalizers",
            |o| {
                put(&mut o.annotations, "note", "mine");
                put(&mut o.annotations, TRIGGER_TIME_ANNOTATION, "2018-01-01T00:00:00Z");
                o.finalizers.push("example.com/hold".into());
            },
            None,
        ),
    ];
    for (what, change, expected) in rows {
        assert_eq!(reason(after(&service, change).as_ref()), expected, "{what}");
    }
}

#[test]
fn an_update_names_what_it_replaces_and_keeps_what_is_the_users() {
    let service = Service {
        labels: labels(&[("app", "rail")]),
        ..service("rail")
    };
    let owner = OwnerReference {
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        name: "owner".into(),
        uid: "o".into(),
        controller: Some(true),
        block_owner_deletion: None,
    };
    let mut observed = stored(&service, vec![]);
    observed.annotations = labels(&[("note", "mine"), (TRIGGER_TIME_ANNOTATION, "2018-01-01T00:00:00Z")]);
    observed.finalizers = vec!["example.com/hold".into()];
    observed.owner_references = vec![owner.clone()];
    observed.generate_name = Some("ra".into());
    put(&mut observed.labels, "extra", "1");

    let operation = plan(&service, two_ports(), Some(&observed), Some(Timestamp(60))).unwrap();
    assert_eq!(
        operation,
        Operation {
            reason: Reason::Subsets,
            replaces: Some(Version {
                uid: Uid::parse("endpoints"),
                revision: Revision(40),
            }),
            content: Content {
                key: ObjectKey::new("marsh", "rail"),
                generate_name: Some("ra".into()),
                labels: labels(&[("app", "rail"), (MANAGED_BY_LABEL, MANAGED_BY)]),
                annotations: labels(&[("note", "mine"), (TRIGGER_TIME_ANNOTATION, "1970-01-01T00:01:00Z")]),
                finalizers: vec!["example.com/hold".into()],
                owner_references: vec![owner],
                subsets: two_ports(),
            },
        }
    );
    // Without a time of change the old one goes.
    let operation = plan(&service, two_ports(), Some(&observed), None).unwrap();
    assert_eq!(operation.content.annotations, labels(&[("note", "mine")]));
}

#[test]
fn the_headless_label_is_set_right_along_with_another_change() {
    for (headless, stored_label) in [(true, None), (true, Some("wrong")), (false, Some("")), (false, None)] {
        let service = Service {
            headless,
            ..service("rail")
        };
        let mut observed = stored(&service, vec![]);
        observed.labels.remove(HEADLESS_LABEL);
        if let Some(value) = stored_label {
            put(&mut observed.labels, HEADLESS_LABEL, value);
        }
        assert_eq!(plan(&service, vec![], Some(&observed), None), None);
        let written = plan(&service, two_ports(), Some(&observed), None)
            .unwrap()
            .content
            .labels;
        let expected = headless.then_some("");
        assert_eq!(written.get(HEADLESS_LABEL).map(|value| &**value), expected);
    }
}

#[test]
fn reserved_labels_on_the_service_do_not_cause_writes() {
    // endpoints.md 6.7, for both labels and both kinds of Service.
    for headless in [false, true] {
        for (key, value) in [(HEADLESS_LABEL, ""), (HEADLESS_LABEL, "x"), (MANAGED_BY_LABEL, "me")] {
            let service = Service {
                headless,
                labels: labels(&[("app", "rail"), (key, value)]),
                ..service("rail")
            };
            let written = stored(&service, two_ports());
            let mut expected = labels(&[("app", "rail"), (MANAGED_BY_LABEL, MANAGED_BY)]);
            if headless {
                put(&mut expected, HEADLESS_LABEL, "");
            }
            assert_eq!(written.labels, expected);
            assert_eq!(plan(&service, two_ports(), Some(&written), Some(Timestamp(5))), None);
        }
    }
}

#[test]
fn a_truncated_object_is_written_once() {
    // endpoints.md 6.12.
    let service = service("rail");
    let desired = vec![subset(&many(1001), &[], &[port("web", 80)])];
    let operation = plan(&service, desired.clone(), None, None).unwrap();
    let mark = |operation: &Operation| operation.content.annotations.get(OVER_CAPACITY_ANNOTATION).cloned();
    assert_eq!(mark(&operation).as_deref(), Some(TRUNCATED));
    assert_eq!(operation.content.subsets[0].len(), CAPACITY);

    let written = operation.into_object(Uid::parse("endpoints"), Revision(41));
    assert_eq!(
        plan(&service, desired.clone(), Some(&written), Some(Timestamp(5))),
        None
    );

    // An address beyond the bound came or went: nothing to see.
    let more = vec![subset(&many(1002), &[], &[port("web", 80)])];
    assert_eq!(plan(&service, more, Some(&written), None), None);
    // One within it: a write.
    let fewer = vec![subset(&many(1002)[1..], &[], &[port("web", 80)])];
    assert_eq!(
        reason(plan(&service, fewer, Some(&written), None).as_ref()),
        Some(Reason::Subsets)
    );

    // Exactly as many as fit: the same addresses, and the annotation goes.
    let fits = vec![subset(&many(1000), &[], &[port("web", 80)])];
    let operation = plan(&service, fits, Some(&written), None).unwrap();
    assert_eq!((operation.reason, mark(&operation)), (Reason::Capacity, None));
}

#[test]
fn a_wrong_over_capacity_annotation_is_a_reason() {
    let service = service("rail");
    let change = |o: &mut EndpointsObject| put(&mut o.annotations, OVER_CAPACITY_ANNOTATION, "warning");
    let operation = after(&service, change).unwrap();
    assert_eq!(operation.reason, Reason::Capacity);
    assert!(operation.content.annotations.is_empty());

    let desired = vec![subset(&many(1001), &[], &[])];
    for value in [None, Some("warning")] {
        let mut observed = stored(&service, desired.clone());
        observed.annotations.remove(OVER_CAPACITY_ANNOTATION);
        if let Some(value) = value {
            put(&mut observed.annotations, OVER_CAPACITY_ANNOTATION, value);
        }
        let operation = plan(&service, desired.clone(), Some(&observed), None);
        assert_eq!(reason(operation.as_ref()), Some(Reason::Capacity));
    }
}

#[test]
fn more_stored_addresses_than_fit_are_a_reason_though_they_say_the_same() {
    let service = service("rail");
    let desired = vec![subset(&many(600), &[], &[port("web", 80)])];
    let mut observed = stored(&service, desired.clone());
    observed.subsets.push(observed.subsets[0].clone());
    let operation = plan(&service, desired.clone(), Some(&observed), None).unwrap();
    assert_eq!(
        (operation.reason, operation.content.subsets),
        (Reason::Capacity, desired)
    );
}

#[test]
fn subsets_that_truncation_makes_alike_are_no_difference() {
    // Two ports whose addresses differ only beyond their shares.
    let service = service("rail");
    let (mut x, mut y) = (many(700), many(700));
    x.push(bare("99.0.0.1"));
    y.push(bare("99.0.0.2"));
    let desired = vec![subset(&x, &[], &[port("x", 1)]), subset(&y, &[], &[port("y", 2)])];
    let mut written = stored(&service, desired.clone());
    assert_eq!(written.subsets[0].addresses, written.subsets[1].addresses);
    assert_eq!(plan(&service, desired.clone(), Some(&written), None), None);
    written.subsets.reverse();
    assert_eq!(plan(&service, desired, Some(&written), None), None);
}

#[test]
fn reasons_are_named() {
    let names = [Reason::Missing, Reason::Subsets, Reason::Labels, Reason::Capacity].map(Reason::as_str);
    assert_eq!(names, ["missing", "subsets", "labels", "capacity"]);
}
