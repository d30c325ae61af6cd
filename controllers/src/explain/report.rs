//! All that is said about one Service.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Serialize;

use super::Limits;
use super::dns::{self, Record};
use super::env::{self, Variable};
use super::kept::{Compared, Kept, State};
use super::misses::{self, Miss};
use super::named_ports::NamedPorts;
use super::objects::Objects;
use super::pods::{self, SeenAs};
use super::proxy::{self, Proxied};
use super::values::Allocation;
use crate::loadbalancer::Choice;
use crate::wire::auto_annotation;

/// The report. Programs read it as JSON. `null` = not known, because something may not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The Service itself.
    pub service: About,
    /// Its address from a LoadBalancerPool, if svcplane serves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer_address: Option<Choice>,
    /// Ports that lead to a name which none of its Pods has.
    pub unresolved_ports: Vec<String>,
    /// Where its values are from; put in by whoever has read the pools and all that holds values.
    pub allocation: Option<Allocation>,
    /// The Pods that it matches.
    pub pods: Option<Vec<SeenAs>>,
    /// Pods that it nearly matches.
    pub near_misses: Vec<Miss>,
    /// Those of other namespaces are known, too.
    #[serde(skip)]
    pub near_misses_everywhere: bool,
    /// Its Endpoints.
    pub endpoints: Option<Vec<Compared>>,
    /// Its slices.
    pub endpoint_slices: Option<Vec<Compared>>,
    /// Why topology mode `Auto` gives no hints although they are asked for, so that none are expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<String>,
    /// What becomes of Endpoints made by hand.
    pub mirroring: Vec<String>,
    /// DNS records by what is stored now.
    pub dns: Option<Vec<Record>>,
    /// Environment variables of Pods of its namespace.
    pub environment: Environment,
    /// What kube-proxy does, by what is stored now.
    pub kube_proxy: Option<Proxied>,
    /// What could not be read, and the right that is missing.
    pub unread: Vec<String>,
    /// What is stored is known, and is what it should be.
    pub in_order: bool,
}

/// What a Service says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct About {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `spec.type`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `spec.clusterIPs`.
    #[serde(rename = "clusterIPs")]
    pub cluster_ips: Vec<String>,
    /// `spec.externalName` of that type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_name: Option<String>,
    /// `spec.selector`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<BTreeMap<String, String>>,
    /// `http 80/TCP -> 8080`, and the nodePort if it has one.
    pub ports: Vec<String>,
    /// `status.loadBalancer.ingress` of type LoadBalancer: none while the address is pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<Vec<String>>,
    /// `spec.loadBalancerClass`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer_class: Option<String>,
    /// `spec.trafficDistribution`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic_distribution: Option<String>,
    /// The annotation that asks for topology mode `Auto`, which goes before `spec.trafficDistribution`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_annotation: Option<&'static str>,
    /// `default/kubernetes`, whose Endpoints and slice the apiserver writes.
    pub kept_by_apiserver: bool,
    /// Being deleted.
    pub terminating: bool,
}

/// Environment variables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Environment {
    /// For this Service.
    pub variables: Vec<Variable>,
    /// What else there is to know.
    pub notes: Vec<String>,
}

impl Report {
    /// Everything, by the rules of the reconcilers and of those who read what they write.
    pub fn of(objects: &Objects, limits: &Limits, cluster_domain: &str) -> Self {
        let kept = Kept::of(objects, limits);
        let is_headless = objects
            .full
            .spec
            .as_ref()
            .is_some_and(|spec| spec.cluster_ip.as_deref() == Some("None"));
        let slices = objects.slices.as_deref();
        // Only headless Services have records that depend on slices.
        let known = slices.or_else(|| (!is_headless).then_some(&[][..]));
        let ports = NamedPorts::of(&objects.service, &objects.snapshot.pods);
        let pods = pods::seen(objects, &ports, &kept);
        let Kept {
            endpoints,
            slices: compared,
            mirroring,
            topology,
            ..
        } = kept;
        let is_settled = |it: &Compared| matches!(it.state, State::Same | State::LeftAlone(_));
        let settled = |compared: &Vec<Compared>| compared.iter().all(is_settled);
        Self {
            service: about(objects),
            load_balancer_address: None,
            unresolved_ports: ports.nowhere(),
            allocation: None,
            pods,
            near_misses_everywhere: objects.elsewhere.is_some(),
            near_misses: misses::near(objects),
            in_order: endpoints.as_ref().is_some_and(settled) && compared.as_ref().is_some_and(settled),
            endpoints,
            endpoint_slices: compared,
            topology,
            mirroring,
            dns: known.map(|slices| dns::records(&objects.full, slices, cluster_domain)),
            environment: environment(objects),
            kube_proxy: slices.map(|slices| proxy::proxied(&objects.full, slices)),
            unread: objects.unread.clone(),
        }
    }
}

