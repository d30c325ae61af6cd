use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use smallvec::SmallVec;

use super::*;
use crate::model::{Distribution, Labels, Phase, Pod, Protocol, ServicePort, ServiceType, TargetPort, Timestamp};

mod changes;
mod known;
mod slices;

pub(super) fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs
        .iter()
        .map(|(key, value)| ((*key).into(), (*value).into()))
        .collect()
}

pub(super) fn key(name: &str) -> ObjectKey {
    ObjectKey::new("marsh", name)
}

pub(super) fn service(name: &str, selector: Option<Labels>, revision: u64) -> Service {
    Service {
        key: key(name),
        uid: Uid::parse(name),
        revision: Revision(revision),
        created: Timestamp(0),
        labels: Labels::new(),
        kind: ServiceType::Proxied,
        selector,
        headless: false,
        cluster_ip_none: false,
        family: None,
        dual_stack: false,
        terminating: false,
        distribution: Distribution::Anywhere,
        publish_not_ready: false,
        ports: Box::new([ServicePort {
            name: "".into(),
            protocol: Protocol::Tcp,
            app_protocol: None,
            target: TargetPort::Number(80),
        }]),
    }
}

fn pod(name: &str, labels: Labels, ready: bool, revision: u64) -> LabelledPod {
    let pod = Pod {
        namespace: "marsh".into(),
        name: name.into(),
        uid: Uid::parse(name),
        revision: Revision(revision),
        node_name: Some("n1".into()),
        hostname: None,
        subdomain: None,
        phase: Phase::Active,
        terminating: false,
        ready,
        ready_transition: None,
        ips: SmallVec::default(),
        ports: Box::new([]),
    };
    (pod, labels)
}

pub(super) fn endpoints(name: &str, uid: &str, revision: u64, managed: bool) -> EndpointsObject {
    EndpointsObject {
        key: key(name),
        uid: Uid::parse(uid),
        revision: Revision(revision),
        terminating: false,
        generate_name: None,
        labels: if managed {
            labels(&[("endpoints.kubernetes.io/managed-by", "endpoint-controller")])
        } else {
            Labels::new()
        },
        annotations: Labels::new(),
        finalizers: Vec::new(),
        owner_references: Vec::new(),
        subsets: Vec::new(),
    }
}

fn affected(index: &mut Index) -> Vec<(String, Cause)> {
    index
        .take_affected()
        .into_iter()
        .map(|affected| (affected.key.name.to_string(), affected.cause))
        .collect()
}

fn pods_of(index: &Index, name: &str) -> BTreeSet<String> {
    index
        .snapshot(&key(name))
        .pods
        .iter()
        .map(|pod| pod.name.to_string())
        .collect()
}

#[test]
fn a_pod_event_affects_the_services_that_match_before_or_after() {
    let mut index = Index::default();
    let web = labels(&[("app", "web")]);
    index.apply_service(service("all", Some(Labels::new()), 1));
    index.apply_service(service("web", Some(web.clone()), 2));
    index.apply_service(service("blue", Some(labels(&[("app", "web"), ("colour", "blue")])), 3));
    index.apply_service(service("hands-off", None, 4));
    index.take_affected();

    index.apply_pod(pod("p", web.clone(), false, 5));
    let by_pod = |names: &[&str]| {
        names
            .iter()
            .map(|name| ((*name).to_owned(), Cause::Pod))
            .collect::<Vec<_>>()
    };
    assert_eq!(affected(&mut index), by_pod(&["web", "all"]));

    // Only the labels change: a Service that matches before and after sees nothing of it.
    let blue = labels(&[("app", "web"), ("colour", "blue")]);
    index.apply_pod(pod("p", blue.clone(), false, 6));
    assert_eq!(affected(&mut index), by_pod(&["blue"]));

    index.apply_pod(pod("p", web, true, 7));
    let mut names = affected(&mut index);
    names.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(names, by_pod(&["all", "blue", "web"]));

    // Nothing that matters changed.
    let (mut same, labels) = pod("p", labels(&[("app", "web")]), true, 8);
    same.ready_transition = Some(Timestamp(7));
    index.apply_pod((same, labels));
    assert_eq!(affected(&mut index), []);

    index.delete_pod(&key("p"), Revision(9));
    assert_eq!(affected(&mut index), by_pod(&["web", "all"]));
}

