use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use svcplane_allocators::cluster_ips::IpFamily;
use svcplane_allocators::service::{Owner, ServiceKey};

use super::addresses::{Missing, missing};
use super::*;
use crate::ledger::{CidrObject, Families, Holder, Kind, Ranges};
use crate::pools::{Labels, read_cluster_ip_pool, read_node_port_pool};
use crate::review::Request;

const V4: &str = "10.96.0.0/16";
const V6: &str = "fd00:10::/112";

/// A ledger of these ServiceCIDRs, live and settled.
fn ledger(cidrs: &[&str], begun: Instant) -> Ledger {
    let mut ledger = Ledger::new(
        Ranges {
            cidrs: Vec::new(),
            ports: "30000-32767".parse().unwrap(),
        },
        begun,
    );
    ledger.set_members("self", &["self".into()], begun);
    let object = CidrObject {
        name: "kubernetes".into(),
        cidrs: cidrs.iter().map(|cidr| cidr.parse().unwrap()).collect(),
        ready: true,
    };
    ledger.replace_service_cidrs(vec![object], begun);
    live(&mut ledger, begun);
    ledger
}

fn live(ledger: &mut Ledger, now: Instant) {
    for kind in Kind::ALL {
        ledger.heard(kind, true, now);
    }
}

fn service(object: &Value) -> Service {
    Service::parse(&object.to_string()).unwrap()
}

fn spec(spec: &Value) -> Service {
    service(&json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec}))
}

fn web(ports: &Value) -> Service {
    spec(&json!({"type": "NodePort", "ports": ports}))
}

fn terms(now: Instant) -> Terms {
    Terms {
        allocate: Allocate::All,
        // `filled` knows these two.
        is_live: false,
        is_update: false,
        dry_run: false,
        random: 0x9e37_79b9_7f4a_7c15,
        now,
    }
}

fn filled(ledger: &mut Ledger, new: &Service, old: Option<&Service>, terms: Terms) -> Filled {
    let request = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
        "request": {"uid": "u", "namespace": "shop", "userInfo": {"username": "alice"}}});
    let request = request.to_string();
    let request = Request::parse(request.as_bytes()).unwrap();
    let asker = Asker::new(&request, new);
    let terms = Terms {
        is_live: ledger.waits_for(terms.now).is_none(),
        is_update: old.is_some(),
        ..terms
    };
    fill(ledger, &asker, new, old, terms)
}

/// The patch as path and value.
fn patched(filled: &Filled) -> Vec<(String, Value)> {
    let operations = filled.patch.iter();
    operations
        .map(|PatchOperation::Add { path, value }| (path.clone(), value.clone()))
        .collect()
}

fn at(begun: Instant, seconds: u64) -> Instant {
    begun + Duration::from_secs(seconds)
}

/// Addresses that are there, and families that are missing.
type Want<'a> = Option<(&'a [&'a str], &'a [IpFamily])>;

