//! Slices in the words of both sides. Their names, and which endpoint stands in which of them, are each side's own.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointHints, EndpointPort, EndpointSlice};
use serde::Serialize;

use super::super::ops::{Key, Labels};
use super::{Words, port_words};

/// Label that names a slice's Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Who writes a slice.
pub const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// In the words for an owner that is not there.
pub const GONE: &str = " (gone)";

/// Which of our controllers writes slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Manager {
    /// From a selector.
    Selector,
    /// From Endpoints.
    Mirroring,
}

impl Manager {
    /// The value of the label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Selector => "endpointslice-controller.k8s.io",
            Self::Mirroring => "endpointslicemirroring-controller.k8s.io",
        }
    }

    /// Who has written this slice; `None`: somebody else.
    pub fn of(slice: &EndpointSlice) -> Option<Self> {
        let label = slice.metadata.labels.as_ref()?.get(SLICE_MANAGED_BY)?;
        [Self::Selector, Self::Mirroring]
            .into_iter()
            .find(|manager| manager.as_str() == label)
    }
}

/// The slices of one controller for one Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owned {
    /// The Service.
    pub key: Key,
    /// The controller.
    pub manager: Manager,
}

/// One endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Listed {
    /// As stored.
    pub addresses: Vec<String>,
    /// As in [`super::Address`].
    pub target: String,
    /// As stored.
    pub hostname: Option<String>,
    /// As stored.
    pub node: Option<String>,
    /// As stored.
    pub zone: Option<String>,
    /// Ready.
    pub ready: Option<bool>,
    /// Serving.
    pub serving: Option<bool>,
    /// Terminating.
    pub terminating: Option<bool>,
    /// Zones that it is meant for.
    pub for_zones: Vec<String>,
    /// Nodes that it is meant for.
    pub for_nodes: Vec<String>,
}

/// All slices of one family with the same ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Labels of the slices: one entry, if all have the same.
    pub labels: BTreeSet<Labels>,
    /// Annotations but for the trigger time, in the same way.
    pub annotations: BTreeSet<Labels>,
    /// Who owns them, in the same way.
    pub owners: BTreeSet<String>,
    /// The endpoints of all of them, sorted.
    pub endpoints: Vec<Listed>,
}

/// What the slices of one controller for one Service say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SlicesContent {
    /// By family and ports.
    pub groups: BTreeMap<String, Group>,
}

impl SlicesContent {
    /// All endpoints.
    pub fn endpoints(&self) -> impl Iterator<Item = &Listed> {
        self.groups.values().flat_map(|group| &group.endpoints)
    }

    /// All endpoints of one family.
    pub fn of_family<'a>(&'a self, family: &'a str) -> impl Iterator<Item = &'a Listed> {
        let of_family = self.groups.iter().filter(move |(name, _)| is_of_family(name, family));
        of_family.flat_map(|(_, group)| &group.endpoints)
    }
}

/// Whether a group's slices are of this family.
pub fn is_of_family(group: &str, family: &str) -> bool {
    group.split(' ').next() == Some(family)
}

/// The slices of one controller for one Service.
#[derive(Clone, Debug, Default)]
pub struct Sliced {
    /// Their resourceVersions by name.
    pub versions: BTreeMap<String, String>,
    /// Their trigger times by name; `service created` for the time of that.
    pub triggers: BTreeMap<String, Option<String>>,
    /// How many endpoints the slices of each group have.
    pub sizes: BTreeMap<String, Vec<usize>>,
    /// What they say.
    pub content: SlicesContent,
}

