//! The canonical form, rule by rule, and for any input.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::fixtures::*;
use super::super::reference;
use super::*;

fn one(ip: &str) -> Address {
    address(ip, &format!("uid-{ip}"))
}

#[test]
fn nothing_stays_nothing() {
    assert_eq!(repack(vec![]), []);
    // Rule 6: ports without addresses disappear.
    assert_eq!(repack(vec![subset(&[], &[], &[port("a", 1)])]), []);
    assert_eq!(repack(vec![Subset::default()]), []);
}

#[test]
fn one_port_in_several_subsets_comes_together() {
    let (a, b) = (one("10.0.0.1"), one("10.0.0.2"));
    assert_eq!(
        repack(vec![
            subset([&b], &[], &[port("web", 80)]),
            subset([&a], &[], &[port("web", 80)]),
        ]),
        [subset(&[a, b], &[], &[port("web", 80)])]
    );
}

#[test]
fn ports_with_the_same_addresses_share_a_subset() {
    let (a, b) = (one("10.0.0.1"), one("10.0.0.2"));
    let web = port("web", 80);
    let dns = EndpointPort {
        protocol: crate::model::Protocol::Udp,
        ..port("dns", 53)
    };
    assert_eq!(
        repack(vec![subset([&a], [&b], [&web]), subset([&a], [&b], [&dns]),]),
        [subset(&[a], &[b], &[dns, web])]
    );
}

#[test]
fn the_same_addresses_in_other_states_are_another_subset() {
    let (a, b) = (one("10.0.0.1"), one("10.0.0.2"));
    let (x, y) = (port("x", 80), port("y", 81));
    let packed = repack(vec![subset([&a, &b], &[], [&y]), subset([&a], [&b], [&x])]);
    assert_eq!(packed, [subset([&a], [&b], &[x]), subset(&[a, b], &[], &[y])]);
}

#[test]
fn duplicates_collapse() {
    let a = one("10.0.0.1");
    let (web, alt) = (port("web", 80), port("alt", 80));
    assert_eq!(
        repack(vec![
            subset([&a, &a], &[], [&web, &alt, &web]),
            subset([&a], &[], [&web]),
        ]),
        [subset(&[a], &[], &[alt, web])]
    );
}

#[test]
fn not_ready_wins() {
    let a = one("10.0.0.1");
    let (x, y) = (port("x", 1), port("y", 2));
    let expected = [subset(&[], [&a], [&x])];
    for subsets in [
        vec![subset([&a], [&a], [&x])],
        vec![subset([&a], &[], [&x]), subset(&[], [&a], [&x])],
        vec![subset(&[], [&a], [&x]), subset([&a], &[], [&x])],
    ] {
        assert_eq!(repack(subsets), expected);
    }
    // Per port: ready for the other one.
    assert_eq!(
        repack(vec![subset([&a], &[], [&x, &y]), subset(&[], [&a], [&x]),]),
        [subset(&[], [&a], &[x]), subset(&[a], &[], &[y])]
    );
}

#[test]
fn identity_is_ip_and_target_uid() {
    let web = [port("web", 80)];
    let first = Address {
        hostname: Some("first".into()),
        ..address("10.0.0.1", "u")
    };
    let mut renamed = first.clone();
    renamed.target.as_mut().unwrap().name = "second".into();
    renamed.hostname = Some("second".into());
    let no_uid = Address {
        target: Some(Box::new(target(""))),
        ..bare("10.0.0.1")
    };
    for (a, b, same) in [
        (&first, &renamed, true),
        (&bare("10.0.0.1"), &no_uid, true),
        (&no_uid, &bare("10.0.0.1"), true),
        (&first, &address("10.0.0.1", "v"), false),
        (&first, &address("10.0.0.2", "u"), false),
        (&first, &bare("10.0.0.1"), false),
        // Text is text: nothing is parsed.
        (&bare("10.0.0.1"), &bare("010.0.0.1"), false),
        // Alike in the first 16 bytes.
        (&bare("fd5a:1111:2222:3::1"), &bare("fd5a:1111:2222:3::2"), false),
    ] {
        let packed = repack(vec![subset([a, b], &[], &web)]);
        let kept = &packed[0].addresses;
        assert_eq!(kept.len(), if same { 1 } else { 2 }, "{a:?} {b:?}");
        // The first one seen stays, whole.
        assert!(kept.contains(a));
    }
}

