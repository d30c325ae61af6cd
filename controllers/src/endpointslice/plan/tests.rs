use std::sync::Arc;

use super::super::fixtures::{World, container_port, counts, labels, named, numbered, pod, service_with};
use super::*;
use crate::endpoints::HEADLESS_LABEL;
use crate::model::{Conditions, OtherEndpoint, Protocol, Slice};

fn web() -> Service {
    service_with("web", &[numbered("http", 8080)])
}

/// Pods, sizes of the slices there are, writes (creates, updates, deletes), sizes afterwards.
type Case = (usize, &'static [usize], [usize; 3], &'static [usize]);

/// The numbers of the reference (spec: endpoints.md 2.7).
#[test]
fn packing_as_upstream() {
    for (pods, sizes, want, after) in [
        (250, &[], [3, 0, 0], &[100, 100, 50]),
        (250, &[62, 61], [1, 1, 0], &[100, 89, 61]),
        (300, &[74, 74], [2, 0, 0], &[100, 74, 74, 52]),
        // Exactly a full slice is a slice of its own.
        (150, &[50], [1, 0, 0], &[100, 50]),
        // The rest goes where it fills best, not where there is most room.
        (120, &[30, 60, 20], [0, 1, 0], &[70, 30, 20]),
        (100, &[100], [0, 0, 0], &[100]),
        (0, &[], [1, 0, 0], &[0]),
        (1, &[0], [0, 1, 0], &[1]),
    ] as [Case; 8]
    {
        let mut world = World::new(web(), 100).with_pods(pods).with_slices(sizes);
        assert_eq!(counts(&world.plan()), want, "{pods} Pods over {sizes:?}");
        world.settle();
        assert_eq!(world.sizes(), after, "{pods} Pods over {sizes:?}");
        assert!(world.plan().is_empty());
    }
}

#[test]
fn new_endpoints_go_into_slices_that_are_written_anyway() {
    let mut world = World::new(web(), 100).with_pods(100).with_slices(&[80, 20]);
    for name in ["p0", "p99"] {
        world.pods.get_mut(name).unwrap().ready = false;
    }
    for number in 200..215 {
        world.put(pod(&format!("q{number}"), &[&format!("10.9.0.{number}")]));
    }
    assert_eq!(counts(&world.plan()), [0, 2, 0]);
    world.settle();
    assert_eq!(world.sizes(), [95, 20]);
}

#[test]
fn after_a_change_of_ports_slices_are_taken_over() {
    let mut world = World::new(web(), 100).with_pods(300).with_slices(&[30; 10]);
    world.service.ports = [numbered("http", 9090)].into();
    let plan = world.plan();
    assert_eq!(counts(&plan), [0, 3, 7]);
    for operation in &plan.steps[0] {
        let Operation::Update(before, after) = operation else {
            panic!("{operation:?}")
        };
        let has = |name: &PodName| {
            after
                .endpoints
                .iter()
                .filter_map(Endpoint::as_pod)
                .any(|it| it.name == *name)
        };
        assert!(names(before).all(has), "a slice that is taken over keeps its Pods");
    }
    world.settle();
    assert_eq!(world.sizes(), [100, 100, 100]);
}

#[test]
fn a_slice_for_each_set_of_ports() {
    let mut world = World::new(service_with("web", &[named("http", "http")]), 100).with_pods(300);
    for (number, pod) in world.pods.values_mut().enumerate() {
        let port = 8080 + i32::try_from(number % 5).unwrap();
        pod.ports = [container_port("http", port, Protocol::Tcp)].into();
    }
    assert_eq!(counts(&world.plan()), [5, 0, 0]);
    world.settle();
    assert_eq!(world.sizes(), [60; 5]);
}

/// A rolling update that replaces all Pods of a small Service costs one write.
#[test]
fn a_slice_that_would_be_emptied_is_used_again() {
    let mut world = World::new(web(), 100).with_pods(3).with_slices(&[3]);
    world.pods.clear();
    world.put(pod("q0", &["10.9.0.1"]));
    assert_eq!(counts(&world.plan()), [0, 1, 0]);
    world.settle();
    assert_eq!((world.sizes(), world.slices.len()), (vec![1], 1));
}