fn about(objects: &Objects) -> About {
    let spec = objects.full.spec.clone().unwrap_or_default();
    let kind = spec.type_.unwrap_or_else(|| "ClusterIP".to_owned());
    let one: Vec<String> = spec.cluster_ip.into_iter().filter(|ip| !ip.is_empty()).collect();
    About {
        namespace: objects.key.namespace.to_string(),
        name: objects.key.name.to_string(),
        external_name: spec
            .external_name
            .filter(|name| !name.is_empty() && kind == "ExternalName"),
        kind,
        cluster_ips: spec.cluster_ips.filter(|ips| !ips.is_empty()).unwrap_or(one),
        selector: spec.selector,
        ports: spec.ports.iter().flatten().map(port).collect(),
        load_balancer: load_balancer(&objects.full),
        load_balancer_class: spec.load_balancer_class,
        traffic_distribution: spec.traffic_distribution.filter(|text| !text.is_empty()),
        topology_annotation: objects.full.metadata.annotations.as_ref().and_then(auto_annotation),
        kept_by_apiserver: objects.key.is_apiservers_own(),
        terminating: objects.service.terminating,
    }
}

fn port(port: &core::ServicePort) -> String {
    let name = port.name.as_deref().filter(|name| !name.is_empty());
    let name = name.map(|name| format!("{name} ")).unwrap_or_default();
    let target = match &port.target_port {
        Some(IntOrString::Int(number)) => number.to_string(),
        Some(IntOrString::String(name)) => name.clone(),
        None => port.port.to_string(),
    };
    let protocol = port.protocol.as_deref().unwrap_or("TCP");
    let node_port = proxy::node_port(port).map(|number| format!(", nodePort {number}"));
    let node_port = node_port.unwrap_or_default();
    format!("{name}{}/{protocol} -> {target}{node_port}", port.port)
}

fn load_balancer(service: &core::Service) -> Option<Vec<String>> {
    let kind = service.spec.as_ref()?.type_.as_deref();
    let address = |it: &core::LoadBalancerIngress| it.ip.clone().or_else(|| it.hostname.clone());
    (kind == Some("LoadBalancer")).then(|| proxy::ingress(service).filter_map(address).collect())
}

fn environment(objects: &Objects) -> Environment {
    let variables = env::from_service(&objects.full);
    let mut notes = Vec::new();
    if variables.is_empty() {
        notes.push("none: only a Service with a clusterIP has them".to_owned());
        return Environment { variables, notes };
    }
    if env::shadows_the_apiserver(&objects.full) {
        notes.push("they hide those of default/kubernetes from the Pods of this namespace".to_owned());
    }
    let all = env::visible(
        objects.services.as_deref().unwrap_or_default(),
        &objects.key.namespace,
        true,
    );
    for other in all {
        let name = other.metadata.name.as_deref().unwrap_or_default();
        if *name == *objects.key.name {
            continue;
        }
        let theirs = env::from_service(other);
        let both = variables
            .iter()
            .filter(|own| theirs.iter().any(|it| it.name == own.name && it.value != own.value));
        notes.extend(both.map(|own| {
            format!(
                "Service {name} sets {} too: which of the two wins is left to chance",
                own.name
            )
        }));
    }
    Environment { variables, notes }
}

#[cfg(test)]
mod tests;
