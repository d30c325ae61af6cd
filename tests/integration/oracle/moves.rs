//! Changes of one field, for better or worse. Each move can make a value that is legal somewhere and one that is not.

use serde_json::{Value, json};

use super::draw::{Draw, is, metadata_map, set, set_port, unset, values};

/// Changes a Service; `true` makes it worse, if the move can.
pub(super) type Move = fn(&mut Draw<'_>, &mut Value, bool);

/// Every move there is.
pub(super) const MOVES: &[Move] = &[
    name,
    no_name,
    generate_name,
    generate_name_path,
    generation,
    labels,
    annotations,
    big_annotation,
    topology,
    finalizers,
    finalizer_conflict,
    owners,
    owner_fields,
    owner_kinds,
    deletion,
    service_type,
    no_ports,
    headless,
    external_name,
    external_name_fields,
    port_name,
    port_names_missing,
    port_name_twice,
    port_number,
    protocol,
    target_port,
    app_protocol,
    node_port,
    node_port_twice,
    node_port_of_two_ports,
    port_twice,
    selector,
    affinity,
    affinity_timeout,
    cluster_ip,
    cluster_ips,
    cluster_ips_alone,
    families,
    policy,
    external_ips,
    source_ranges,
    source_ranges_annotation,
    allocate_node_ports,
    class,
    external_traffic_policy,
    health_check,
    internal_traffic_policy,
    distribution,
    harmless,
];

const LONG_LABEL: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

fn too_long() -> String {
    format!("{LONG_LABEL}a")
}

fn name(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let own = service["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let legal = values![format!("1{own}"), format!("{own}-9")];
    let illegal = values![
        format!("{own}-"),
        format!("W{own}"),
        format!("{own}.a"),
        format!("{own}/a"),
        "",
        too_long()
    ];
    service["metadata"]["name"] = draw.either(bad, legal, illegal);
}

fn generate_name(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let legal = values!["web-", "w--", "8", LONG_LABEL];
    let illegal = values!["Web-", "-", "a.b-", "a/b", "a%b", too_long(), "é-"];
    service["metadata"]["generateName"] = draw.either(bad, legal, illegal);
    if draw.once_in(2) {
        service["metadata"]["name"] = Value::Null;
    }
}

/// Where an address is needed the allocator stumbles over it before anybody else.
fn no_name(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    if draw.once_in(2) {
        headless(draw, service, false);
        set(service, "type", json!("ClusterIP"));
    } else {
        external_name(draw, service, false);
    }
    if bad {
        service["metadata"]["name"] = draw.one(values!["", Value::Null]);
    }
}

fn generate_name_path(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let prefix = draw.either(bad, values!["web-", "A.b"], values!["a/b", "a%b", "/"]);
    service["metadata"]["generateName"] = prefix;
}

fn generation(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    service["metadata"]["generation"] = draw.either(bad, values![0, 7], values![-1]);
}

fn labels(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let (key, value) = key_and_value(draw, bad);
    metadata_map(service, "labels").insert(key, value);
}

fn selector(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let (key, value) = key_and_value(draw, bad);
    set(service, "selector", json!({ key: value }));
}

/// Of a label.
fn key_and_value(draw: &mut Draw<'_>, bad: bool) -> (String, Value) {
    let mut key = draw.one(&[
        "app".to_owned(),
        "example.com/App_1".into(),
        "a.b".into(),
        LONG_LABEL.into(),
    ]);
    let mut value = draw.one(values!["", "A.b_c", "9", LONG_LABEL]);
    if bad && draw.once_in(2) {
        key = draw.one(&[
            "a b".into(),
            "".into(),
            "/a".into(),
            "a/b/c".into(),
            "A.b/c".into(),
            "-a".into(),
            too_long(),
        ]);
    } else if bad {
        value = draw.one(values!["a b", "-", "é", too_long()]);
    }
    (key, value)
}

fn annotations(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let legal = ["a", "Example.COM/Key", "\u{130}"];
    let illegal = ["a b", "", "a/b/c", "é"];
    let key = draw.one(if bad { &illegal[..] } else { &legal[..] });
    metadata_map(service, "annotations").insert(key.into(), json!("anything at all"));
}

fn big_annotation(_: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let size = if bad { 256 * 1024 } else { 100 };
    metadata_map(service, "annotations").insert("size".into(), json!("x".repeat(size)));
}

fn topology(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let annotations = metadata_map(service, "annotations");
    annotations.insert("service.kubernetes.io/topology-mode".into(), json!("Auto"));
    let hints = draw.either(bad, values!["Auto"], values!["auto", ""]);
    annotations.insert("service.kubernetes.io/topology-aware-hints".into(), hints);
}

fn finalizers(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let legal = values![["example.com/a"], ["kubernetes"], ["orphan", "a.b/c"]];
    let illegal = values![["mine"], ["a b/c"], [""], ["a/b/c", "x"]];
    service["metadata"]["finalizers"] = draw.either(bad, legal, illegal);
}

fn finalizer_conflict(_: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let other = if bad { "foregroundDeletion" } else { "kubernetes" };
    service["metadata"]["finalizers"] = json!(["orphan", other]);
}

/// Two owners, of which the first is the controller.
fn two_owners() -> [Value; 2] {
    let owner = |uid: &str| json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": uid});
    let mut owners = [owner("u1"), owner("u2")];
    owners[0]["controller"] = json!(true);
    owners
}

fn owners(_: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let mut owners = two_owners();
    owners[1]["controller"] = json!(bad);
    service["metadata"]["ownerReferences"] = json!(owners);
}

fn owner_fields(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let mut owners = two_owners();
    if bad {
        let field = draw.one(&["kind", "name", "uid"]);
        owners[1][field] = json!("");
    }
    service["metadata"]["ownerReferences"] = json!(owners);
}

fn owner_kinds(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let mut owners = two_owners();
    if bad && draw.once_in(2) {
        owners[0] = json!({"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u1"});
    } else {
        owners[0]["apiVersion"] = draw.either(bad, values!["apps/v1", "v1", "/v1"], values!["a/b/c", "apps/", "/", ""]);
    }
    service["metadata"]["ownerReferences"] = json!(owners);
}

/// Matters on an update only; the apiserver wipes both on create.
fn deletion(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    if bad && draw.once_in(2) {
        service["metadata"]["deletionGracePeriodSeconds"] = json!(7);
    } else if bad {
        service["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
}

fn service_type(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let legal = values!["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"];
    let illegal = values!["Foo", "nodeport", "None"];
    set(service, "type", draw.either(bad, legal, illegal));
}

fn no_ports(_: &mut Draw<'_>, service: &mut Value, _: bool) {
    unset(service, &["ports"]);
}

fn headless(_: &mut Draw<'_>, service: &mut Value, _: bool) {
    set(service, "clusterIP", json!("None"));
    unset(service, &["clusterIPs"]);
}

fn external_name(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let legal = values!["mirror.example.net.", "192.0.2.15", "a", "x.y.z"];
    let long = format!("{}{}", "a.".repeat(126), "aa");
    let illegal = values!["", ".", "a..", "db_north.example.net", "Mirror.example.net", "-a", long];
    set(service, "type", json!("ExternalName"));
    unset(service, &["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"]);
    set(service, "externalName", draw.either(bad, legal, illegal));
}

fn external_name_fields(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    external_name(draw, service, false);
    if bad {
        let (field, value) = draw.one(&[
            ("clusterIP", json!("10.96.0.77")),
            ("clusterIP", json!("None")),
            ("clusterIPs", json!(["10.96.0.77"])),
            ("ipFamilies", json!(["IPv4"])),
            ("ipFamilyPolicy", json!("SingleStack")),
        ]);
        set(service, field, value);
    }
}

fn port_name(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    if let Some(i) = draw.port(service) {
        let legal = values!["p", "9", "a--b", LONG_LABEL];
        let illegal = values![
            "Web",
            "a_b",
            "-a",
            "a-",
            "a.b",
            too_long(),
            format!("{}.", too_long()),
            "é"
        ];
        set_port(service, i, "name", draw.either(bad, legal, illegal));
    }
}

fn port_names_missing(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let mut second = json!({"port": 9000 + draw.below(9), "name": "second"});
    if bad {
        second["name"] = draw.one(&[Value::Null, json!("")]);
    }
    let first = json!({"port": 80, "name": "first"});
    set(service, "ports", json!([first, second]));
}

fn port_name_twice(_: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let second = if bad { "same" } else { "other" };
    set(
        service,
        "ports",
        json!([{"port": 80, "name": "same"}, {"port": 81, "name": second}]),
    );
}

fn port_number(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    if let Some(i) = draw.port(service) {
        set_port(
            service,
            i,
            "port",
            draw.either(bad, values![1, 65535, 443], values![0, -1, 65536, 2_000_000_000]),
        );
    }
}

fn protocol(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    if let Some(i) = draw.port(service) {
        set_port(
            service,
            i,
            "protocol",
            draw.either(bad, values!["TCP", "UDP", "SCTP", ""], values!["tcp", "ICMP", " "]),
        );
    }
}

fn target_port(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    if let Some(i) = draw.port(service) {
        let legal = values![0, 1, 65535, "", "http", "a1", "1a", "fifteen-letters"];
        let illegal = values![
            -1,
            65536,
            "8080",
            "sixteen-letters-",
            "a--b",
            "-a",
            "HTTP",
            "a_b",
            "--",
            "-1-"
        ];
        set_port(service, i, "targetPort", draw.either(bad, legal, illegal));
    }
}

fn app_protocol(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    if let Some(i) = draw.port(service) {
        let legal = values!["http", "kubernetes.io/h2c", "A_b.c"];
        let illegal = values!["", "a/b/c", "/a", "a b", "A.b/c", too_long()];
        set_port(service, i, "appProtocol", draw.either(bad, legal, illegal));
    }
}

fn node_port(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let value = if bad {
        draw.one(&[1, -1, 70_000, 29_999])
    } else {
        draw.node_port()
    };
    if let Some(i) = draw.port(service) {
        set_port(service, i, "nodePort", json!(value));
    }
}

/// One number in two entries: of one port number and two protocols it is legal.
fn node_port_twice(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let node_port = draw.node_port();
    let first = json!({"name": "a", "port": 53, "protocol": "TCP", "nodePort": node_port});
    let mut second = json!({"name": "b", "port": 53, "protocol": "UDP", "nodePort": node_port});
    if bad {
        match draw.below(4) {
            0 => second["port"] = json!(54),
            1 => second["protocol"] = json!("TCP"),
            2 => second["nodePort"] = json!(0),
            _ => {
                second["port"] = json!(54);
                second["protocol"] = json!("TCP");
            }
        }
    }
    set(service, "ports", json!([first, second]));
    if !draw.once_in(4) {
        set(service, "type", draw.one(values!["NodePort", "LoadBalancer"]));
        unset(service, &["clusterIP", "clusterIPs"]);
    }
}

/// The allocator reserves it twice, whatever the protocols.
fn node_port_of_two_ports(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let node_port = draw.node_port();
    let second = if bad { 54 } else { 53 };
    let port = |name: &str, protocol: &str, port: i64| json!({"name": name, "port": port, "protocol": protocol, "nodePort": node_port});
    set(
        service,
        "ports",
        json!([port("a", "TCP", 53), port("b", "UDP", second)]),
    );
    set(service, "type", draw.one(values!["NodePort", "LoadBalancer"]));
    unset(service, &["clusterIP", "clusterIPs"]);
}

fn port_twice(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let protocol = if bad { "UDP" } else { draw.one(&["TCP", "SCTP"]) };
    let port = |name: &str, protocol: &str| json!({"name": name, "port": 53, "protocol": protocol});
    set(service, "ports", json!([port("a", "UDP"), port("b", protocol)]));
}

fn affinity(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    set(
        service,
        "sessionAffinity",
        draw.either(bad, values!["", "None", "ClientIP"], values!["clientIP", "Cookie"]),
    );
}

fn affinity_timeout(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    set(service, "sessionAffinity", json!("ClientIP"));
    let seconds = draw.either(bad, values![1, 86_400, Value::Null], values![0, -1, 86_401]);
    set(
        service,
        "sessionAffinityConfig",
        json!({"clientIP": {"timeoutSeconds": seconds}}),
    );
}

const BAD_ADDRESSES: &[&str] = &[
    "foo",
    "10.96.0",
    "10.96.0.300",
    "[::1]",
    "10.96.0.1:80",
    "fe80::1%eth0",
    " 10.96.0.1",
    "none",
];
const DOUBTED_ADDRESSES: &[&str] = &["10.96.0.0123", "::ffff:10.96.3.7"];

fn cluster_ip(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    unset(service, &["clusterIPs", "ipFamilies", "ipFamilyPolicy"]);
    let ip = match (bad, draw.below(4)) {
        (false, 0) => draw.ipv6().to_uppercase(),
        (false, 1) => draw.ipv6(),
        (false, _) => draw.ipv4(),
        (true, 0) => draw.one(DOUBTED_ADDRESSES).into(),
        (true, _) => draw.one(BAD_ADDRESSES).into(),
    };
    set(service, "clusterIP", json!(ip));
}

fn cluster_ips(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let (four, six, other_four, other_six) = (draw.ipv4(), draw.ipv6(), draw.ipv4(), draw.ipv6());
    let (wrong, doubted) = (draw.one(BAD_ADDRESSES), draw.one(DOUBTED_ADDRESSES));
    unset(service, &["ipFamilies", "ipFamilyPolicy", "clusterIP"]);
    let list = if bad {
        draw.one(&[
            json!([four, other_four]),
            json!([six, other_six]),
            json!([four, six, other_four]),
            json!([four, ""]),
            json!([four, "None"]),
            json!(["None", six]),
            json!([four, wrong]),
            json!([four, doubted]),
        ])
    } else {
        draw.one(&[json!([four, six]), json!([six, four]), json!([four])])
    };
    let first = list[0].clone();
    let two = list.as_array().is_some_and(|list| list.len() > 1);
    set(service, "clusterIPs", list);
    let other = json!(draw.ipv4());
    set(service, "clusterIP", if bad && draw.once_in(8) { other } else { first });
    if two && !draw.once_in(8) {
        set(
            service,
            "ipFamilyPolicy",
            draw.one(values!["PreferDualStack", "RequireDualStack"]),
        );
    }
    if draw.once_in(3) {
        set(
            service,
            "ipFamilies",
            draw.one(values![["IPv4"], ["IPv6"], ["IPv4", "IPv6"], ["IPv6", "IPv4"]]),
        );
    }
}

fn cluster_ips_alone(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let ip = json!(draw.ipv4());
    unset(service, &["ipFamilies", "ipFamilyPolicy", "clusterIP"]);
    set(service, "clusterIPs", json!([ip]));
    if !bad {
        set(service, "clusterIP", ip);
    }
}

fn families(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let legal = values![["IPv4"], ["IPv6"], ["IPv4", "IPv6"], ["IPv6", "IPv4"], []];
    let illegal = values![
        ["IPv5"],
        ["ipv4"],
        ["IPv4", "IPv4"],
        ["IPv6", "IPv4", "IPv6"],
        ["IPv4", ""],
        ["x", "x"]
    ];
    set(service, "ipFamilies", draw.either(bad, legal, illegal));
    if draw.once_in(2) {
        set(
            service,
            "ipFamilyPolicy",
            draw.one(values!["SingleStack", "PreferDualStack", "RequireDualStack"]),
        );
    }
}

fn policy(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let legal = values!["SingleStack", "PreferDualStack", "RequireDualStack"];
    set(
        service,
        "ipFamilyPolicy",
        draw.either(bad, legal, values!["", "DualStack", "singleStack"]),
    );
}

fn external_ips(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let legal = values![
        ["203.0.113.9"],
        ["2001:DB8::1", "239.1.1.1"],
        ["250.0.0.1", "10.0.0.1", "10.0.0.1"],
        []
    ];
    let illegal = values![
        ["127.0.0.1"],
        ["0.0.0.0", "::"],
        ["::1", "169.254.1.1"],
        ["fe80::1", "224.0.0.251"],
        ["ff02::1", "ff12::2"],
        ["foo", "203.0.113.9"],
        [""],
        ["None"],
        ["203.0.113.09"],
        ["::ffff:203.0.113.9"],
        ["::ffff:127.0.0.1"],
        ["127.0.0.01"],
    ];
    set(service, "externalIPs", draw.either(bad, legal, illegal));
}

fn source_ranges(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    if !draw.once_in(4) {
        set(service, "type", json!("LoadBalancer"));
    }
    let legal = values![["10.0.0.0/8"], [" 10.0.0.0/8 ", "2001:DB8::/32"], ["0.0.0.0/0"], []];
    let illegal = values![
        ["10.0.0.0"],
        ["10.0.0.0/33", "10.0.0.0/8"],
        ["foo"],
        [""],
        ["10.0.0.0/8,11.0.0.0/8"],
        ["10.0.0.5/24"],
        ["10.0.0.0/024"],
        ["010.0.0.0/8"],
        ["::ffff:10.0.0.0/120"],
        ["::/129"],
    ];
    set(service, "loadBalancerSourceRanges", draw.either(bad, legal, illegal));
}

fn source_ranges_annotation(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    if !draw.once_in(4) {
        set(service, "type", json!("LoadBalancer"));
    }
    let legal = values!["", " ", "10.0.0.0/8", " 10.0.0.0/8 , 2001:db8::/32 "];
    let illegal = values!["foo", ",", "10.0.0.0/8,", "10.0.0.0/8 11.0.0.0/8", "10.0.0.5/24"];
    let ranges = draw.either(bad, legal, illegal);
    metadata_map(service, "annotations")
        .insert("service.beta.kubernetes.io/load-balancer-source-ranges".into(), ranges);
}

fn allocate_node_ports(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let service_type = if bad {
        draw.one(&["ClusterIP", "NodePort"])
    } else {
        "LoadBalancer"
    };
    set(service, "type", json!(service_type));
    set(service, "allocateLoadBalancerNodePorts", draw.one(values![true, false]));
}

fn class(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    if !(bad && draw.once_in(2)) {
        set(service, "type", json!("LoadBalancer"));
    }
    let legal = values!["svcplane.io/lb", "internal"];
    set(
        service,
        "loadBalancerClass",
        draw.either(
            bad && is(service, "LoadBalancer"),
            legal,
            values!["", "a/b/c", "-", "a b"],
        ),
    );
}

fn external_traffic_policy(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    set(
        service,
        "externalTrafficPolicy",
        draw.either(bad, values!["", "Cluster", "Local"], values!["local", "None"]),
    );
    if !bad {
        set(service, "type", draw.one(values!["NodePort", "LoadBalancer"]));
    }
}

fn health_check(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let port = draw.node_port();
    if bad {
        set(service, "healthCheckNodePort", draw.one(values![port, -1, 65_536, 1]));
    } else {
        set(service, "type", json!("LoadBalancer"));
        set(service, "externalTrafficPolicy", json!("Local"));
        set(service, "healthCheckNodePort", draw.one(values![port, 0]));
    }
}

fn internal_traffic_policy(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    set(
        service,
        "internalTrafficPolicy",
        draw.either(bad, values!["Cluster", "Local", Value::Null], values!["", "local"]),
    );
}

fn distribution(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let legal = values!["PreferClose", "PreferSameZone", "PreferSameNode"];
    set(
        service,
        "trafficDistribution",
        draw.either(bad, legal, values!["", "Random", "preferClose"]),
    );
}

/// Fields that the apiserver does not look at.
fn harmless(draw: &mut Draw<'_>, service: &mut Value, _: bool) {
    set(
        service,
        "loadBalancerIP",
        draw.one(values!["nonsense", "203.0.113.9", ""]),
    );
    set(service, "publishNotReadyAddresses", json!(true));
    if draw.once_in(2) {
        set(service, "externalName", json!("Not a name"));
    }
}
