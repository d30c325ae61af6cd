//! Ports of a Service that lead to container ports by name, and Pods that have none of that name.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::endpoints::resolve;
use crate::listing::limited;
use crate::listing::port_text;
use crate::model::{Pod, Protocol, Service, ServicePort, TargetPort};

/// The ports of one Service that lead to a name.
#[derive(Debug)]
pub struct NamedPorts<'a> {
    /// Each with that name; of these no Pod has it.
    nowhere: Vec<(&'a ServicePort, &'a str)>,
    /// Some Pod has it.
    somewhere: Vec<(&'a ServicePort, &'a str)>,
    /// Names of container ports of all Pods.
    there: BTreeSet<String>,
    /// No port leads anywhere, and clients come through the Service.
    is_unreachable: bool,
}

impl<'a> NamedPorts<'a> {
    /// `pods`: all that the Service matches.
    pub fn of(service: &'a Service, pods: &[Arc<Pod>]) -> Self {
        // The selector of an ExternalName Service selects nothing.
        let pods = if service.is_followed() { pods } else { &[] };
        let named = service.ports.iter().filter_map(|port| match &port.target {
            TargetPort::Name(name) => Some((port, &**name)),
            TargetPort::Number(_) => None,
        });
        let has =
            |(port, _): &(&ServicePort, &str)| pods.is_empty() || pods.iter().any(|pod| resolve(port, pod).is_some());
        let (somewhere, nowhere): (Vec<_>, Vec<_>) = named.partition(has);
        let there = pods.iter().flat_map(|pod| &pod.ports);
        Self {
            is_unreachable: !nowhere.is_empty() && nowhere.len() == service.ports.len() && !service.headless,
            nowhere,
            somewhere,
            there: there.map(|port| spelled(&port.name, &port.protocol)).collect(),
        }
    }

    /// What is the matter with ports that lead to a name which none of the Pods has.
    pub fn nowhere(&self) -> Vec<String> {
        let there = if self.there.is_empty() {
            "their containers name no ports".to_owned()
        } else {
            let names = limited(self.there.iter().cloned().collect());
            format!("they have: {}", names.join(", "))
        };
        let line = |what: &str, wanted: &str| format!("{what}: no matching Pod has a port named {wanted} ({there})");
        let wanted = self.nowhere.iter().map(|(port, name)| spelled(name, &port.protocol));
        if self.is_unreachable {
            let wanted: Vec<String> = wanted.collect();
            return vec![line("nothing reachable", &wanted.join(" or "))];
        }
        let ports = self.nowhere.iter().map(|(port, _)| own_name(port));
        ports
            .zip(wanted)
            .map(|(port, wanted)| line(&format!("{port} leads nowhere"), &wanted))
            .collect()
    }

    /// A note for each port that this Pod does not have and another has.
    pub fn missing_in(&self, pod: &Pod) -> Vec<String> {
        let missing = self.somewhere.iter().filter(|(port, _)| resolve(port, pod).is_none());
        let note = |(port, name): &(&ServicePort, &str)| {
            format!(
                "{} leads to a container port named {name} ({}), which it does not have; {}",
                own_name(port),
                port.protocol.as_str(),
                names(pod)
            )
        };
        missing.map(note).collect()
    }
}

fn own_name(port: &ServicePort) -> String {
    if port.name.is_empty() {
        "the Service's port".to_owned()
    } else {
        format!("port {}", port.name)
    }
}

/// The protocol is part of it, and mostly TCP.
fn spelled(name: &str, protocol: &Protocol) -> String {
    match protocol {
        Protocol::Tcp => name.to_owned(),
        other => format!("{name} ({})", other.as_str()),
    }
}

fn names(pod: &Pod) -> String {
    let all: Vec<String> = pod
        .ports
        .iter()
        .map(|port| port_text(&port.name, Some(port.port), &port.protocol, None))
        .collect();
    if all.is_empty() {
        "its containers name no ports".to_owned()
    } else {
        format!("its containers name {}", all.join(", "))
    }
}