#[test]
fn revisions_never_go_backwards() {
    let mut index = Index::default();
    let web = labels(&[("app", "web")]);
    index.apply_service(service("web", Some(web.clone()), 10));
    index.apply_pod(pod("p", web.clone(), true, 20));
    index.take_affected();
    index.apply_pod(pod("p", web.clone(), false, 19));
    index.apply_service(service("web", None, 9));
    index.delete_pod(&key("p"), Revision(19));
    index.delete_service(&key("web"), Revision(9));
    assert_eq!(affected(&mut index), []);
    assert!(index.snapshot(&key("web")).pods[0].ready);
}

#[test]
fn a_relist_takes_away_what_it_does_not_bring() {
    let mut index = Index::default();
    let web = labels(&[("app", "web")]);
    index.apply_service(service("web", Some(web.clone()), 1));
    index.apply_service(service("gone", Some(web.clone()), 2));
    index.apply_endpoints(endpoints("gone", "e", 3, true));
    for name in ["p", "q"] {
        index.apply_pod(pod(name, web.clone(), true, 4));
    }
    index.take_affected();

    index.begin(Kind::Pod);
    index.apply_pod(pod("q", web.clone(), true, 4));
    assert_eq!(
        pods_of(&index, "web").len(),
        2,
        "nothing goes before the list is complete"
    );
    index.sweep(Kind::Pod);
    assert_eq!(pods_of(&index, "web"), BTreeSet::from(["q".to_owned()]));

    index.begin(Kind::Service);
    index.apply_service(service("web", Some(web), 1));
    index.sweep(Kind::Service);
    let snapshot = index.snapshot(&key("gone"));
    assert!(snapshot.service.is_none());
    assert_eq!(
        snapshot.orphan,
        Some(Orphan::Leftover),
        "a list is no proof: it is asked for once more"
    );
    let names: BTreeSet<_> = affected(&mut index).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, BTreeSet::from(["web".to_owned(), "gone".to_owned()]));
}

#[test]
fn endpoints_without_a_service_go_only_for_a_reason() {
    let mut index = Index::default();
    index.apply_endpoints(endpoints("ours", "e1", 1, true));
    index.apply_endpoints(endpoints("hand-made", "e2", 2, false));
    let mut lock = endpoints("lock", "e3", 3, true);
    lock.annotations = labels(&[("control-plane.alpha.kubernetes.io/leader", "{}")]);
    index.apply_endpoints(lock);
    assert_eq!(index.snapshot(&key("ours")).orphan, None, "not while we run");
    assert_eq!(index.start_term(), [key("ours")]);
    assert_eq!(index.snapshot(&key("ours")).orphan, Some(Orphan::Leftover));
    assert_eq!(index.counts().endpoints_without_service, 3);

    index.apply_service(service("hand-made", None, 4));
    index.delete_service(&key("hand-made"), Revision(5));
    assert_eq!(
        index.snapshot(&key("hand-made")).orphan,
        Some(Orphan::ServiceDeleted),
        "as upstream"
    );
    // A new object of that name is another matter.
    index.apply_endpoints(endpoints("hand-made", "e4", 6, false));
    assert_eq!(index.snapshot(&key("hand-made")).orphan, None);
    // The Service is back: nothing goes.
    index.apply_service(service("ours", None, 7));
    assert_eq!(index.snapshot(&key("ours")).orphan, None);
}

