use super::super::fixtures::{World, counts, node, nodes, numbered, pod, service_with};
use super::*;
use crate::model::{Distribution, Node, Service};

/// Nodes of zones with that many CPUs; Node `n-<zone>`.
fn zones(cpus: &[(&str, u64)]) -> NodeTable {
    nodes(cpus.iter().map(|(zone, cpu)| Node {
        cpu: Some(cpu * 1000),
        ..node(&format!("n-{zone}"), Some(zone))
    }))
}

/// A Service in mode `Auto`, with that many Pods in each zone.
fn world(cpus: &[(&str, u64)], pods: &[(&str, usize)]) -> World {
    let service = Service {
        distribution: Distribution::Auto,
        ..service_with("web", &[numbered("http", 8080)])
    };
    let mut world = World::new(service, 100);
    world.nodes = zones(cpus);
    for (zone, count) in pods {
        for number in 0..*count {
            put(&mut world, zone, number);
        }
    }
    world
}

fn put(world: &mut World, zone: &str, number: usize) {
    let last = zone.bytes().next().unwrap();
    let mut pod = pod(&format!("{zone}{number}"), &[&format!("10.0.{number}.{last}")]);
    pod.node_name = Some(format!("n-{zone}").into());
    world.put(pod);
}

/// How many endpoints are hinted at each zone.
fn hinted(world: &World) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for endpoint in world.slices.iter().flat_map(|it| &it.content.endpoints) {
        let extra = endpoint.as_pod().unwrap().extra.as_ref();
        for zone in extra.iter().flat_map(|extra| &extra.hints.zones) {
            *counts.entry(zone.to_string()).or_default() += 1;
        }
    }
    counts
}

fn want(counts: &[(&str, usize)]) -> BTreeMap<String, usize> {
    counts.iter().map(|(zone, count)| (zone.to_string(), *count)).collect()
}

/// The right column was worked out from the rule (spec: endpoints.md 2.8) by hand.
#[test]
fn zones_get_their_share() {
    for (cpus, pods, hints) in [
        // Even zones, even endpoints: everyone their own.
        (
            &[("a", 4), ("b", 4)][..],
            &[("a", 3), ("b", 3)][..],
            &[("a", 3), ("b", 3)][..],
        ),
        // 6 endpoints for zones of 1:1, five of them in `a`: two are given away.
        (&[("a", 4), ("b", 4)], &[("a", 5), ("b", 1)], &[("a", 3), ("b", 3)]),
        // `b` has no endpoint: 4 x 0.5.
        (&[("a", 4), ("b", 4)], &[("a", 4)], &[("a", 2), ("b", 2)]),
        // 2:1 for 9.
        (&[("a", 8), ("b", 4)], &[("a", 3), ("b", 6)], &[("a", 6), ("b", 3)]),
        (
            &[("a", 2), ("b", 2), ("c", 2)],
            &[("a", 9)],
            &[("a", 3), ("b", 3), ("c", 3)],
        ),
    ] {
        let mut world = world(cpus, pods);
        assert_eq!(world.plan().refusal, None);
        world.settle();
        assert_eq!(hinted(&world), want(hints), "{cpus:?} {pods:?}");
        assert!(world.plan().is_empty(), "good hints stay");
    }
}

#[test]
fn refusals() {
    let one_zone = world(&[("a", 4)], &[("a", 4)]);
    assert_eq!(one_zone.plan().refusal, Some(Refusal::InsufficientNodeInfo));

    let too_few = world(&[("a", 4), ("b", 4), ("c", 4)], &[("a", 1), ("b", 1)]);
    let refusal = too_few.plan().refusal.unwrap();
    assert_eq!(refusal, Refusal::TooFewEndpoints { endpoints: 2, zones: 3 });
    assert_eq!(
        refusal.to_string(),
        "Insufficient number of endpoints (2 endpoints, 3 zones)"
    );

    // 3 endpoints: 0.6 of them to `a` is 2 at least, 0.4 to `b` is 1. With 2:1 and 2 endpoints both 2 and 1 would be needed.
    let overload = world(&[("a", 9), ("b", 1)], &[("a", 1), ("b", 1)]);
    assert_eq!(
        overload.plan().refusal,
        Some(Refusal::Overload { endpoints: 2, zones: 2 })
    );

    let mut no_zone = world(&[("a", 4), ("b", 4)], &[("a", 3), ("b", 3)]);
    no_zone.nodes.insert(
        "n-x".into(),
        Node {
            cpu: None,
            ..node("n-x", None)
        },
    );
    put(&mut no_zone, "x", 0);
    assert_eq!(no_zone.plan().refusal, Some(Refusal::NoZone));

    // A Node that counts and has no zone, or no CPU, spoils it for all.
    for bad in [
        node("bad", None),
        Node {
            cpu: Some(0),
            ..node("bad", Some("a"))
        },
    ] {
        let mut spoilt = world(&[("a", 4), ("b", 4)], &[("a", 2), ("b", 2)]);
        spoilt.nodes.insert("bad".into(), bad);
        assert_eq!(spoilt.plan().refusal, Some(Refusal::InsufficientNodeInfo));
    }
}

#[test]
fn hints_go_when_they_cannot_be_given_any_more() {
    let mut world = world(&[("a", 4), ("b", 4)], &[("a", 3), ("b", 3)]);
    world.settle();
    world.nodes = zones(&[("a", 4)]);
    // The Pods of `b` are on a Node that is gone.
    world.pods.retain(|name, _| name.starts_with('a'));
    world.settle();
    assert_eq!(hinted(&world), want(&[]));
    assert!(world.plan().is_empty());

    world.service.distribution = Distribution::SameZone;
    world.settle();
    assert_eq!(hinted(&world), want(&[("a", 3)]));
    world.service.distribution = Distribution::Anywhere;
    assert_eq!(counts(&world.plan()), [0, 1, 0]);
    world.settle();
    assert_eq!(hinted(&world), want(&[]));
}

/// Pods of a zone that has no Node that counts keep the hint of their own zone. That is decided anew each time, and is no reason to write.
#[test]
fn a_zone_that_takes_no_part_costs_no_writes() {
    let mut world = world(&[("a", 4), ("b", 4)], &[("a", 3), ("b", 3)]);
    let idle = Node {
        cpu: None,
        ..node("n-c", Some("c"))
    };
    world.nodes.insert("n-c".into(), idle);
    put(&mut world, "c", 0);
    world.settle();
    assert_eq!(hinted(&world), want(&[("a", 3), ("b", 3), ("c", 1)]));
    assert!(world.plan().is_empty());
}

/// One endpoint more or less does not shuffle the hints of slices that need no write.
#[test]
fn hints_stay_while_they_are_within_bounds() {
    let mut world = world(&[("a", 4), ("b", 4)], &[("a", 10), ("b", 10)]);
    world.max = 10;
    world.settle();
    let before = world.slices.clone();
    put(&mut world, "a", 99);
    let plan = world.plan();
    assert_eq!(counts(&plan), [1, 0, 0], "{plan:?}");
    world.settle();
    assert_eq!(world.slices[..2], before[..]);
}