#[test]
fn the_first_of_many_spellings_stays() {
    let spelled = |n: usize| Address {
        hostname: Some(format!("h{n}").into()),
        ..one(["10.0.0.3", "10.0.0.1", "10.0.0.2"][n % 3])
    };
    let all: Vec<Address> = (0..300).map(spelled).collect();
    let first = [&all[1], &all[2], &all[0]];
    assert_eq!(repack(vec![subset(&all, [], [])]), [subset(first, [], [])]);
}

#[test]
fn the_first_seen_stays_for_every_port() {
    let first = address("10.0.0.1", "u");
    let second = Address {
        hostname: Some("second".into()),
        ..first.clone()
    };
    let (x, y) = (port("x", 1), port("y", 2));
    assert_eq!(
        repack(vec![subset(&[], [&first], [&y]), subset(&[second], &[], [&x]),]),
        [subset([&first], &[], &[x]), subset(&[], &[first], &[y])]
    );
}

#[test]
fn a_list_without_ports_is_kept_and_merges_with_a_port_of_the_same_addresses() {
    let (a, b) = (one("10.0.0.1"), one("10.0.0.2"));
    let web = port("web", 80);
    assert_eq!(repack(vec![subset([&a], &[], &[])]), [subset([&a], &[], &[])]);
    assert_eq!(
        repack(vec![subset([&a], &[], &[]), subset([&a], &[], [&web])]),
        [subset([&a], &[], [&web])]
    );
    assert_eq!(
        repack(vec![subset([&a], &[], [&web]), subset([&b], &[], &[])]),
        [subset(&[b], &[], &[]), subset(&[a], &[], &[web])]
    );
}

#[test]
fn a_number_below_one_is_no_port() {
    let a = one("10.0.0.1");
    for number in [0, -1, i32::MIN] {
        assert_eq!(
            repack(vec![subset([&a], &[], &[port("", number)])]),
            [subset([&a], &[], &[])]
        );
        assert_eq!(
            repack(vec![subset([&a], &[], &[port("zero", number), port("web", 80)])]),
            [subset([&a], &[], &[port("web", 80)])]
        );
    }
    // All such numbers are one port, so that not ready wins among them, too.
    let packed = repack(vec![
        subset([&a], [], &[port("zero", 0)]),
        subset([], [&a], &[port("minus", -1)]),
    ]);
    assert_eq!(packed, [subset([], [&a], [])]);
}

#[test]
fn equal_app_protocols_are_equal_wherever_they_are_stored() {
    let (a, b) = (one("10.0.0.1"), one("10.0.0.2"));
    let http = |text: &str| EndpointPort {
        app_protocol: Some(text.into()),
        ..port("web", 80)
    };
    assert_eq!(
        repack(vec![
            subset([&a], &[], &[http("http")]),
            subset([&b], &[], &[http("http")])
        ]),
        [subset([&a, &b], &[], &[http("http")])]
    );
    let apart = repack(vec![
        subset([&a], &[], &[http("http")]),
        subset(&[b], &[], &[port("web", 80)]),
    ]);
    assert_eq!(apart.len(), 2);
}

