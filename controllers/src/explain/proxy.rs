//! What kube-proxy does with a Service, in each of its modes, by what is stored now.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde::Serialize;

use super::env::join_host_port;
use crate::wire::parse_ip;

/// Label of Services that another proxy looks after.
const PROXY_NAME_LABEL: &str = "service.kubernetes.io/service-proxy-name";

/// What kube-proxy does with one Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Proxied {
    /// Why it does nothing at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nothing: Option<String>,
    /// One for each port and family.
    pub ports: Vec<ProxiedPort>,
    /// What differs between the modes.
    pub modes: Vec<Mode>,
}

/// One port in one family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxiedPort {
    /// `spec.ports[].name`, empty if there is none.
    pub name: String,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// Addresses and ports that it answers on, the clusterIP first.
    pub frontends: Vec<String>,
    /// Where it leads.
    pub endpoints: Vec<String>,
    /// No endpoint is ready: these are being deleted and still serve.
    pub terminating_only: bool,
}

/// One mode of kube-proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mode {
    /// `--proxy-mode`.
    pub mode: &'static str,
    /// What it does, a sentence each.
    pub does: Vec<String>,
}

/// What kube-proxy does with `service`, whose slices are these, whoever writes them.
pub fn proxied(service: &Service, slices: &[EndpointSlice]) -> Proxied {
    let spec = service.spec.clone().unwrap_or_default();
    if let Some(nothing) = nothing(service, &spec) {
        return Proxied {
            nothing: Some(nothing),
            ..Proxied::default()
        };
    }
    let single: Vec<String> = spec.cluster_ip.clone().into_iter().collect();
    let ips = spec.cluster_ips.as_deref().filter(|ips| !ips.is_empty());
    let ips = ips.unwrap_or(&single).iter().filter_map(|ip| parse_ip(ip));
    let mut ports = Vec::new();
    for ip in ips {
        for port in spec.ports.iter().flatten() {
            ports.push(proxied_port(service, &spec, port, ip, slices));
        }
    }
    let hints = slices
        .iter()
        .flat_map(|slice| slice.endpoints.iter().flatten())
        .any(|endpoint| endpoint.hints.is_some());
    let modes = ["iptables", "nftables", "ipvs"].map(|mode| Mode {
        mode,
        does: does(mode, &spec, &ports, hints),
    });
    Proxied {
        nothing: None,
        ports,
        modes: modes.into(),
    }
}

fn nothing(service: &Service, spec: &ServiceSpec) -> Option<String> {
    let labels = service.metadata.labels.as_ref();
    if spec.type_.as_deref() == Some("ExternalName") {
        return Some("an ExternalName Service is only a name in DNS".to_owned());
    }
    match spec.cluster_ip.as_deref() {
        None | Some("") => Some("the Service has no clusterIP yet".to_owned()),
        Some("None") => Some("the Service is headless: clients connect to the endpoints that DNS names".to_owned()),
        Some(_) => labels
            .and_then(|labels| labels.get(PROXY_NAME_LABEL))
            .map(|name| format!("label {PROXY_NAME_LABEL} leaves it to {name}")),
    }
}

fn proxied_port(
    service: &Service,
    spec: &ServiceSpec,
    port: &ServicePort,
    cluster_ip: IpAddr,
    slices: &[EndpointSlice],
) -> ProxiedPort {
    let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
    let name = port.name.clone().unwrap_or_default();
    let same_family = |ip: &IpAddr| ip.is_ipv4() == cluster_ip.is_ipv4();
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.into_iter().flat_map(|it| it.ingress.iter().flatten());
    let vips = ingress.filter(|it| it.ip_mode.as_deref().is_none_or(|mode| mode == "VIP"));
    let vips = vips.filter_map(|it| it.ip.as_ref());
    let external = spec.external_ips.iter().flatten();
    let ips = external.chain(vips).filter_map(|ip| parse_ip(ip)).filter(same_family);
    let ips = std::iter::once(cluster_ip).chain(ips);
    let mut frontends: Vec<String> = ips.map(|ip| join_host_port(&ip.to_string(), port.port)).collect();
    if let Some(number) = port.node_port.filter(|number| *number > 0) {
        frontends.push(format!("NODE:{number}"));
    }
    let family = if cluster_ip.is_ipv4() { "IPv4" } else { "IPv6" };
    let found = endpoints(slices, family, &name, &protocol);
    let pick = |wanted: fn(State) -> bool| -> Vec<String> {
        let picked = found.iter().filter(|(_, state)| wanted(**state));
        picked
            .map(|((ip, number), _)| join_host_port(&ip.to_string(), *number))
            .collect()
    };
    let ready = pick(|state| state.ready);
    let terminating_only = ready.is_empty() && found.values().any(|state| state.serves_to_the_end());
    let endpoints = if terminating_only {
        pick(State::serves_to_the_end)
    } else {
        ready
    };
    ProxiedPort {
        name,
        protocol,
        frontends,
        endpoints,
        terminating_only,
    }
}

