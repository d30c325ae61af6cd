//! Slices and Nodes in the index.

use super::*;
use crate::model::{Endpoint, IpFamily, Manager, SliceContent};

pub(super) fn slice(name: &str, service: &str, revision: u64, ports: usize) -> Slice {
    let port = |number: usize| crate::model::SlicePort {
        name: "".into(),
        protocol: Protocol::Tcp,
        port: i32::try_from(number).ok(),
        app_protocol: None,
    };
    Slice {
        key: key(name),
        uid: Uid::parse(name),
        revision: Revision(revision),
        terminating: false,
        content: SliceContent {
            service: service.into(),
            manager: Manager::Selector,
            family: Some(IpFamily::V4),
            generate_name: None,
            labels: Labels::new(),
            annotations: Labels::new(),
            finalizers: Vec::new(),
            owner_references: Vec::new(),
            ports: (0..ports).map(port).collect(),
            endpoints: Vec::<Endpoint>::new(),
        },
    }
}

fn names(index: &Index, service: &str) -> BTreeSet<String> {
    let slices = index.snapshot(&key(service)).slices;
    slices.iter().map(|slice| slice.key.name.to_string()).collect()
}

fn with_web() -> Index {
    let mut index = Index::default();
    index.apply_service(service("web", Some(labels(&[("app", "web")])), 1));
    index.take_affected();
    index
}

const OURS: Cause = Cause::Foreign(Controller::Slices);

#[test]
fn slices_are_found_by_their_service_and_an_edit_is_a_reason_to_look() {
    let mut index = with_web();
    index.apply_slice(slice("web-1", "web", 2, 1));
    index.apply_slice(slice("web-2", "web", 3, 2));
    assert_eq!(names(&index, "web"), ["web-1", "web-2"].map(String::from).into());
    let web = |cause| ("web".to_owned(), cause);
    assert_eq!(affected(&mut index), [web(Cause::Service), web(Cause::Service)]);
    index.apply_slice(slice("web-1", "web", 4, 1));
    assert_eq!(affected(&mut index), [], "a version is not content");
    index.apply_slice(slice("web-1", "web", 5, 3));
    assert_eq!(affected(&mut index), [web(OURS)]);
    // It names another Service now: both are looked at.
    index.apply_slice(slice("web-1", "db", 6, 3));
    assert_eq!(affected(&mut index), [web(OURS), ("db".to_owned(), Cause::Service)]);
    assert_eq!(names(&index, "web"), ["web-2".to_owned()].into());
    assert_eq!(names(&index, "db"), ["web-1".to_owned()].into());
    index.delete_slice(&key("web-2"), Revision(7));
    assert_eq!(affected(&mut index), [web(OURS)]);
    assert_eq!(names(&index, "web"), BTreeSet::new());
}

/// A canary's, or those that a Service has kept from before its selector was taken off: svcplane writes none of them.
#[test]
fn slices_of_services_that_have_none_of_ours_are_not_disturbed() {
    let mut canary = service("canary", Some(labels(&[("app", "nobody")])), 1);
    canary.labels = labels(&[(crate::model::CANARY_LABEL, "true")]);
    for other in [canary, service("mute", None, 1)] {
        let name = other.key.name.to_string();
        let mut index = Index::default();
        index.apply_service(other);
        index.apply_slice(slice("x", &name, 2, 1));
        index.take_affected();
        index.apply_slice(slice("x", &name, 3, 2));
        index.delete_slice(&key("x"), Revision(4));
        let looked_at = (name, Cause::Service);
        assert_eq!(affected(&mut index), [looked_at.clone(), looked_at]);
    }
}

#[test]
fn own_writes_and_deletions_are_no_reason_to_look() {
    let mut index = with_web();
    let ours = Arc::new(Slice {
        uid: Uid::parse(""),
        revision: Revision::default(),
        ..slice("web-1", "web", 0, 1)
    });
    // The watch may be faster than the reply, or slower.
    for watch_first in [true, false] {
        index.expect_slice(&ours);
        let show = |index: &mut Index| index.apply_slice(slice("web-1", "web", 5, 1));
        if watch_first {
            show(&mut index);
        }
        index.finish_slice(&ours, WriteEnd::Stored(Uid::parse("web-1"), Revision(5)));
        assert_eq!(names(&index, "web"), ["web-1".to_owned()].into());
        if !watch_first {
            show(&mut index);
        }
        let stored = slice("web-1", "web", 5, 1);
        index.expect_slice_delete(&stored.key);
        if watch_first {
            index.delete_slice(&stored.key, Revision(6));
        }
        index.finish_slice_delete(&stored, DeleteEnd::Gone);
        if !watch_first {
            index.delete_slice(&stored.key, Revision(6));
        }
        assert!(affected(&mut index).iter().all(|(_, cause)| *cause == Cause::Service));
        assert_eq!(names(&index, "web"), BTreeSet::new());
    }
    index.delete_service(&key("web"), Revision(9));
    assert_eq!(index.counts().namespaces, 0, "nothing is left behind");
}

