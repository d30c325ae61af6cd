use std::collections::BTreeSet;

use super::super::effects::Effects;
use super::super::model::{Stored, World};
use super::super::ops::{Key, Kind, Op, Window};
use super::Generator;

const WINDOWS: usize = 400;

fn stream(seed: u64) -> Vec<Window> {
    let mut generator = Generator::new(seed);
    (0..WINDOWS).map(|_| generator.window()).collect()
}

#[test]
fn the_seed_decides_everything() {
    assert_eq!(stream(7), stream(7));
    assert_ne!(stream(7)[..3], stream(8)[..3]);
}

#[test]
fn the_model_follows_from_the_operations() {
    let mut generator = Generator::new(3);
    let mut world = World::default();
    for _ in 0..60 {
        for op in &generator.window().ops {
            world.apply(op);
        }
        assert_eq!(format!("{world:?}"), format!("{:?}", generator.world()));
    }
}

#[test]
fn no_two_operations_of_an_isolated_round_touch_one_service() {
    let mut world = World::default();
    let mut rounds = 0;
    for window in stream(1) {
        let mut seen: BTreeSet<Key> = BTreeSet::new();
        // They are under way side by side: Services count as they were and as they become.
        let (before, mut services) = (world.clone(), world.clone());
        for op in window
            .ops
            .iter()
            .filter(|op| matches!(op.object(), Some(("service", _))))
        {
            services.apply(op);
        }
        for op in &window.ops {
            let touched: BTreeSet<Key> = &before.concerned(op) | &services.concerned(op);
            if window.kind == Kind::Isolated {
                assert!(touched.is_disjoint(&seen), "window {}: {op:?}", window.number);
                seen.extend(touched);
            }
            world.apply(op);
        }
        rounds += usize::from(window.kind == Kind::Isolated && seen.len() > 10);
    }
    assert!(rounds > WINDOWS / 4, "{rounds} rounds of more than ten Services");
}

#[test]
fn a_burst_ends_the_same_however_it_falls_into_syncs() {
    let mut world = World::default();
    for window in stream(2) {
        for op in &window.ops {
            if window.kind == Kind::Burst {
                assert!(!matches!(op.object(), Some(("endpoints" | "slices", _))), "{op:?}");
                if let Op::CreateService { service, .. } | Op::ReplaceService { service, .. } = op {
                    assert!(service.is_live(), "what it leaves behind depends on the moment: {op:?}");
                }
            }
            world.apply(op);
            let frozen = world.pods.values().any(Stored::freezes);
            assert!(
                !frozen || window.kind == Kind::Isolated,
                "a frozen reference in a burst: {op:?}"
            );
        }
    }
}

#[test]
fn what_freezes_the_reference_is_mended_soon_and_others_change_meanwhile() {
    let mut world = World::default();
    let (mut frozen_for, mut changed_beside, mut thawed) = (0, 0, 0);
    for window in stream(4) {
        let before: BTreeSet<Key> = world
            .services
            .keys()
            .filter(|key| world.is_frozen(key))
            .cloned()
            .collect();
        let effects = Effects::of(&mut world, &window);
        changed_beside += before
            .iter()
            .filter(|key| world.is_frozen(key) && effects.ops_on.contains_key(key))
            .count();
        thawed += before.iter().filter(|key| !world.is_frozen(key)).count();
        let frozen = world.pods.values().any(Stored::freezes);
        frozen_for = if frozen { frozen_for + 1 } else { 0 };
        assert!(frozen_for <= 4, "window {}", window.number);
    }
    assert!(
        changed_beside > 5 && thawed > 5,
        "{changed_beside} changes of frozen Services, {thawed} thawed"
    );
}

