//! Times of changes, sync by sync.

use super::super::fixtures::{pod, service};
use super::*;

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
