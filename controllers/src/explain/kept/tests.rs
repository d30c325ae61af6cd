use serde_json::{Value, json};

use super::*;
use crate::explain::fixtures::{World, endpoints_of_web, not_ready, pod, slice_of_web, web, with};
use crate::explain::report::Report;

fn differs(words: &[&str]) -> State {
    State::Differs(words.iter().map(ToString::to_string).collect())
}

fn left_alone_for(why: &str) -> State {
    State::LeftAlone(why.to_owned())
}

/// Of the Endpoints, then of the slices.
fn states(report: &Report) -> Vec<State> {
    let all = report.endpoints.iter().chain(&report.endpoint_slices).flatten();
    all.map(|it| it.state.clone()).collect()
}

fn two_pods() -> [Value; 2] {
    [pod("p1", &["10.1.0.1"]), not_ready(pod("p2", &["10.1.0.2"]))]
}

#[test]
fn what_is_stored_is_compared_with_what_should_be() {
    let mut world = World::new(web(), two_pods());
    let missing = || differs(&["there is none"]);
    let report = world.report();
    assert_eq!((states(&report), report.in_order), (vec![missing(), missing()], false));
    // The controllers cannot make them, and are at rest.
    world.namespace = Some(json!({"metadata": {"name": "shop", "deletionTimestamp": "2026-11-30T11:00:00Z"}}));
    let report = world.report();
    let is_ending =
        |state: &State| matches!(state, State::LeftAlone(why) if why.contains("the namespace is being deleted"));
    assert!(report.in_order && states(&report).iter().all(is_ending), "{report:?}");
    world.namespace = None;

    world.endpoints = Some(vec![endpoints_of_web(&["10.1.0.1"], &["10.1.0.2"])]);
    world.slices = Some(vec![slice_of_web("web-a", &[("10.1.0.1", true), ("10.1.0.2", false)])]);
    let report = world.report();
    assert_eq!(
        (states(&report), report.in_order),
        (vec![State::Same, State::Same], true)
    );

    // Both say that the other one is ready, and a slice of the same content is there twice.
    world.endpoints = Some(vec![endpoints_of_web(&["10.1.0.2", "10.1.0.3"], &["10.1.0.1"])]);
    let wrong = slice_of_web("web-a", &[("10.1.0.1", false), ("10.1.0.2", false), ("10.1.0.3", true)]);
    world.slices = Some(vec![wrong, slice_of_web("web-b", &[("10.1.0.1", true)])]);
    let report = world.report();
    let want = [
        differs(&[
            "10.1.0.1: not ready -> ready",
            "10.1.0.2: ready -> not ready",
            "-10.1.0.3",
        ]),
        differs(&["10.1.0.1: not ready -> ready", "-10.1.0.3"]),
        differs(&["there should be no such slice"]),
    ];
    assert_eq!((states(&report), report.in_order), (want.to_vec(), false));
}

#[test]
fn a_slice_that_is_held_while_it_is_deleted_is_shown_because_it_is_read() {
    let mut world = World::new(web(), [pod("p1", &["10.1.0.1"])]);
    let mut going = slice_of_web("going", &[("10.1.0.9", true)]);
    going["metadata"]["deletionTimestamp"] = json!("2026-11-30T11:00:00Z");
    going["metadata"]["finalizers"] = json!(["x/y"]);
    world.endpoints = Some(vec![endpoints_of_web(&["10.1.0.1"], &[])]);
    world.slices = Some(vec![going, slice_of_web("web-a", &[("10.1.0.1", true)])]);
    let report = world.report();
    let held = "being deleted, held by finalizer x/y; kube-proxy and DNS read it until it is gone";
    assert_eq!(
        (states(&report), report.in_order),
        (vec![State::Same, State::Same, State::LeftAlone(held.into())], true)
    );
    let proxied = report.kube_proxy.unwrap();
    assert_eq!(proxied.ports[0].endpoints, ["10.1.0.1:8080", "10.1.0.9:8080"]);
}

/// Ports and addresses are two things: where only one of them has changed, the other is not spoken of.
#[test]
fn ports_of_endpoints_are_compared_apart_from_their_addresses() {
    let right = || endpoints_of_web(&["10.1.0.1"], &["10.1.0.2"]);
    let moved = with(right(), "/subsets/0/ports/0/port", json!(9999));
    let ports = "ports http:9999/TCP -> http:8080/TCP";
    let mut other = endpoints_of_web(&["10.1.0.3"], &["10.1.0.2"]);
    other["subsets"][0]["ports"][0]["port"] = json!(9999);
    let mut split = right();
    split["subsets"] = json!([
        {"addresses": right()["subsets"][0]["addresses"], "ports": right()["subsets"][0]["ports"]},
        {"notReadyAddresses": right()["subsets"][0]["notReadyAddresses"], "ports": moved["subsets"][0]["ports"]}]);
    let mut empty = right();
    empty["subsets"] = json!([]);
    let table = [
        (moved, vec![ports]),
        (other, vec![ports, "+10.1.0.1", "-10.1.0.3"]),
        (split, vec!["10.1.0.2: ports http:9999/TCP -> http:8080/TCP"]),
        (empty, vec!["+10.1.0.1", "+10.1.0.2 (not ready)"]),
    ];
    for (stored, want) in table {
        let mut world = World::new(web(), two_pods());
        world.endpoints = Some(vec![stored.clone()]);
        assert_eq!(states(&world.report())[0], differs(&want), "{stored}");
    }
}

