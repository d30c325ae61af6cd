//! Endpoints as they come over the watch.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as api;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::outgoing::is_subsets_text;
use super::{WireTarget, meta, nullable};
use crate::model::{
    Address, EndpointPort, EndpointsObject, Interner, Labels, ObjectKey, Protocol, Revision, Subset, Uid, fitted,
};

/// An Endpoints object. The API type is frozen (KEP-4974), so these are all its fields.
///
/// Its subsets are still text: most objects come as the echo of a write of ours, and to compare texts costs a fourth of reading them.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = api::Endpoints)]
pub struct WireEndpoints {
    #[serde(deserialize_with = "meta::whole")]
    metadata: ObjectMeta,
    #[serde(default)]
    subsets: Option<Box<RawValue>>,
}

/// An Endpoints object, read to the end.
#[derive(Clone, Debug)]
pub struct ParsedEndpoints {
    metadata: ObjectMeta,
    subsets: Vec<WireSubset>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireSubset {
    #[serde(deserialize_with = "nullable")]
    addresses: Vec<WireAddress>,
    #[serde(deserialize_with = "nullable")]
    not_ready_addresses: Vec<WireAddress>,
    #[serde(deserialize_with = "nullable")]
    ports: Vec<WirePort>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireAddress {
    #[serde(deserialize_with = "nullable")]
    ip: String,
    #[serde(deserialize_with = "nullable")]
    hostname: String,
    node_name: Option<String>,
    target_ref: Option<WireTarget>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WirePort {
    #[serde(deserialize_with = "nullable")]
    name: String,
    port: i32,
    #[serde(deserialize_with = "nullable")]
    protocol: String,
    app_protocol: Option<String>,
}

impl WireEndpoints {
    /// Namespace and name.
    pub fn key(&self) -> ObjectKey {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        ObjectKey::new(text(&self.metadata.namespace), text(&self.metadata.name))
    }

    /// Uid and resourceVersion.
    pub fn version(&self) -> (Uid, Revision) {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        (
            Uid::parse(&text(&self.metadata.uid)),
            Revision::parse(&text(&self.metadata.resource_version)),
        )
    }

    /// Whether it is `known`, word for word as we write it. If not, it may still say the same: see [`ParsedEndpoints::says`].
    pub fn repeats(&self, known: &EndpointsObject) -> bool {
        let text = self.subsets.as_ref().map_or("[]", |subsets| subsets.get());
        same_meta(&self.metadata, known) && is_subsets_text(text, &known.subsets)
    }

    /// Reads the subsets.
    ///
    /// # Errors
    ///
    /// They are not subsets, which no apiserver sends.
    pub fn parse(self) -> serde_json::Result<ParsedEndpoints> {
        let subsets = self.subsets.map(|text| serde_json::from_str(text.get())).transpose()?;
        Ok(ParsedEndpoints {
            metadata: self.metadata,
            subsets: subsets.unwrap_or_default(),
        })
    }
}

impl ParsedEndpoints {
    /// Whether it has the same content as `known`, in whatever order of ports: the apiserver has one of its own.
    pub fn says(&self, known: &EndpointsObject) -> bool {
        same_meta(&self.metadata, known) && all_say(&self.subsets, &known.subsets, same_subset)
    }

    /// Turns it into the model.
    pub fn into_model(self, interner: &mut Interner) -> EndpointsObject {
        let Self { metadata, subsets } = self;
        let meta::Identity { key, uid, revision } = meta::identity(&metadata, interner);
        let terminating = metadata.deletion_timestamp.is_some();
        let kept = meta::kept(metadata, interner);
        EndpointsObject {
            key,
            uid,
            revision,
            terminating,
            generate_name: kept.generate_name,
            labels: kept.labels,
            annotations: kept.annotations,
            finalizers: kept.finalizers,
            owner_references: kept.owner_references,
            subsets: fitted(subsets.into_iter().map(|subset| read_subset(subset, interner))),
        }
    }
}

fn same_meta(wire: &ObjectMeta, known: &EndpointsObject) -> bool {
    let finalizers = wire.finalizers.iter().flatten().map(String::as_str);
    let owners = wire.owner_references.iter().flatten().cloned();
    wire.generate_name.as_deref() == known.generate_name.as_deref()
        && same_pairs(wire.labels.as_ref(), &known.labels)
        && same_pairs(wire.annotations.as_ref(), &known.annotations)
        && finalizers.eq(known.finalizers.iter().map(|it| &**it))
        && owners.map(meta::owner).eq(known.owner_references.iter().cloned())
}

fn all_say<W, M>(wire: &[W], known: &[M], same: impl Fn(&W, &M) -> bool) -> bool {
    wire.len() == known.len() && wire.iter().zip(known).all(|(wire, known)| same(wire, known))
}

fn same_pairs(wire: Option<&BTreeMap<String, String>>, known: &Labels) -> bool {
    let wire = wire.into_iter().flatten().map(|(key, value)| (&**key, &**value));
    wire.eq(known.iter().map(|(key, value)| (&**key, &**value)))
}

fn same_subset(wire: &WireSubset, known: &Subset) -> bool {
    let mut ports: Vec<(&WirePort, &str)> = wire.ports.iter().map(|port| (port, &*port.name)).collect();
    let mut known_ports: Vec<&EndpointPort> = known.ports.iter().collect();
    // By the name, which no other port of a Service has; where it is not so, the order counts.
    ports.sort_by_key(|(_, name)| *name);
    known_ports.sort_by_key(|port| &*port.name);
    all_say(&ports, &known_ports, |(wire, name), known| {
        *name == &*known.name
            && wire.port == known.port
            && Protocol::parse(&wire.protocol) == known.protocol
            && wire.app_protocol.as_deref() == known.app_protocol.as_deref()
    }) && all_say(&wire.addresses, &known.addresses, same_address)
        && all_say(&wire.not_ready_addresses, &known.not_ready_addresses, same_address)
}

fn same_address(wire: &WireAddress, known: &Address) -> bool {
    wire.ip == *known.ip
        && *wire.hostname == *known.hostname.as_deref().unwrap_or_default()
        && wire.node_name.as_deref() == known.node_name.as_deref()
        && match (&wire.target_ref, &known.target) {
            (None, None) => true,
            (Some(wire), Some(known)) => {
                wire.uid == known.uid
                    && wire.name == *known.name
                    && wire.namespace == *known.namespace
                    && wire.kind == *known.kind
                    && wire.api_version == known.api_version()
                    && wire.field_path == known.field_path()
            }
            _ => false,
        }
}

fn read_subset(subset: WireSubset, interner: &mut Interner) -> Subset {
    let mut read = |all: Vec<WireAddress>| fitted(all.into_iter().map(|address| read_address(address, interner)));
    let (addresses, not_ready_addresses) = (read(subset.addresses), read(subset.not_ready_addresses));
    let ports = subset.ports.into_iter().map(|port| EndpointPort {
        name: interner.get(&port.name),
        port: port.port,
        protocol: Protocol::parse(&port.protocol),
        app_protocol: port.app_protocol.map(|text| interner.get(&text)),
    });
    Subset {
        addresses,
        not_ready_addresses,
        ports: fitted(ports),
    }
}

fn read_address(address: WireAddress, interner: &mut Interner) -> Address {
    Address {
        ip: address.ip.into(),
        hostname: Some(address.hostname).filter(|text| !text.is_empty()).map(Into::into),
        node_name: address.node_name.map(|name| interner.get(&name)),
        target: address.target_ref.map(|target| Box::new(target.into_model(interner))),
    }
}
