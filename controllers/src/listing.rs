//! What Endpoints and slices list, in a form for people and programs; and what differs, for `svcplane explain` and the log of an observer.

mod differences;

use std::fmt;

use k8s_openapi::api::discovery::v1 as discovery;
use serde::Serialize;

use crate::model::{
    Address, Endpoint, EndpointPort, Hints, OtherEndpoint, PodEndpoint, Protocol, SliceContent, SlicePort, Subset,
    TargetRef,
};
pub use differences::{limited, of_endpoints, of_slice};

/// Endpoints named in one line.
const NAMED: usize = 6;

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
    /// `targetRef.uid`.
    #[serde(skip)]
    pub target_uid: Option<String>,
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
    /// In words; `ready` alone, or with what it is ready in spite of, as `publishNotReadyAddresses` makes it.
    pub fn standing(&self) -> &'static str {
        match (self.ready, self.terminating, self.serving) {
            (true, Some(true), Some(false)) => "ready though terminating and not serving",
            (true, Some(true), _) => "ready though terminating",
            (true, _, Some(false)) => "ready though not serving",
            (true, ..) => "ready",
            (false, Some(true), Some(true)) => "terminating, still serving",
            (false, Some(true), _) => "terminating",
            (false, ..) => "not ready",
        }
    }

    /// `10.1.0.1`, and in brackets what it is if it is not simply ready; with its zone and hints if `places`.
    fn text(&self, places: bool) -> String {
        let standing = Some(self.standing()).filter(|standing| *standing != "ready");
        let mut words: Vec<String> = standing.into_iter().map(str::to_owned).collect();
        if places {
            let zone = self.zone.as_ref();
            words.push(zone.map_or_else(|| "no zone".to_owned(), |zone| format!("zone {zone}")));
            words.push(if self.hints.is_empty() {
                "no hints".to_owned()
            } else {
                format!("hints {}", hint_names(&self.hints))
            });
        }
        let ip = self.addresses.join("+");
        if words.is_empty() {
            ip
        } else {
            format!("{ip} ({})", words.join(", "))
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

    /// `10.1.0.1 10.1.0.2 (not ready) -> http:8080/TCP`: the first few endpoints, with their zones and hints if `places`.
    pub fn text(&self, places: bool) -> String {
        let endpoints: Vec<String> = self.endpoints.iter().map(|it| it.text(places)).collect();
        let endpoints = if endpoints.is_empty() {
            "no endpoints".to_owned()
        } else {
            some(&endpoints)
        };
        let ports = if self.ports.is_empty() {
            "no ports".to_owned()
        } else {
            self.ports.join(" ")
        };
        format!("{endpoints} -> {ports}")
    }
}

/// All subsets of Endpoints, or what is in their place.
pub fn subsets_text(subsets: &[Subset]) -> String {
    if subsets.is_empty() {
        return "no addresses".to_owned();
    }
    let all: Vec<String> = subsets.iter().map(|it| Listing::of_subset(it).text(false)).collect();
    all.join("; ")
}

/// The first few, and how many more.
pub fn some(all: &[String]) -> String {
    let more = all.len().saturating_sub(NAMED);
    let first: Vec<&str> = all.iter().take(NAMED).map(String::as_str).collect();
    if more == 0 {
        first.join(" ")
    } else {
        format!("{} and {more} more", first.join(" "))
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
        target_uid: address.target.as_deref().map(|target| target.uid.to_string()),
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
        target_uid: Some(pod.uid.to_string()),
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
        target_uid: other.target.as_deref().map(|target| target.uid.to_string()),
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
        target_uid: endpoint.target_ref.as_ref().and_then(|it| it.uid.clone()),
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

/// Zones by their bare names.
fn hint_names(hints: &[String]) -> String {
    let names = hints.iter().map(|hint| hint.strip_prefix("zone ").unwrap_or(hint));
    names.collect::<Vec<_>>().join(" ")
}

fn hints(hints: &Hints) -> Vec<String> {
    hints_text(&hints.zones, &hints.nodes)
}

fn hints_text<T: fmt::Display>(zones: impl IntoIterator<Item = T>, nodes: impl IntoIterator<Item = T>) -> Vec<String> {
    let zones = zones.into_iter().map(|zone| format!("zone {zone}"));
    let nodes = nodes.into_iter().map(|node| format!("node {node}"));
    zones.chain(nodes).collect()
}
