use super::*;
use crate::endpoints::fixtures::{address, bare, hand_made, labels, port, service, subset};

fn text(mirrored: &Mirrored) -> Vec<String> {
    let slice = |slice: &Mirror| {
        let endpoints = slice.endpoints.iter().map(|it| {
            let mark = if it.ready == Some(true) { "" } else { "!" };
            format!("{mark}{}", it.addresses[0])
        });
        let ports = slice.ports.iter().map(|it| format!("{}:{}", it.name, it.port.unwrap()));
        format!(
            "{:?} {} -> {}",
            slice.family,
            endpoints.collect::<Vec<_>>().join(" "),
            ports.collect::<Vec<_>>().join(" ")
        )
    };
    mirrored.slices.iter().map(slice).collect()
}

#[test]
fn which_endpoints_are_mirrored() {
    let with = crate::endpoints::fixtures::service("web");
    let without = Service {
        selector: None,
        ..service("web")
    };
    let plain = hand_made(Vec::new());
    let labelled = |value| EndpointsObject {
        labels: labels(&[(SKIP_LABEL, value)]),
        ..plain.clone()
    };
    let lock = EndpointsObject {
        annotations: labels(&[(LEADER_ANNOTATION, "")]),
        ..plain.clone()
    };
    let ours = EndpointsObject {
        labels: labels(&[("endpoints.kubernetes.io/managed-by", "endpoint-controller")]),
        ..plain.clone()
    };
    assert!(is_mirrored(&without, &plain));
    assert!(
        is_mirrored(&without, &ours),
        "left over from when the Service had a selector"
    );
    assert!(!is_mirrored(&with, &plain));
    assert!(!is_mirrored(&without, &labelled("true")));
    assert!(is_mirrored(&without, &labelled("True")));
    assert!(!is_mirrored(&without, &lock));
}

#[test]
fn a_slice_for_each_subset_and_family() {
    let (v4, v6, odd) = (bare("10.0.0.1"), bare("fd00::1"), bare("010.0.0.2"));
    let ours = hand_made(vec![
        subset([&v4, &odd], [&v6], [&port("http", 80)]),
        subset([&v4], [], [&port("dns", 53)]),
        // The same as the first, told in another way.
        subset([&v4, &odd], [&v6], [&port("https", 443)]),
    ]);
    assert_eq!(
        text(&mirror(&ours, 1000)),
        [
            "V4 10.0.0.1 -> dns:53",
            "V4 10.0.0.2 10.0.0.1 -> http:80 https:443",
            "V6 !fd00::1 -> http:80 https:443",
        ]
    );
}

#[test]
fn what_an_endpoint_takes_over() {
    let mut full = address("10.0.0.1", "uid-a");
    full.hostname = Some("db-0".into());
    let mirrored = mirror(&hand_made(vec![subset([&full], [], [])]), 1000);
    let endpoint = &mirrored.slices[0].endpoints[0];
    assert_eq!(endpoint.hostname, full.hostname);
    assert_eq!(endpoint.node, full.node_name);
    assert_eq!(endpoint.target, full.target);
    assert_eq!(
        (endpoint.ready, endpoint.serving, endpoint.terminating),
        (Some(true), None, None)
    );
    assert!(mirrored.slices[0].ports.is_empty());
}

#[test]
fn what_is_left_out_is_counted() {
    let many: Vec<Address> = (0..7).map(|number| bare(&format!("10.0.0.{number}"))).collect();
    let wrong = bare("example");
    let ours = hand_made(vec![
        subset(&many[..5], &many[5..], [&port("http", 80)]),
        subset([&wrong, &many[0]], [], [&port("dns", 53)]),
    ]);
    let mirrored = mirror(&ours, 6);
    assert_eq!(
        mirrored.skipped,
        Skipped {
            invalid: 1,
            over_limit: 1,
            doubled_ports: Vec::new()
        }
    );
    let sizes: Vec<usize> = mirrored.slices.iter().map(|it| it.endpoints.len()).collect();
    assert_eq!(sizes, [1, 6]);
}

/// Upstream asks for a slice that the apiserver refuses, and then mirrors nothing at all (spec: endpoints.md 6.5).
#[test]
fn a_subset_with_a_doubled_port_name_does_not_hold_up_the_others() {
    let (one, other) = (bare("10.0.0.1"), bare("10.0.0.2"));
    let ours = hand_made(vec![
        subset([&one], [], [&port("", 80), &port("", 81)]),
        subset([&other], [], [&port("http", 80)]),
    ]);
    let mirrored = mirror(&ours, 1000);
    assert_eq!(text(&mirrored), ["V4 10.0.0.2 -> http:80"]);
    assert_eq!(mirrored.skipped.doubled_ports, ["".into()]);
}

/// Two targets on one address are two endpoints; two that differ only in the target's uid are one.
#[test]
fn endpoints_are_told_apart_by_address_hostname_and_target() {
    let (one, other) = (address("10.0.0.1", "uid-a"), address("10.0.0.1", "uid-b"));
    let mut reborn = address("10.0.0.1", "uid-c");
    reborn.target.as_mut().unwrap().name = "a".into();
    let count = |addresses: [&Address; 2]| {
        mirror(&hand_made(vec![subset(addresses, [], [])]), 1000).slices[0]
            .endpoints
            .len()
    };
    assert_eq!(count([&one, &other]), 2);
    assert_eq!(count([&one, &reborn]), 1);
}