/// spec/allocation.md 1.7 and 1.8: what the apiserver would allocate.
#[test]
fn addresses_are_missing_where_the_apiserver_would_allocate_them() {
    let (v4, v6) = (IpFamily::IPv4, IpFamily::IPv6);
    let dual = Families {
        primary: v4,
        dual: true,
    };
    let single = Families { dual: false, ..dual };
    let v6_first = Families { primary: v6, ..dual };
    let ports = json!([{"port": 80}]);
    let one = |fields: &Value| {
        let mut all = json!({"ports": ports});
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        spec(&all)
    };
    let table: [(&str, Service, Families, Want<'_>); 14] = [
        ("plain", one(&json!({})), dual, Some((&[], &[v4]))),
        ("plain, IPv6 first", one(&json!({})), v6_first, Some((&[], &[v6]))),
        (
            "family named",
            one(&json!({"ipFamilies": ["IPv6"]})),
            dual,
            Some((&[], &[v6])),
        ),
        ("family not there", one(&json!({"ipFamilies": ["IPv6"]})), single, None),
        ("headless", one(&json!({"clusterIP": "None"})), dual, None),
        (
            "external",
            one(&json!({"type": "ExternalName", "externalName": "a.example"})),
            dual,
            None,
        ),
        (
            "prefer",
            one(&json!({"ipFamilyPolicy": "PreferDualStack"})),
            dual,
            Some((&[], &[v4, v6])),
        ),
        (
            "prefer, single",
            one(&json!({"ipFamilyPolicy": "PreferDualStack"})),
            single,
            Some((&[], &[v4])),
        ),
        (
            "require",
            one(&json!({"ipFamilyPolicy": "RequireDualStack"})),
            v6_first,
            Some((&[], &[v6, v4])),
        ),
        (
            "require, single",
            one(&json!({"ipFamilyPolicy": "RequireDualStack"})),
            single,
            None,
        ),
        (
            "require, other order",
            one(&json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]})),
            dual,
            Some((&[], &[v6, v4])),
        ),
        ("chosen", one(&json!({"clusterIP": "10.96.0.7"})), dual, None),
        (
            "first chosen",
            one(&json!({"clusterIP": "fd00:10::7", "clusterIPs": ["fd00:10::7"], "ipFamilyPolicy": "PreferDualStack"})),
            dual,
            Some((&["fd00:10::7"], &[v4])),
        ),
        (
            "both chosen",
            one(
                &json!({"clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7", "fd00:10::7"], "ipFamilyPolicy": "PreferDualStack"}),
            ),
            dual,
            None,
        ),
    ];
    for (what, new, families, want) in table {
        let want = want.map(|(given, families)| Missing {
            given: given.iter().map(ToString::to_string).collect(),
            families: families.to_vec(),
        });
        assert_eq!(missing(&new, None, families), want, "{what}");
    }
}

/// spec/allocation.md 1.7 (6) and 5.4: an update allocates in two cases only.
#[test]
fn an_update_gets_addresses_only_from_external_name_and_for_a_second_family() {
    let dual = Families {
        primary: IpFamily::IPv4,
        dual: true,
    };
    let stored = json!({"type": "ClusterIP", "clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"], "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack", "ports": [{"port": 80}]});
    let with = |fields: &Value| {
        let mut all = stored.clone();
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        spec(&all)
    };
    let old = with(&json!({}));
    let external = spec(&json!({"type": "ExternalName", "externalName": "a.example"}));
    let headless = with(&json!({"clusterIP": "None", "clusterIPs": ["None"]}));
    let count =
        |new: &Service, old: &Service| missing(new, Some(old), dual).map_or(0, |missing| missing.families.len());
    assert_eq!(count(&old, &old), 0, "nothing changed");
    assert_eq!(
        count(&spec(&json!({"ports": [{"port": 81}]})), &old),
        0,
        "left out, so carried over"
    );
    assert_eq!(
        count(&with(&json!({"ipFamilyPolicy": "PreferDualStack"})), &old),
        1,
        "upgraded"
    );
    assert_eq!(
        count(&spec(&json!({"ports": [{"port": 80}]})), &external),
        1,
        "from ExternalName"
    );
    assert_eq!(
        count(
            &spec(&json!({"ports": [{"port": 80}], "ipFamilyPolicy": "RequireDualStack"})),
            &external
        ),
        2
    );
    assert_eq!(count(&external, &old), 0, "to ExternalName");
    assert_eq!(
        count(&with(&json!({"clusterIP": "None", "clusterIPs": ["None"]})), &headless),
        0
    );
    let prefers = with(&json!({"ipFamilyPolicy": "PreferDualStack"}));
    assert_eq!(
        count(&prefers, &prefers),
        0,
        "an existing PreferDualStack stays as it is"
    );
    let was_dual = with(
        &json!({"clusterIPs": ["10.96.0.7", "fd00:10::7"], "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"}),
    );
    assert_eq!(
        count(&with(&json!({"ipFamilyPolicy": "SingleStack"})), &was_dual),
        0,
        "downgraded"
    );
}