#[test]
fn addresses_are_in_bytewise_order_then_without_target_then_by_uid() {
    let sorted = [
        bare("10.0.0.1"),
        address("10.0.0.1", "1b4e28ba-2fa1-11d2-883f-0016d3cca427"),
        address("10.0.0.1", "1b4e28ba-2fa1-11d2-883f-b9a761bde3fb"),
        address("10.0.0.1", "2"),
        bare("10.0.0.10"),
        bare("10.0.0.9"),
        bare("2001:db8::1"),
        bare("fd5a:1111:2222:3::1"),
        bare("fd5a:1111:2222:3::10"),
        bare("fd5a:1111:2222:3::2"),
    ];
    let mut turned = sorted.clone();
    turned.reverse();
    turned.swap(2, 5);
    assert_eq!(
        repack(vec![subset(&turned[..5], &turned[5..], &[])]),
        [subset(
            &sorted
                .iter()
                .filter(|a| turned[..5].contains(a))
                .cloned()
                .collect::<Vec<_>>(),
            &sorted
                .iter()
                .filter(|a| turned[5..].contains(a))
                .cloned()
                .collect::<Vec<_>>(),
            &[]
        )]
    );
    assert_eq!(repack(vec![subset(&turned, &[], &[])])[0].addresses, sorted);
}

#[test]
fn ports_and_subsets_are_in_natural_order() {
    let (a, b) = (one("10.0.0.2"), one("10.0.0.1"));
    let ports = [port("", 80), port("a", 9), port("a", 10), port("b", 1)];
    let turned: Vec<EndpointPort> = ports.iter().rev().cloned().collect();
    assert_eq!(repack(vec![subset([&a], &[], &turned)])[0].ports, ports);
    let packed = repack(vec![subset([&b], &[], &ports[2..]), subset([&a], &[], &ports[..2])]);
    assert_eq!(packed, [subset(&[a], &[], &ports[..2]), subset(&[b], &[], &ports[2..])]);
}

fn some_address() -> impl Strategy<Value = Address> {
    let ip = select(vec![
        "10.0.0.9",
        "10.0.0.10",
        "10.0.0.1",
        "fd5a:1111:2222:3::1",
        "fd5a:1111:2222:3::2",
    ]);
    let uid = option::of(select(vec![
        "",
        "u",
        "v",
        "1b4e28ba-2fa1-11d2-883f-0016d3cca427",
        "1b4e28ba-2fa1-11d2-883f-b9a761bde3fb",
    ]));
    (ip, uid, option::of(Just("h")), option::of(select(vec!["", "n1"]))).prop_map(|(ip, uid, hostname, node_name)| {
        Address {
            ip: ip.into(),
            hostname: hostname.map(Into::into),
            node_name: node_name.map(Into::into),
            target: uid.map(|uid| Box::new(target(uid))),
        }
    })
}

/// Subsets such as anybody could store, and some that nobody can.
pub fn some_subsets() -> impl Strategy<Value = Vec<Subset>> {
    let app_protocol = option::of(Just("http"));
    let port =
        (select(vec!["", "a", "b"]), -1..3_i32, app_protocol).prop_map(|(name, number, app_protocol)| EndpointPort {
            app_protocol: app_protocol.map(Into::into),
            ..port(name, number)
        });
    let subset = (vec(some_address(), 0..4), vec(some_address(), 0..3), vec(port, 0..4)).prop_map(
        |(addresses, not_ready_addresses, ports)| Subset {
            addresses,
            not_ready_addresses,
            ports,
        },
    );
    vec(subset, 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn equals_the_plain_reading_of_the_rules(subsets in some_subsets()) {
        prop_assert_eq!(repack(subsets.clone()), reference::repack(&subsets));
    }

    #[test]
    fn a_second_time_changes_nothing(subsets in some_subsets()) {
        let once = repack(subsets);
        prop_assert_eq!(&repack(once.clone()), &once);
    }

    #[test]
    fn each_address_stands_once_per_port(subsets in some_subsets()) {
        let mut seen = std::collections::BTreeSet::new();
        for subset in repack(subsets) {
            prop_assert!(!subset.is_empty());
            let mut ports: Vec<Option<EndpointPort>> = subset.ports.into_iter().map(Some).collect();
            if ports.is_empty() {
                ports.push(None);
            }
            for address in subset.addresses.iter().chain(&subset.not_ready_addresses) {
                let uid = address.target.as_ref().map(|target| target.uid.to_string()).unwrap_or_default();
                for port in &ports {
                    prop_assert!(seen.insert((port.clone(), address.ip.clone(), uid.clone())));
                }
            }
        }
    }
}