#[test]
fn our_own_write_is_laid_over_the_watch_and_its_echo_affects_nobody() {
    let mut index = Index::default();
    index.apply_service(service("web", Some(labels(&[("app", "web")])), 1));
    index.apply_endpoints(endpoints("web", "e", 2, true));
    index.take_affected();
    let mut ours = endpoints("web", "e", 2, true);
    ours.annotations = labels(&[("a", "b")]);

    // The echo before the reply.
    index.expect_endpoints(&Arc::new(ours.clone()));
    let stored = EndpointsObject {
        revision: Revision(3),
        ..ours.clone()
    };
    index.apply_endpoints(stored.clone());
    assert_eq!(affected(&mut index), []);
    index.finish_endpoints(&key("web"), WriteEnd::Stored(stored.uid.clone(), stored.revision));
    assert_eq!(*index.snapshot(&key("web")).endpoints.unwrap(), stored);

    // The echo after the reply, and an older event in between.
    let next = EndpointsObject {
        revision: Revision(5),
        annotations: labels(&[("a", "c")]),
        ..stored.clone()
    };
    index.expect_endpoints(&Arc::new(next.clone()));
    index.finish_endpoints(&key("web"), WriteEnd::Stored(next.uid.clone(), next.revision));
    index.apply_endpoints(EndpointsObject {
        revision: Revision(4),
        ..stored
    });
    index.apply_endpoints(next.clone());
    assert_eq!(affected(&mut index), []);
    assert_eq!(*index.snapshot(&key("web")).endpoints.unwrap(), next);

    // Somebody else's change is noticed.
    index.apply_endpoints(EndpointsObject {
        revision: Revision(6),
        annotations: Labels::new(),
        ..next
    });
    assert_eq!(
        affected(&mut index),
        [("web".to_owned(), Cause::Foreign(Controller::Endpoints))]
    );
}

/// What people make of their own Endpoints, and what is there when we come, is no fight over ours.
#[test]
fn only_what_we_keep_can_be_disturbed() {
    let kept = Some(labels(&[("app", "web")]));
    for (selector, cause) in [(kept, Cause::Foreign(Controller::Endpoints)), (None, Cause::Service)] {
        let mut index = Index::default();
        index.apply_service(service("web", selector, 1));
        index.take_affected();
        let mut due = |object: EndpointsObject| {
            index.apply_endpoints(object);
            affected(&mut index)
        };
        assert_eq!(
            due(endpoints("web", "e", 2, true)),
            [("web".to_owned(), Cause::Service)],
            "first seen"
        );
        assert_eq!(
            due(endpoints("web", "e", 3, false)),
            [("web".to_owned(), cause)],
            "edited"
        );
        assert_eq!(
            due(endpoints("web", "f", 4, false)),
            [("web".to_owned(), cause)],
            "made anew"
        );
        index.delete_endpoints(&key("web"), Revision(5));
        assert_eq!(affected(&mut index), [("web".to_owned(), cause)], "deleted");
    }
}

#[test]
fn endpoints_created_while_their_service_went_are_taken_away() {
    for echo_first in [false, true] {
        let mut index = Index::default();
        index.apply_service(service("web", Some(labels(&[("app", "web")])), 1));
        index.expect_endpoints(&Arc::new(endpoints("web", "", 0, true)));
        index.delete_service(&key("web"), Revision(2));
        index.take_affected();
        if echo_first {
            index.apply_endpoints(endpoints("web", "e", 3, true));
        }
        index.finish_endpoints(&key("web"), WriteEnd::Stored(Uid::parse("e"), Revision(3)));
        assert_eq!(affected(&mut index), [("web".to_owned(), Cause::Service)]);
        assert_eq!(index.snapshot(&key("web")).orphan, Some(Orphan::ServiceDeleted));
        index.finish_endpoints_delete(&key("web"), &Uid::parse("e"));
        index.delete_endpoints(&key("web"), Revision(4));
        assert!(index.namespaces.is_empty(), "nothing is left behind");
    }
}