#[test]
fn a_dual_stack_node_port_service_gets_all_it_needs() {
    let begun = Instant::now();
    let mut ledger = ledger(&[V4, V6], begun);
    let new = spec(&json!({"type": "NodePort", "ipFamilyPolicy": "RequireDualStack",
        "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53}, {"name": "web", "port": 80}]}));
    let now = at(begun, 11);
    let filled = filled(&mut ledger, &new, None, terms(now));
    assert_eq!((filled.addresses, filled.ports), (2, 2));
    let patch = patched(&filled);
    let paths: Vec<&str> = patch.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "/spec/clusterIP",
            "/spec/clusterIPs",
            "/spec/ports/0/nodePort",
            "/spec/ports/1/nodePort",
            "/spec/ports/2/nodePort"
        ]
    );
    assert_eq!(patch[0].1, patch[1].1[0]);
    assert_eq!(patch[2].1, patch[3].1, "UDP and TCP of one port share a number");
    assert_ne!(patch[2].1, patch[4].1);
}

#[test]
fn the_same_service_gets_the_same_values_again() {
    let begun = Instant::now();
    let mut ledger = ledger(&[V4], begun);
    let (new, now) = (web(&json!([{"port": 80}, {"name": "b", "port": 81}])), at(begun, 11));
    let first = patched(&filled(&mut ledger, &new, None, terms(now)));
    let other = Terms {
        random: 7,
        ..terms(now)
    };
    assert_eq!(patched(&filled(&mut ledger, &new, None, other)), first);
}

/// spec/allocation.md 1.7 (3): after a conflict the apiserver asks again, and what it reserved for the first round is taken.
#[test]
fn an_update_that_is_tried_again_gets_other_values() {
    let begun = Instant::now();
    let mut ledger = ledger(&[V4], begun);
    let old = spec(&json!({"type": "ExternalName", "externalName": "a.example", "ports": [{"port": 80}]}));
    let (new, now) = (web(&json!([{"port": 80}])), at(begun, 11));
    let round = |ledger: &mut Ledger, now| patched(&filled(ledger, &new, Some(&old), terms(now)));
    let (first, second) = (round(&mut ledger, now), round(&mut ledger, now));
    assert_eq!((first.len(), second.len()), (3, 3));
    for (first, second) in first.iter().zip(&second) {
        assert_ne!(first.1, second.1, "{}", first.0);
    }
}

#[test]
fn nothing_is_chosen_by_half_of_the_knowledge() {
    let begun = Instant::now();
    let mut ledger = ledger(&[V4], begun);
    let new = web(&json!([{"port": 80}]));
    let count = |ledger: &mut Ledger, now| patched(&filled(ledger, &new, None, terms(now))).len();
    assert_eq!(
        count(&mut ledger, at(begun, 1)),
        1,
        "a ServiceCIDR settles for 10 s; nodePorts need not"
    );
    ledger.broke(Kind::IpAddresses, at(begun, 11));
    assert_eq!(count(&mut ledger, at(begun, 12)), 3);
    assert_eq!(
        count(&mut ledger, at(begun, 17)),
        0,
        "a watch is broken for more than 5 s"
    );
    ledger.heard(Kind::IpAddresses, false, at(begun, 18));
    assert_eq!(count(&mut ledger, at(begun, 18)), 3);
}

#[test]
fn skip_off_and_pooled_leave_a_service_without_pool_alone() {
    let begun = Instant::now();
    let mut ledger = ledger(&[V4], begun);
    let now = at(begun, 11);
    let mut skipped = web(&json!([{"port": 80}]));
    skipped.metadata.labels.insert(SKIP_LABEL.into(), String::new());
    assert_eq!(filled(&mut ledger, &skipped, None, terms(now)).patch, []);
    let new = web(&json!([{"port": 80}]));
    for allocate in [Allocate::Off, Allocate::Pooled] {
        let terms = Terms { allocate, ..terms(now) };
        assert_eq!(filled(&mut ledger, &new, None, terms).patch, [], "{allocate:?}");
    }
}

fn cluster_ip_pool(ledger: &mut Ledger, name: &str, spec: &Value, now: Instant) {
    let object = json!({"apiVersion": "svcplane.io/v1alpha1", "kind": "ClusterIPPool",
        "metadata": {"name": name, "creationTimestamp": "2026-01-02T03:04:05Z"}, "spec": spec});
    let pool = read_cluster_ip_pool(&serde_json::from_value(object).unwrap()).unwrap();
    ledger.set_cluster_ip_pool(pool, now);
}

fn node_port_pool(ledger: &mut Ledger, name: &str, spec: &Value, now: Instant) {
    let object = json!({"apiVersion": "svcplane.io/v1alpha1", "kind": "NodePortPool",
        "metadata": {"name": name, "creationTimestamp": "2026-01-02T03:04:05Z"}, "spec": spec});
    let pool = read_node_port_pool(&serde_json::from_value(object).unwrap()).unwrap();
    ledger.set_node_port_pool(pool, now);
}

fn pooled(now: Instant) -> Terms {
    Terms {
        allocate: Allocate::Pooled,
        ..terms(now)
    }
}

#[test]
fn a_pool_gives_its_values_to_those_whom_it_selects() {
    let begun = Instant::now();
    let mut ledger = ledger(&[V4], begun);
    let now = at(begun, 11);
    cluster_ip_pool(
        &mut ledger,
        "front",
        &json!({"ranges": ["10.96.7.0/28"], "selector": {"namespaceSelector": {"matchLabels": {"team": "front"}}}}),
        now,
    );
    let new = spec(&json!({"ports": [{"port": 80}]}));
    assert_eq!(
        filled(&mut ledger, &new, None, pooled(now)).patch,
        [],
        "the namespace has no such label"
    );
    ledger.set_namespace("shop", Labels::from([("team".into(), "front".into())]), now);
    let patch = patched(&filled(&mut ledger, &new, None, pooled(now)));
    let address = patch[0].1.as_str().unwrap();
    assert!(address.starts_with("10.96.7."), "{address}");
}

#[test]
fn an_enforced_pool_that_is_full_refuses_and_gives_back_what_else_was_chosen() {
    let begun = Instant::now();
    let mut ledger = ledger(&[V4], begun);
    let now = at(begun, 11);
    node_port_pool(
        &mut ledger,
        "two",
        &json!({"ranges": ["30100-30101"], "enforce": true}),
        now,
    );
    let holder = |name: &str, port: u16| Holder {
        owner: Owner {
            created: 1,
            service: ServiceKey::new("shop", name),
        },
        addresses: Vec::new(),
        ports: vec![svcplane_allocators::value::NodePort::new(port).unwrap()],
    };
    ledger.set_service(holder("a", 30_100), now);
    let new = web(&json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}]));
    let refused = filled(&mut ledger, &new, None, terms(now));
    assert_eq!(refused.patch, []);
    let [cause] = refused.refused.as_slice() else {
        panic!("{refused:?}")
    };
    assert_eq!(cause.field, "spec.ports[1].nodePort");
    assert!(
        cause.message.contains("\"two\"") && cause.message.contains("no value is free"),
        "{cause}"
    );
    let free = |ledger: &Ledger| {
        let ranges = ledger
            .cluster_ips()
            .ipv4
            .ranges(now)
            .chain(ledger.node_ports().ranges(now));
        ranges.map(|range| range.counts.pending).collect::<Vec<_>>()
    };
    assert_eq!(free(&ledger), [0, 0]);
    let one = filled(&mut ledger, &web(&json!([{"port": 80}])), None, terms(now));
    assert_eq!(
        patched(&one).last().unwrap(),
        &("/spec/ports/0/nodePort".to_owned(), json!(30_101))
    );
}

