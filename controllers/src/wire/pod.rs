//! A Pod as it comes over the watch.

use std::net::IpAddr;

use k8s_openapi::api::core::v1 as api;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;
use smallvec::SmallVec;

use super::{meta, nullable, parse_ip};
use crate::model::{ContainerPort, Interner, LabelledPod, Phase, Pod, Protocol};

/// The fields of a Pod that endpoints depend on.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = api::Pod)]
pub struct WirePod {
    #[serde(deserialize_with = "meta::slim")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "nullable")]
    spec: Spec,
    #[serde(default, deserialize_with = "nullable")]
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: Option<String>,
    hostname: Option<String>,
    subdomain: Option<String>,
    #[serde(deserialize_with = "nullable")]
    containers: Vec<Container>,
    #[serde(deserialize_with = "nullable")]
    init_containers: Vec<Container>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    restart_policy: Option<String>,
    #[serde(deserialize_with = "nullable")]
    ports: Vec<Port>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Port {
    name: Option<String>,
    container_port: i32,
    #[serde(deserialize_with = "nullable")]
    protocol: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    #[serde(deserialize_with = "nullable")]
    phase: String,
    #[serde(rename = "podIPs", deserialize_with = "nullable")]
    pod_ips: Vec<PodIp>,
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PodIp {
    #[serde(deserialize_with = "nullable")]
    ip: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    #[serde(rename = "type", deserialize_with = "nullable")]
    kind: String,
    #[serde(deserialize_with = "nullable")]
    status: String,
    /// As text: whoever may write the status sets it to any time, and one that the API type cannot hold must not end the watch.
    #[serde(deserialize_with = "nullable")]
    last_transition_time: String,
}

impl WirePod {
    /// Turns it into the model; the labels come beside it.
    pub fn into_model(self, interner: &mut Interner) -> LabelledPod {
        let Self { metadata, spec, status } = self;
        let meta::Identity { key, uid, revision } = meta::identity(&metadata, interner);
        let ready = status.conditions.iter().find(|condition| condition.kind == "Ready");
        let sidecars = spec
            .init_containers
            .iter()
            .filter(|container| container.restart_policy.as_deref() == Some("Always"));
        let ports = spec
            .containers
            .iter()
            .chain(sidecars)
            .flat_map(|container| &container.ports)
            .filter_map(|port| {
                let name = port.name.as_deref().filter(|name| !name.is_empty())?;
                Some(ContainerPort {
                    name: interner.get(name),
                    port: port.container_port,
                    protocol: Protocol::parse(&port.protocol),
                })
            })
            .collect();
        let ips: SmallVec<[IpAddr; 1]> = status.pod_ips.iter().filter_map(|ip| parse_ip(&ip.ip)).collect();
        let pod = Pod {
            namespace: key.namespace,
            name: key.name,
            uid,
            revision,
            node_name: present(spec.node_name).map(|name| interner.get(&name)),
            hostname: present(spec.hostname).map(Into::into),
            subdomain: present(spec.subdomain).map(Into::into),
            phase: match status.phase.as_str() {
                "Succeeded" | "Failed" => Phase::Finished,
                _ => Phase::Active,
            },
            terminating: metadata.deletion_timestamp.is_some(),
            ready: ready.is_some_and(|condition| condition.status == "True"),
            ready_transition: ready.and_then(|condition| meta::read_time(&condition.last_transition_time)),
            ips,
            ports,
        };
        (pod, meta::pairs(metadata.labels, interner))
    }
}

fn present(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}
