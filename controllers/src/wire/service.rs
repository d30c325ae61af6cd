//! A Service as it comes over the watch.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as api;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;
use svcplane_allocators::service::{Owner, ServiceKey};
use svcplane_allocators::value::NodePort;
use svcplane_webhook::address::Written;
use svcplane_webhook::ledger::Holder;

use super::{meta, nullable, parse_ip};
use crate::model::{
    Distribution, Interner, IpFamily, Protocol, Service, ServicePort, ServiceType, TargetPort, Timestamp,
};

/// The fields of a Service that endpoints and the books of values depend on.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = api::Service)]
pub struct WireService {
    #[serde(deserialize_with = "meta::slim")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "nullable")]
    spec: Spec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(rename = "type", deserialize_with = "nullable")]
    kind: String,
    selector: Option<BTreeMap<String, String>>,
    #[serde(rename = "clusterIP", deserialize_with = "nullable")]
    cluster_ip: String,
    #[serde(rename = "clusterIPs", deserialize_with = "nullable")]
    cluster_ips: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    health_check_node_port: i32,
    #[serde(deserialize_with = "nullable")]
    ip_families: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    publish_not_ready_addresses: bool,
    #[serde(deserialize_with = "nullable")]
    traffic_distribution: String,
    #[serde(deserialize_with = "nullable")]
    ports: Vec<Port>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Port {
    #[serde(deserialize_with = "nullable")]
    name: String,
    #[serde(deserialize_with = "nullable")]
    protocol: String,
    app_protocol: Option<String>,
    port: i32,
    target_port: Option<IntOrText>,
    #[serde(deserialize_with = "nullable")]
    node_port: i32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum IntOrText {
    Number(i32),
    Text(String),
}

impl WireService {
    /// What it holds.
    pub fn holder(&self) -> Holder {
        let Self { metadata, spec } = self;
        let text = |field: &Option<String>| field.as_deref().unwrap_or_default().to_owned();
        // One from before `clusterIPs`.
        let only = spec.cluster_ips.is_empty().then_some(&spec.cluster_ip);
        let addresses = spec.cluster_ips.iter().chain(only);
        let ports = spec.ports.iter().map(|port| port.node_port);
        Holder {
            owner: Owner {
                created: metadata
                    .creation_timestamp
                    .as_ref()
                    .map_or(0, |time| time.0.as_second()),
                service: ServiceKey::new(text(&metadata.namespace), text(&metadata.name)),
            },
            addresses: addresses.filter_map(|ip| Some(Written::parse(ip)?.address)).collect(),
            ports: ports
                .chain([spec.health_check_node_port])
                .filter_map(|port| NodePort::new(u16::try_from(port).ok()?))
                .collect(),
        }
    }

    /// Turns it into the model.
    pub fn into_model(self, interner: &mut Interner) -> Service {
        let Self { metadata, spec } = self;
        let meta::Identity { key, uid, revision } = meta::identity(&metadata, interner);
        let family = match spec.ip_families.first().map(String::as_str) {
            Some("IPv6") => Some(IpFamily::V6),
            Some(_) => Some(IpFamily::V4),
            None => parse_ip(&spec.cluster_ip).map(IpFamily::of),
        };
        let distribution = distribution(metadata.annotations.as_ref(), &spec.traffic_distribution);
        let ports = spec
            .ports
            .into_iter()
            .map(|port| service_port(port, interner))
            .collect();
        Service {
            key,
            uid,
            revision,
            created: meta::seconds(metadata.creation_timestamp.as_ref()).unwrap_or(Timestamp(0)),
            labels: meta::pairs(metadata.labels, interner),
            kind: if spec.kind == "ExternalName" {
                ServiceType::ExternalName
            } else {
                ServiceType::Proxied
            },
            selector: spec.selector.map(|selector| meta::pairs(Some(selector), interner)),
            headless: spec.cluster_ip.is_empty() || spec.cluster_ip == "None",
            cluster_ip_none: spec.cluster_ip == "None",
            family,
            dual_stack: spec.ip_families.len() > 1 || family.is_none(),
            terminating: metadata.deletion_timestamp.is_some(),
            distribution,
            publish_not_ready: spec.publish_not_ready_addresses,
            ports,
        }
    }
}

fn distribution(annotations: Option<&BTreeMap<String, String>>, field: &str) -> Distribution {
    if annotations.is_some_and(|annotations| auto_annotation(annotations).is_some()) {
        return Distribution::Auto;
    }
    match field {
        "PreferClose" | "PreferSameZone" => Distribution::SameZone,
        "PreferSameNode" => Distribution::SameNode,
        _ => Distribution::Anywhere,
    }
}

/// The annotation that asks for topology mode `Auto`, if the one that counts does.
pub fn auto_annotation(annotations: &BTreeMap<String, String>) -> Option<&'static str> {
    let present = |name: &&'static str| Some((*name, annotations.get(*name)?));
    let (name, mode) = meta::TOPOLOGY_ANNOTATIONS.iter().find_map(present)?;
    (mode == "Auto" || mode == "auto").then_some(name)
}

fn service_port(port: Port, interner: &mut Interner) -> ServicePort {
    ServicePort {
        name: interner.get(&port.name),
        protocol: Protocol::parse(&port.protocol),
        app_protocol: port.app_protocol.map(|text| interner.get(&text)),
        target: match port.target_port {
            Some(IntOrText::Number(number)) => TargetPort::Number(number),
            Some(IntOrText::Text(name)) => TargetPort::Name(interner.get(&name)),
            None => TargetPort::Number(port.port),
        },
    }
}