/// The apiserver would give a fenced value to anybody.
#[test]
fn beside_an_enforced_pool_others_get_values_from_outside_of_it() {
    let begun = Instant::now();
    let mut ledger = ledger(&[V4], begun);
    let now = at(begun, 11);
    cluster_ip_pool(
        &mut ledger,
        "fenced",
        &json!({"ranges": ["10.96.128.0/17"], "enforce": true, "selector": {"namespaces": ["bank"]}}),
        now,
    );
    for random in [0, u64::MAX / 2, u64::MAX] {
        let new = service(
            &json!({"metadata": {"generateName": "w-", "namespace": "shop"}, "spec": {"ports": [{"port": 80}]}}),
        );
        let terms = Terms { random, ..pooled(now) };
        let patch = patched(&filled(&mut ledger, &new, None, terms));
        let third: u8 = patch[0].1.as_str().unwrap().split('.').nth(2).unwrap().parse().unwrap();
        assert!(third < 128, "{patch:?}");
    }
}

/// Clusters and pools so small that choosing for others is left to the apiserver elsewhere.
#[test]
fn beside_an_enforced_pool_others_get_the_last_value_outside_of_it() {
    let begun = Instant::now();
    let mut ledger = ledger(&["10.96.0.0/26"], begun);
    let now = at(begun, 11);
    cluster_ip_pool(
        &mut ledger,
        "bank",
        &json!({"ranges": ["10.96.0.32/28"], "enforce": true, "selector": {"namespaces": ["bank"]}}),
        now,
    );
    let mut given = std::collections::BTreeSet::new();
    for number in 0..62 - 16 {
        let new = service(
            &json!({"metadata": {"name": format!("w-{number}"), "namespace": "shop"}, "spec": {"ports": [{"port": 80}]}}),
        );
        let terms = Terms {
            random: u64::MAX / 46 * number,
            ..pooled(now)
        };
        let patch = patched(&filled(&mut ledger, &new, None, terms));
        let address: std::net::Ipv4Addr = patch[0].1.as_str().unwrap().parse().unwrap();
        assert!(!(32..48).contains(&address.octets()[3]), "{address}");
        assert!(given.insert(address), "{address}");
    }
}

