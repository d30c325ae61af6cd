//! What operations are made of.

use rand::RngExt as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;

use super::super::model::CROWD_SPACE;
use super::super::ops::{
    Container, ContainerPort, Families, Key, Labels, Node, Op, Port, Service, ServiceKind, TOPOLOGY, Target,
};
use super::super::snapshot::{SERVICE_NAME, SLICE_MANAGED_BY};

/// Labels from pairs.
pub fn labels<const N: usize>(pairs: [(&str, &str); N]) -> Labels {
    pairs.map(|(key, value)| (key.into(), value.into())).into()
}

/// One of these.
pub fn one<'a, T>(rng: &mut StdRng, of: &'a [T]) -> &'a T {
    of.choose(rng).expect("something to choose from")
}

/// The key of a Pod of the crowd.
pub fn crowd_key(number: usize) -> Key {
    Key::new(CROWD_SPACE, format!("c{number:04}"))
}

/// Three Services over the crowd: one subset, with hints by CPUs; two subsets; and one that publishes Pods that are not ready,
/// each for its own zone.
pub fn crowd_services() -> Vec<Op> {
    let service = |port: Port, publish_not_ready, annotations, distribution: Option<&str>| Service {
        kind: ServiceKind::Cluster,
        families: Families::V4,
        selector: Some(labels([("app", "crowd")])),
        ports: vec![port],
        publish_not_ready,
        labels: Labels::new(),
        annotations,
        distribution: distribution.map(Into::into),
    };
    let auto = labels([(TOPOLOGY[1], "Auto")]);
    let number = port("", 80, Target::Number(8080), "TCP", None);
    let name = port("", 80, Target::Name("http".into()), "TCP", None);
    let services = [
        ("one-subset", service(number.clone(), false, auto, None)),
        ("two-subsets", service(name, false, Labels::new(), None)),
        ("published", service(number, true, Labels::new(), Some("PreferClose"))),
    ];
    services
        .map(|(name, service)| Op::CreateService {
            key: Key::new(CROWD_SPACE, name),
            service,
        })
        .into()
}

fn port(name: &str, port: u16, target: Target, protocol: &str, app_protocol: Option<&str>) -> Port {
    Port {
        name: name.into(),
        port,
        target,
        protocol: protocol.into(),
        app_protocol: app_protocol.map(Into::into),
    }
}

/// Ports of a Service; none only where that is allowed.
pub fn ports(rng: &mut StdRng, may_be_none: bool) -> Vec<Port> {
    if may_be_none && rng.random_bool(0.25) {
        return Vec::new();
    }
    if rng.random_bool(0.25) {
        return vec![port("", 80, Target::Number(8080), "TCP", None)];
    }
    let catalogue = [
        port("http", 80, Target::Name("http".into()), "TCP", None),
        port("web", 81, Target::Number(8080), "TCP", None),
        port("dns", 53, Target::Name("dns".into()), "UDP", None),
        port("assoc", 99, Target::Name("sctp".into()), "SCTP", None),
        port("metrics", 9090, Target::Name("metrics".into()), "TCP", None),
        port("h2", 82, Target::Number(8081), "TCP", Some("kubernetes.io/h2c")),
        port("again", 83, Target::Number(8080), "TCP", Some("http")),
        port("setup", 84, Target::Name("setup".into()), "TCP", None),
    ];
    let count = rng.random_range(1..=3);
    catalogue.sample(rng, count).cloned().collect()
}

/// A selector, which most Pods of a namespace can match.
pub fn selector(rng: &mut StdRng) -> Labels {
    let app = *one(rng, &["a", "b", "c", "d", "e", "f"]);
    let tier = *one(rng, &["x", "y"]);
    match rng.random_range(0..10) {
        0..6 => labels([("app", app)]),
        6..8 => labels([("app", app), ("tier", tier)]),
        8 => labels([("tier", tier)]),
        _ => labels([("app", "nobody")]),
    }
}

/// Labels of a Pod.
pub fn pod_labels(rng: &mut StdRng) -> Labels {
    let app = *one(rng, &["a", "b", "c", "d", "e", "f"]);
    let mut labels = labels([("app", app)]);
    if rng.random_bool(0.3) {
        labels.insert("tier".into(), (*one(rng, &["x", "y"])).into());
    }
    labels
}