#[test]
fn a_smaller_limit_moves_only_what_must_move() {
    let mut world = World::new(web(), 100).with_pods(130).with_slices(&[100, 30]);
    world.max = 60;
    let plan = world.plan();
    assert_eq!(counts(&plan), [1, 1, 0], "40 move, and do not fit into the other slice");
    assert!(
        matches!(&plan.steps[0][0], Operation::Create(_)),
        "they are listed before they go"
    );
    world.settle();
    assert_eq!(world.sizes(), [60, 40, 30]);
}

#[test]
fn what_a_slice_is_made_of() {
    let mut service = web();
    service.labels = labels(&[
        ("team", "reed"),
        (HEADLESS_LABEL, "x"),
        (SERVICE_NAME_LABEL, "y"),
        (MANAGED_BY_LABEL, "z"),
    ]);
    service.ports[0].app_protocol = Some("h2c".into());
    let mut world = World::new(service, 100);
    let mut first = pod("p1", &["fd00::1", "10.0.0.1", "10.0.0.2"]);
    (first.hostname, first.subdomain) = (Some("db-0".into()), Some("web".into()));
    world.put(first);
    let zones = None;
    let terms = Terms {
        manager: Manager::Selector,
        max: 100,
        trigger: Some(Timestamp(1_514_764_800)),
        zones,
    };
    let mut wanted = Wanted::new(true, false);
    let listed = super::super::Desired::new(&world.service, IpFamily::V4, &world.nodes).endpoint(&world.pods["p1"]);
    wanted.say("p1".into(), listed);
    let plan = plan(&world.service, IpFamily::V4, &[], wanted, terms);
    let Some(Operation::Create(content)) = plan.steps.into_iter().flatten().next() else {
        panic!("no create")
    };
    assert_eq!(
        content.labels,
        labels(&[
            ("team", "reed"),
            (SERVICE_NAME_LABEL, "web"),
            (MANAGED_BY_LABEL, "endpointslice-controller.k8s.io"),
        ])
    );
    assert_eq!(
        content.annotations,
        labels(&[(TRIGGER_TIME_ANNOTATION, "2018-01-01T00:00:00Z")])
    );
    let owner = &content.owner_references[0];
    assert_eq!((&*owner.kind, &*owner.name, &*owner.uid), ("Service", "web", "service"));
    assert_eq!((owner.controller, owner.block_owner_deletion), (Some(true), Some(true)));
    assert_eq!(
        (content.family, content.manager),
        (Some(IpFamily::V4), Manager::Selector)
    );
    let port = &content.ports[0];
    assert_eq!(
        (&*port.name, port.port, port.app_protocol.as_deref()),
        ("http", Some(8080), Some("h2c"))
    );
    let endpoint = content.endpoints[0].as_pod().unwrap();
    assert_eq!(
        endpoint.addresses().map(|ip| ip.to_string()).collect::<Vec<_>>(),
        ["10.0.0.1", "10.0.0.2"]
    );
    assert_eq!(endpoint.hostname(), Some("db-0"));
    assert_eq!(
        (endpoint.node.as_deref(), endpoint.zone.as_deref()),
        (Some("n1"), Some("a"))
    );
    assert_eq!(
        endpoint.conditions,
        Conditions {
            ready: true,
            serving: true,
            terminating: false
        }
    );
}

/// A stored slice of `world`'s, changed.
fn tampered(world: &mut World, change: impl FnOnce(&mut Slice)) {
    let mut slice = (*world.slices[0]).clone();
    change(&mut slice);
    world.slices[0] = Arc::new(slice);
}