/// 30150 is kept for one Service; left to itself, the apiserver would give it to any other, which would be refused.
#[test]
fn beside_reservations_others_get_values_that_are_not_reserved() {
    let begun = Instant::now();
    let now = at(begun, 11);
    let new = |name: &str| {
        service(&json!({"metadata": {"name": name, "namespace": "shop"},
            "spec": {"type": "NodePort", "ports": [{"port": 80}]}}))
    };
    for (selected, first) in [("bank", None), ("shop", Some(30_151))] {
        let mut ledger = ledger(&[V4], begun);
        let spec = json!({"ranges": ["30150-30151"], "reservations": [{"value": "30150", "service": "bank/kept"}],
            "selector": {"namespaces": [selected]}});
        node_port_pool(&mut ledger, "front", &spec, now);
        let mut chosen = |name: &str| {
            let patch = patched(&filled(&mut ledger, &new(name), None, pooled(now)));
            patch.last().unwrap().1.as_u64().unwrap()
        };
        let numbers = [chosen("web"), chosen("api")];
        if let Some(first) = first {
            assert_eq!(numbers[0], first);
        }
        // The pool of those whom it selects is full by now.
        let from = usize::from(first.is_some());
        assert!(
            numbers[from..].iter().all(|it| !(30_150..=30_151).contains(it)),
            "{numbers:?}"
        );
    }
}

