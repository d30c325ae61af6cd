//! Which Pods are listed, where, and with what.

use super::super::fixtures::*;
use super::*;
use crate::model::{Protocol, Uid};

/// Where a Pod stands.
#[derive(Debug, PartialEq)]
enum Place {
    Ready,
    NotReady,
    Absent,
}
use Place::{Absent, NotReady, Ready};

fn place(service: &Service, pod: Pod) -> Place {
    match compute(service, &pods([pod])).as_slice() {
        [] => Absent,
        [subset] if subset.not_ready_addresses.is_empty() => Ready,
        [subset] if subset.addresses.is_empty() => NotReady,
        other => panic!("one Pod in {other:?}"),
    }
}

/// The only address listed, if any.
fn listed_ip(service: &Service, pod: Pod) -> Option<String> {
    let subsets = compute(service, &pods([pod]));
    assert!(subsets.iter().map(Subset::len).sum::<usize>() <= 1);
    subsets.first().map(|subset| subset.addresses[0].ip.to_string())
}

#[test]
fn which_pods_count() {
    type Change = fn(&mut Pod);
    // The last two columns: usually, and with publishNotReadyAddresses.
    let rows: [(&str, Change, Place, Place); 10] = [
        ("ready", |_| {}, Ready, Ready),
        ("not ready", |pod| pod.ready = false, NotReady, Ready),
        (
            "no Ready condition",
            |pod| (pod.ready, pod.ready_transition) = (false, None),
            NotReady,
            Ready,
        ),
        (
            "finished though Ready (B08)",
            |pod| pod.phase = Phase::Finished,
            Absent,
            Absent,
        ),
        ("no address", |pod| pod.ips.clear(), Absent, Absent),
        (
            "no address of the family",
            |pod| pod.ips = ["fd5a:77::1".parse().unwrap()].into(),
            Absent,
            Absent,
        ),
        (
            "terminating and ready (B11)",
            |pod| pod.terminating = true,
            Absent,
            Ready,
        ),
        (
            "terminating and not ready",
            |pod| (pod.terminating, pod.ready) = (true, false),
            Absent,
            Ready,
        ),
        (
            "terminating and finished",
            |pod| (pod.terminating, pod.phase) = (true, Phase::Finished),
            Absent,
            Absent,
        ),
        ("no Node", |pod| pod.node_name = None, Absent, Absent),
    ];
    let mut service = service_with("rail", &[numbered("", 80)]);
    for (what, change, hidden, published) in rows {
        let mut pod = pod("rail-1", &["10.201.4.1"]);
        change(&mut pod);
        service.publish_not_ready = false;
        assert_eq!(place(&service, pod.clone()), hidden, "{what}");
        service.publish_not_ready = true;
        assert_eq!(place(&service, pod), published, "{what}, published");
    }
}

#[test]
fn a_pod_that_cannot_be_listed_does_not_hold_up_the_others() {
    let service = service_with("rail", &[numbered("", 80)]);
    let unbound = Pod {
        node_name: None,
        ..pod("rail-1", &["10.201.4.1"])
    };
    let subsets = compute(&service, &pods([unbound, pod("rail-2", &["10.201.4.2"])]));
    assert_eq!(ips(&subsets), [(vec!["10.201.4.2"], vec![])]);
}

/// The apiserver takes these as addresses of a Pod and refuses them in Endpoints.
#[test]
fn a_pod_with_an_address_that_endpoints_may_not_hold_does_not_hold_up_the_others() {
    let mut service = service_with("rail", &[numbered("", 80)]);
    service.family = None;
    for refused in [
        "0.0.0.0",
        "127.0.0.1",
        "127.9.9.9",
        "169.254.7.7",
        "224.0.0.251",
        "::",
        "::1",
        "fe80::7",
        "febf::1",
        "ff02::fb",
        "ff12::1",
    ] {
        let subsets = compute(
            &service,
            &pods([pod("rail-1", &[refused]), pod("rail-2", &["10.201.4.2"])]),
        );
        assert_eq!(ips(&subsets), [(vec!["10.201.4.2"], vec![])], "{refused}");
    }
    for taken in [
        "10.201.4.1",
        "128.0.0.1",
        "224.0.1.1",
        "fec0::1",
        "ff05::2",
        "fd5a:77::1",
    ] {
        let subsets = compute(&service, &pods([pod("rail-1", &[taken])]));
        assert_eq!(ips(&subsets), [(vec![taken], vec![])]);
    }
}

#[test]
fn three_hundred_failed_pods_leave_nothing() {
    let service = service_with("snipe", &[numbered("", 80)]);
    let failed: Vec<Arc<Pod>> = (0..300)
        .map(|n| {
            Arc::new(Pod {
                phase: Phase::Finished,
                ..pod(&format!("snipe-{n}"), &["10.201.4.41"])
            })
        })
        .collect();
    assert_eq!(compute(&service, &failed), []);
}

