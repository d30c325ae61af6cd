use serde_json::{Value, json};

use super::*;

fn look(spec: &Value, slices: Value) -> Proxied {
    let ingress = json!([
        {"ip": "192.0.2.5"}, {"ip": "192.0.2.6", "ipMode": "Proxy"}, {"hostname": "lb.example.com"}, {"ip": "fd00:99::5", "ipMode": "VIP"}]);
    look_with(spec, &ingress, slices)
}

fn look_with(spec: &Value, ingress: &Value, slices: Value) -> Proxied {
    let service = json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": spec,
        "status": {"loadBalancer": {"ingress": ingress}}});
    let service: Service = serde_json::from_value(service).unwrap();
    let slices: Vec<EndpointSlice> = serde_json::from_value(slices).unwrap();
    proxied(&service, &slices)
}

fn slice(endpoints: &Value) -> Value {
    json!({"metadata": {}, "addressType": "IPv4", "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}], "endpoints": endpoints})
}

fn endpoint(ip: &str, [ready, serving, terminating]: [bool; 3]) -> Value {
    json!({"addresses": [ip], "conditions": {"ready": ready, "serving": serving, "terminating": terminating}})
}

fn plain() -> Value {
    json!({"clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"], "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]})
}

#[test]
fn ready_endpoints_count_and_else_those_that_serve_to_the_end() {
    let ready = [true, true, false];
    let serving = [false, true, true];
    let table = [
        (json!([]), vec![], false),
        (
            json!([slice(&json!([
                endpoint("10.1.0.1", ready),
                endpoint("10.1.0.2", serving)
            ]))]),
            vec!["10.1.0.1:8080"],
            false,
        ),
        (
            json!([slice(&json!([
                endpoint("10.1.0.2", serving),
                endpoint("10.1.0.3", [false, false, true])
            ]))]),
            vec!["10.1.0.2:8080"],
            true,
        ),
        (
            json!([slice(&json!([endpoint("10.1.0.3", [false, false, false])]))]),
            vec![],
            false,
        ),
        // In two slices at once: the copy that is not terminating counts, whichever comes first.
        (
            json!([
                slice(&json!([endpoint("10.1.0.1", ready)])),
                slice(&json!([endpoint("10.1.0.1", serving)]))
            ]),
            vec!["10.1.0.1:8080"],
            false,
        ),
        (
            json!([
                slice(&json!([endpoint("10.1.0.1", serving)])),
                slice(&json!([endpoint("10.1.0.1", ready)]))
            ]),
            vec!["10.1.0.1:8080"],
            false,
        ),
        // No conditions: ready.
        (
            json!([slice(&json!([{"addresses": ["10.1.0.4", "10.1.0.5"]}]))]),
            vec!["10.1.0.4:8080"],
            false,
        ),
    ];
    for (slices, want, terminating) in table {
        let seen = look(&plain(), slices.clone());
        assert_eq!(seen.ports[0].endpoints, want, "{slices}");
        assert_eq!(seen.ports[0].terminating_only, terminating, "{slices}");
        let refused = |mode: &Mode| {
            mode.does
                .iter()
                .any(|it| it.contains("refuses connections to 10.96.0.7:80"))
        };
        assert_eq!(
            seen.modes.iter().filter(|mode| refused(mode)).count(),
            if want.is_empty() { 3 } else { 0 }
        );
    }
}

#[test]
fn ports_are_found_by_name_and_frontends_by_family() {
    let mut spec = plain();
    spec["clusterIPs"] = json!(["10.96.0.7", "fd00:10:96::7"]);
    spec["externalIPs"] = json!(["192.0.2.77"]);
    spec["type"] = json!("LoadBalancer");
    spec["ports"][0]["nodePort"] = json!(30080);
    spec["ports"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "other", "port": 81, "protocol": "TCP"}));
    let seen = look(
        &spec,
        json!([slice(&json!([endpoint("10.1.0.1", [true, true, false])]))]),
    );
    let ports: Vec<_> = seen
        .ports
        .iter()
        .map(|port| (port.frontends.join(" "), port.endpoints.join(" ")))
        .collect();
    let want = [
        ("10.96.0.7:80 192.0.2.77:80 192.0.2.5:80 NODE:30080", "10.1.0.1:8080"),
        ("10.96.0.7:81 192.0.2.77:81 192.0.2.5:81", ""),
        ("[fd00:10:96::7]:80 [fd00:99::5]:80 NODE:30080", ""),
        ("[fd00:10:96::7]:81 [fd00:99::5]:81", ""),
    ];
    assert_eq!(ports, want.map(|(one, other)| (one.to_owned(), other.to_owned())));
}

#[test]
fn affinity_and_policies_are_told_by_mode() {
    let mut spec = plain();
    spec["type"] = json!("LoadBalancer");
    spec["sessionAffinity"] = json!("ClientIP");
    spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": 90}});
    spec["internalTrafficPolicy"] = json!("Local");
    spec["externalTrafficPolicy"] = json!("Local");
    spec["healthCheckNodePort"] = json!(31000);
    let seen = look(
        &spec,
        json!([slice(&json!([endpoint("10.1.0.1", [true, true, false])]))]),
    );
    let says = |mode: usize, words: &str| seen.modes[mode].does.iter().any(|it| it.contains(words));
    for (mode, affinity, nowhere) in [
        (0, "recent", "dropped"),
        (1, "set", "dropped"),
        (2, "persistence", "to all of them"),
    ] {
        assert!(says(mode, "90 s") && says(mode, affinity), "{seen:?}");
        assert!(says(mode, &format!("on a Node without one {nowhere}")), "{seen:?}");
        assert!(says(mode, "NODE:31000"), "{seen:?}");
    }
    assert!(says(0, "at random") && says(1, "at random") && says(2, "rr"));
}

/// As upstream's `!hasEndpoints`: no policy counts any more.
#[test]
fn without_any_endpoint_traffic_from_outside_is_refused_too() {
    let mut spec = plain();
    spec["type"] = json!("LoadBalancer");
    spec["ports"][0]["nodePort"] = json!(30080);
    spec["sessionAffinity"] = json!("ClientIP");
    spec["internalTrafficPolicy"] = json!("Local");
    spec["externalTrafficPolicy"] = json!("Local");
    spec["healthCheckNodePort"] = json!(31000);
    spec["loadBalancerSourceRanges"] = json!(["198.51.100.0/24"]);
    let gone = endpoint("10.1.0.3", [false, false, true]);
    for slices in [json!([]), json!([slice(&json!([gone]))])] {
        let seen = look(&spec, slices);
        let refuses =
            |how| format!("refuses connections to 10.96.0.7:80 192.0.2.5:80 NODE:30080: no endpoints ({how})");
        let health = "answers load balancers on NODE:31000: 503 on every Node";
        let ranges = "lets only 198.51.100.0/24 through to load balancer addresses";
        let does = |mode: usize| seen.modes[mode].does.iter().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(does(0), [&*refuses("REJECT"), health]);
        assert_eq!(does(1), [&*refuses("reject"), health, ranges]);
        let how = "a virtual server without destinations";
        assert_eq!(does(2), [&*refuses(how), health, ranges]);
    }
    // With one, the nodePort is named.
    let ready = endpoint("10.1.0.1", [true, true, false]);
    let seen = look(&spec, json!([slice(&json!([ready]))]));
    for mode in &seen.modes {
        let outside = "from outside, to 192.0.2.5:80 NODE:30080: to endpoints on the Node that it comes to";
        assert!(mode.does.iter().any(|it| it.starts_with(outside)), "{mode:?}");
        assert!(mode.does.iter().any(|it| it.contains("200 on Nodes with")), "{mode:?}");
    }
    let serving = endpoint("10.1.0.1", [false, true, true]);
    let seen = look(&spec, json!([slice(&json!([serving]))]));
    assert!(
        seen.modes[0]
            .does
            .iter()
            .any(|it| it == "answers load balancers on NODE:31000: 503 on every Node")
    );
}

/// Upstream's `UsesClusterEndpoints`: what no client outside can reach has no endpoints but those of the Node.
#[test]
fn an_internal_policy_alone_leaves_ipvs_nothing_on_other_nodes() {
    let mut spec = plain();
    spec["internalTrafficPolicy"] = json!("Local");
    let ready = endpoint("10.1.0.1", [true, true, false]);
    let seen = look_with(&spec, &json!([]), json!([slice(&json!([ready]))]));
    for (mode, nowhere) in seen.modes.iter().zip(["dropped", "dropped", "refused"]) {
        let end = format!("on a Node without one {nowhere}");
        assert!(mode.does.iter().any(|it| it.ends_with(&end)), "{mode:?}");
    }
}

#[test]
fn what_slices_list_in_vain_is_named() {
    let ready = json!([endpoint("10.1.0.1", [true, true, false])]);
    let named = |name: Value, protocol: &str| {
        json!({"metadata": {"name": "ext"}, "addressType": "IPv4", "endpoints": ready,
            "ports": [{"name": name, "port": 8080, "protocol": protocol}]})
    };
    let mut two = plain();
    two["ports"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "https", "port": 443, "protocol": "TCP"}));
    let mut unnamed = plain();
    unnamed["ports"][0].as_object_mut().unwrap().remove("name");
    let mut six = named(json!("http"), "TCP");
    six["addressType"] = json!("IPv6");
    let mut portless = named(json!("http"), "TCP");
    portless["ports"] = json!(null);
    let mut labelled = named(json!("http"), "TCP");
    labelled["metadata"]["labels"]["service.kubernetes.io/headless"] = json!("");
    let mut numberless = named(json!("http"), "TCP");
    numberless["ports"][0].as_object_mut().unwrap().remove("port");
    let mut empty = named(json!("web"), "TCP");
    empty["endpoints"] = json!(null);
    let matches = "matches none of the Service's ports";
    let table = [
        (plain(), named(json!("http"), "TCP"), None),
        (
            plain(),
            named(json!("web"), "TCP"),
            Some(format!(r#"its port name "web" {matches} (names "http")"#)),
        ),
        (
            two,
            named(json!(""), "TCP"),
            Some(format!(r#"its port name "" {matches} (names "http", "https")"#)),
        ),
        (
            unnamed.clone(),
            named(json!("http"), "TCP"),
            Some(format!(r#"its port name "http" {matches} (names "")"#)),
        ),
        (unnamed, named(json!(""), "TCP"), None),
        (
            plain(),
            named(json!("http"), "UDP"),
            Some(r#"its port "http" is UDP, and the Service has none of that name and protocol"#.into()),
        ),
        (plain(), six, Some("the Service has no IPv6 address".into())),
        (plain(), portless, Some("it has no ports".into())),
        (
            plain(),
            labelled,
            Some("label service.kubernetes.io/headless, which keeps a slice from it".into()),
        ),
        (plain(), numberless, Some(r#"its port "http" has no number"#.into())),
        (plain(), empty, None),
    ];
    for (spec, slice, why) in table {
        let want: Vec<String> = why.iter().map(|why| format!("does not use slice ext: {why}")).collect();
        let seen = look(&spec, json!([slice]));
        assert_eq!(seen.unused, want, "{spec} {slice}");
        let is_used = seen.ports.iter().any(|port| !port.endpoints.is_empty());
        assert!(!is_used || why.is_none(), "{spec} {slice}");
    }
}

#[test]
fn what_it_leaves_alone() {
    let table = [
        (json!({"clusterIP": "None", "ports": [{"port": 80}]}), "headless"),
        (json!({"clusterIP": "", "ports": [{"port": 80}]}), "no clusterIP"),
        (
            json!({"type": "ExternalName", "externalName": "example.com"}),
            "ExternalName",
        ),
    ];
    for (spec, why) in table {
        let seen = look(&spec, json!([]));
        assert!(
            seen.nothing.as_ref().is_some_and(|it| it.contains(why)) && seen.ports.is_empty(),
            "{seen:?}"
        );
    }
}

/// As `topologyModeFromHints`: one ready endpoint without a hint, and they count nowhere.
#[test]
fn hints_are_used_or_not() {
    let hinted = |ip: &str, ready: bool, zones: &[&str], nodes: &[&str]| {
        let names = |all: &[&str]| all.iter().map(|name| json!({"name": name})).collect::<Vec<_>>();
        let mut endpoint = endpoint(ip, [ready, ready, false]);
        if !zones.is_empty() || !nodes.is_empty() {
            endpoint["hints"] = json!({"forZones": names(zones), "forNodes": names(nodes)});
        }
        endpoint
    };
    let (one, two, three) = ("10.1.0.1", "10.1.0.2", "10.1.0.3");
    let elsewhere = "to every endpoint from anywhere else";
    let mut local = plain();
    local["internalTrafficPolicy"] = json!("Local");
    let mut asking = plain();
    asking["trafficDistribution"] = json!("PreferSameZone");
    let zones = [hinted(one, true, &["a"], &[]), hinted(two, true, &["b"], &[])];
    let mixed = [hinted(one, true, &["a"], &[]), hinted(two, true, &[], &["n2"])];
    let used =
        format!("hints are used: in zone a to 10.1.0.1:8080 alone, in zone b to 10.1.0.2:8080 alone; {elsewhere}");
    let table = [
        (plain(), json!([hinted(one, true, &[], &[])]), None),
        (
            asking,
            json!([hinted(one, true, &[], &[])]),
            Some("no hints are stored: traffic goes to every endpoint, wherever it comes from".to_owned()),
        ),
        (plain(), json!(zones), Some(used.clone())),
        // One that is not ready does not count.
        (
            plain(),
            json!([zones[0], zones[1], hinted(three, false, &[], &[])]),
            Some(used.clone()),
        ),
        (
            plain(),
            json!([zones[0], zones[1], hinted(three, true, &[], &[])]),
            Some("hints are not used, because not every ready endpoint has some (none: 10.1.0.3:8080)".to_owned()),
        ),
        (
            plain(),
            json!([hinted(one, true, &["a"], &["n1"]), hinted(two, true, &["a"], &["n2"])]),
            Some(format!(
                "hints are used: on Node n1 to 10.1.0.1:8080 alone, on Node n2 to 10.1.0.2:8080 alone, in zone a to 10.1.0.1:8080 10.1.0.2:8080 alone; {elsewhere}"
            )),
        ),
        (
            plain(),
            json!(mixed),
            Some("hints are not used: some ready endpoints have them for zones only, others for Nodes only".to_owned()),
        ),
        (plain(), json!([hinted(one, false, &["a"], &[])]), None),
        (local, json!(zones), Some(format!("from outside the cluster, {used}"))),
    ];
    for (spec, endpoints, want) in table {
        let seen = look(&spec, json!([slice(&endpoints)]));
        assert_eq!(seen.hints, want.into_iter().collect::<Vec<_>>(), "{spec} {endpoints}");
    }
}
