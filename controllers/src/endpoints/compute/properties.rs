//! Any Service with any Pods, in any order.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::fixtures::*;
use super::super::{reference, repack};
use super::*;
use crate::model::{ContainerPort, Protocol, Uid};

fn some_protocol() -> impl Strategy<Value = Protocol> {
    select(vec![Protocol::Tcp, Protocol::Tcp, Protocol::Udp])
}

fn some_pod() -> impl Strategy<Value = Pod> {
    let ips = vec(
        select(vec![
            "10.0.0.9",
            "10.0.0.10",
            "10.0.0.1",
            "fd5a::1",
            "fd5a::10",
            "fd5a::9",
        ]),
        0..3,
    );
    let ports = vec(
        (select(vec!["a", "b", "c"]), 1..4_i32, some_protocol())
            .prop_map(|(name, port, protocol): (_, _, Protocol)| container_port(name, port, protocol)),
        0..4,
    );
    // Mostly Pods that count, so that sets of some size meet.
    let flags = (
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.1),
        any::<bool>(),
    );
    (ips, ports, flags, option::of(select(vec!["knot", "ruff"]))).prop_map(
        |(ips, ports, (finished, terminating, unbound, ready), subdomain): (Vec<&str>, Vec<ContainerPort>, _, _)| Pod {
            phase: if finished { Phase::Finished } else { Phase::Active },
            terminating,
            ready,
            node_name: (!unbound).then(|| "n1".into()),
            hostname: Some("h".into()),
            subdomain: subdomain.map(Into::into),
            ports: ports.into(),
            ..pod("p", &ips)
        },
    )
}

/// Pods of one namespace: their names and uids differ.
pub fn some_pods() -> impl Strategy<Value = Vec<Arc<Pod>>> {
    vec(some_pod(), 0..12).prop_map(|pods| {
        let name = |number: usize, pod: Pod| Pod {
            name: format!("p{number}").into(),
            uid: Uid::parse(&format!("uid-p{number}")),
            ..pod
        };
        pods.into_iter()
            .enumerate()
            .map(|(number, pod)| Arc::new(name(number, pod)))
            .collect()
    })
}

pub fn some_service() -> impl Strategy<Value = Service> {
    let target = prop_oneof![
        1 => (0..4_i32).prop_map(TargetPort::Number),
        2 => select(vec!["a", "b", "c"]).prop_map(|name| TargetPort::Name(name.into())),
    ];
    let ports = vec((some_protocol(), target, option::of(Just("http"))), 0..4);
    let families = select(vec![Some(IpFamily::V4), Some(IpFamily::V6), None]);
    (ports, families, any::<bool>(), any::<bool>()).prop_map(|(ports, family, headless, publish_not_ready)| Service {
        ports: ports
            .into_iter()
            .enumerate()
            .map(|(number, (protocol, target, app_protocol))| ServicePort {
                app_protocol: app_protocol.map(Into::into),
                ..service_port(&format!("s{number}"), protocol, target)
            })
            .collect(),
        family,
        headless,
        cluster_ip_none: headless,
        publish_not_ready,
        ..service("knot")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn equals_the_plain_reading_of_the_rules(service in some_service(), pods in some_pods()) {
        prop_assert_eq!(compute(&service, &pods), reference::compute(&service, &pods));
    }

    #[test]
    fn the_order_of_pods_and_ports_says_nothing(
        service in some_service(),
        (pods, shuffled) in some_pods().prop_flat_map(|pods| (Just(pods.clone()), Just(pods).prop_shuffle())),
        turn in 0..4_usize,
    ) {
        let mut turned = service.clone();
        let count = turned.ports.len().max(1);
        turned.ports.rotate_left(turn % count);
        prop_assert_eq!(compute(&service, &pods), compute(&turned, &shuffled));
    }

    #[test]
    fn the_result_is_canonical(service in some_service(), pods in some_pods()) {
        let subsets = compute(&service, &pods);
        prop_assert_eq!(&repack(subsets.clone()), &subsets);
    }
}
