//! Changes of a stored Service: what clients leave out, take back, move and add.

use serde_json::{Value, json};

use super::draw::{Draw, set, unset, values};
use super::moves::Move;

/// Every transition there is.
pub(super) const TRANSITIONS: &[Move] = &[
    nothing,
    sparse,
    other_type,
    other_type_sparse,
    no_cluster_ip,
    no_cluster_ips,
    other_cluster_ip,
    to_headless,
    from_headless,
    upgrade,
    downgrade,
    half_downgrade,
    other_families,
    swap_families,
    third_address,
    ports_without_node_ports,
    reversed_ports,
    other_node_port,
    another_port,
    one_port_less,
    other_class,
    other_health_check,
    other_health_check,
    other_traffic_policy,
    fewer_external_ips,
    no_selector,
    no_metadata,
];

fn nothing(_: &mut Draw<'_>, _: &mut Value, _: bool) {}

/// As a manifest is: without what was filled in.
fn sparse(draw: &mut Draw<'_>, service: &mut Value, _: bool) {
    unset(
        service,
        &[
            "clusterIP",
            "clusterIPs",
            "ipFamilies",
            "ipFamilyPolicy",
            "healthCheckNodePort",
        ],
    );
    if draw.once_in(2) {
        ports_without_node_ports(draw, service, false);
    }
    service["metadata"]["resourceVersion"] = Value::Null;
}

fn other_type(draw: &mut Draw<'_>, service: &mut Value, _: bool) {
    set(
        service,
        "type",
        draw.one(values!["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]),
    );
    if !draw.once_in(4) {
        set(service, "externalName", json!("db.example.com"));
    }
    if service["spec"]["ports"].is_null() && !draw.once_in(4) {
        set(service, "ports", json!([{"port": 80}]));
    }
}

fn other_type_sparse(draw: &mut Draw<'_>, service: &mut Value, _: bool) {
    other_type(draw, service, false);
    sparse(draw, service, false);
    unset(
        service,
        &[
            "allocateLoadBalancerNodePorts",
            "externalTrafficPolicy",
            "loadBalancerClass",
        ],
    );
}

fn no_cluster_ip(_: &mut Draw<'_>, service: &mut Value, bad: bool) {
    set(service, "clusterIP", json!(""));
    if bad {
        set(service, "ipFamilyPolicy", json!("RequireDualStack"));
    }
}

fn no_cluster_ips(_: &mut Draw<'_>, service: &mut Value, _: bool) {
    unset(service, &["clusterIPs"]);
}

fn other_cluster_ip(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let ip = draw.ipv4();
    set(service, "clusterIP", json!(ip));
    if bad {
        if let Some(first) = service.pointer_mut("/spec/clusterIPs/0") {
            *first = json!(ip);
        }
    } else if draw.once_in(2) {
        unset(service, &["clusterIPs"]);
    }
}

fn to_headless(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    set(service, "clusterIP", json!("None"));
    if draw.once_in(2) {
        set(service, "clusterIPs", json!(["None"]));
    }
    if bad {
        set(
            service,
            "ipFamilyPolicy",
            draw.one(values!["RequireDualStack", "PreferDualStack", "SingleStack"]),
        );
    }
}

fn from_headless(draw: &mut Draw<'_>, service: &mut Value, _: bool) {
    let ip = draw.ipv4();
    if service["spec"]["clusterIP"] == "None" {
        set(service, "clusterIP", json!(ip));
        set(service, "clusterIPs", json!([ip]));
    }
}

fn upgrade(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    set(
        service,
        "ipFamilyPolicy",
        draw.one(values!["PreferDualStack", "RequireDualStack"]),
    );
    let two = draw.one(values![["IPv4", "IPv6"], ["IPv6", "IPv4"]]);
    match draw.below(3) {
        0 => {}
        1 => set(service, "ipFamilies", two),
        _ => {
            let six = if bad { draw.ipv4() } else { draw.ipv6() };
            if let Some(ips) = service["spec"]["clusterIPs"].as_array_mut() {
                ips.push(json!(six));
            }
        }
    }
}

fn downgrade(_: &mut Draw<'_>, service: &mut Value, _: bool) {
    set(service, "ipFamilyPolicy", json!("SingleStack"));
}

/// The second ones go, with or without the policy that allows it.
fn half_downgrade(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    if !bad {
        set(service, "ipFamilyPolicy", json!("SingleStack"));
    }
    for field in ["clusterIPs", "ipFamilies"] {
        if let Some(list) = service["spec"][field].as_array_mut()
            && !draw.once_in(3)
        {
            list.truncate(1);
        }
    }
}

fn other_families(draw: &mut Draw<'_>, service: &mut Value, _: bool) {
    set(
        service,
        "ipFamilies",
        draw.one(values![["IPv4"], ["IPv6"], ["IPv4", "IPv6"], ["IPv6", "IPv4"], []]),
    );
    if draw.once_in(2) {
        unset(service, &["clusterIP", "clusterIPs"]);
    }
}

fn swap_families(draw: &mut Draw<'_>, service: &mut Value, _: bool) {
    for field in ["clusterIPs", "ipFamilies"] {
        if let Some(list) = service["spec"][field].as_array_mut()
            && !draw.once_in(4)
        {
            list.reverse();
        }
    }
    if let Some(first) = service["spec"]["clusterIPs"].get(0).cloned() {
        set(service, "clusterIP", first);
    }
}

fn third_address(draw: &mut Draw<'_>, service: &mut Value, _: bool) {
    let more = [draw.ipv6(), draw.ipv4()];
    if let Some(ips) = service["spec"]["clusterIPs"].as_array_mut() {
        ips.extend(more.map(Value::from));
    }
}

fn each_port(service: &mut Value, mut change: impl FnMut(&mut Value)) {
    for port in service["spec"]["ports"].as_array_mut().into_iter().flatten() {
        change(port);
    }
}

fn ports_without_node_ports(_: &mut Draw<'_>, service: &mut Value, _: bool) {
    each_port(service, |port| port["nodePort"] = Value::Null);
}

fn reversed_ports(draw: &mut Draw<'_>, service: &mut Value, _: bool) {
    if draw.once_in(2) {
        ports_without_node_ports(draw, service, false);
    }
    if let Some(ports) = service["spec"]["ports"].as_array_mut() {
        ports.reverse();
    }
}

fn other_node_port(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let node_port = draw.node_port();
    let mut first = true;
    each_port(service, |port| {
        if bad || std::mem::take(&mut first) {
            port["nodePort"] = json!(node_port);
        }
    });
}

fn another_port(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let new = json!({"name": if bad { "http" } else { "extra" }, "port": 7000 + draw.below(99), "protocol": "UDP"});
    if let Some(ports) = service["spec"]["ports"].as_array_mut() {
        if let Some(first) = ports.first_mut()
            && first["name"].is_null()
            && !bad
        {
            first["name"] = json!("first");
        }
        ports.push(new);
    }
}

fn one_port_less(_: &mut Draw<'_>, service: &mut Value, _: bool) {
    if let Some(ports) = service["spec"]["ports"].as_array_mut() {
        ports.pop();
    }
}

fn other_class(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    if bad {
        set(
            service,
            "loadBalancerClass",
            draw.one(values!["other.example/lb", Value::Null, "-"]),
        );
    } else {
        set(service, "type", draw.one(values!["NodePort", "LoadBalancer"]));
    }
}

fn other_health_check(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    let port = draw.node_port();
    set(
        service,
        "healthCheckNodePort",
        draw.either(bad, values![0, Value::Null], values![port, -1, 65_536]),
    );
}

fn other_traffic_policy(draw: &mut Draw<'_>, service: &mut Value, _: bool) {
    set(
        service,
        "externalTrafficPolicy",
        draw.one(values!["Local", "Cluster", ""]),
    );
}

fn fewer_external_ips(draw: &mut Draw<'_>, service: &mut Value, bad: bool) {
    if bad {
        unset(service, &["externalIPs", "externalTrafficPolicy"]);
    } else {
        set(service, "externalIPs", draw.one(values![[], ["203.0.113.77"]]));
    }
}

fn no_selector(_: &mut Draw<'_>, service: &mut Value, _: bool) {
    unset(service, &["selector"]);
}

fn no_metadata(_: &mut Draw<'_>, service: &mut Value, _: bool) {
    let (name, namespace) = (
        service["metadata"]["name"].clone(),
        service["metadata"]["namespace"].clone(),
    );
    service["metadata"] = json!({"name": name, "namespace": namespace});
}
