//! What one side has stored, in words that are the same on both: namespaces by number, Pods by name and incarnation,
//! a Service's creation as such.

mod slices;

use std::collections::{BTreeMap, HashMap, HashSet};

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;

pub use self::slices::{
    GONE, Group, Listed, Manager, Owned, SERVICE_NAME, SLICE_MANAGED_BY, Sliced, SlicesContent, is_of_family,
};
use super::ops::{Key, Labels};

/// When the change happened that the last write publishes.
pub const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// On an object that lists only some of the addresses.
pub const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// On Endpoints of a Service without an address.
pub const HEADLESS: &str = "service.kubernetes.io/headless";
/// Who writes an Endpoints object.
pub const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";

/// One address, in the words of both sides.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Address {
    /// As stored.
    pub ip: String,
    /// Such as `Pod 0/p1#2`.
    pub target: String,
    /// As stored.
    pub hostname: Option<String>,
    /// As stored: none and an empty one are told apart.
    pub node: Option<String>,
}

/// One subset.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Subset {
    /// `name:number/protocol=appProtocol`, sorted.
    pub ports: Vec<String>,
    /// In the stored order, but for those with the same IP.
    pub ready: Vec<Address>,
    /// The same.
    pub not_ready: Vec<Address>,
}

/// What an Endpoints object says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Content {
    /// Its labels.
    pub labels: Labels,
    /// Its annotations but for the trigger time.
    pub annotations: Labels,
    /// The trigger time; `service created` for the time of that.
    pub trigger: Option<String>,
    /// Its subsets, sorted: their stored order is anybody's guess.
    pub subsets: Vec<Subset>,
}

impl Content {
    /// Whether all but the trigger time is the same.
    pub fn says_the_same(&self, other: &Self) -> bool {
        self.labels == other.labels && self.annotations == other.annotations && self.subsets == other.subsets
    }

    /// Addresses, each as often as it is listed.
    pub fn size(&self) -> usize {
        self.subsets
            .iter()
            .map(|subset| subset.ready.len() + subset.not_ready.len())
            .sum()
    }
}

/// One Endpoints object.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Moves with every write that changes it.
    pub version: String,
    /// What it says.
    pub content: Content,
    /// What is wrong with it by itself, whatever the other side says.
    pub fault: Option<String>,
}

/// All Endpoints and slices of one side.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Endpoints by name.
    pub endpoints: BTreeMap<Key, Seen>,
    /// Slices by their Service and controller.
    pub slices: BTreeMap<Owned, Sliced>,
    /// Slices that are left to the garbage collector: their owner is gone, and their Service.
    pub garbage: Vec<Key>,
    /// What has happened to slices that no controller of ours writes.
    pub trespasses: Vec<(Key, String)>,
}

impl Snapshot {
    /// How many slices there are.
    pub fn slice_count(&self) -> usize {
        self.slices.values().map(|sliced| sliced.versions.len()).sum()
    }
}

/// What is needed to say it in the words of both sides.
pub struct Words<'a> {
    /// Numbers of namespaces.
    pub spaces: &'a HashMap<String, usize>,
    /// Pods by UID.
    pub pods: &'a HashMap<String, String>,
    /// When each Service was created.
    pub created: &'a HashMap<Key, Time>,
    /// UIDs of Services and Endpoints that are there.
    pub owners: &'a HashSet<String>,
}

impl Words<'_> {
    /// Translates.
    pub fn seen(&self, key: &Key, object: Endpoints) -> Seen {
        let labels = object.metadata.labels.unwrap_or_default();
        let mut annotations = object.metadata.annotations.unwrap_or_default();
        let trigger = self.trigger(key, &mut annotations);
        let stored = object.subsets.unwrap_or_default();
        let mut subsets: Vec<Subset> = stored.iter().map(|subset| self.subset(subset)).collect();
        let fault = labels.contains_key(MANAGED_BY).then(|| fault_of(&subsets)).flatten();
        subsets.sort();
        Seen {
            version: object.metadata.resource_version.unwrap_or_default(),
            content: Content {
                labels,
                annotations,
                trigger,
                subsets,
            },
            fault,
        }
    }

    /// Takes the trigger time out of the annotations.
    fn trigger(&self, service: &Key, annotations: &mut Labels) -> Option<String> {
        let time = annotations.remove(TRIGGER_TIME)?;
        Some(match self.created.get(service) {
            Some(created) if created.0.to_string() == time => "service created".into(),
            _ => time,
        })
    }

    fn subset(&self, subset: &EndpointSubset) -> Subset {
        let mut ports: Vec<String> = subset.ports.iter().flatten().map(port).collect();
        ports.sort();
        Subset {
            ports,
            ready: self.addresses(subset.addresses.as_deref()),
            not_ready: self.addresses(subset.not_ready_addresses.as_deref()),
        }
    }

    fn addresses(&self, stored: Option<&[EndpointAddress]>) -> Vec<Address> {
        let mut addresses: Vec<Address> = stored
            .unwrap_or_default()
            .iter()
            .map(|address| self.address(address))
            .collect();
        // Ties are ordered by UID, which no two servers give alike.
        for same in addresses.chunk_by_mut(|a, b| a.ip == b.ip) {
            same.sort();
        }
        addresses
    }

    fn address(&self, address: &EndpointAddress) -> Address {
        Address {
            ip: address.ip.clone(),
            target: self.target(address.target_ref.as_ref()),
            hostname: address.hostname.clone(),
            node: address.node_name.clone(),
        }
    }

    fn target(&self, target: Option<&ObjectReference>) -> String {
        let Some(target) = target else { return String::new() };
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let uid = text(&target.uid);
        let space = self.spaces.get(&text(&target.namespace));
        let mut words = format!(
            "{} {}/{} {}",
            text(&target.kind),
            space.map_or_else(|| text(&target.namespace), ToString::to_string),
            text(&target.name),
            self.pods.get(&uid).unwrap_or(&uid),
        );
        for further in [&target.api_version, &target.resource_version, &target.field_path] {
            words += &further
                .as_ref()
                .map(|further| format!(" {further}"))
                .unwrap_or_default();
        }
        words
    }
}

fn port(port: &EndpointPort) -> String {
    let name = port.name.as_deref().unwrap_or_default();
    port_words(
        name,
        &port.port.to_string(),
        port.protocol.as_deref(),
        port.app_protocol.as_deref(),
    )
}

fn port_words(name: &str, number: &str, protocol: Option<&str>, app_protocol: Option<&str>) -> String {
    let app_protocol = app_protocol.map(|app| format!("={app}")).unwrap_or_default();
    format!("{name}:{number}/{}{app_protocol}", protocol.unwrap_or_default())
}

/// What no Endpoints of a controller may be: two entries for one address of a port, or addresses out of order.
fn fault_of(subsets: &[Subset]) -> Option<String> {
    let mut listed = std::collections::BTreeSet::new();
    for subset in subsets {
        for addresses in [&subset.ready, &subset.not_ready] {
            if !addresses.is_sorted_by(|a, b| a.ip <= b.ip) {
                return Some("addresses out of order".into());
            }
        }
        for address in subset.ready.iter().chain(&subset.not_ready) {
            for port in subset
                .ports
                .iter()
                .map(String::as_str)
                .chain(subset.ports.is_empty().then_some(""))
            {
                if !listed.insert((&address.ip, &address.target, port)) {
                    return Some(format!(
                        "{} {} is listed twice for port {port:?}",
                        address.ip, address.target
                    ));
                }
            }
        }
    }
    None
}