#[test]
fn a_create_whose_answer_was_lost_is_known_as_ours_when_it_turns_up() {
    let mut index = Index::default();
    index.apply_service(service("web", Some(labels(&[("app", "web")])), 1));
    index.expect_endpoints(&Arc::new(endpoints("web", "", 0, true)));
    index.finish_endpoints(&key("web"), WriteEnd::Unknown);
    // The next try meets what the first has stored.
    index.expect_endpoints(&Arc::new(endpoints("web", "", 0, true)));
    index.finish_endpoints(&key("web"), WriteEnd::Refused);
    index.delete_service(&key("web"), Revision(2));
    index.take_affected();
    index.apply_endpoints(endpoints("web", "e", 3, true));
    assert_eq!(affected(&mut index), [("web".to_owned(), Cause::Service)]);
    assert_eq!(index.snapshot(&key("web")).orphan, Some(Orphan::ServiceDeleted));
    index.delete_endpoints(&key("web"), Revision(4));
    assert!(index.namespaces.is_empty(), "nothing is left behind");

    // One that never turns up is forgotten with the next complete list.
    index.expect_endpoints(&Arc::new(endpoints("web", "", 0, true)));
    index.finish_endpoints(&key("web"), WriteEnd::Unknown);
    index.begin(Kind::Endpoints);
    index.sweep(Kind::Endpoints);
    assert!(index.namespaces.is_empty());
}

#[test]
fn a_reply_that_comes_after_the_deletion_does_not_bring_the_object_back() {
    let mut index = Index::default();
    index.apply_service(service("web", Some(labels(&[("app", "web")])), 1));
    index.expect_endpoints(&Arc::new(endpoints("web", "", 0, true)));
    index.apply_endpoints(endpoints("web", "e", 2, true));
    index.delete_endpoints(&key("web"), Revision(3));
    index.take_affected();
    index.finish_endpoints(&key("web"), WriteEnd::Stored(Uid::parse("e"), Revision(2)));
    assert!(index.snapshot(&key("web")).endpoints.is_none());
}

/// A list says what there is; a reply, what there was at some time. The watch goes on from the list and shows the rest.
#[test]
fn a_reply_older_than_a_list_does_not_bring_back_what_the_list_is_without() {
    let created = || WriteEnd::Stored(Uid::parse("e"), Revision(2));
    // Whether there was an object before, and whether the reply comes after the list, else while it is under way.
    for (update, late) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut index = Index::default();
        index.apply_service(service("web", Some(labels(&[("app", "web")])), 1));
        if update {
            index.apply_endpoints(endpoints("web", "e", 1, true));
        }
        index.take_affected();
        index.expect_endpoints(&Arc::new(endpoints("web", "e", 0, true)));
        index.begin(Kind::Endpoints);
        if !late {
            index.finish_endpoints(&key("web"), created());
        }
        index.sweep(Kind::Endpoints);
        if late {
            index.finish_endpoints(&key("web"), created());
        }
        assert!(index.snapshot(&key("web")).endpoints.is_none(), "{update} {late}");
        let looked_at_again = affected(&mut index).iter().any(|(name, _)| name == "web");
        assert!(looked_at_again, "{update} {late}");
    }
}

