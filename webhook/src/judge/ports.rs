//! Rules on `spec.ports` (validation.md 4.2, 4.6).

use ahash::{AHashMap, AHashSet};

use super::{Case, Rule, prepare};
use crate::cause::{Findings, quoted};
use crate::names::{dns_label, port_name, qualified_name};
use crate::service::{Port, TargetPort};

/// Asked where the apiserver allocates; it answers there and looks no further.
pub(super) const ALLOCATION: &[Rule] = &[Rule::new(
    "spec.ports[].nodePort",
    "one nodePort for one port number, on create",
    node_port_twice,
)];

pub(super) const RULES: &[Rule] = &[
    Rule::new("spec.ports[]", "a name when there are several", name_present),
    Rule::new("spec.ports[].name", "a DNS label", name),
    Rule::new("spec.ports[].name", "each name once", name_twice),
    Rule::new("spec.ports[].port", "1 to 65535", number),
    Rule::new("spec.ports[].protocol", "TCP, UDP or SCTP", protocol),
    Rule::new("spec.ports[].targetPort", "1 to 65535, as a number", target_number),
    Rule::new("spec.ports[].targetPort", "a port name, as a text", target_name),
    Rule::new("spec.ports[].appProtocol", "a qualified name", app_protocol),
    Rule::new("spec.ports[]", "no nodePort on ClusterIP", node_port_on_cluster_ip),
    Rule::new(
        "spec.ports[].nodePort",
        "each protocol and nodePort once",
        same_node_port,
    ),
    Rule::new("spec.ports[]", "each protocol and port once", same_port),
];

/// Is this the number of a port?
pub(super) fn is_port(number: i64) -> bool {
    (1..=65_535).contains(&number)
}

fn each(case: &Case<'_>, mut look: impl FnMut(usize, &Port)) {
    for (i, port) in case.spec.ports.iter().enumerate() {
        look(i, port);
    }
}

/// `initNodePorts`: entries of one port number share a nodePort, all others reserve theirs, one after the other.
fn node_port_twice(case: &Case<'_>, found: &mut Findings) {
    let spec = case.spec;
    if case.old.is_some() || !(spec.is("NodePort") || spec.is("LoadBalancer")) {
        return;
    }
    let mut requested: AHashMap<i64, i64> = AHashMap::new();
    for port in spec.ports.iter().filter(|port| port.node_port != 0) {
        requested.entry(port.port).or_insert(port.node_port);
    }
    let mut reserved: AHashSet<i64> = AHashSet::new();
    let mut shared: AHashSet<i64> = AHashSet::new();
    for (i, port) in spec.ports.iter().enumerate() {
        if port.node_port == 0 && !prepare::gets_node_ports(spec) {
            continue;
        }
        let asked = match requested.get(&port.port) {
            Some(common) if shared.insert(port.port) => *common,
            Some(common) if port.node_port != 0 && port.node_port != *common => port.node_port,
            _ => continue,
        };
        if !reserved.insert(asked) {
            let message = format!("{asked} is the nodePort of another port of this Service; choose another one");
            found.invalid(format!("spec.ports[{i}].nodePort"), message);
            return;
        }
    }
}

fn name_present(case: &Case<'_>, found: &mut Findings) {
    if case.spec.ports.len() > 1 {
        each(case, |i, port| {
            if port.name.is_empty() {
                found.required(
                    format!("spec.ports[{i}].name"),
                    "give each port a name when there are several",
                );
            }
        });
    }
}

fn name(case: &Case<'_>, found: &mut Findings) {
    each(case, |i, port| {
        if !port.name.is_empty() {
            for fault in dns_label(&port.name) {
                found.invalid(
                    format!("spec.ports[{i}].name"),
                    format!("{}: {fault}", quoted(&port.name)),
                );
            }
        }
    });
}

fn name_twice(case: &Case<'_>, found: &mut Findings) {
    let mut seen = AHashSet::new();
    each(case, |i, port| {
        if !port.name.is_empty() && !seen.insert(port.name.clone()) {
            let message = format!(
                "{} is the name of an earlier port; choose another one",
                quoted(&port.name)
            );
            found.duplicate(format!("spec.ports[{i}].name"), message);
        }
    });
}

fn number(case: &Case<'_>, found: &mut Findings) {
    each(case, |i, port| {
        if !is_port(port.port) {
            found.invalid(
                format!("spec.ports[{i}].port"),
                format!("{}: use 1 to 65535", port.port),
            );
        }
    });
}

fn protocol(case: &Case<'_>, found: &mut Findings) {
    const KNOWN: [&str; 3] = ["SCTP", "TCP", "UDP"];
    each(case, |i, port| {
        if !KNOWN.contains(&port.protocol.as_str()) {
            found.not_supported(format!("spec.ports[{i}].protocol"), &port.protocol, &KNOWN);
        }
    });
}

fn target_number(case: &Case<'_>, found: &mut Findings) {
    each(case, |i, port| {
        if let TargetPort::Number(number) = port.target_port
            && !is_port(number)
        {
            found.invalid(
                format!("spec.ports[{i}].targetPort"),
                format!("{number}: use 1 to 65535"),
            );
        }
    });
}

fn target_name(case: &Case<'_>, found: &mut Findings) {
    each(case, |i, port| {
        if let TargetPort::Name(name) = &port.target_port {
            for fault in port_name(name) {
                found.invalid(
                    format!("spec.ports[{i}].targetPort"),
                    format!("{}: {fault}", quoted(name)),
                );
            }
        }
    });
}

fn app_protocol(case: &Case<'_>, found: &mut Findings) {
    each(case, |i, port| {
        if let Some(protocol) = &port.app_protocol {
            for fault in qualified_name(protocol) {
                found.invalid(
                    format!("spec.ports[{i}].appProtocol"),
                    format!("{}: {fault}", quoted(protocol)),
                );
            }
        }
    });
}

fn node_port_on_cluster_ip(case: &Case<'_>, found: &mut Findings) {
    if case.spec.is("ClusterIP") {
        each(case, |i, port| {
            if port.node_port != 0 {
                let message = "a ClusterIP Service has none; leave it out, or use type NodePort or LoadBalancer";
                found.forbidden(format!("spec.ports[{i}].nodePort"), message);
            }
        });
    }
}

/// One that the apiserver will choose can be shared, too: by entries of one port number, whatever their protocol.
fn same_node_port(case: &Case<'_>, found: &mut Findings) {
    let mut seen = AHashSet::new();
    each(case, |i, port| {
        if port.node_port != 0 && !seen.insert((port.protocol.clone(), port.node_port)) {
            let value = if prepare::is_chosen(port.node_port) {
                format!(
                    "entries of port {} share one, and an earlier one has this protocol",
                    port.port
                )
            } else {
                format!("an earlier entry of this protocol has {}", port.node_port)
            };
            let message = format!("{value}; use another protocol or another port");
            found.duplicate(format!("spec.ports[{i}].nodePort"), message);
        }
    });
}

fn same_port(case: &Case<'_>, found: &mut Findings) {
    let mut seen = AHashSet::new();
    each(case, |i, port| {
        if !seen.insert((port.protocol.clone(), port.port)) {
            let message = format!(
                "an earlier entry of this protocol has port {}; remove one of them",
                port.port
            );
            found.duplicate(format!("spec.ports[{i}]"), message);
        }
    });
}
