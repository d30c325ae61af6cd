//! EndpointSlices as they come over the watch.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::discovery::v1 as api;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;

use super::{WireTarget, meta, nullable};
use crate::endpointslice::{MANAGED_BY_LABEL, SERVICE_NAME_LABEL};
use crate::model::{
    Conditions, Endpoint, Extra, Hints, Interner, IpFamily, Manager, ObjectKey, OtherEndpoint, PodEndpoint, Protocol,
    Slice, SliceContent, SlicePort, boxed, fitted,
};

/// An EndpointSlice.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = api::EndpointSlice)]
#[serde(rename_all = "camelCase")]
pub struct WireSlice {
    #[serde(deserialize_with = "meta::whole")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "nullable")]
    address_type: String,
    #[serde(default, deserialize_with = "nullable")]
    ports: Vec<WirePort>,
    #[serde(default, deserialize_with = "nullable")]
    endpoints: Vec<WireEndpoint>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WirePort {
    #[serde(deserialize_with = "nullable")]
    name: String,
    #[serde(deserialize_with = "nullable")]
    protocol: String,
    port: Option<i32>,
    app_protocol: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireEndpoint {
    #[serde(deserialize_with = "nullable")]
    addresses: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    conditions: WireConditions,
    #[serde(deserialize_with = "nullable")]
    hostname: String,
    node_name: Option<String>,
    zone: Option<String>,
    target_ref: Option<WireTarget>,
    #[serde(deserialize_with = "nullable")]
    hints: WireHints,
    /// Frozen, and written by nobody.
    #[serde(deserialize_with = "nullable")]
    deprecated_topology: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct WireConditions {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireHints {
    #[serde(deserialize_with = "nullable")]
    for_zones: Vec<Named>,
    #[serde(deserialize_with = "nullable")]
    for_nodes: Vec<Named>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    #[serde(deserialize_with = "nullable")]
    name: String,
}

impl WireSlice {
    /// Turns it into the model; `None` = none of our controllers' slices, or no Service's.
    pub fn into_model(self, interner: &mut Interner) -> Option<Slice> {
        let meta::Identity { key, uid, revision } = meta::identity(&self.metadata, interner);
        let label = |name: &str| self.metadata.labels.as_ref()?.get(name).filter(|text| !text.is_empty());
        let service = interner.get(label(SERVICE_NAME_LABEL)?);
        let manager = Manager::parse(label(MANAGED_BY_LABEL)?)?;
        let family = match self.address_type.as_str() {
            "IPv4" => Some(IpFamily::V4),
            "IPv6" => Some(IpFamily::V6),
            _ => None,
        };
        let mut ports: Vec<SlicePort> = self.ports.into_iter().map(|port| read_port(port, interner)).collect();
        ports.sort_unstable();
        let endpoints = self.endpoints.into_iter();
        let endpoints = fitted(endpoints.map(|endpoint| read_endpoint(endpoint, manager, &key, interner)));
        let terminating = self.metadata.deletion_timestamp.is_some();
        let kept = meta::kept(self.metadata, interner);
        Some(Slice {
            key,
            uid,
            revision,
            terminating,
            content: SliceContent {
                service,
                manager,
                family,
                generate_name: kept.generate_name,
                labels: kept.labels,
                annotations: kept.annotations,
                finalizers: kept.finalizers,
                owner_references: kept.owner_references,
                ports: ports.into(),
                endpoints,
            },
        })
    }
}

fn read_port(port: WirePort, interner: &mut Interner) -> SlicePort {
    SlicePort {
        name: interner.get(&port.name),
        protocol: Protocol::parse(&port.protocol),
        port: port.port,
        app_protocol: port.app_protocol.map(|text| interner.get(&text)),
    }
}

fn read_endpoint(endpoint: WireEndpoint, manager: Manager, slice: &ObjectKey, interner: &mut Interner) -> Endpoint {
    let pod = (manager != Manager::Mirroring).then(|| as_pod(&endpoint, slice, interner));
    match pod.flatten() {
        Some(pod) => Endpoint::Pod(pod),
        None => Endpoint::Other(Box::new(read_other(endpoint, interner))),
    }
}

/// The endpoint in the form in which we list Pods, if it has exactly that form.
fn as_pod(endpoint: &WireEndpoint, slice: &ObjectKey, interner: &mut Interner) -> Option<PodEndpoint> {
    let (first, more) = endpoint.addresses.split_first()?;
    let target = endpoint.target_ref.as_ref()?;
    let plain = target.kind == "Pod"
        && target.namespace == *slice.namespace
        && target.api_version.is_empty()
        && target.field_path.is_empty()
        && endpoint.deprecated_topology.is_empty()
        && ![&endpoint.node_name, &endpoint.zone].contains(&&Some(String::new()));
    if !plain {
        return None;
    }
    let extra = Extra {
        more_ips: more.iter().map(|text| canonical_ip(text)).collect::<Option<_>>()?,
        hostname: present(&endpoint.hostname),
        hints: read_hints(&endpoint.hints, interner),
    };
    Some(PodEndpoint {
        ip: canonical_ip(first)?,
        conditions: Conditions {
            ready: endpoint.conditions.ready?,
            serving: endpoint.conditions.serving?,
            terminating: endpoint.conditions.terminating?,
        },
        name: interner.get(&target.name),
        uid: target.uid.clone(),
        node: endpoint.node_name.as_ref().map(|name| interner.get(name)),
        zone: endpoint.zone.as_ref().map(|name| interner.get(name)),
        extra: boxed(extra),
    })
}

/// An address in the spelling in which it would be written.
fn canonical_ip(text: &str) -> Option<IpAddr> {
    let ip: IpAddr = text.parse().ok()?;
    (ip.to_string() == text).then_some(ip)
}

fn present(text: &str) -> Option<Box<str>> {
    (!text.is_empty()).then(|| text.into())
}

fn read_other(endpoint: WireEndpoint, interner: &mut Interner) -> OtherEndpoint {
    OtherEndpoint {
        hints: read_hints(&endpoint.hints, interner),
        addresses: endpoint.addresses.into_iter().map(Into::into).collect(),
        ready: endpoint.conditions.ready,
        serving: endpoint.conditions.serving,
        terminating: endpoint.conditions.terminating,
        hostname: present(&endpoint.hostname),
        node: endpoint.node_name.map(|name| interner.get(&name)),
        zone: endpoint.zone.map(|name| interner.get(&name)),
        target: endpoint.target_ref.map(|target| Box::new(target.into_model(interner))),
        deprecated_topology: !endpoint.deprecated_topology.is_empty(),
    }
}

fn read_hints(hints: &WireHints, interner: &mut Interner) -> Hints {
    let mut names = |list: &[Named]| list.iter().map(|it| interner.get(&it.name)).collect();
    Hints {
        zones: names(&hints.for_zones),
        nodes: names(&hints.for_nodes),
    }
}