/// The list was older than the write: what the watch shows is ours, and goes if its Service has gone meanwhile.
#[test]
fn a_write_younger_than_the_list_is_known_as_ours_when_it_turns_up() {
    for (late, gone) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut index = Index::default();
        index.apply_service(service("web", Some(labels(&[("app", "web")])), 1));
        index.expect_endpoints(&Arc::new(endpoints("web", "", 0, true)));
        index.begin(Kind::Endpoints);
        let created = WriteEnd::Stored(Uid::parse("e"), Revision(3));
        if late {
            index.sweep(Kind::Endpoints);
            index.finish_endpoints(&key("web"), created);
        } else {
            index.finish_endpoints(&key("web"), created);
            index.sweep(Kind::Endpoints);
        }
        // The look at it that follows meets what is stored.
        index.expect_endpoints(&Arc::new(endpoints("web", "", 0, true)));
        index.finish_endpoints(&key("web"), WriteEnd::Refused);
        if gone {
            index.delete_service(&key("web"), Revision(4));
        }
        index.take_affected();
        index.apply_endpoints(endpoints("web", "e", 3, true));
        let want = gone.then_some(Orphan::ServiceDeleted);
        assert_eq!(index.snapshot(&key("web")).orphan, want, "{late}");
        // Also if the Service is there: it was looked at as if there were no such object.
        assert_eq!(affected(&mut index), [("web".to_owned(), Cause::Service)], "{late}");
    }
}

/// Written over by somebody with what stood there before, and a list shows only that.
#[test]
fn what_looks_as_before_may_have_been_written_over_our_write() {
    let mut index = Index::default();
    index.apply_service(service("web", Some(labels(&[("app", "web")])), 1));
    index.apply_endpoints(endpoints("web", "e", 2, false));
    index.take_affected();
    index.expect_endpoints(&Arc::new(endpoints("web", "e", 2, true)));
    index.begin(Kind::Endpoints);
    index.apply_endpoints(endpoints("web", "e", 4, false));
    index.sweep(Kind::Endpoints);
    index.finish_endpoints(&key("web"), WriteEnd::Stored(Uid::parse("e"), Revision(3)));
    assert_eq!(
        affected(&mut index),
        [("web".to_owned(), Cause::Foreign(Controller::Endpoints))]
    );
    assert_eq!(index.snapshot(&key("web")).endpoints.unwrap().revision, Revision(4));
}

/// Admission may add to what a write sends, and the reply is asked for metadata alone.
#[test]
fn what_the_apiserver_made_of_a_write_counts_and_not_what_was_sent() {
    let mut index = Index::default();
    index.apply_service(service("web", Some(labels(&[("app", "web")])), 1));
    index.take_affected();
    let stored = EndpointsObject {
        annotations: labels(&[("added", "by a policy")]),
        finalizers: vec!["example.net/added".into()],
        ..endpoints("web", "e", 2, true)
    };
    index.expect_endpoints(&Arc::new(endpoints("web", "", 0, true)));
    index.finish_endpoints(&key("web"), WriteEnd::Stored(Uid::parse("e"), Revision(2)));
    index.apply_endpoints(stored.clone());
    assert_eq!(*index.snapshot(&key("web")).endpoints.unwrap(), stored);
    assert_eq!(affected(&mut index), [], "admission would do the same again");
}

/// The patience with other writers must not grow by our own deletions.
#[test]
fn endpoints_that_go_with_their_service_are_not_somebody_elses_doing() {
    let mut index = Index::default();
    index.apply_service(service("web", Some(labels(&[("app", "web")])), 1));
    index.apply_endpoints(endpoints("web", "e", 2, true));
    index.delete_service(&key("web"), Revision(3));
    index.take_affected();
    index.delete_endpoints(&key("web"), Revision(4));
    assert_eq!(affected(&mut index), [("web".to_owned(), Cause::Service)]);
}

#[derive(Clone, Debug)]
enum Step {
    Pod(u8, Vec<(u8, u8)>, bool),
    DeletePod(u8),
    Service(u8, Option<Vec<(u8, u8)>>),
    DeleteService(u8),
    RelistPods,
    RelistServices,
}

fn step() -> impl Strategy<Value = Step> {
    let pairs = || proptest::collection::vec((0..3u8, 0..3u8), 0..4);
    prop_oneof![
        4 => (0..5u8, pairs(), any::<bool>()).prop_map(|(name, labels, ready)| Step::Pod(name, labels, ready)),
        1 => (0..5u8).prop_map(Step::DeletePod),
        3 => (0..5u8, proptest::option::weighted(0.8, pairs())).prop_map(|(name, selector)| Step::Service(name, selector)),
        1 => (0..5u8).prop_map(Step::DeleteService),
        1 => Just(Step::RelistPods),
        1 => Just(Step::RelistServices),
    ]
}

