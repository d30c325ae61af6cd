//! What kube-proxy does with a Service, in each of its modes, by what is stored now.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{LoadBalancerIngress, Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::{EndpointHints, EndpointSlice};
use serde::Serialize;

use super::env::join_host_port;
use crate::endpoints::HEADLESS_LABEL;
use crate::model::IpFamily;
use crate::wire::{auto_annotation, parse_ip};

mod hints;
mod modes;
mod unused;

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
    /// What slices list and it does not use, and why.
    pub unused: Vec<String>,
    /// What follows from hints, if there are any, or why nothing does.
    pub hints: Vec<String>,
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
    let ips: Vec<IpAddr> = ips.collect();
    let annotations = service.metadata.annotations.as_ref();
    let asked = spec.traffic_distribution.is_some() || annotations.and_then(auto_annotation).is_some();
    let mut told = Vec::new();
    for ip in &ips {
        for port in spec.ports.iter().flatten() {
            told.push(proxied_port(service, &spec, port, *ip, (slices, asked)));
        }
    }
    let hints = hints::told(&spec, &told);
    let ports: Vec<ProxiedPort> = told.into_iter().map(|(port, _)| port).collect();
    let modes = ["iptables", "nftables", "ipvs"].map(|mode| Mode {
        mode,
        does: modes::does(mode, &spec, &ports),
    });
    let families: Vec<&str> = ips.iter().map(|ip| family(*ip)).collect();
    Proxied {
        nothing: None,
        unused: unused::unused(&spec, &families, slices),
        hints,
        ports,
        modes: modes.into(),
    }
}

/// `status.loadBalancer.ingress`.
pub fn ingress(service: &Service) -> impl Iterator<Item = &LoadBalancerIngress> {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    balancer.into_iter().flat_map(|it| it.ingress.iter().flatten())
}

/// `nodePort`, if there is one.
pub fn node_port(port: &ServicePort) -> Option<i32> {
    port.node_port.filter(|number| *number > 0)
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

/// Together with what follows from hints; `asked`: the Service wants them.
fn proxied_port(
    service: &Service,
    spec: &ServiceSpec,
    port: &ServicePort,
    cluster_ip: IpAddr,
    (slices, asked): (&[EndpointSlice], bool),
) -> (ProxiedPort, Option<String>) {
    let protocol = protocol_of(port.protocol.as_deref()).to_owned();
    let name = port.name.clone().unwrap_or_default();
    let same_family = |ip: &IpAddr| ip.is_ipv4() == cluster_ip.is_ipv4();
    let vips = ingress(service).filter(|it| it.ip_mode.as_deref().is_none_or(|mode| mode == "VIP"));
    let vips = vips.filter_map(|it| it.ip.as_ref());
    let external = spec.external_ips.iter().flatten();
    let ips = external.chain(vips).filter_map(|ip| parse_ip(ip)).filter(same_family);
    let ips = std::iter::once(cluster_ip).chain(ips);
    let mut frontends: Vec<String> = ips.map(|ip| join_host_port(&ip.to_string(), port.port)).collect();
    if let Some(number) = node_port(port) {
        frontends.push(format!("NODE:{number}"));
    }
    let found = endpoints(slices, family(cluster_ip), &name, &protocol);
    let ready = picked(&found, |state| state.ready);
    let terminating_only = ready.is_empty() && found.values().any(|state| state.serves_to_the_end());
    let endpoints = if terminating_only {
        picked(&found, State::serves_to_the_end)
    } else {
        ready
    };
    let hints = hints::of_port(&found, asked);
    let port = ProxiedPort {
        name,
        protocol,
        frontends,
        endpoints,
        terminating_only,
    };
    (port, hints)
}

fn picked<'a>(found: &BTreeMap<(IpAddr, i32), State<'a>>, wanted: impl Fn(State<'a>) -> bool) -> Vec<String> {
    let picked = found.iter().filter(|(_, state)| wanted(**state));
    picked
        .map(|((ip, number), _)| join_host_port(&ip.to_string(), *number))
        .collect()
}

/// It watches no others.
fn is_read(slice: &EndpointSlice) -> bool {
    let labels = slice.metadata.labels.as_ref();
    labels.is_none_or(|labels| !labels.contains_key(HEADLESS_LABEL))
}

fn protocol_of(field: Option<&str>) -> &str {
    field.unwrap_or("TCP")
}

fn family(ip: IpAddr) -> &'static str {
    IpFamily::of(ip).as_str()
}

#[derive(Clone, Copy)]
struct State<'a> {
    ready: bool,
    serving: bool,
    terminating: bool,
    hints: Option<&'a EndpointHints>,
}

impl State<'_> {
    /// Used if nobody is ready.
    fn serves_to_the_end(self) -> bool {
        self.serving && self.terminating
    }
}

/// By address and port. Of one that stands in two slices the one that is not terminating counts. Only the first address is used.
fn endpoints<'a>(
    slices: &'a [EndpointSlice],
    family: &str,
    name: &str,
    protocol: &str,
) -> BTreeMap<(IpAddr, i32), State<'a>> {
    let mut found = BTreeMap::new();
    let read = slices.iter().filter(|slice| is_read(slice));
    for slice in read.filter(|slice| slice.address_type == family) {
        let ports = slice.ports.iter().flatten();
        let ports = ports
            .filter(|port| port.name.as_deref() == Some(name) && protocol_of(port.protocol.as_deref()) == protocol);
        for number in ports.filter_map(|port| port.port).filter(|number| *number != 0) {
            for endpoint in slice.endpoints.iter().flatten() {
                let conditions = endpoint.conditions.clone().unwrap_or_default();
                let state = State {
                    ready: conditions.ready.unwrap_or(true),
                    serving: conditions.serving.unwrap_or(true),
                    terminating: conditions.terminating.unwrap_or(false),
                    hints: endpoint.hints.as_ref(),
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

#[cfg(test)]
mod tests;
