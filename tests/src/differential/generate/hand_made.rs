//! Endpoints as a person makes them.

use std::collections::BTreeSet;

use rand::RngExt as _;
use rand::rngs::StdRng;

use super::super::model::NOTE;
use super::super::ops::{HandMade, HandMadeAddress, HandMadePort, HandMadeSubset, LEADER, SKIP_MIRROR};
use super::parts::{labels, one};

/// Of every shape that the apiserver takes.
pub fn hand_made(rng: &mut StdRng) -> HandMade {
    let mut content = HandMade {
        labels: labels([("by", "hand")]),
        // Another key than NOTE: what becomes of that one on slices is not compared.
        annotations: labels([("differential/by-hand", "kept")]),
        subsets: Vec::new(),
    };
    match rng.random_range(0..12) {
        0 => content.annotations.extend(labels([(LEADER, "{}")])),
        1 => content
            .labels
            .extend(labels([("endpoints.kubernetes.io/managed-by", "endpoint-controller")])),
        2 => content.annotations.extend(labels([(NOTE, "kept")])),
        3 => content.labels.extend(labels([(SKIP_MIRROR, "true")])),
        // Only the one above counts.
        4 => content.labels.extend(labels([(SKIP_MIRROR, "True")])),
        5 => content.annotations.extend(labels([
            ("kubectl.kubernetes.io/last-applied-configuration", "{}"),
            (
                "endpoints.kubernetes.io/last-change-trigger-time",
                "2020-01-01T00:00:00Z",
            ),
        ])),
        _ => {}
    }
    for _ in 0..rng.random_range(0..4) {
        let shape = rng.random_range(0..10);
        content.subsets.push(subset(rng, shape));
    }
    if let Some(like) = content.subsets.first().cloned() {
        match rng.random_range(0..12) {
            // Two subsets that are one.
            0 => content.subsets.push(HandMadeSubset {
                ports: vec![port("more", 4000, "TCP", None)],
                ..like
            }),
            // The same with one name for two ports, which cannot be mirrored.
            1 => {
                let ports = vec![port("twice", 4001, "TCP", None)];
                content.subsets.push(HandMadeSubset { ports, ..like.clone() });
                let ports = vec![port("twice", 4002, "UDP", None)];
                content.subsets.push(HandMadeSubset { ports, ..like });
            }
            _ => {}
        }
    }
    content
}

fn subset(rng: &mut StdRng, shape: u32) -> HandMadeSubset {
    let families: &[bool] = match shape {
        0..5 => &[false],
        5..7 => &[true],
        _ => &[false, true],
    };
    // More than are mirrored, now and then.
    let count = if rng.random_bool(0.01) {
        1_005
    } else {
        rng.random_range(1..4)
    };
    let mut ips = BTreeSet::new();
    for v6 in families {
        for number in 0..count {
            let host = if count > 250 { number } else { rng.random_range(1..250) };
            ips.insert(if *v6 {
                format!("2001:db8::{host:x}")
            } else {
                format!("198.51.{}.{}", 100 + host / 250, host % 250 + 1)
            });
        }
    }
    let rich = rng.random_bool(0.3);
    let ready = if rng.random_bool(0.2) {
        0
    } else {
        rng.random_range(1..=ips.len())
    };
    let mut addresses = ips.into_iter().map(|ip| HandMadeAddress {
        hostname: rich.then(|| "host".into()),
        node: rich.then(|| "n1".into()),
        target: rich.then(|| format!("p{}", ip.len())),
        ip,
    });
    HandMadeSubset {
        ready: addresses.by_ref().take(ready).collect(),
        not_ready: addresses.collect(),
        ports: ports(rng),
    }
}

fn ports(rng: &mut StdRng) -> Vec<HandMadePort> {
    let number = rng.random_range(1000..2000);
    match rng.random_range(0..6) {
        0 => Vec::new(),
        1 => vec![port("", number, "TCP", None)],
        2 => {
            let protocol = *one(rng, &["UDP", "SCTP"]);
            vec![port("p", number, protocol, Some("example.com/x"))]
        }
        3 => vec![port("p", number, "TCP", None), port("q", number, "UDP", None)],
        _ => vec![port("p", number, "TCP", None)],
    }
}

fn port(name: &str, number: u16, protocol: &str, app_protocol: Option<&str>) -> HandMadePort {
    HandMadePort {
        name: name.into(),
        number,
        protocol: protocol.into(),
        app_protocol: app_protocol.map(Into::into),
    }
}