#[test]
fn all_pods_replaced_leaves_only_the_new_ones() {
    // B19: what was computed before has no say.
    let service = service_with("teal", &[numbered("", 80)]);
    for round in 0..3 {
        let addresses: Vec<String> = (1..=3).map(|n| format!("10.201.{round}.{n}")).collect();
        let pods: Vec<Arc<Pod>> = addresses
            .iter()
            .enumerate()
            .map(|(n, ip)| Arc::new(pod(&format!("teal-{round}-{n}"), &[ip])))
            .collect();
        let listed: Vec<&str> = addresses.iter().map(String::as_str).collect();
        assert_eq!(ips(&compute(&service, &pods)), [(listed, vec![])]);
    }
}

#[test]
fn one_family_per_object() {
    use IpFamily::{V4, V6};
    let rows: [(Option<IpFamily>, &[&str], Option<&str>); 9] = [
        (Some(V4), &["10.201.4.61", "fd5a:77::61"], Some("10.201.4.61")),
        (Some(V6), &["10.201.4.61", "fd5a:77::61"], Some("fd5a:77::61")),
        (Some(V6), &["fd5a:77::61", "10.201.4.61"], Some("fd5a:77::61")),
        (Some(V4), &["10.201.4.61", "10.201.4.62"], Some("10.201.4.61")),
        (Some(V6), &["10.201.4.61"], None),
        (Some(V4), &["fd5a:77::62"], None),
        // B17: the Pod that only ever got an IPv6 address.
        (Some(V6), &["fd5a:77::62"], Some("fd5a:77::62")),
        // A headless Service stored without ipFamilies.
        (None, &["fd5a:77::61", "10.201.4.61"], Some("fd5a:77::61")),
        (None, &["10.201.4.61", "fd5a:77::61"], Some("10.201.4.61")),
    ];
    for (family, stored, listed) in rows {
        let service = Service {
            family,
            ..service_with("grebe", &[numbered("", 80)])
        };
        let found = listed_ip(&service, pod("grebe-1", stored));
        assert_eq!(found.as_deref(), listed, "{family:?} {stored:?}");
    }
}