#[test]
fn every_kind_of_operation_comes() {
    let windows = [stream(5), stream(8)].concat();
    let names: BTreeSet<String> = windows
        .iter()
        .flat_map(|window| &window.ops)
        .map(|op| match op {
            Op::TamperEndpoints { how, .. } => format!("{how:?}"),
            Op::TamperSlices { how, .. } => {
                format!("slices {}", format!("{how:?}").split('(').next().unwrap_or_default())
            }
            Op::Fault { fault, .. } => format!("{fault:?}"),
            Op::Stop { hard } => format!("Stop {hard}"),
            op => format!("{op:?}").split(' ').next().unwrap_or_default().to_owned(),
        })
        .collect();
    let all = [
        "CreateService ReplaceService DeleteService CreatePod SetPodStatus LabelPod BindPod DeletePod CreateEndpoints",
        "ReplaceEndpoints DeleteEndpoints PutNode DeleteNode CreateCrowd DeleteCrowd Start RestartReference ReleaseSlices",
        "PutForeignSlice DeleteForeignSlice",
        "ExtraLabel NoManagedBy ForeignSubsets NoSubsets Annotation OverCapacity Contradiction Reorder",
        "LoseReply ResetBefore CutReply Conflict InternalError Unavailable TooManyRequests LateReply ResetWatches ExpireWatches",
    ];
    let of_slices = "ForeignEndpoints NoEndpoints OtherPorts ExtraLabel HeadlessLabel Annotation Delete Double Orphan NoOwner \
        OtherManager OtherService Dying";
    let expected: BTreeSet<String> = all
        .iter()
        .flat_map(|names| names.split(' '))
        .map(String::from)
        .collect();
    let expected = expected
        .into_iter()
        .chain(["Stop true".into(), "Stop false".into()])
        .chain(of_slices.split(' ').map(|how| format!("slices {how}")))
        .collect::<BTreeSet<_>>();
    assert_eq!(names, expected);
}

#[test]
fn a_node_that_is_missing_comes_back_soon() {
    let mut world = World::default();
    let (mut missing_for, mut longest) = (0, 0);
    for window in stream(6) {
        for op in &window.ops {
            world.apply(op);
        }
        missing_for = if world.nodes.len() < 5 { missing_for + 1 } else { 0 };
        longest = longest.max(missing_for);
    }
    assert!((2..30).contains(&longest), "missing for {longest} windows");
}

#[test]
fn services_ask_for_hints_change_families_and_hand_made_endpoints_come_in_every_shape() {
    let (mut seen, mut mirrors) = (BTreeSet::<String>::new(), 0);
    let mut world = World::default();
    for op in stream(7).iter().flat_map(|window| &window.ops) {
        if let Op::CreateService { service, .. } | Op::ReplaceService { service, .. } = op {
            seen.extend(service.distribution.clone());
            seen.extend(service.is_auto().then(|| "auto".into()));
        }
        if let Op::ReplaceService { key, service } = op {
            let before = world.services.get(key).map(|before| before.families);
            seen.extend(
                before
                    .filter(|before| *before != service.families)
                    .map(|_| "families".into()),
            );
        }
        if let Op::CreateEndpoints { key, content } | Op::ReplaceEndpoints { key, content } = op {
            let mirrored = world
                .services
                .get(key)
                .is_some_and(|service| service.selector.is_none());
            mirrors += u32::from(mirrored && content.is_mirrorable());
            let shapes = [
                ("both families", content.families() == [true, true]),
                (
                    "doubled",
                    content.subsets.iter().any(|subset| content.is_doubled(subset)),
                ),
                ("not mirrored", !content.is_mirrorable()),
                (
                    "not ready",
                    content.subsets.iter().any(|subset| !subset.not_ready.is_empty()),
                ),
                ("no ports", content.subsets.iter().any(|subset| subset.ports.is_empty())),
                (
                    "many",
                    content.subsets.iter().any(|subset| subset.addresses().count() > 1000),
                ),
            ];
            seen.extend(shapes.iter().filter(|(_, is)| *is).map(|(name, _)| (*name).into()));
        }
        world.apply(op);
    }
    let all = "PreferClose,PreferSameNode,PreferSameZone,auto,both families,doubled,families,many,no ports,not mirrored,not ready";
    assert_eq!(seen.into_iter().collect::<Vec<_>>().join(","), all);
    assert!(mirrors >= 20, "{mirrors} Endpoints that are to be mirrored");
}