/// `clusterIPs` has no gaps: the first family is chosen because the second must be.
#[test]
fn a_pool_of_the_second_family_serves_dual_stack_services() {
    let begun = Instant::now();
    let now = at(begun, 11);
    let v6_only = json!({"ranges": ["fd00:10::7e0/124"], "enforce": true});
    let annotation = json!({CLUSTER_IP_POOL: "six"});
    for (cidrs, pool, annotations) in [
        ([V4, V6], v6_only.clone(), json!({})),
        ([V4, V6], json!({"ranges": ["fd00:10::7e0/124"]}), json!({})),
        (
            [V4, V6],
            json!({"ranges": ["fd00:10::7e0/124"], "autoAssign": false}),
            annotation,
        ),
        (
            [V6, V4],
            json!({"ranges": ["10.96.7.0/28"], "enforce": true}),
            json!({}),
        ),
    ] {
        let mut ledger = ledger(&cidrs, begun);
        cluster_ip_pool(&mut ledger, "six", &pool, now);
        let new = service(
            &json!({"metadata": {"name": "web", "namespace": "shop", "annotations": annotations},
                "spec": {"ipFamilyPolicy": "PreferDualStack", "ports": [{"port": 80}]}}),
        );
        let filled = filled(&mut ledger, &new, None, pooled(now));
        let patch = patched(&filled);
        let addresses = &patch.last().unwrap().1;
        let second = addresses[1].as_str().unwrap();
        let prefix = if cidrs[0] == V4 { "fd00:10::7e" } else { "10.96.7." };
        assert!(second.starts_with(prefix), "{pool}: {addresses}");
        ledger.broke(Kind::Services, now);
        let unsure = super::tests::filled(&mut ledger, &new, None, pooled(at(begun, 25)));
        assert_eq!(unsure.bypassed, pool["enforce"] == json!(true), "{pool}");
    }
}

#[test]
fn a_number_that_the_service_names_itself_is_not_chosen_for_another_of_its_ports() {
    let begun = Instant::now();
    let now = at(begun, 11);
    for random in [0, u64::MAX / 2, u64::MAX] {
        for dry_run in [false, true] {
            let mut ledger = ledger(&[V4], begun);
            node_port_pool(
                &mut ledger,
                "two",
                &json!({"ranges": ["30100-30102"], "enforce": true}),
                now,
            );
            let new = spec(
                &json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30_101,
                "ports": [{"name": "a", "port": 80, "nodePort": 30_100}, {"name": "b", "port": 443}]}),
            );
            let terms = Terms {
                dry_run,
                random,
                ..pooled(now)
            };
            let patch = patched(&filled(&mut ledger, &new, None, terms));
            assert_eq!(patch, [("/spec/ports/1/nodePort".to_owned(), json!(30_102))]);
        }
    }
}

#[test]
fn a_pool_that_is_asked_for_and_does_not_serve_is_told_by_the_annotation() {
    let begun = Instant::now();
    let mut ledger = ledger(&[V4], begun);
    let now = at(begun, 11);
    let mut new = spec(&json!({"ports": [{"port": 80}]}));
    new.metadata.annotations.insert(CLUSTER_IP_POOL.into(), "blue".into());
    let refused = filled(&mut ledger, &new, None, pooled(now)).refused;
    assert_eq!(refused[0].field, "metadata.annotations[svcplane.io/cluster-ip-pool]");
    assert!(refused[0].message.contains("no pool \"blue\""), "{refused:?}");
    cluster_ip_pool(
        &mut ledger,
        "blue",
        &json!({"ranges": ["10.96.9.9"], "autoAssign": false}),
        now,
    );
    let patch = patched(&filled(&mut ledger, &new, None, pooled(now)));
    assert_eq!(patch[0].1, json!("10.96.9.9"));
    for nothing in ["", " "] {
        new.metadata.annotations.insert(CLUSTER_IP_POOL.into(), nothing.into());
        new.metadata.annotations.insert(NODE_PORT_POOL.into(), nothing.into());
        let filled = filled(&mut ledger, &new, None, pooled(now));
        assert!(filled.refused.is_empty() && filled.patch.is_empty(), "{filled:?}");
    }
}

