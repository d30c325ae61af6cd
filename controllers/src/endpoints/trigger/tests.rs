//! Times of changes, sync by sync.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::subsequence;

use super::super::fixtures::{pod, service};
use super::*;
use crate::index::{PodChange, PodEvent};

/// Pods with the times of their Ready conditions.
type Times<'a> = &'a [(&'a str, Option<i64>)];

/// Syncs of one Service: its creation, and its Pods.
fn run(syncs: &[(i64, Times)]) -> Vec<Option<i64>> {
    let mut tracker = TriggerTracker::default();
    syncs
        .iter()
        .map(|(created, times)| observe(&mut tracker, *created, times))
        .collect()
}

fn observe(tracker: &mut TriggerTracker, created: i64, times: Times) -> Option<i64> {
    let mut service = service("rail");
    service.created = Timestamp(created);
    let pods: Vec<Arc<Pod>> = times
        .iter()
        .map(|(name, time)| {
            Arc::new(Pod {
                ready_transition: time.map(Timestamp),
                ..pod(name, &[])
            })
        })
        .collect();
    tracker.observe(&service, &pods).map(|time| time.0)
}

#[test]
fn the_first_sync_says_the_services_creation() {
    assert_eq!(run(&[(100, &[])]), [Some(100)]);
    assert_eq!(run(&[(100, &[("a", Some(50)), ("b", Some(200))])]), [Some(100)]);
}

#[test]
fn later_syncs_say_the_earliest_change() {
    let before: Times = &[("a", Some(200)), ("c", Some(210)), ("d", None)];
    let rows: [(&str, i64, Times, Option<i64>); 12] = [
        ("nothing new", 100, before, None),
        ("one changed", 100, &[("a", Some(300)), ("c", Some(210))], Some(300)),
        (
            "two changed: the earlier",
            100,
            &[("c", Some(220)), ("a", Some(300))],
            Some(220),
        ),
        (
            "a new Pod, even with an old time",
            100,
            &[("a", Some(200)), ("b", Some(5)), ("c", Some(210))],
            Some(5),
        ),
        ("a Pod gone", 100, &[("c", Some(210))], None),
        ("all Pods gone", 100, &[], None),
        (
            "a time that went back",
            100,
            &[("a", Some(199)), ("c", Some(210))],
            None,
        ),
        ("a condition that went", 100, &[("a", None), ("c", Some(210))], None),
        (
            "a condition that came",
            100,
            &[("a", Some(200)), ("d", Some(230))],
            Some(230),
        ),
        ("the Service made again", 400, before, Some(400)),
        (
            "the Service made again and a Pod changed",
            400,
            &[("a", Some(300))],
            Some(300),
        ),
        ("the Service older than noted", 90, before, None),
    ];
    for (what, created, after, expected) in rows {
        assert_eq!(run(&[(100, before), (created, after)])[1], expected, "{what}");
    }
}

#[test]
fn a_pod_that_was_absent_once_is_new() {
    let with: Times = &[("a", Some(200))];
    assert_eq!(
        run(&[(100, with), (100, &[]), (100, with), (100, with)])[1..],
        [None, Some(200), None]
    );
}

#[test]
fn the_order_of_pods_says_nothing() {
    let (one, other) = (
        &[("a", Some(1)), ("b", Some(2)), ("c", Some(3))],
        &[("c", Some(3)), ("a", Some(1)), ("b", Some(2))],
    );
    assert_eq!(run(&[(100, one), (100, other), (100, one)])[1..], [None, None]);
}

#[test]
fn services_do_not_share_and_a_forgotten_one_is_new() {
    let mut tracker = TriggerTracker::default();
    assert_eq!(observe(&mut tracker, 100, &[]), Some(100));
    let other = service("ruff");
    assert_eq!(tracker.observe(&other, &[]), Some(other.created));
    tracker.forget(&other.key);
    assert_eq!(observe(&mut tracker, 100, &[]), None);
    assert_eq!(tracker.observe(&other, &[]), Some(other.created));
}

#[test]
fn a_time_that_could_not_be_written_is_told_again() {
    let mut tracker = TriggerTracker::default();
    let key = service("rail").key;
    assert_eq!(observe(&mut tracker, 100, &[("a", Some(200))]), Some(100));
    assert_eq!(observe(&mut tracker, 100, &[("a", Some(210))]), Some(210));
    tracker.owe(&key, Timestamp(210));
    assert_eq!(
        observe(&mut tracker, 100, &[("a", Some(220))]),
        Some(210),
        "the earlier change"
    );
    assert_eq!(observe(&mut tracker, 100, &[("a", Some(220))]), None);
    tracker.owe(&key, Timestamp(220));
    assert_eq!(tracker.observe_changes(&key, &[]), Some(Some(Timestamp(220))));
    assert_eq!(tracker.observe_changes(&key, &[]), Some(None));
    tracker.forget(&key);
    tracker.owe(&key, Timestamp(230));
    assert_eq!(observe(&mut tracker, 100, &[]), Some(100), "it is new");
}

proptest! {
    /// Whatever order Pods come in, and however it changes, they are told apart by name.
    #[test]
    fn pods_are_told_apart_by_name_in_any_order(
        syncs in vec((0..3_i64, subsequence(vec!["a", "b", "c", "d"], 0..=4).prop_shuffle(), vec(option::of(0..4_i64), 4)), 1..12),
    ) {
        let mut tracker = TriggerTracker::default();
        let mut noted: Option<(i64, BTreeMap<&str, i64>)> = None;
        for (created, names, times) in syncs {
            let times: Vec<(&str, Option<i64>)> = names.into_iter().zip(times).collect();
            let now: BTreeMap<&str, i64> = times.iter().filter_map(|(name, time)| Some((*name, (*time)?))).collect();
            let want = match &noted {
                None => Some(created),
                Some((before, noted)) => {
                    let newer = now.iter().filter(|(name, time)| noted.get(*name).is_none_or(|before| *time > before));
                    newer.map(|(_, time)| *time).chain((created > *before).then_some(created)).min()
                }
            };
            prop_assert_eq!(observe(&mut tracker, created, &times), want);
            noted = Some((created, now));
        }
    }

    /// It makes no difference whether a sync looks at all Pods or at what has become of some.
    #[test]
    fn changes_say_what_all_pods_say(
        syncs in vec((vec((0..4_usize, option::of(option::of(0..6_i64))), 0..4), any::<bool>()), 1..16),
    ) {
        let names = ["a", "b", "c", "d"];
        let (mut by_all, mut by_changes) = (TriggerTracker::default(), TriggerTracker::default());
        let service = service("web");
        let mut pods: BTreeMap<&str, Arc<Pod>> = BTreeMap::new();
        prop_assert_eq!(by_changes.observe_changes(&service.key, &[]), None, "not seen before");
        by_all.observe(&service, &[]);
        by_changes.observe(&service, &[]);
        for (steps, look_at_all) in syncs {
            let changes = steps.into_iter().map(|(number, time)| {
                let name = names[number];
                let what = if time.is_some() { PodEvent::Changed } else { PodEvent::Gone };
                let pod = Arc::new(Pod { ready_transition: time.flatten().map(Timestamp), ..pod(name, &[]) });
                match what {
                    PodEvent::Gone => pods.remove(name),
                    _ => pods.insert(name, Arc::clone(&pod)),
                };
                PodChange { pod, what }
            });
            let changes: Vec<PodChange> = changes.collect();
            let all: Vec<Arc<Pod>> = pods.values().cloned().collect();
            let want = by_all.observe(&service, &all);
            let got = if look_at_all {
                by_changes.observe(&service, &all)
            } else {
                by_changes.observe_changes(&service.key, &changes).unwrap()
            };
            prop_assert_eq!(got, want);
        }
    }
}