#[test]
fn addresses_are_printed_as_go_prints_them() {
    // The right column is the output of Go's net.IP.String.
    for (ip, text) in [
        ("10.201.4.1", "10.201.4.1"),
        ("fd5a:77:0:0:0:0:0:1", "fd5a:77::1"),
        ("2001:DB8::A", "2001:db8::a"),
        ("2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"),
        ("2001:0:0:1:0:0:0:1", "2001:0:0:1::1"),
        ("2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
        ("0:0:0:0:0:0:a00:1", "::a00:1"),
        ("64:ff9b::10.1.2.3", "64:ff9b::a01:203"),
        ("1:0:0:0:0:0:0:0", "1::"),
    ] {
        let service = Service {
            family: None,
            ..service_with("ruff", &[numbered("", 80)])
        };
        assert_eq!(
            ips(&compute(&service, &pods([pod("ruff-1", &[ip])]))),
            [(vec![text], vec![])]
        );
    }
}

#[test]
fn an_address_names_its_pod_and_node() {
    let service = service_with("dunlin", &[numbered("web", 8080)]);
    let mut listed = pod("dunlin-1", &["10.201.4.21"]);
    listed.uid = Uid::parse("1b4e28ba-2fa1-11d2-883f-0016d3cca427");
    listed.node_name = Some("n3".into());
    let address = Address {
        ip: "10.201.4.21".into(),
        hostname: None,
        node_name: Some("n3".into()),
        target: Some(Box::new(TargetRef {
            kind: "Pod".into(),
            namespace: "marsh".into(),
            name: "dunlin-1".into(),
            uid: listed.uid.clone(),
            rest: None,
        })),
    };
    assert_eq!(
        compute(&service, &pods([listed])),
        [subset(&[address], &[], &[port("web", 8080)])]
    );
}

#[test]
fn a_hostname_counts_under_the_services_own_subdomain() {
    let service = service_with("stint", &[numbered("", 80)]);
    for (hostname, subdomain, namespace, listed) in [
        (Some("a"), Some("stint"), "marsh", Some("a")),
        (Some("a"), Some("ruff"), "marsh", None),
        (Some("a"), None, "marsh", None),
        (None, Some("stint"), "marsh", None),
        (Some("a"), Some("stint"), "fen", None),
    ] {
        let pod = Pod {
            hostname: hostname.map(Into::into),
            subdomain: subdomain.map(Into::into),
            namespace: namespace.into(),
            ..pod("stint-1", &["10.201.4.1"])
        };
        let subsets = compute(&service, &pods([pod]));
        assert_eq!(subsets[0].addresses[0].hostname.as_deref(), listed);
    }
}

#[test]
fn ports_keep_the_services_name_protocol_and_app_protocol() {
    let service = service_with(
        "tern",
        &[ServicePort {
            app_protocol: Some("kubernetes.io/h2c".into()),
            ..service_port("dns", Protocol::Udp, TargetPort::Number(5353))
        }],
    );
    let ports = compute(&service, &pods([pod("tern-1", &["10.201.4.1"])]))[0]
        .ports
        .clone();
    let expected = EndpointPort {
        name: "dns".into(),
        port: 5353,
        protocol: Protocol::Udp,
        app_protocol: Some("kubernetes.io/h2c".into()),
    };
    assert_eq!(ports, [expected]);
}

#[test]
fn a_named_target_is_the_first_container_port_of_that_name_and_protocol() {
    let (tcp, udp) = (Protocol::Tcp, Protocol::Udp);
    // Containers come before sidecars in `Pod::ports`, so the order is the rule.
    let declared = vec![
        container_port("dns", 53, udp.clone()),
        container_port("dns", 54, tcp.clone()),
        container_port("dns", 55, tcp.clone()),
        container_port("web", 8080, tcp.clone()),
    ];
    for (target, protocol, number) in [
        ("dns", tcp.clone(), Some(54)),
        ("dns", udp.clone(), Some(53)),
        ("web", tcp.clone(), Some(8080)),
        ("web", udp, None),
        ("metrics", tcp, None),
    ] {
        let port = service_port("p", protocol, TargetPort::Name(target.into()));
        let pod = Pod {
            ports: declared.clone().into(),
            ..pod("tern-1", &["10.201.4.1"])
        };
        let subsets = compute(&service_with("tern", &[port]), &pods([pod]));
        assert_eq!(subsets.first().map(|subset| subset.ports[0].port), number, "{target}");
    }
}

#[test]
fn each_pod_resolves_its_ports_alone() {
    let service = service_with(
        "knot",
        &[named("web", "http"), named("metrics", "prom"), numbered("raw", 9)],
    );
    let with = |name: &str, ip: &str, ports: &[(&str, i32)]| Pod {
        ports: ports
            .iter()
            .map(|(name, number)| container_port(name, *number, Protocol::Tcp))
            .collect(),
        ..pod(name, &[ip])
    };
    let a = with("a", "10.0.0.1", &[("http", 80), ("prom", 90)]);
    let b = with("b", "10.0.0.2", &[("http", 81), ("prom", 90)]);
    let c = with("c", "10.0.0.3", &[("prom", 90)]);
    let (at_a, at_b, at_c) = (
        address("10.0.0.1", "uid-a"),
        address("10.0.0.2", "uid-b"),
        address("10.0.0.3", "uid-c"),
    );
    assert_eq!(
        compute(&service, &pods([c, b, a])),
        [
            subset([&at_a, &at_b, &at_c], &[], &[port("metrics", 90), port("raw", 9)]),
            subset(&[at_a], &[], &[port("web", 80)]),
            subset(&[at_b], &[], &[port("web", 81)]),
        ]
    );
}

#[test]
fn a_pod_that_resolves_no_port_is_not_listed() {
    let service = service_with("knot", &[named("web", "http"), named("metrics", "prom")]);
    assert_eq!(compute(&service, &pods([pod("a", &["10.0.0.1"])])), []);
}

#[test]
fn a_target_of_zero_lists_the_address_without_the_port() {
    let service = service_with("knot", &[numbered("", 0)]);
    assert_eq!(
        compute(&service, &pods([pod("a", &["10.0.0.1"])])),
        [subset(&[address("10.0.0.1", "uid-a")], &[], &[])]
    );
}

#[test]
fn without_service_ports_only_a_headless_service_lists_pods() {
    // B13. An empty clusterIP is headless by its label, and lists nothing.
    for (headless, cluster_ip_none, listed) in [(true, true, 1), (true, false, 0), (false, false, 0)] {
        let service = Service {
            headless,
            cluster_ip_none,
            ..service("sanderling")
        };
        let both = [
            pod("sanderling-1", &["10.201.4.51"]),
            pod("sanderling-2", &["10.201.4.52"]),
        ];
        let subsets = compute(&service, &pods(both));
        assert_eq!(subsets.len(), listed);
        for subset in subsets {
            assert_eq!((subset.addresses.len(), subset.ports.len()), (2, 0));
        }
    }
}

#[test]
fn no_pods_give_no_subsets() {
    assert_eq!(compute(&service_with("crake", &[numbered("", 80)]), &[]), []);
}