/// Labels of a Service, sometimes such as the controllers set themselves.
pub fn service_labels(rng: &mut StdRng) -> Labels {
    let mut labels = Labels::new();
    if rng.random_bool(0.6) {
        labels.insert("team".into(), (*one(rng, &["red", "green", "blue"])).into());
    }
    if rng.random_bool(0.04) {
        labels.insert(
            "service.kubernetes.io/headless".into(),
            (*one(rng, &["", "mine"])).into(),
        );
    }
    if rng.random_bool(0.04) {
        let value = *one(rng, &["me", "endpoint-controller"]);
        labels.insert("endpoints.kubernetes.io/managed-by".into(), value.into());
    }
    if rng.random_bool(0.04) {
        let key = *one(rng, &[SERVICE_NAME, SLICE_MANAGED_BY]);
        labels.insert(key.into(), "me".into());
    }
    labels
}

/// Ports of a Pod's containers.
pub fn container_ports(rng: &mut StdRng) -> Vec<ContainerPort> {
    let catalogue = [
        (Container::Main, "http", *one(rng, &[8080, 8081]), "TCP"),
        (Container::Main, "dns", 5353, *one(rng, &["UDP", "TCP"])),
        (Container::Main, "sctp", 9999, "SCTP"),
        (
            *one(rng, &[Container::Sidecar, Container::Main]),
            "metrics",
            9100,
            "TCP",
        ),
        (Container::Sidecar, "http", 8888, "TCP"),
        (Container::Init, "setup", 7000, "TCP"),
    ];
    let mut ports = Vec::new();
    for (container, name, number, protocol) in catalogue {
        if rng.random_bool(0.5) {
            ports.push(ContainerPort {
                container,
                name: name.into(),
                number,
                protocol: protocol.into(),
            });
        }
    }
    ports
}

/// `trafficDistribution`, mostly none.
pub fn distribution(rng: &mut StdRng) -> Option<String> {
    let some = *one(rng, &["PreferClose", "PreferSameZone", "PreferSameNode"]);
    rng.random_bool(0.4).then(|| some.into())
}

/// Annotations that ask for hints in proportion to CPUs, or in words that do not, or nothing.
pub fn topology(rng: &mut StdRng) -> Labels {
    let [old, new] = TOPOLOGY;
    match rng.random_range(0..10) {
        0..3 => labels([(new, "Auto")]),
        3 => labels([(old, "auto")]),
        // They have to agree.
        4 => labels([(old, "Auto"), (new, "Auto")]),
        5 => labels([(new, "aUto")]),
        6 => labels([(new, "Disabled")]),
        _ => Labels::new(),
    }
}

/// With one more family, or without the second one: the first one cannot be changed.
pub fn other_families(families: Families) -> Families {
    match families {
        Families::V4 => Families::V4V6,
        Families::V6 => Families::V6V4,
        Families::V4V6 => Families::V4,
        Families::V6V4 => Families::V6,
    }
}

/// A Node of one of three zones; now and then one that is not ready, has no zone or no CPU, or is of the control plane.
pub fn node(rng: &mut StdRng) -> Node {
    let zone = *one(rng, &["zone-a", "zone-a", "zone-b", "zone-b", "zone-c"]);
    Node {
        zone: rng.random_bool(0.92).then(|| zone.into()),
        cpus: if rng.random_bool(0.05) {
            0
        } else {
            *one(rng, &[2, 4, 4, 8])
        },
        ready: rng.random_bool(0.85),
        control_plane: rng.random_bool(0.08),
    }
}

/// A Service with a selector or without one, of any type; in a burst only such as a controller keeps: what the others
/// leave behind depends on the moment.
pub fn service(rng: &mut StdRng, isolated: bool) -> Service {
    let kind = match rng.random_range(0..20) {
        0..12 => ServiceKind::Cluster,
        12..14 => ServiceKind::NodePort,
        14..19 => ServiceKind::Headless,
        _ if isolated => ServiceKind::ExternalName,
        _ => ServiceKind::Headless,
    };
    let without_selector = isolated && rng.random_bool(0.12);
    Service {
        kind,
        families: *one(
            rng,
            &[Families::V4, Families::V4, Families::V6, Families::V4V6, Families::V6V4],
        ),
        selector: (!without_selector).then(|| selector(rng)),
        ports: ports(rng, kind == ServiceKind::Headless),
        publish_not_ready: rng.random_bool(0.15),
        labels: service_labels(rng),
        annotations: if rng.random_bool(0.2) {
            topology(rng)
        } else {
            Labels::new()
        },
        distribution: distribution(rng),
    }
}
