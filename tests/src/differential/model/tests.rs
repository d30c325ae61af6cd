use super::super::generate::Generator;
use super::super::ops::{Key, Labels, Op, Service};
use super::World;

#[test]
fn a_world_is_made_again_by_its_creation() {
    let mut generator = Generator::new(9);
    for _ in 0..60 {
        generator.window();
        let mut again = World::default();
        for op in generator.world().creation() {
            again.apply(&op);
        }
        let mut expected = generator.world().clone();
        expected.loose.retain(|_, content| content.is_some());
        // Both programs are started for it, and nobody has given slices away.
        expected.new_to_reference.clear();
        expected.missed_flips.clear();
        expected.strays.clear();
        assert_eq!(format!("{again:?}"), format!("{expected:?}"));
    }
}

#[test]
fn a_pod_touches_the_services_that_match_before_and_after() {
    let mut generator = Generator::new(1);
    generator.window();
    let mut world = generator.world().clone();
    let (key, labels): (Key, Labels) = {
        let (key, stored) = world.pods.iter().next().unwrap();
        (key.clone(), stored.pod.labels.clone())
    };
    let before = world.matching(key.space, &labels);
    let nobody = Op::LabelPod {
        key: key.clone(),
        labels: Labels::new(),
    };
    assert_eq!(world.touched(&nobody), before, "all that it leaves");
    world.apply(&nobody);
    assert!(
        world
            .touched(&Op::DeletePod {
                key: key.clone(),
                grace: 0
            })
            .is_empty()
    );
    assert_eq!(
        world.touched(&Op::LabelPod { key, labels }),
        before,
        "all that it joins"
    );
}

/// In windows one after the other: the reference alone starts again while a Service has no selector, then the Service gets one.
#[test]
fn a_service_is_new_to_a_reference_that_was_started_again_until_it_has_looked_at_it() {
    let mut generator = Generator::new(1);
    generator.window();
    let mut world = generator.world().clone();
    let (key, live) = {
        let (key, service) = world.services.iter().find(|(_, service)| service.is_live()).unwrap();
        (key.clone(), service.clone())
    };
    let put = |selector: Option<Labels>| Op::ReplaceService {
        key: key.clone(),
        service: Service {
            selector,
            ..live.clone()
        },
    };
    let mut windows = |ops: &[Op]| {
        world.settle();
        for op in ops {
            world.apply(op);
        }
        world.new_to_reference.contains(&key)
    };
    assert!(!windows(&[Op::RestartReference]), "it looks at it at once");
    assert!(!windows(&[put(None)]));
    assert!(windows(&[Op::RestartReference]));
    assert!(windows(&[]), "it has no reason to look");
    assert!(windows(&[put(live.selector.clone())]), "the window in which it looks");
    assert!(!windows(&[]));
    windows(&[put(None), Op::RestartReference]);
    assert!(!windows(&[Op::Start]), "to both");
}
