use super::super::super::snapshot::Group;
use super::*;

fn node(zone: Option<&str>, cpus: u32) -> Node {
    Node {
        zone: zone.map(Into::into),
        cpus,
        ready: true,
        control_plane: false,
    }
}

fn listed(zone: Option<&str>, ready: bool, hint: Option<&str>) -> Listed {
    Listed {
        zone: zone.map(Into::into),
        ready: Some(ready),
        for_zones: hint.map(Into::into).into_iter().collect(),
        ..Listed::default()
    }
}

fn of(nodes: &[Node], listed: &[Listed]) -> Option<&'static str> {
    fault_of_family(shares(nodes.iter()).as_ref(), &listed.iter().collect::<Vec<_>>())
}

const NONE: Option<&str> = Some("svcplane's: there are hints where there should be none");
const NOT_ONE: Option<&str> = Some("svcplane's: a ready endpoint has not just one hint");
const TOO_MANY: Option<&str> = Some("svcplane's: a zone is meant to get more endpoints than it should");

#[test]
fn every_ready_endpoint_and_no_other_has_a_hint() {
    let nodes = [node(Some("a"), 4), node(Some("b"), 4)];
    let (a, b) = (listed(Some("a"), true, Some("a")), listed(Some("b"), true, Some("b")));
    assert_eq!(
        of(&nodes, &[a.clone(), b.clone(), listed(Some("a"), false, None)]),
        None
    );
    assert_eq!(of(&nodes, &[a.clone(), listed(Some("b"), true, None)]), NOT_ONE);
    let idle = listed(Some("a"), false, Some("a"));
    let hinted = Some("svcplane's: an endpoint that is not ready has a hint");
    assert_eq!(of(&nodes, &[a, b, idle]), hinted);
}

#[test]
fn there_are_no_hints_where_they_would_do_harm() {
    let hinted = [listed(Some("a"), true, Some("a")), listed(Some("b"), true, Some("b"))];
    let bare = [listed(Some("a"), true, None), listed(Some("b"), true, None)];
    let unready = Node {
        ready: false,
        ..node(Some("b"), 4)
    };
    let master = Node {
        control_plane: true,
        ..node(Some("b"), 4)
    };
    let impossible = [
        vec![node(Some("a"), 4)],
        vec![node(Some("a"), 4), unready],
        vec![node(Some("a"), 4), master],
        vec![node(Some("a"), 4), node(Some("b"), 0)],
        vec![node(Some("a"), 4), node(Some("b"), 4), node(None, 4)],
        // Fewer endpoints than zones.
        vec![node(Some("a"), 4), node(Some("b"), 4), node(Some("c"), 4)],
    ];
    for nodes in &impossible {
        assert_eq!(of(nodes, &hinted), NONE, "{nodes:?}");
        assert_eq!(of(nodes, &bare), None, "{nodes:?}");
    }
    // One CPU of 101 has to get an endpoint, and the other zone is overloaded then: 2 of 2 is the least.
    let uneven = [node(Some("a"), 100), node(Some("b"), 1)];
    assert_eq!(of(&uneven, &hinted), NONE);
    let zoneless = [
        listed(Some("a"), true, None),
        listed(Some("b"), true, None),
        listed(None, true, None),
    ];
    assert_eq!(of(&[node(Some("a"), 4), node(Some("b"), 4)], &zoneless), None);
}

#[test]
fn a_zone_gets_no_more_than_its_share_and_what_is_to_spare() {
    // Ten endpoints, half of the CPUs each: at least 5 (10 / 2 / 1.2, rounded up), so 5 is the most of what stays, 6 of what is new.
    let nodes = [node(Some("a"), 4), node(Some("b"), 4)];
    let with = |of_a: usize| {
        let hint = |number: usize| if number < of_a { "a" } else { "b" };
        (0..10)
            .map(|number| listed(Some("a"), true, Some(hint(number))))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(&nodes, &with(5)), None);
    assert_eq!(of(&nodes, &with(6)), None);
    assert_eq!(of(&nodes, &with(7)), TOO_MANY);
    assert_eq!(of(&nodes, &with(3)), TOO_MANY);
    let elsewhere = [listed(Some("a"), true, Some("c")), listed(Some("a"), true, Some("a"))];
    assert_eq!(of(&nodes, &elsewhere), TOO_MANY, "no such zone");
    let own = |zone| listed(Some(zone), true, Some(zone));
    assert_eq!(
        of(&nodes, &[own("a"), own("a"), own("b"), own("c")]),
        None,
        "its own zone, which takes no part"
    );
}

#[test]
fn an_endpoint_may_be_in_a_zone_that_does_not_count() {
    let outside = |nodes: &[Node], endpoints: Vec<Listed>| {
        let mut world = World::default();
        let named = nodes.iter().enumerate();
        world.nodes = named
            .map(|(number, node)| (format!("n{number}"), node.clone()))
            .collect();
        let group = Group {
            endpoints,
            ..Group::default()
        };
        let groups = [("IPv4 :80/TCP".to_owned(), group)].into();
        is_outside_zones(&world, &SlicesContent { groups })
    };
    let master = Node {
        control_plane: true,
        ..node(Some("c"), 4)
    };
    let nodes = [node(Some("a"), 4), node(Some("b"), 4), master];
    let (a, c) = (listed(Some("a"), true, Some("a")), listed(Some("c"), true, Some("c")));
    assert!(!outside(&nodes, vec![a.clone(), listed(Some("c"), false, None)]));
    assert!(outside(&nodes, vec![a.clone(), c.clone()]));
    assert!(outside(&nodes, vec![a.clone(), listed(None, true, None)]));
    assert!(!outside(&nodes[1..], vec![a, c]), "there can be no hints at all");
}