/// The apiserver went from two families to one; its ServiceCIDR `kubernetes` still has both.
#[test]
fn a_flag_of_ours_says_how_many_families_there_are() {
    let begun = Instant::now();
    let ranges = |cidrs: &[&str]| Ranges {
        cidrs: cidrs.iter().map(|cidr| cidr.parse().unwrap()).collect(),
        ports: "30000-32767".parse().unwrap(),
    };
    let object = || CidrObject {
        name: "kubernetes".into(),
        cidrs: vec![V4.parse().unwrap(), V6.parse().unwrap()],
        ready: true,
    };
    for (given, dual) in [(&[][..], true), (&[V4][..], false), (&[V4, V6][..], true)] {
        let mut ledger = Ledger::new(ranges(given), begun);
        ledger.replace_service_cidrs(vec![object()], begun);
        let families = ledger.families().unwrap();
        assert_eq!((families.primary, families.dual), (IpFamily::IPv4, dual), "{given:?}");
    }
}

#[test]
fn a_dry_run_keeps_nothing() {
    let begun = Instant::now();
    let mut ledger = ledger(&[V4], begun);
    let now = at(begun, 11);
    let dry = Terms {
        dry_run: true,
        ..terms(now)
    };
    let new = web(&json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}]));
    let filled = filled(&mut ledger, &new, None, dry);
    assert_eq!((filled.addresses, filled.ports), (0, 0));
    assert!(!filled.patch.is_empty());
    assert_eq!(ledger.node_ports().taken(), []);
    assert_eq!(ledger.cluster_ips().ipv4.taken(), []);
    let more = CidrObject {
        name: "more".into(),
        cidrs: vec!["10.97.0.0/16".parse().unwrap()],
        ready: true,
    };
    ledger.set_service_cidr(more, now);
    let patch = patched(&super::tests::filled(&mut ledger, &new, None, dry));
    assert!(
        patch.iter().all(|(path, _)| path.starts_with("/spec/ports/")),
        "{patch:?}"
    );
}

#[test]
fn an_unsure_replica_lets_an_enforced_pool_be_bypassed_and_says_so() {
    let begun = Instant::now();
    let mut ledger = ledger(&[V4], begun);
    cluster_ip_pool(
        &mut ledger,
        "fenced",
        &json!({"ranges": ["10.96.7.0/28"], "enforce": true}),
        begun,
    );
    ledger.broke(Kind::Services, at(begun, 1));
    let filled = filled(
        &mut ledger,
        &spec(&json!({"ports": [{"port": 80}]})),
        None,
        pooled(at(begun, 11)),
    );
    assert!(
        filled.bypassed && filled.patch.is_empty() && filled.refused.is_empty(),
        "{filled:?}"
    );
}

proptest! {
    /// Whatever Services come, no two of them get one value, and nobody's own value changes.
    #[test]
    fn nobody_gets_what_another_has(
        asks in proptest::collection::vec((0u8..12, 0u8..3, any::<u64>(), proptest::option::of(0u16..6)), 1..40),
    ) {
        let begun = Instant::now();
        let mut ledger = ledger(&[V4, V6], begun);
        let mut given: std::collections::BTreeMap<String, String> = std::collections::BTreeMap::new();
        for (step, (who, kind, random, port)) in asks.into_iter().enumerate() {
            let now = at(begun, 11 + step as u64 / 8);
            let name = format!("s{who}");
            let node_port = port.map_or(0, |port| 30_000 + port);
            let service_type = ["ClusterIP", "NodePort", "LoadBalancer"][usize::from(kind)];
            let policy = ["SingleStack", "PreferDualStack", "RequireDualStack"][usize::from(who) % 3];
            let new = service(&json!({"metadata": {"name": name, "namespace": "shop"}, "spec": {
                "type": service_type,
                "ipFamilyPolicy": policy,
                "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81, "nodePort": if kind == 0 { 0 } else { node_port }}]}}));
            let filled = filled(&mut ledger, &new, None, Terms { random, ..terms(now) });
            for (path, value) in patched(&filled) {
                prop_assert!(node_port == 0 || kind == 0 || path != "/spec/ports/1/nodePort", "a user's value was changed");
                prop_assert!(kind == 0 || value != json!(node_port), "the request names it");
                let values = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
                for value in values {
                    let holder = given.entry(value.to_string()).or_insert_with(|| name.clone());
                    prop_assert_eq!(&*holder, &name, "{} has two owners", value);
                }
            }
        }
    }
}
