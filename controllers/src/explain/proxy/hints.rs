//! What follows from the hints of endpoints, as kube-proxy's `topologyModeFromHints` has it: those of Nodes or zones count if every ready
//! endpoint has such, and then only where one names the Node or its zone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::api::core::v1::ServiceSpec;
use k8s_openapi::api::discovery::v1::EndpointHints;

use super::{ProxiedPort, State};
use crate::explain::env::join_host_port;
use crate::listing::{limited, some};

/// For one port; `asked`: the Service wants them. `None` = there is nothing to say.
pub fn of_port(found: &BTreeMap<(IpAddr, i32), State<'_>>, asked: bool) -> Option<String> {
    let ready: Vec<(String, Option<&EndpointHints>)> = found
        .iter()
        .filter(|(_, state)| state.ready)
        .map(|((ip, port), state)| (join_host_port(&ip.to_string(), *port), state.hints))
        .collect();
    let (mut zones, mut nodes) = (Places::default(), Places::default());
    let mut bare = Vec::new();
    for (endpoint, hints) in &ready {
        let of_zones = hints.iter().flat_map(|hints| hints.for_zones.iter().flatten());
        let of_nodes = hints.iter().flat_map(|hints| hints.for_nodes.iter().flatten());
        let in_zones = zones.add(endpoint, of_zones.map(|zone| zone.name.as_str()));
        let on_nodes = nodes.add(endpoint, of_nodes.map(|node| node.name.as_str()));
        if !in_zones && !on_nodes {
            bare.push(endpoint.clone());
        }
    }
    if bare.len() == ready.len() {
        let none = "no hints are stored: traffic goes to every endpoint, wherever it comes from";
        return (asked && !ready.is_empty()).then(|| none.to_owned());
    }
    if !bare.is_empty() {
        let bare = some(&bare);
        return Some(format!(
            "hints are not used, because not every ready endpoint has some (none: {bare})"
        ));
    }
    let all = [("on Node", &nodes), ("in zone", &zones)];
    let used = all.into_iter().filter(|(_, places)| places.named == ready.len());
    let words: Vec<String> = used.flat_map(|(word, places)| places.words(word)).collect();
    if words.is_empty() {
        let neither = "hints are not used: some ready endpoints have them for zones only, others for Nodes only";
        return Some(neither.to_owned());
    }
    let words = limited(words).join(", ");
    Some(format!("hints are used: {words}; to every endpoint from anywhere else"))
}

/// Once if it is the same for every port.
pub fn told(spec: &ServiceSpec, ports: &[(ProxiedPort, Option<String>)]) -> Vec<String> {
    let is_local = spec.internal_traffic_policy.as_deref() == Some("Local");
    let ports = ports.iter().filter(|(port, _)| !is_local || port.frontends.len() > 1);
    let said: Vec<(&str, &str)> = ports
        .filter_map(|(port, hints)| Some((port.frontends.first()?.as_str(), hints.as_deref()?)))
        .collect();
    let texts: BTreeSet<&str> = said.iter().map(|(_, text)| *text).collect();
    let whence = if is_local { "from outside the cluster, " } else { "" };
    if texts.len() == 1 {
        return texts.into_iter().map(|text| format!("{whence}{text}")).collect();
    }
    let lines = said
        .iter()
        .map(|(frontend, text)| format!("{frontend}: {whence}{text}"));
    limited(lines.collect())
}

/// Zones or Nodes, with the endpoints that hints give them.
#[derive(Default)]
struct Places<'a> {
    endpoints: BTreeMap<&'a str, Vec<String>>,
    /// Endpoints with such hints.
    named: usize,
}

impl<'a> Places<'a> {
    /// Whether there are any.
    fn add(&mut self, endpoint: &str, names: impl Iterator<Item = &'a str>) -> bool {
        let mut any = false;
        for name in names {
            any = true;
            self.endpoints.entry(name).or_default().push(endpoint.to_owned());
        }
        self.named += usize::from(any);
        any
    }

    fn words(&self, word: &str) -> Vec<String> {
        let all = self.endpoints.iter();
        all.map(|(name, endpoints)| format!("{word} {name} to {} alone", some(endpoints)))
            .collect()
    }
}
