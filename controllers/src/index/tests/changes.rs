//! What is told of a Service's Pods from one sync to the next.

use super::slices::{node, slice};
use super::*;
use crate::model::Version;

fn changes(index: &mut Index) -> PodChanges {
    index.take_changes(&key("web")).unwrap().pods
}

/// Names, readiness and what has happened; `None` = anything.
fn told(index: &mut Index) -> Option<Vec<(String, bool, PodEvent)>> {
    let one = |it: PodChange| (it.pod.name.to_string(), it.pod.ready, it.what);
    match changes(index) {
        PodChanges::Few(changes) => Some(changes.into_iter().map(one).collect()),
        PodChanges::Any => None,
    }
}

fn settled() -> (Index, Labels) {
    let mut index = Index::default();
    let web = labels(&[("app", "web")]);
    index.apply_node(node("n", "a", 1000, 1));
    index.apply_service(service("web", Some(web.clone()), 1));
    for (number, name) in (0_u64..).zip(["p", "q"]) {
        index.apply_pod(on_node(pod(name, web.clone(), false, 2 + number)));
    }
    assert_eq!(changes(&mut index), PodChanges::Any, "a new Service");
    assert_eq!(told(&mut index), Some(vec![]));
    (index, web)
}

fn on_node((pod, labels): LabelledPod) -> LabelledPod {
    let node_name = Some("n".into());
    (Pod { node_name, ..pod }, labels)
}

type Change = Box<dyn Fn(&mut Index, Labels)>;
type Told<'a> = Option<&'a [(&'a str, bool, PodEvent)]>;

#[test]
fn what_has_become_of_pods_is_told_one_by_one_and_of_anything_else_as_such() {
    use PodEvent::{Changed, Flipped, Gone};
    let blue = || labels(&[("app", "web"), ("colour", "blue")]);
    let put = |name: &'static str, labels: Labels, ready, revision| {
        move |index: &mut Index| index.apply_pod(on_node(pod(name, labels.clone(), ready, revision)))
    };
    let moved = |index: &mut Index, web: Labels| {
        let (other, labels) = pod("p", web, true, 10);
        let ips = [[10, 0, 0, 1].into()].into();
        index.apply_pod(on_node((Pod { ips, ..other }, labels)));
    };
    let table: [(&str, Change, Told); 15] = [
        (
            "flips",
            Box::new(move |index, web| {
                for (name, ready, revision) in [("p", true, 10), ("p", false, 11), ("q", true, 12), ("q", true, 13)] {
                    put(name, web.clone(), ready, revision)(index);
                }
            }),
            Some(&[("p", true, Flipped), ("p", false, Flipped), ("q", true, Flipped)]),
        ),
        (
            "what happens to others",
            Box::new(move |index, _| put("other", labels(&[("app", "else")]), true, 14)(index)),
            Some(&[]),
        ),
        ("another address", Box::new(moved), Some(&[("p", true, Changed)])),
        (
            "a new Pod",
            Box::new(move |index, web| put("r", web, true, 10)(index)),
            Some(&[("r", true, Changed)]),
        ),
        (
            "a deletion",
            Box::new(|index, _| index.delete_pod(&key("p"), Revision(10))),
            Some(&[("p", false, Gone)]),
        ),
        (
            "it matches no longer",
            Box::new(move |index, _| put("p", Labels::new(), false, 10)(index)),
            Some(&[("p", false, Gone)]),
        ),
        (
            "labels and readiness",
            Box::new(move |index, _| put("p", blue(), true, 10)(index)),
            Some(&[("p", true, Changed)]),
        ),
        (
            "labels that do not matter",
            Box::new(move |index, _| put("p", blue(), false, 10)(index)),
            Some(&[]),
        ),
        (
            "made anew",
            Box::new(move |index, web| {
                index.delete_pod(&key("p"), Revision(10));
                put("p", web, true, 11)(index);
            }),
            Some(&[("p", false, Gone), ("p", true, Changed)]),
        ),
        (
            "a list without them",
            Box::new(|index, _| {
                index.begin(Kind::Pod);
                index.apply_pod(on_node(pod("q", labels(&[("app", "web")]), false, 3)));
                index.sweep(Kind::Pod);
            }),
            Some(&[("p", false, Gone)]),
        ),
        (
            "a touch",
            Box::new(|index, web| index.apply_service(service("web", Some(web), 10))),
            None,
        ),
        (
            "somebody's Endpoints",
            Box::new(|index, _| index.apply_endpoints(endpoints("web", "e", 30, true))),
            None,
        ),
        (
            "somebody's slice",
            Box::new(|index, _| index.apply_slice(slice("web-1", "web", 30, 1))),
            None,
        ),
        (
            "a Node's zone",
            Box::new(|index, _| index.apply_node(node("n", "b", 1000, 30))),
            None,
        ),
        (
            "a Node that goes",
            Box::new(|index, _| index.delete_node(&"n".into(), Revision(30))),
            None,
        ),
    ];
    for (what, change, want) in table {
        let (mut index, web) = settled();
        change(&mut index, web.clone());
        let want = want.map(|want| {
            want.iter()
                .map(|(name, ready, what)| ((*name).to_owned(), *ready, *what))
        });
        assert_eq!(told(&mut index), want.map(Iterator::collect), "{what}");
        assert_eq!(told(&mut index), Some(vec![]), "{what}, afterwards");
    }
}

#[test]
fn a_follower_does_not_heap_up_what_nobody_asks_for() {
    let (mut index, web) = settled();
    for revision in 10..200 {
        index.apply_pod(on_node(pod("p", web.clone(), revision % 2 == 0, revision)));
    }
    assert_eq!(told(&mut index), None);
}

#[test]
fn the_version_of_the_endpoints_is_told() {
    let (mut index, _) = settled();
    let version = |index: &mut Index| index.take_changes(&key("web")).unwrap().endpoints;
    assert_eq!(version(&mut index), None);
    index.apply_endpoints(endpoints("web", "e", 30, true));
    let known = Version {
        uid: Uid::parse("e"),
        revision: Revision(30),
    };
    assert_eq!(version(&mut index), Some(known));
    assert!(index.take_changes(&key("none")).is_none());
}
