//! Endpoints: read from the watch, and written whole.

use k8s_openapi::api::core::v1 as api;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Serialize};

use super::{meta, nullable};
use crate::model::{
    Address, EndpointPort, EndpointsObject, Interner, Labels, OwnerReference, Protocol, Revision, Subset, TargetRef,
    Uid,
};

/// An Endpoints object. The API type is frozen (KEP-4974), so these are all its fields.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = api::Endpoints)]
pub struct WireEndpoints {
    #[serde(deserialize_with = "meta::whole")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "nullable")]
    subsets: Vec<WireSubset>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct WireSubset {
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    addresses: Vec<WireAddress>,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    not_ready_addresses: Vec<WireAddress>,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    ports: Vec<WirePort>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct WireAddress {
    #[serde(deserialize_with = "nullable")]
    ip: String,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    hostname: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_ref: Option<WireTarget>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct WireTarget {
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    kind: String,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    namespace: String,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    uid: String,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    api_version: String,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    field_path: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct WirePort {
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    name: String,
    port: i32,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    protocol: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    app_protocol: Option<String>,
}

impl WireEndpoints {
    /// Turns it into the model.
    pub fn into_model(self, interner: &mut Interner) -> EndpointsObject {
        let Self { metadata, subsets } = self;
        let meta::Identity { key, uid, revision } = meta::identity(&metadata, interner);
        let owners = metadata.owner_references.unwrap_or_default();
        EndpointsObject {
            key,
            uid,
            revision,
            labels: meta::pairs(metadata.labels, interner),
            annotations: meta::pairs(metadata.annotations, interner),
            finalizers: metadata
                .finalizers
                .unwrap_or_default()
                .into_iter()
                .map(Into::into)
                .collect(),
            owner_references: owners
                .into_iter()
                .map(|owner| OwnerReference {
                    api_version: owner.api_version.into(),
                    kind: owner.kind.into(),
                    name: owner.name.into(),
                    uid: owner.uid.into(),
                    controller: owner.controller,
                    block_owner_deletion: owner.block_owner_deletion,
                })
                .collect(),
            subsets: subsets
                .into_iter()
                .map(|subset| read_subset(subset, interner))
                .collect(),
        }
    }
}

fn read_subset(subset: WireSubset, interner: &mut Interner) -> Subset {
    Subset {
        addresses: subset
            .addresses
            .into_iter()
            .map(|address| read_address(address, interner))
            .collect(),
        not_ready_addresses: subset
            .not_ready_addresses
            .into_iter()
            .map(|address| read_address(address, interner))
            .collect(),
        ports: subset
            .ports
            .into_iter()
            .map(|port| EndpointPort {
                name: interner.get(&port.name),
                port: port.port,
                protocol: Protocol::parse(&port.protocol),
                app_protocol: port.app_protocol.map(|text| interner.get(&text)),
            })
            .collect(),
    }
}

fn read_address(address: WireAddress, interner: &mut Interner) -> Address {
    Address {
        ip: address.ip.into(),
        hostname: Some(address.hostname).filter(|text| !text.is_empty()).map(Into::into),
        node_name: address.node_name.map(|name| interner.get(&name)),
        target: address.target_ref.map(|target| {
            Box::new(TargetRef {
                kind: interner.get(&target.kind),
                namespace: interner.get(&target.namespace),
                name: interner.get(&target.name),
                uid: Uid::parse(&target.uid),
                api_version: target.api_version.into(),
                field_path: target.field_path.into(),
            })
        }),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outgoing<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: OutgoingMeta<'a>,
    subsets: Vec<WireSubset>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutgoingMeta<'a> {
    name: &'a str,
    namespace: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
    #[serde(skip_serializing_if = "Labels::is_empty")]
    labels: &'a Labels,
    #[serde(skip_serializing_if = "Labels::is_empty")]
    annotations: &'a Labels,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    finalizers: &'a [Box<str>],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    owner_references: Vec<WireOwner<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireOwner<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
    uid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    controller: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_owner_deletion: Option<bool>,
}

/// The body of a POST (`over` = `None`) or of a PUT over the stored object of that uid and revision.
pub fn write_endpoints(object: &EndpointsObject, over: Option<(&Uid, Revision)>) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Outgoing {
        api_version: "v1",
        kind: "Endpoints",
        metadata: OutgoingMeta {
            name: &object.key.name,
            namespace: &object.key.namespace,
            uid: over.map(|(uid, _)| uid.to_string()),
            resource_version: over.map(|(_, revision)| revision.0.to_string()),
            labels: &object.labels,
            annotations: &object.annotations,
            finalizers: &object.finalizers,
            owner_references: object
                .owner_references
                .iter()
                .map(|owner| WireOwner {
                    api_version: &owner.api_version,
                    kind: &owner.kind,
                    name: &owner.name,
                    uid: &owner.uid,
                    controller: owner.controller,
                    block_owner_deletion: owner.block_owner_deletion,
                })
                .collect(),
        },
        subsets: object.subsets.iter().map(write_subset).collect(),
    })
}

fn write_subset(subset: &Subset) -> WireSubset {
    WireSubset {
        addresses: subset.addresses.iter().map(write_address).collect(),
        not_ready_addresses: subset.not_ready_addresses.iter().map(write_address).collect(),
        ports: subset
            .ports
            .iter()
            .map(|port| WirePort {
                name: port.name.to_string(),
                port: port.port,
                protocol: port.protocol.as_str().to_owned(),
                app_protocol: port.app_protocol.as_deref().map(str::to_owned),
            })
            .collect(),
    }
}

fn write_address(address: &Address) -> WireAddress {
    WireAddress {
        ip: address.ip.to_string(),
        hostname: address.hostname.as_deref().unwrap_or_default().to_owned(),
        node_name: address.node_name.as_deref().map(str::to_owned),
        target_ref: address.target.as_deref().map(|target| WireTarget {
            kind: target.kind.to_string(),
            namespace: target.namespace.to_string(),
            name: target.name.to_string(),
            uid: target.uid.to_string(),
            api_version: target.api_version.to_string(),
            field_path: target.field_path.to_string(),
        }),
    }
}