#[test]
fn tampering_is_put_right_and_what_is_not_ours_stays() {
    type Change = fn(&mut Slice);
    let changes: [(&str, Change); 6] = [
        ("an endpoint is gone", |it| drop(it.content.endpoints.pop())),
        ("an endpoint stands twice", |it| {
            it.content.endpoints.push(it.content.endpoints[0].clone());
        }),
        ("an endpoint of somebody else", |it| {
            let addresses = Box::new(["10.66.0.1".into()]) as _;
            it.content.endpoints.push(Endpoint::Other(Box::new(OtherEndpoint {
                addresses,
                ..OtherEndpoint::default()
            })));
        }),
        ("a wrong port", |it| it.content.ports = Vec::new().into()),
        ("a label too many", |it| {
            drop(it.content.labels.insert("x".into(), "y".into()));
        }),
        ("a wrong headless label", |it| {
            drop(it.content.labels.insert(HEADLESS_LABEL.into(), "".into()));
        }),
    ];
    for (what, change) in changes {
        let mut world = World::new(web(), 100).with_pods(3).with_slices(&[3]);
        let before = world.slices[0].content.clone();
        tampered(&mut world, change);
        tampered(&mut world, |it| {
            drop(it.content.annotations.insert("note".into(), "mine".into()));
        });
        assert_eq!(counts(&world.plan()), [0, 1, 0], "{what}");
        world.settle();
        assert_eq!(world.slices[0].content.ports, before.ports, "{what}");
        assert_eq!(world.slices[0].content.labels, before.labels, "{what}");
        assert_eq!(world.sizes(), [3], "{what}");
        assert_eq!(
            world.slices[0].content.annotations,
            labels(&[("note", "mine")]),
            "{what}"
        );
        assert!(world.plan().is_empty(), "{what}");
    }
}

#[test]
fn a_slice_of_an_earlier_service_of_that_name_goes_after_the_new_one_is_there() {
    let mut world = World::new(web(), 100).with_pods(3).with_slices(&[3]);
    world.service.uid = crate::model::Uid::parse("reborn");
    let plan = world.plan();
    assert_eq!(plan.steps.each_ref().map(Vec::len), [1, 0, 0, 1]);
    assert!(matches!(&plan.steps[0][0], Operation::Create(_)), "{plan:?}");
}

#[test]
fn nothing_new_is_made_for_a_service_that_is_being_deleted() {
    let mut world = World::new(web(), 2).with_pods(2).with_slices(&[2]);
    world.service.terminating = true;
    world.set_pods(5);
    world.pods.get_mut("p0").unwrap().ready = false;
    assert_eq!(counts(&world.plan()), [0, 1, 0]);
}

#[test]
fn a_service_without_pods_has_one_empty_slice() {
    let mut world = World::new(web(), 100).with_pods(3).with_slices(&[2, 1]);
    world.pods.clear();
    assert_eq!(counts(&world.plan()), [0, 1, 1]);
    world.settle();
    assert_eq!(world.sizes(), [0]);
    assert!(world.slices[0].content.ports.is_empty());
    assert!(world.plan().is_empty());
}

/// The reference keeps slices without endpoints as long as others have such ports.
#[test]
fn a_slice_without_endpoints_goes_unless_it_is_needed() {
    let cleared = |it: &mut Slice| it.content.endpoints.clear();
    let mut world = World::new(web(), 2).with_slices(&[0, 0]).with_pods(3);
    let ports = World::new(web(), 2).with_pods(1).with_slices(&[1]).slices[0]
        .content
        .ports
        .clone();
    tampered(&mut world, |it| it.content.ports = ports);
    assert_eq!(counts(&world.plan()), [0, 2, 0], "both are filled");
    world.settle();
    assert_eq!(world.sizes(), [2, 1]);
    tampered(&mut world, cleared);
    assert_eq!(counts(&world.plan()), [0, 1, 0], "it is filled again");
    world.settle();
    world.set_pods(2);
    tampered(&mut world, cleared);
    assert_eq!(counts(&world.plan()), [0, 1, 1], "one is enough");
    world.settle();
    assert_eq!(world.sizes(), [2]);
    let empty = world.content_of_new_slice();
    world.apply(Operation::Create(empty.clone()));
    let mut with_ports = empty;
    with_ports.ports = world.slices[0].content.ports.clone();
    world.apply(Operation::Create(with_ports));
    assert_eq!(counts(&world.plan()), [0, 0, 2], "nobody needs them");
}