/// A world in which Node `n1` is in zone `a`, and what should be stored for one Pod.
fn zonal(headless: bool) -> (World, Value) {
    let mut service = with(web(), "/spec/trafficDistribution", json!("PreferSameZone"));
    if headless {
        service["spec"]["clusterIP"] = json!("None");
        service["spec"]["clusterIPs"] = json!(["None"]);
    }
    let mut world = World::new(service, [pod("p1", &["10.1.0.1"])]);
    world.nodes = Some(vec![json!({"metadata": {"name": "n1", "resourceVersion": "1",
        "labels": {"topology.kubernetes.io/zone": "a"}}})]);
    let mut slice = slice_of_web("web-a", &[("10.1.0.1", true)]);
    slice["endpoints"][0]["zone"] = json!("a");
    slice["endpoints"][0]["hints"] = json!({"forZones": [{"name": "a"}]});
    (world, slice)
}

#[test]
fn each_field_that_differs_is_named() {
    let headless_label = "/metadata/labels/service.kubernetes.io~1headless";
    let hint = |zone: &str| json!([{"name": zone}]);
    let right = || zonal(false).1;
    let placed = with(right(), "/endpoints/0/zone", json!("x"));
    let table = [
        (false, right(), None),
        (false, placed.clone(), Some("10.1.0.1: zone x -> a")),
        (
            false,
            with(placed, "/endpoints/0/hints/forZones", hint("c")),
            Some("10.1.0.1: zone x -> a, hints c -> a"),
        ),
        (
            false,
            with(right(), "/endpoints/0/hints", json!({"forNodes": [{"name": "n1"}]})),
            Some("10.1.0.1: hints node n1 -> a"),
        ),
        (
            false,
            with(right(), "/endpoints/0/nodeName", json!("n2")),
            Some("10.1.0.1: nodeName n2 -> n1"),
        ),
        (
            false,
            with(right(), headless_label, json!("")),
            Some(r#"label service.kubernetes.io/headless "" -> none"#),
        ),
        (
            true,
            right(),
            Some(r#"label service.kubernetes.io/headless none -> """#),
        ),
    ];
    for (headless, stored, want) in table {
        let (mut world, _) = zonal(headless);
        world.slices = Some(vec![stored.clone()]);
        let want = want.map_or(State::Same, |want| differs(&[want]));
        assert_eq!(states(&world.report())[1], want, "{stored}");
    }
    let right = || endpoints_of_web(&["10.1.0.1"], &[]);
    let target = "/subsets/0/addresses/0/targetRef";
    let over = "/metadata/annotations";
    let table = [
        (
            with(right(), "/metadata/labels/app", json!("old")),
            r#"label app "old" -> none"#,
        ),
        (
            with(right(), &format!("{target}/uid"), json!("gone")),
            "10.1.0.1: targetRef.uid gone -> uid-p1",
        ),
        (with(right(), target, Value::Null), "10.1.0.1: targetRef none -> Pod p1"),
        (
            with(
                right(),
                over,
                json!({"endpoints.kubernetes.io/over-capacity": "truncated"}),
            ),
            r#"annotation endpoints.kubernetes.io/over-capacity "truncated" -> none"#,
        ),
    ];
    for (stored, want) in table {
        let mut world = World::new(web(), [pod("p1", &["10.1.0.1"])]);
        world.endpoints = Some(vec![stored.clone()]);
        assert_eq!(states(&world.report())[0], differs(&[want]), "{stored}");
    }
}

#[test]
fn what_was_made_before_the_service_changed_its_kind_is_frozen() {
    let mut without = web();
    without["spec"].as_object_mut().unwrap().remove("selector");
    let external = |service: Value| {
        let service = with(service, "/spec/type", json!("ExternalName"));
        with(service, "/spec/externalName", json!("example.com"))
    };
    let made = || endpoints_of_web(&["10.1.0.1"], &[]);
    let by_hand = || with(made(), "/metadata/labels", json!({}));
    let mut older = by_hand();
    older["metadata"]["annotations"] =
        json!({"endpoints.kubernetes.io/last-change-trigger-time": "2026-11-30T10:00:00Z"});
    let no_selector = "made by a controller from a selector that the Service no longer has; nobody changes it now, and its addresses stay as they are";
    let no_selector_slice = "made from a selector that the Service no longer has; nobody changes or removes it";
    let became = "made by a controller before the Service became an ExternalName Service; nobody changes or removes it";
    let became_slice = "made before the Service became an ExternalName Service; nobody changes or removes it";
    let table = [
        (external(web()), made(), became, became_slice),
        (
            external(web()),
            by_hand(),
            "made by hand: nobody keeps Endpoints of an ExternalName Service",
            became_slice,
        ),
        (without.clone(), made(), no_selector, no_selector_slice),
        (without.clone(), older, no_selector, no_selector_slice),
        (external(without.clone()), made(), no_selector, no_selector_slice),
        (
            without.clone(),
            by_hand(),
            "made by hand: the Service has no selector",
            no_selector_slice,
        ),
    ];
    for (service, endpoints, why, why_slice) in table {
        let mut world = World::new(service.clone(), [pod("p1", &["10.1.0.1"])]);
        world.endpoints = Some(vec![endpoints]);
        world.slices = Some(vec![slice_of_web("web-a", &[("10.1.0.1", true)])]);
        let states = states(&world.report());
        let want = [left_alone_for(why), left_alone_for(why_slice)];
        assert_eq!(states[..2], want, "{service}");
    }
    let mut world = World::new(without, []);
    world.endpoints = Some(vec![made()]);
    assert_eq!(
        world.report().mirroring,
        [
            "the Endpoints that a controller has made are mirrored into EndpointSlices: without a selector their addresses stay as they are"
        ]
    );
}

/// The words are upstream's Event; the Nodes are named beside.
#[test]
fn topology_mode_tells_why_it_gives_no_hints() {
    let mode = json!({"service.kubernetes.io/topology-mode": "Auto"});
    let mut world = World::new(with(web(), "/metadata/annotations", mode), [pod("p", &["10.1.0.1"])]);
    let node = |name: &str, zone: Option<&str>, cpu: &str| {
        let labels = zone.map_or(json!({}), |zone| json!({"topology.kubernetes.io/zone": zone}));
        json!({"metadata": {"name": name, "resourceVersion": "1", "labels": labels},
            "status": {"allocatable": {"cpu": cpu}, "conditions": [{"type": "Ready", "status": "True"}]}})
    };
    let insufficient = "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes";
    let few = "Insufficient number of endpoints (1 endpoints, 2 zones)".to_owned();
    let table = [
        (
            vec![
                node("n1", Some("a"), "2"),
                node("n2", None, "2"),
                node("n3", Some("b"), "0"),
            ],
            format!("{insufficient} (Node n2 has no zone, Node n3 has no allocatable CPU)"),
        ),
        (
            vec![node("n1", Some("a"), "2")],
            format!("{insufficient} (Nodes that count are in fewer than two zones)"),
        ),
        (vec![node("n1", Some("a"), "2"), node("n2", Some("b"), "2")], few),
    ];
    for (nodes, want) in table {
        world.nodes = Some(nodes);
        assert_eq!(world.report().topology, Some(want));
    }
    assert_eq!(World::new(web(), []).report().topology, None);
}

#[test]
fn hand_made_endpoints_are_mirrored_unless_something_stands_in_the_way() {
    let mut service = web();
    service["spec"].as_object_mut().unwrap().remove("selector");
    let mut world = World::new(service, []);
    let report = world.report();
    assert_eq!(
        report.mirroring,
        ["nothing to mirror: there are no Endpoints named web"]
    );
    assert!(report.in_order, "{report:?}");

    let by_hand = with(endpoints_of_web(&["10.1.0.1"], &[]), "/metadata/labels", json!({}));
    world.endpoints = Some(vec![by_hand]);
    let report = world.report();
    assert_eq!(
        report.mirroring,
        ["the Endpoints made by hand are mirrored into EndpointSlices"]
    );
    assert_eq!(
        report.endpoints.unwrap()[0].state,
        State::LeftAlone("made by hand: the Service has no selector".into())
    );
    let slices = report.endpoint_slices.unwrap();
    assert_eq!((slices.len(), slices[0].family), (1, Some("IPv4")));
    assert_eq!(slices[0].expected[0].ports, ["http:8080/TCP"]);
    assert_eq!(slices[0].expected[0].endpoints[0].addresses, ["10.1.0.1"]);
    assert!(!report.in_order);

    for (path, value, word) in [
        (
            "/metadata/labels",
            json!({"endpointslice.kubernetes.io/skip-mirror": "true"}),
            "skip-mirror=true",
        ),
        (
            "/metadata/annotations",
            json!({"control-plane.alpha.kubernetes.io/leader": "{}"}),
            "leader",
        ),
    ] {
        world.endpoints = Some(vec![with(endpoints_of_web(&["10.1.0.1"], &[]), path, value)]);
        let report = world.report();
        assert!(
            report.mirroring[0].contains(word) && report.mirroring[0].contains("not mirrored"),
            "{:?}",
            report.mirroring
        );
        assert_eq!(report.endpoint_slices, Some(Vec::new()));
    }
}
