//! What Endpoints and slices list, in a form for people and programs.

use std::fmt;

use k8s_openapi::api::discovery::v1 as discovery;
use serde::Serialize;

use crate::model::{
    Address, Endpoint, EndpointPort, Hints, OtherEndpoint, PodEndpoint, Protocol, SliceContent, SlicePort, Subset,
    TargetRef,
};

/// A subset of Endpoints, or a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// `http:8080/TCP`, sorted.
    pub ports: Vec<String>,
    /// Sorted by address.
    pub endpoints: Vec<Listed>,
}

/// One address of Endpoints, or one endpoint of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    /// The addresses, one in Endpoints.
    pub addresses: Vec<String>,
    /// What consumers take it for: absent counts as ready.
    pub ready: bool,
    /// Given in slices only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    /// Given in slices only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<bool>,
    /// `targetRef`, as `Pod web-1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// `hostname`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// `nodeName`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// `zone`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Zones and Nodes of `hints`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
}

impl Listed {
    /// `ready`, `not ready`, `terminating, still serving` or `terminating`.
    pub fn standing(&self) -> &'static str {
        match (self.ready, self.terminating, self.serving) {
            (true, ..) => "ready",
            (false, Some(true), Some(true)) => "terminating, still serving",
            (false, Some(true), _) => "terminating",
            (false, ..) => "not ready",
        }
    }

    /// Where it leads, whatever its state.
    fn is_like(&self, other: &Self) -> bool {
        (&self.addresses, &self.target, &self.hostname) == (&other.addresses, &other.target, &other.hostname)
    }
}

/// `10.1.0.1`, and in brackets what it is if it is not simply ready.
impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.addresses.join("+"))?;
        if self.ready {
            Ok(())
        } else {
            write!(f, " ({})", self.standing())
        }
    }
}

impl Listing {
    /// Of a subset.
    pub fn of_subset(subset: &Subset) -> Self {
        let ready = subset.addresses.iter().map(|address| of_address(address, true));
        let not_ready = subset
            .not_ready_addresses
            .iter()
            .map(|address| of_address(address, false));
        let ports = subset.ports.iter().map(|it| {
            let EndpointPort {
                name,
                port,
                protocol,
                app_protocol,
            } = it;
            port_text(name, Some(*port), protocol, app_protocol.as_deref())
        });
        Self::sorted(ports.collect(), ready.chain(not_ready).collect())
    }

    /// Of a slice.
    pub fn of_slice(content: &SliceContent) -> Self {
        let ports = content.ports.iter().map(|it| {
            let SlicePort {
                name,
                port,
                protocol,
                app_protocol,
            } = it;
            port_text(name, *port, protocol, app_protocol.as_deref())
        });
        let endpoints = content.endpoints.iter().map(|endpoint| match endpoint {
            Endpoint::Pod(pod) => of_pod(pod),
            Endpoint::Other(other) => of_other(other),
        });
        Self::sorted(ports.collect(), endpoints.collect())
    }

    /// Of a slice that nobody here keeps, which the model does not hold.
    pub fn of_foreign(slice: &discovery::EndpointSlice) -> Self {
        let ports = slice.ports.iter().flatten().map(|it| {
            let protocol = Protocol::parse(it.protocol.as_deref().unwrap_or_default());
            let name = it.name.as_deref().unwrap_or_default();
            port_text(name, it.port, &protocol, it.app_protocol.as_deref())
        });
        let endpoints = slice.endpoints.iter().flatten().map(of_foreign);
        Self::sorted(ports.collect(), endpoints.collect())
    }

    fn sorted(mut ports: Vec<String>, mut endpoints: Vec<Listed>) -> Self {
        ports.sort();
        endpoints.sort();
        Self { ports, endpoints }
    }

