//! Endpoints as they are written.

use std::io::{self, Write};

use serde::Serialize;

use super::{Kept, OutgoingMeta, OutgoingTarget};
use crate::model::{Address, EndpointPort, EndpointsObject, Revision, Subset, Uid};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outgoing<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: OutgoingMeta<'a>,
    subsets: Vec<OutgoingSubset<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutgoingSubset<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    addresses: Vec<OutgoingAddress<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_ready_addresses: Vec<OutgoingAddress<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ports: Vec<OutgoingPort<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutgoingAddress<'a> {
    ip: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hostname: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_ref: Option<OutgoingTarget<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutgoingPort<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    port: i32,
    protocol: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    app_protocol: Option<&'a str>,
}

impl<'a> OutgoingSubset<'a> {
    fn of(subset: &'a Subset) -> Self {
        Self {
            addresses: subset.addresses.iter().map(OutgoingAddress::of).collect(),
            not_ready_addresses: subset.not_ready_addresses.iter().map(OutgoingAddress::of).collect(),
            ports: subset.ports.iter().map(OutgoingPort::of).collect(),
        }
    }
}

impl<'a> OutgoingAddress<'a> {
    fn of(address: &'a Address) -> Self {
        Self {
            ip: &address.ip,
            hostname: address.hostname.as_deref(),
            node_name: address.node_name.as_deref(),
            target_ref: address.target.as_deref().map(OutgoingTarget::of),
        }
    }
}

impl<'a> OutgoingPort<'a> {
    fn of(port: &'a EndpointPort) -> Self {
        Self {
            name: &port.name,
            port: port.port,
            protocol: port.protocol.as_str(),
            app_protocol: port.app_protocol.as_deref(),
        }
    }
}

/// Whether `text` is `subsets` exactly as we write them. The apiserver writes the same fields in the same order, but may have put the ports
/// into another.
pub fn is_subsets_text(text: &str, subsets: &[Subset]) -> bool {
    let subsets: Vec<_> = subsets.iter().map(OutgoingSubset::of).collect();
    let mut rest = Rest(text.as_bytes());
    serde_json::to_writer(&mut rest, &subsets).is_ok() && rest.0.is_empty()
}

/// What is left of a text to be compared with what is written.
struct Rest<'a>(&'a [u8]);

impl Write for Rest<'_> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.0 = self.0.strip_prefix(piece).ok_or(io::ErrorKind::InvalidData)?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The body of a POST (`over` = `None`) or of a PUT over the stored object of that uid and revision.
pub fn write_endpoints(object: &EndpointsObject, over: Option<(&Uid, Revision)>) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Outgoing {
        api_version: "v1",
        kind: "Endpoints",
        metadata: OutgoingMeta::new(
            &object.key,
            over,
            Kept {
                generate_name: object.generate_name.as_deref(),
                labels: &object.labels,
                annotations: &object.annotations,
                finalizers: &object.finalizers,
                owner_references: &object.owner_references,
            },
        ),
        subsets: object.subsets.iter().map(OutgoingSubset::of).collect(),
    })
}