#[derive(Clone, Copy)]
struct State {
    ready: bool,
    serving: bool,
    terminating: bool,
}

impl State {
    /// Used if nobody is ready.
    fn serves_to_the_end(self) -> bool {
        self.serving && self.terminating
    }
}

/// By address and port. Of one that stands in two slices the one that is not terminating counts. Only the first address is used.
fn endpoints(slices: &[EndpointSlice], family: &str, name: &str, protocol: &str) -> BTreeMap<(IpAddr, i32), State> {
    let mut found = BTreeMap::new();
    for slice in slices.iter().filter(|slice| slice.address_type == family) {
        let ports =
            slice.ports.iter().flatten().filter(|port| {
                port.name.as_deref() == Some(name) && port.protocol.as_deref().unwrap_or("TCP") == protocol
            });
        for number in ports.filter_map(|port| port.port).filter(|number| *number != 0) {
            for endpoint in slice.endpoints.iter().flatten() {
                let conditions = endpoint.conditions.clone().unwrap_or_default();
                let state = State {
                    ready: conditions.ready.unwrap_or(true),
                    serving: conditions.serving.unwrap_or(true),
                    terminating: conditions.terminating.unwrap_or(false),
                };
                let Some(ip) = endpoint.addresses.first().and_then(|ip| parse_ip(ip)) else {
                    continue;
                };
                if !state.terminating || !found.contains_key(&(ip, number)) {
                    found.insert((ip, number), state);
                }
            }
        }
    }
    found
}

fn does(mode: &str, spec: &ServiceSpec, ports: &[ProxiedPort], hints: bool) -> Vec<String> {
    let mut does = Vec::new();
    let is_ipvs = mode == "ipvs";
    if ports.iter().any(|port| !port.endpoints.is_empty()) {
        does.push(if is_ipvs {
            "sends each new connection to the next endpoint (scheduler rr, unless it is told otherwise)".to_owned()
        } else {
            "sends each new connection to an endpoint at random".to_owned()
        });
    }
    let empty = ports.iter().filter(|port| port.endpoints.is_empty());
    let empty: Vec<&str> = empty
        .filter_map(|port| port.frontends.first().map(String::as_str))
        .collect();
    if !empty.is_empty() {
        let how = match mode {
            "iptables" => "REJECT",
            "nftables" => "reject",
            _ => "a virtual server without destinations",
        };
        does.push(format!(
            "refuses connections to {}: no endpoints ({how})",
            empty.join(", ")
        ));
    }
    if spec.session_affinity.as_deref() == Some("ClientIP") {
        let config = spec
            .session_affinity_config
            .as_ref()
            .and_then(|it| it.client_ip.as_ref());
        let seconds = config.and_then(|it| it.timeout_seconds).unwrap_or(10_800);
        let how = match mode {
            "iptables" => "match recent",
            "nftables" => "a set with a timeout",
            _ => "persistence",
        };
        does.push(format!(
            "keeps a client at its endpoint until it has made no connection for {seconds} s ({how})"
        ));
    }
    let nowhere = if is_ipvs { "to all of them" } else { "dropped" };
    if spec.internal_traffic_policy.as_deref() == Some("Local") {
        does.push(format!(
            "from inside the cluster: to endpoints on the client's Node; on a Node without one {nowhere}"
        ));
    }
    if spec.external_traffic_policy.as_deref() == Some("Local") && is_externally_accessible(spec) {
        let nowhere = if is_ipvs { "replies are lost" } else { "dropped" };
        does.push(format!(
            "from outside: to endpoints on the Node that it comes to, with the client's address; on a Node without one {nowhere}"
        ));
        if let Some(number) = spec.health_check_node_port.filter(|number| *number > 0) {
            does.push(format!(
                "answers load balancers on NODE:{number}: 200 on Nodes with a ready endpoint, 503 on others"
            ));
        }
    }
    let ranges = spec.load_balancer_source_ranges.as_deref().unwrap_or_default();
    if !ranges.is_empty() {
        does.push(format!(
            "lets only {} through to load balancer addresses",
            ranges.join(", ")
        ));
    }
    if hints {
        does.push(
            "on a Node that hints name, itself or its zone, if every ready endpoint has such: to those endpoints alone"
                .to_owned(),
        );
    }
    does
}

fn is_externally_accessible(spec: &ServiceSpec) -> bool {
    matches!(spec.type_.as_deref(), Some("NodePort" | "LoadBalancer"))
        || spec.external_ips.as_ref().is_some_and(|ips| !ips.is_empty())
}

#[cfg(test)]
mod tests;