    /// What differs from here to `after`, in words.
    pub fn differences(&self, after: &Self) -> Vec<String> {
        let mut words = Vec::new();
        if self.ports != after.ports {
            let text = |ports: &[String]| {
                if ports.is_empty() {
                    "none".to_owned()
                } else {
                    ports.join(" ")
                }
            };
            words.push(format!("ports {} -> {}", text(&self.ports), text(&after.ports)));
        }
        for endpoint in &after.endpoints {
            match self.endpoints.iter().find(|before| before.is_like(endpoint)) {
                None => words.push(format!("+{endpoint}")),
                Some(before) if before.standing() != endpoint.standing() => {
                    let ip = endpoint.addresses.join("+");
                    words.push(format!("{ip} {} -> {}", before.standing(), endpoint.standing()));
                }
                Some(before) if before != endpoint => {
                    words.push(format!(
                        "{} node, zone, conditions or hints",
                        endpoint.addresses.join("+")
                    ));
                }
                Some(_) => {}
            }
        }
        let gone = self.endpoints.iter();
        let gone = gone.filter(|before| !after.endpoints.iter().any(|endpoint| endpoint.is_like(before)));
        words.extend(gone.map(|endpoint| format!("-{endpoint}")));
        words
    }
}

/// `http:8080/TCP`, `8080/TCP` without a name.
pub fn port_text(name: &str, port: Option<i32>, protocol: &Protocol, app: Option<&str>) -> String {
    let number = port.map_or_else(|| "every port".to_owned(), |port| port.to_string());
    let named = if name.is_empty() {
        number
    } else {
        format!("{name}:{number}")
    };
    let app = app.map(|app| format!("={app}")).unwrap_or_default();
    format!("{named}/{}{app}", protocol.as_str())
}

fn of_address(address: &Address, ready: bool) -> Listed {
    Listed {
        addresses: vec![address.ip.to_string()],
        ready,
        target: address.target.as_deref().map(target),
        hostname: address.hostname.as_deref().map(Into::into),
        node: address.node_name.as_deref().map(Into::into),
        ..Listed::default()
    }
}

fn of_pod(pod: &PodEndpoint) -> Listed {
    Listed {
        addresses: pod.addresses().map(|ip| ip.to_string()).collect(),
        ready: pod.conditions.ready,
        serving: Some(pod.conditions.serving),
        terminating: Some(pod.conditions.terminating),
        target: Some(format!("Pod {}", pod.name)),
        hostname: pod.hostname().map(Into::into),
        node: pod.node.as_deref().map(Into::into),
        zone: pod.zone.as_deref().map(Into::into),
        hints: pod.extra.as_ref().map(|extra| hints(&extra.hints)).unwrap_or_default(),
    }
}

fn of_other(other: &OtherEndpoint) -> Listed {
    Listed {
        addresses: other.addresses.iter().map(ToString::to_string).collect(),
        ready: other.ready.unwrap_or(true),
        serving: other.serving,
        terminating: other.terminating,
        target: other.target.as_deref().map(target),
        hostname: other.hostname.as_deref().map(Into::into),
        node: other.node.as_deref().map(Into::into),
        zone: other.zone.as_deref().map(Into::into),
        hints: hints(&other.hints),
    }
}

fn of_foreign(endpoint: &discovery::Endpoint) -> Listed {
    let conditions = endpoint.conditions.clone().unwrap_or_default();
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let hints = endpoint.hints.clone().unwrap_or_default();
    let zones = hints.for_zones.into_iter().flatten().map(|zone| zone.name);
    let nodes = hints.for_nodes.into_iter().flatten().map(|node| node.name);
    Listed {
        addresses: endpoint.addresses.clone(),
        ready: conditions.ready.unwrap_or(true),
        serving: conditions.serving,
        terminating: conditions.terminating,
        target: endpoint
            .target_ref
            .as_ref()
            .map(|it| target_text(&text(&it.kind), &text(&it.name))),
        hostname: endpoint.hostname.clone(),
        node: endpoint.node_name.clone(),
        zone: endpoint.zone.clone(),
        hints: hints_text(zones, nodes),
    }
}

fn target(target: &TargetRef) -> String {
    target_text(&target.kind, &target.name)
}

fn target_text(kind: &str, name: &str) -> String {
    format!("{kind} {name}")
}

fn hints(hints: &Hints) -> Vec<String> {
    hints_text(&hints.zones, &hints.nodes)
}

fn hints_text<T: fmt::Display>(zones: impl IntoIterator<Item = T>, nodes: impl IntoIterator<Item = T>) -> Vec<String> {
    let zones = zones.into_iter().map(|zone| format!("zone {zone}"));
    let nodes = nodes.into_iter().map(|node| format!("node {node}"));
    zones.chain(nodes).collect()
}