impl Sliced {
    /// What no slices of a controller may be, whatever the other side says. At most `limit` endpoints may be in one.
    pub fn fault(&self, limit: usize) -> Option<&'static str> {
        let of_groups = self.sizes.values().find_map(|sizes| {
            if sizes.iter().any(|size| *size > limit) {
                Some("svcplane's: a slice is over the limit")
            } else if sizes.len() > sizes.iter().sum::<usize>().max(1) {
                Some("svcplane's: there are more slices than endpoints")
            } else {
                None
            }
        });
        let owners = self.content.groups.values().flat_map(|group| &group.owners);
        let earlier = owners.into_iter().any(|owner| owner.contains(GONE));
        let earlier = earlier.then_some("svcplane's: a slice of an earlier owner is there");
        let of_families = ["IPv4", "IPv6"]
            .into_iter()
            .find_map(|family| self.fault_of_family(family));
        of_groups.or(earlier).or(of_families)
    }

    fn fault_of_family(&self, family: &str) -> Option<&'static str> {
        let mut listed = BTreeSet::new();
        // A mirrored address may stand with several ports, each in a slice of its own; what is mirrored never says "serving".
        let mut pods = self.content.of_family(family).filter(|it| it.serving.is_some());
        if pods.any(|it| !listed.insert((&it.addresses, &it.target, &it.hostname))) {
            return Some("svcplane's: an endpoint is listed twice");
        }
        let of_family = self.sizes.iter().filter(|(name, _)| is_of_family(name, family));
        let sizes: Vec<usize> = of_family.flat_map(|(_, sizes)| sizes.iter().copied()).collect();
        (sizes.len() > 1 && sizes.iter().all(|size| *size == 0))
            .then_some("svcplane's: more than one slice says that nothing is listed")
    }
}

impl Words<'_> {
    /// Adds a slice to those of its controller and Service.
    pub fn add_slice(&self, service: &Key, slice: EndpointSlice, to: &mut Sliced) {
        let mut annotations = slice.metadata.annotations.unwrap_or_default();
        let trigger = self.trigger(service, &mut annotations);
        let name = slice.metadata.name.unwrap_or_default();
        let mut ports: Vec<String> = slice.ports.iter().flatten().map(port).collect();
        ports.sort();
        let words = format!("{} {}", slice.address_type, ports.join(" "));
        let listed: Vec<Listed> = slice
            .endpoints
            .iter()
            .flatten()
            .map(|endpoint| self.listed(endpoint))
            .collect();
        to.sizes.entry(words.clone()).or_default().push(listed.len());
        let group = to.content.groups.entry(words).or_default();
        group.endpoints.extend(listed);
        group.endpoints.sort();
        group.labels.insert(slice.metadata.labels.unwrap_or_default());
        group.annotations.insert(annotations);
        let owners = slice.metadata.owner_references.unwrap_or_default();
        let owners: Vec<String> = owners
            .iter()
            .map(|owner| {
                let gone = if self.owners.contains(&owner.uid) { "" } else { GONE };
                format!(
                    "{} {} {} controller {:?} block {:?}{gone}",
                    owner.api_version, owner.kind, owner.name, owner.controller, owner.block_owner_deletion
                )
            })
            .collect();
        group.owners.insert(owners.join(", "));
        to.triggers.insert(name.clone(), trigger);
        to.versions
            .insert(name, slice.metadata.resource_version.unwrap_or_default());
    }

    fn listed(&self, endpoint: &Endpoint) -> Listed {
        let conditions = endpoint.conditions.clone().unwrap_or_default();
        let (for_zones, for_nodes) = endpoint.hints.as_ref().map(hints).unwrap_or_default();
        Listed {
            addresses: endpoint.addresses.clone(),
            target: self.target(endpoint.target_ref.as_ref()),
            hostname: endpoint.hostname.clone(),
            node: endpoint.node_name.clone(),
            zone: endpoint.zone.clone(),
            ready: conditions.ready,
            serving: conditions.serving,
            terminating: conditions.terminating,
            for_zones,
            for_nodes,
        }
    }
}

fn hints(hints: &EndpointHints) -> (Vec<String>, Vec<String>) {
    let zones = hints.for_zones.iter().flatten().map(|zone| zone.name.clone());
    let nodes = hints.for_nodes.iter().flatten().map(|node| node.name.clone());
    (zones.collect(), nodes.collect())
}

/// As in Endpoints; an absent name and an absent number are told apart.
fn port(port: &EndpointPort) -> String {
    let number = port.port.map_or_else(|| "all".into(), |number| number.to_string());
    let name = port.name.as_deref().unwrap_or("(none)");
    port_words(name, &number, port.protocol.as_deref(), port.app_protocol.as_deref())
}

#[cfg(test)]
mod tests;
