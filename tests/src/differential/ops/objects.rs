//! Objects as operations write them: what of them matters to Endpoints.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The annotation that makes Endpoints without a Service a leader lock.
pub const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// The label of Endpoints that are not to be mirrored.
pub const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";

/// Labels, annotations or a selector.
pub type Labels = BTreeMap<String, String>;

/// `spec.type`, and whether `clusterIP` is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceKind {
    /// ClusterIP.
    Cluster,
    /// NodePort.
    NodePort,
    /// ClusterIP without an address.
    Headless,
    /// ExternalName.
    ExternalName,
}

/// `ipFamilies`, the first one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Families {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// Both.
    V4V6,
    /// Both.
    V6V4,
}

/// Where a Service's port leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Target {
    /// A number.
    Number(u16),
    /// The name of a container's port.
    Name(String),
}

/// One port of a Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// Empty for none.
    pub name: String,
    /// `port`.
    pub port: u16,
    /// `targetPort`.
    pub target: Target,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// `appProtocol`.
    pub app_protocol: Option<String>,
}

/// A Service as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Its type.
    pub kind: ServiceKind,
    /// Its families; of no meaning for ExternalName.
    pub families: Families,
    /// Its selector.
    pub selector: Option<Labels>,
    /// Its ports.
    pub ports: Vec<Port>,
    /// `publishNotReadyAddresses`.
    pub publish_not_ready: bool,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: Labels,
    /// `trafficDistribution`.
    #[serde(default)]
    pub distribution: Option<String>,
}

/// Both spellings of the annotation that asks for hints in proportion to CPUs; the first one wins.
pub const TOPOLOGY: [&str; 2] = [
    "service.kubernetes.io/topology-aware-hints",
    "service.kubernetes.io/topology-mode",
];

impl Service {
    /// Whether it asks for hints in proportion to the CPUs of the zones.
    pub fn is_auto(&self) -> bool {
        let asked = TOPOLOGY.iter().find_map(|name| self.annotations.get(*name));
        asked.is_some_and(|asked| asked == "Auto" || asked == "auto")
    }

    /// Whether an Endpoints controller has anything to do for it.
    pub fn is_live(&self) -> bool {
        self.selector.is_some() && self.kind != ServiceKind::ExternalName
    }

    /// Whether a Pod with this status that its selector matches stands in its Endpoints, in another way when it becomes ready.
    pub fn lists(&self, pod: &Pod, status: &Status) -> bool {
        let v6 = matches!(self.families, Families::V6 | Families::V6V4);
        let resolves = |port: &Port| match &port.target {
            Target::Number(_) => true,
            Target::Name(name) => pod
                .ports
                .iter()
                .any(|it| it.container != Container::Init && it.name == *name && it.protocol == port.protocol),
        };
        !self.publish_not_ready
            && !status.is_finished()
            && status.ips.iter().any(|ip| ip.contains(':') == v6)
            && (self.ports.is_empty() || self.ports.iter().any(resolves))
    }
}

/// What kind of container a port belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Container {
    /// An ordinary one.
    Main,
    /// An init container that is restarted for ever.
    Sidecar,
    /// An init container that ends.
    Init,
}

/// One port of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerPort {
    /// Whose.
    pub container: Container,
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
}

/// What of a Pod is written at its creation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    /// Its labels.
    pub labels: Labels,
    /// `nodeName`.
    pub node: Option<String>,
    /// `hostname`.
    pub hostname: Option<String>,
    /// `subdomain`.
    pub subdomain: Option<String>,
    /// Ports of its containers.
    pub ports: Vec<ContainerPort>,
}

/// A Pod's status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// `phase`.
    pub phase: String,
    /// `podIPs`.
    pub ips: Vec<String>,
    /// The Ready condition, if there is one.
    pub ready: Option<bool>,
    /// `lastTransitionTime` of it, in seconds of the stream's own clock: the same on both sides, and never a time at
    /// which a server created something.
    pub since: u64,
}

impl Status {
    /// `Failed` or `Succeeded`.
    pub fn is_finished(&self) -> bool {
        matches!(self.phase.as_str(), "Failed" | "Succeeded")
    }
}

/// Endpoints as a person writes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandMade {
    /// Their labels.
    pub labels: Labels,
    /// Their annotations.
    pub annotations: Labels,
    /// Their subsets.
    pub subsets: Vec<HandMadeSubset>,
}

impl HandMade {
    /// Whether nothing in their metadata keeps them from being mirrored.
    pub fn is_mirrorable(&self) -> bool {
        let skips = self.labels.get(SKIP_MIRROR).is_some_and(|skips| skips == "true");
        !skips && !self.annotations.contains_key(LEADER)
    }

    /// Whether there are IPv4 addresses, and whether there are IPv6 addresses.
    pub fn families(&self) -> [bool; 2] {
        let has = |v6: bool| {
            let mut all = self.subsets.iter().flat_map(HandMadeSubset::addresses);
            all.any(|address| address.ip.contains(':') == v6)
        };
        [has(false), has(true)]
    }

    /// Whether one port name stands twice among the ports of the addresses of this subset, in whichever subsets they are
    /// listed: the apiserver takes these Endpoints, and refuses the slice that mirrors them.
    pub fn is_doubled(&self, subset: &HandMadeSubset) -> bool {
        let ips = |addresses: &[HandMadeAddress]| addresses.iter().map(|it| it.ip.clone()).collect::<BTreeSet<_>>();
        let listing = |subset: &HandMadeSubset| (ips(&subset.ready), ips(&subset.not_ready));
        let alike = self.subsets.iter().filter(|other| listing(other) == listing(subset));
        let mut ports: Vec<&HandMadePort> = Vec::new();
        for port in alike.flat_map(|other| &other.ports) {
            if !ports.contains(&port) {
                ports.push(port);
            }
        }
        let names: BTreeSet<&String> = ports.iter().map(|port| &port.name).collect();
        names.len() < ports.len()
    }
}

/// One subset of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandMadeSubset {
    /// Its ready addresses.
    pub ready: Vec<HandMadeAddress>,
    /// Its other addresses.
    pub not_ready: Vec<HandMadeAddress>,
    /// Its ports.
    pub ports: Vec<HandMadePort>,
}

impl HandMadeSubset {
    /// All its addresses.
    pub fn addresses(&self) -> impl Iterator<Item = &HandMadeAddress> {
        self.ready.iter().chain(&self.not_ready)
    }
}

/// One address of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandMadeAddress {
    /// The address.
    pub ip: String,
    /// `hostname`.
    pub hostname: Option<String>,
    /// `nodeName`.
    pub node: Option<String>,
    /// The name of the Pod that `targetRef` means.
    pub target: Option<String>,
}

/// One port of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandMadePort {
    /// Empty for none.
    pub name: String,
    /// Its number.
    pub number: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// `appProtocol`.
    pub app_protocol: Option<String>,
}

/// What of a Node matters to slices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its zone.
    pub zone: Option<String>,
    /// Its allocatable CPUs.
    pub cpus: u32,
    /// Its Ready condition.
    pub ready: bool,
    /// Whether it is labelled as one of the control plane, whose CPUs do not count.
    pub control_plane: bool,
}