fn numbered(pairs: &[(u8, u8)]) -> Labels {
    pairs
        .iter()
        .map(|(key, value)| (key.to_string().into(), value.to_string().into()))
        .collect()
}

/// What each Service sees, by the plainest rule.
fn naive(
    pods: &BTreeMap<u8, (Labels, bool)>,
    services: &BTreeMap<u8, Option<Labels>>,
) -> BTreeMap<u8, BTreeMap<String, bool>> {
    let view = |selector: &Option<Labels>| {
        let Some(selector) = selector else {
            return BTreeMap::new();
        };
        let matching = pods
            .iter()
            .filter(|(_, (labels, _))| selector.iter().all(|(key, value)| labels.get(key) == Some(value)));
        matching.map(|(name, (_, ready))| (name.to_string(), *ready)).collect()
    };
    services
        .iter()
        .map(|(name, selector)| (*name, view(selector)))
        .collect()
}

proptest! {
    /// Whatever happens, a snapshot holds exactly the Pods that match, every Service whose view changed is affected, and when all is gone
    /// nothing is left.
    #[test]
    fn snapshots_are_exact_and_every_change_of_view_is_noticed(steps in proptest::collection::vec(step(), 1..80)) {
        let mut index = Index::default();
        let (mut pods, mut services) = (BTreeMap::new(), BTreeMap::new());
        let mut revision = 0;
        for step in steps {
            let before = naive(&pods, &services);
            revision += 1;
            match step {
                Step::Pod(name, pairs, ready) => {
                    index.apply_pod(pod(&name.to_string(), numbered(&pairs), ready, revision));
                    pods.insert(name, (numbered(&pairs), ready));
                }
                Step::DeletePod(name) => {
                    index.delete_pod(&key(&name.to_string()), Revision(revision));
                    pods.remove(&name);
                }
                Step::Service(name, pairs) => {
                    let selector = pairs.map(|pairs| numbered(&pairs));
                    index.apply_service(service(&name.to_string(), selector.clone(), revision));
                    services.insert(name, selector);
                }
                Step::DeleteService(name) => {
                    index.delete_service(&key(&name.to_string()), Revision(revision));
                    services.remove(&name);
                }
                Step::RelistPods => {
                    pods.pop_first();
                    index.begin(Kind::Pod);
                    for (name, (labels, ready)) in &pods {
                        index.apply_pod(pod(&name.to_string(), labels.clone(), *ready, revision));
                    }
                    index.sweep(Kind::Pod);
                }
                Step::RelistServices => {
                    services.pop_first();
                    index.begin(Kind::Service);
                    for (name, selector) in &services {
                        index.apply_service(service(&name.to_string(), selector.clone(), revision));
                    }
                    index.sweep(Kind::Service);
                }
            }
            let noticed: BTreeSet<String> = affected(&mut index).into_iter().map(|(name, _)| name).collect();
            let after = naive(&pods, &services);
            for (name, view) in &after {
                let seen: BTreeMap<String, bool> =
                    index.snapshot(&key(&name.to_string())).pods.iter().map(|pod| (pod.name.to_string(), pod.ready)).collect();
                prop_assert_eq!(&seen, view);
                if before.get(name) != Some(view) {
                    prop_assert!(noticed.contains(&name.to_string()), "service {} sees a change and was not named", name);
                }
            }
            prop_assert_eq!(index.counts().pods, pods.len());
            prop_assert_eq!(index.counts().services, services.len());
        }
        for kind in [Kind::Pod, Kind::Service] {
            index.begin(kind);
            index.sweep(kind);
        }
        prop_assert!(index.namespaces.is_empty());
    }
}