/// A lagging watch brings nothing back, and nobody else is blamed for its end. One made anew under the name is another.
#[test]
fn what_we_have_deleted_does_not_come_back() {
    let mut index = with_web();
    index.apply_slice(slice("web-1", "web", 2, 1));
    let stored = slice("web-1", "web", 2, 1);
    index.expect_slice_delete(&stored.key);
    index.finish_slice_delete(&stored, DeleteEnd::Gone);
    index.take_affected();
    for revision in [2, 3] {
        index.apply_slice(slice("web-1", "web", revision, 2));
        assert_eq!(names(&index, "web"), BTreeSet::new());
    }
    index.delete_slice(&stored.key, Revision(4));
    assert_eq!(affected(&mut index), []);
    let again = Slice {
        uid: Uid::parse("again"),
        ..slice("web-1", "web", 5, 1)
    };
    index.apply_slice(again);
    assert_eq!(names(&index, "web"), ["web-1".to_owned()].into());
}

/// What was wanted back before a write without an answer turned up: whoever found nothing to do then has to look again.
#[test]
fn a_write_without_an_answer_that_turns_up_is_a_reason_to_look() {
    let web = || vec![("web".to_owned(), Cause::Service)];
    let mut index = with_web();
    let create = Arc::new(Slice {
        uid: Uid::parse(""),
        revision: Revision::default(),
        ..slice("web-1", "web", 0, 1)
    });
    index.expect_slice(&create);
    index.finish_slice(&create, WriteEnd::Unknown);
    index.take_affected();
    index.apply_slice(slice("web-1", "web", 2, 1));
    assert_eq!(affected(&mut index), web(), "a create");
    let update = Arc::new(slice("web-1", "web", 2, 2));
    index.expect_slice(&update);
    index.finish_slice(&update, WriteEnd::Unknown);
    index.take_affected();
    index.apply_slice(slice("web-1", "web", 3, 2));
    assert_eq!(affected(&mut index), web(), "an update");
    assert_eq!(index.take_changes(&key("web")).unwrap().pods, PodChanges::Any);
    index.apply_slice(slice("web-1", "web", 3, 2));
    assert_eq!(affected(&mut index), [], "once");
}

#[test]
fn what_a_list_does_not_bring_is_gone() {
    let mut index = with_web();
    index.apply_slice(slice("web-1", "web", 2, 1));
    index.apply_slice(slice("web-2", "web", 3, 1));
    index.take_affected();
    index.begin(Kind::Slice);
    index.apply_slice(slice("web-2", "web", 3, 1));
    index.sweep(Kind::Slice);
    assert_eq!(names(&index, "web"), ["web-2".to_owned()].into());
    assert_eq!(affected(&mut index), [("web".to_owned(), OURS)]);
}

#[test]
fn slices_without_a_service_are_looked_at_when_a_term_begins() {
    let mut index = Index::default();
    index.apply_slice(slice("gone-1", "gone", 2, 1));
    let keys: Vec<String> = index.start_term().iter().map(|key| key.name.to_string()).collect();
    assert_eq!(keys, ["gone"]);
}

pub(super) fn node(name: &str, zone: &str, cpu: u64, revision: u64) -> Node {
    Node {
        name: name.into(),
        revision: Revision(revision),
        zone: Some(zone.into()),
        cpu: Some(cpu),
    }
}

#[test]
fn a_node_that_comes_moves_or_goes_affects_the_services_of_its_pods() {
    let mut index = with_web();
    index.apply_pod(pod("p", labels(&[("app", "web")]), true, 2));
    index.take_affected();
    let web = || vec![("web".to_owned(), Cause::Pod)];
    index.apply_node(node("n1", "a", 4, 3));
    assert_eq!(affected(&mut index), web());
    index.apply_node(node("n1", "a", 4, 4));
    assert_eq!(affected(&mut index), [], "a heartbeat");
    index.apply_node(node("n2", "b", 4, 5));
    assert_eq!(affected(&mut index), [], "nobody runs there");
    index.apply_node(node("n1", "b", 4, 6));
    assert_eq!(affected(&mut index), web());
    index.delete_node(&"n1".into(), Revision(7));
    assert_eq!(affected(&mut index), web());
    assert_eq!(index.counts().nodes, 1);
    // A list brings it back: what it changes is looked at once it is complete.
    index.begin(Kind::Node);
    index.apply_node(node("n1", "b", 4, 8));
    assert_eq!(affected(&mut index), []);
    index.sweep(Kind::Node);
    assert_eq!(affected(&mut index), web());
    assert_eq!(index.counts().nodes, 1, "the other one was not in it");
}

#[test]
fn the_shares_of_the_zones_affect_services_with_topology_mode_auto() {
    let mut index = with_web();
    let auto = Service {
        distribution: Distribution::Auto,
        ..service("auto", Some(labels(&[("app", "auto")])), 2)
    };
    index.apply_service(auto);
    index.apply_node(node("n1", "a", 4, 3));
    index.take_affected();
    index.apply_node(node("n2", "b", 4, 4));
    assert_eq!(affected(&mut index), [("auto".to_owned(), Cause::Pod)]);
    assert!(index.snapshot(&key("auto")).zones.is_some());
    // Both grow alike: the shares stay.
    index.begin(Kind::Node);
    index.apply_node(node("n1", "a", 8, 5));
    index.apply_node(node("n2", "b", 8, 6));
    index.sweep(Kind::Node);
    assert_eq!(affected(&mut index), []);
    index.apply_node(node("n2", "b", 16, 7));
    assert_eq!(affected(&mut index), [("auto".to_owned(), Cause::Pod)]);
}
