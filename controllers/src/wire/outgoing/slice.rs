//! EndpointSlices as they are written.

use std::net::IpAddr;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::{Kept, OutgoingMeta, OutgoingTarget};
use crate::model::{
    Endpoint, Hints, IpFamily, ObjectKey, OtherEndpoint, PodEndpoint, Revision, SliceContent, SlicePort, Uid,
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outgoing<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: OutgoingMeta<'a>,
    address_type: &'static str,
    ports: Vec<OutgoingPort<'a>>,
    endpoints: Vec<OutgoingEndpoint<'a>>,
}

/// `name` is written even if it is empty: kube-proxy and others compare it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutgoingPort<'a> {
    name: &'a str,
    protocol: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    app_protocol: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutgoingEndpoint<'a> {
    addresses: Addresses<'a>,
    conditions: OutgoingConditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    hostname: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_ref: Option<OutgoingTarget<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hints: Option<OutgoingHints<'a>>,
}

enum Addresses<'a> {
    Pod(&'a PodEndpoint),
    Other(&'a [Box<str>]),
}

impl Serialize for Addresses<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Pod(pod) => serializer.collect_seq(pod.addresses().map(Text)),
            Self::Other(addresses) => serializer.collect_seq(addresses.iter().map(AsRef::<str>::as_ref)),
        }
    }
}

struct Text(IpAddr);

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

#[derive(Serialize)]
struct OutgoingConditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    ready: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    serving: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    terminating: Option<bool>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutgoingHints<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    for_zones: Vec<Named<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    for_nodes: Vec<Named<'a>>,
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
}

impl<'a> OutgoingPort<'a> {
    fn of(port: &'a SlicePort) -> Self {
        Self {
            name: &port.name,
            protocol: port.protocol.as_str(),
            port: port.port,
            app_protocol: port.app_protocol.as_deref(),
        }
    }
}

impl<'a> OutgoingEndpoint<'a> {
    fn pod(pod: &'a PodEndpoint, namespace: &'a str) -> Self {
        Self {
            addresses: Addresses::Pod(pod),
            conditions: OutgoingConditions {
                ready: Some(pod.conditions.ready),
                serving: Some(pod.conditions.serving),
                terminating: Some(pod.conditions.terminating),
            },
            hostname: pod.hostname(),
            node_name: pod.node.as_deref(),
            zone: pod.zone.as_deref(),
            target_ref: Some(OutgoingTarget::pod(namespace, &pod.name, &pod.uid)),
            hints: pod.extra.as_ref().and_then(|extra| OutgoingHints::of(&extra.hints)),
        }
    }

    fn other(other: &'a OtherEndpoint) -> Self {
        Self {
            addresses: Addresses::Other(&other.addresses),
            conditions: OutgoingConditions {
                ready: other.ready,
                serving: other.serving,
                terminating: other.terminating,
            },
            hostname: other.hostname.as_deref(),
            node_name: other.node.as_deref(),
            zone: other.zone.as_deref(),
            target_ref: other.target.as_deref().map(OutgoingTarget::of),
            hints: OutgoingHints::of(&other.hints),
        }
    }
}

impl<'a> OutgoingHints<'a> {
    fn of(hints: &'a Hints) -> Option<Self> {
        let names = |list: &'a [Arc<str>]| list.iter().map(|name| Named { name }).collect();
        (*hints != Hints::default()).then(|| Self {
            for_zones: names(&hints.zones),
            for_nodes: names(&hints.nodes),
        })
    }
}

/// The body of a POST (`over` = `None`) or of a PUT over the stored slice of that uid and revision.
pub fn write_slice(
    key: &ObjectKey,
    content: &SliceContent,
    over: Option<(&Uid, Revision)>,
) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Outgoing {
        api_version: "discovery.k8s.io/v1",
        kind: "EndpointSlice",
        metadata: OutgoingMeta::new(
            key,
            over,
            Kept {
                generate_name: content.generate_name.as_deref(),
                labels: &content.labels,
                annotations: &content.annotations,
                finalizers: &content.finalizers,
                owner_references: &content.owner_references,
            },
        ),
        address_type: match content.family {
            Some(IpFamily::V4) => "IPv4",
            Some(IpFamily::V6) => "IPv6",
            None => "FQDN",
        },
        ports: content.ports.iter().map(OutgoingPort::of).collect(),
        endpoints: content
            .endpoints
            .iter()
            .map(|endpoint| match endpoint {
                Endpoint::Pod(pod) => OutgoingEndpoint::pod(pod, &key.namespace),
                Endpoint::Other(other) => OutgoingEndpoint::other(other),
            })
            .collect(),
    })
}
