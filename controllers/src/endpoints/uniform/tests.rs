//! The quick way and the long way say the same.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::compute::properties::{some_pods, some_service};
use super::super::fixtures::*;
use super::super::repack::tests::some_subsets;
use super::super::{compute, decide, plan, truncate};
use super::*;
use crate::model::{EndpointsObject, Protocol};

/// Any Pods, most often with the same ports.
fn some_pods_alike() -> impl Strategy<Value = Vec<Arc<Pod>>> {
    (some_pods(), prop::bool::weighted(0.8)).prop_map(|(pods, alike)| {
        let first = pods.first().map(|pod| pod.ports.clone()).unwrap_or_default();
        let change = |pod: &Arc<Pod>| {
            let ports = if alike { first.clone() } else { pod.ports.clone() };
            Arc::new(Pod {
                ports,
                ..Pod::clone(pod)
            })
        };
        pods.iter().map(change).collect()
    })
}

/// What may be stored instead of `right`: nearly the same, or anything.
fn disturbed(right: &[Subset], how: usize, any: Vec<Subset>) -> Vec<Subset> {
    let mut subsets = right.to_vec();
    let Some(first) = subsets.first_mut() else {
        return any;
    };
    match how {
        0 => {}
        1 => first.ports.reverse(),
        2 => first.addresses.reverse(),
        3 => first.not_ready_addresses.extend(first.addresses.pop()),
        4 => first.addresses.extend(first.not_ready_addresses.first().cloned()),
        5 => first.addresses.extend(first.addresses.first().cloned()),
        6 => first.ports.extend(first.ports.first().cloned()),
        7 => {
            first.ports.pop();
        }
        8 => first.ports.push(port("odd", 0)),
        9 => {
            for address in &mut first.addresses {
                address.node_name = None;
            }
        }
        10 => {
            for target in first.addresses.iter_mut().filter_map(|address| address.target.as_mut()) {
                target.rest.get_or_insert_default().field_path = "x".into();
            }
        }
        11 => {
            let half = first.addresses.split_off(first.addresses.len() / 2);
            let ports = first.ports.clone();
            subsets.push(subset(&half, [], &ports));
        }
        _ => return any,
    }
    subsets
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn one_subset_is_what_the_long_way_builds(service in some_service(), pods in some_pods_alike()) {
        if let Some(uniform) = Uniform::of(&service, &pods) {
            let truncated = uniform.truncated();
            prop_assert_eq!((uniform.into_subsets(), truncated), truncate(compute(&service, &pods)));
        }
    }

    #[test]
    fn the_decision_is_that_of_the_long_way(
        service in some_service(),
        pods in some_pods_alike(),
        how in 0..13_usize,
        any in some_subsets(),
        marked in any::<bool>(),
    ) {
        let desired = compute(&service, &pods);
        let mut observed = stored(&service, disturbed(&desired, how, any));
        if marked {
            observed.annotations = labels(&[(super::super::OVER_CAPACITY_ANNOTATION, super::super::TRUNCATED)]);
        }
        prop_assert_eq!(
            decide(&service, &pods, Some(&observed), None).operation,
            plan(&service, desired.clone(), Some(&observed), None)
        );
        prop_assert_eq!(decide(&service, &pods, None, None).operation, plan(&service, desired, None, None));
    }
}

/// More Pods than fit, in any order, `ready` of them ready.
fn many(ready: &[bool]) -> Vec<Arc<Pod>> {
    let pod_of = |(number, ready): (usize, &bool)| {
        let ip = format!("10.{}.{}.1", number / 250, number % 250);
        Arc::new(Pod {
            ready: *ready,
            ..pod(&format!("p{number}"), &[&ip])
        })
    };
    ready.iter().enumerate().map(pod_of).collect()
}

fn one_port() -> Service {
    service_with("knot", &[numbered("http", 80), numbered("metrics", 90)])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn over_capacity_too(
        (weight, extra) in (0.0..1.0_f64, 1..400_usize),
        seed in vec(0.0..1.0_f64, 1400),
        flipped in 0..1400_usize,
    ) {
        let mut ready: Vec<bool> = seed.iter().take(CAPACITY + extra).map(|it| *it < weight).collect();
        let service = one_port();
        let before = truncate(compute(&service, &many(&ready)));
        let observed = EndpointsObject {
            annotations: labels(&[(super::super::OVER_CAPACITY_ANNOTATION, super::super::TRUNCATED)]),
            ..stored(&service, before.0.clone())
        };
        prop_assert_eq!(decide(&service, &many(&ready), Some(&observed), None).operation, None);
        let flipped = flipped % ready.len();
        ready[flipped] = !ready[flipped];
        let pods = many(&ready);
        let uniform = Uniform::of(&service, &pods).unwrap();
        let after = truncate(compute(&service, &pods));
        prop_assert_eq!((uniform.clone().into_subsets(), uniform.truncated()), after.clone());
        prop_assert_eq!(uniform.is_said_by(&observed.subsets), Some(after.0 == before.0));
        prop_assert_eq!(
            decide(&service, &pods, Some(&observed), None).operation,
            plan(&service, compute(&service, &pods), Some(&observed), None)
        );
    }
}

/// The usual object is compared without repacking it, or there would be no gain.
#[test]
fn the_usual_case_is_told_the_quick_way() {
    let service = one_port();
    let pods = many(&[true, false, true]);
    let uniform = Uniform::of(&service, &pods).unwrap();
    let mut right = compute(&service, &pods);
    // As the apiserver stores it: ports in an order of its own.
    right[0].ports.reverse();
    assert_eq!(uniform.is_said_by(&right), Some(true));
    let gone = right[0].addresses.pop();
    assert!(gone.is_some());
    assert_eq!(uniform.is_said_by(&right), Some(false));
    // Pods that differ in what a port name leads to make two subsets.
    let service = service_with("knot", &[named("http", "http")]);
    let ported = |name, number| Pod {
        ports: Box::new([container_port("http", number, Protocol::Tcp)]),
        ..pod(name, &["10.0.0.1"])
    };
    let pods = super::super::fixtures::pods([ported("a", 1), ported("b", 2)]);
    assert!(Uniform::of(&service, &pods).is_none());
}
