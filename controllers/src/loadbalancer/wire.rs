//! A Service of type LoadBalancer as it comes over the watch, and as a PATCH answers it.

mod node;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as api;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, Time};
use kube::Resource;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use svcplane_allocators::balancers::{
    Ask, Facts, IpMode, Policy, Products, Share, Terms, Traffic, Wrong, is_request, read_request,
};
use svcplane_allocators::cluster_ips::IpFamily;
use svcplane_allocators::few::Few;
use svcplane_allocators::node_ports::Protocol;
use svcplane_allocators::service::{Owner, ServiceKey};

pub use self::node::NeighbourNode;
use super::condition::{CONDITION, Condition, farewell};
use crate::model::Labels;
use crate::wire::SlimMeta;

/// The fields that addresses depend on.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = api::Service)]
pub struct BalancedService {
    #[serde(deserialize_with = "slim")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Option<Spec>,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(rename = "type")]
    kind: Option<String>,
    selector: Option<BTreeMap<String, String>>,
    ip_families: Option<Vec<String>>,
    ip_family_policy: Option<String>,
    external_traffic_policy: Option<String>,
    load_balancer_class: Option<String>,
    #[serde(rename = "loadBalancerIP")]
    load_balancer_ip: Option<String>,
    ports: Option<Vec<Port>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Port {
    protocol: Option<String>,
    port: u16,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    load_balancer: Option<LoadBalancer>,
    conditions: Option<Vec<Condition>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct LoadBalancer {
    ingress: Option<Vec<Ingress>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ingress {
    ip: Option<String>,
    ip_mode: Option<String>,
}

/// What the status lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Each address, and how it is treated.
    pub addresses: Few<(IpAddr, IpMode)>,
    /// There is something that is no address, such as a host name.
    pub has_others: bool,
}

impl Shown {
    /// The addresses alone.
    pub fn keys(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().map(|(address, _)| *address)
    }

    /// How this address is treated, if it is listed.
    pub fn mode(&self, address: IpAddr) -> Option<IpMode> {
        let mut listed = self.addresses.iter();
        listed.find(|(it, _)| *it == address).map(|(_, mode)| *mode)
    }

    /// It lists just these.
    pub fn is_just(&self, addresses: &[IpAddr]) -> bool {
        let wanted: Few<IpAddr> = addresses.iter().copied().collect();
        !self.has_others && self.keys().eq(wanted)
    }
}

/// A stored Service of type LoadBalancer.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its name.
    pub key: ServiceKey,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub version: u64,
    /// `spec.loadBalancerClass`; empty if it has none.
    pub class: String,
    /// `metadata.labels`.
    pub labels: Labels,
    /// What its status lists.
    pub shown: Shown,
    /// Our condition, if it has it.
    pub condition: Option<Condition>,
    /// Who has written its status last, beside us.
    pub other_writer: String,
    created: i64,
    is_leaving: bool,
    ask: Result<Ask, Wrong>,
    share: Share,
}

impl Seen {
    /// It is being deleted.
    pub fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// What the books are told, once it is known which pools are for it.
    pub fn facts(&self, admitted: Few<Arc<str>>) -> Facts {
        Facts {
            owner: Owner {
                created: self.created,
                service: self.key.clone(),
            },
            is_leaving: self.is_leaving,
            ask: self.ask.clone(),
            share: self.share.clone(),
            admitted,
        }
    }
}

impl BalancedService {
    /// `None` if it is of another type.
    pub fn read(&self, products: Products) -> Option<Seen> {
        let (metadata, spec) = (&self.metadata, self.spec.as_ref()?);
        if spec.kind.as_deref() != Some("LoadBalancer") {
            return None;
        }
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let key = ServiceKey::new(text(&metadata.namespace), text(&metadata.name));
        let annotations = metadata.annotations.clone().unwrap_or_default();
        let request = read_request(&annotations, &text(&spec.load_balancer_ip), products);
        let (ask, sharing) = match request {
            Ok(request) => {
                let ask = Ask {
                    families: spec.families(),
                    policy: spec.policy(),
                    addresses: request.addresses.clone(),
                    pools: request.pools.clone(),
                };
                (Ok(ask), request)
            }
            Err(wrong) => (Err(wrong), svcplane_allocators::balancers::Request::default()),
        };
        let traffic = if spec.external_traffic_policy.as_deref() == Some("Local") {
            Traffic::Local {
                selector: spec.selector.clone().unwrap_or_default(),
                permits_others: sharing.different_pods,
            }
        } else {
            Traffic::Cluster
        };
        let status = self.status.as_ref();
        let conditions = status
            .and_then(|status| status.conditions.as_ref())
            .into_iter()
            .flatten();
        Some(Seen {
            share: Share {
                key: sharing.key,
                ports: spec.ports(),
                terms: Arc::new(Terms {
                    namespace: Arc::clone(&key.namespace),
                    consent: sharing.consent,
                    traffic,
                }),
            },
            key,
            uid: text(&metadata.uid),
            version: version(metadata),
            class: text(&spec.load_balancer_class),
            labels: metadata
                .labels
                .iter()
                .flatten()
                .map(|(key, value)| (key.as_str().into(), value.as_str().into()))
                .collect(),
            shown: self.shown(),
            condition: conditions.into_iter().find(|it| it.kind == CONDITION).cloned(),
            other_writer: other_writer(metadata),
            created: metadata
                .creation_timestamp
                .as_ref()
                .map_or(0, |time| time.0.as_second()),
            is_leaving: metadata.deletion_timestamp.is_some(),
            ask,
        })
    }

    /// The patch that takes our condition off, if it is of another type by now and has it still.
    pub fn farewell(&self) -> Option<Value> {
        let is_ours = self.spec.as_ref()?.kind.as_deref() == Some("LoadBalancer");
        let mut conditions = self.status.as_ref()?.conditions.iter().flatten();
        let has_it = conditions.any(|it| it.kind == CONDITION);
        let uid = self.metadata.uid.as_deref().unwrap_or_default();
        (has_it && !is_ours).then(|| farewell(uid, self.version()))
    }

    /// Its name.
    pub fn key(&self) -> ServiceKey {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        ServiceKey::new(text(&self.metadata.namespace), text(&self.metadata.name))
    }

    /// Its version.
    pub fn version(&self) -> u64 {
        version(&self.metadata)
    }

    fn shown(&self) -> Shown {
        let mut shown = Shown::default();
        let ingress = self.status.iter().filter_map(|status| status.load_balancer.as_ref());
        for entry in ingress.flat_map(|it| it.ingress.iter().flatten()) {
            match entry.ip.as_deref().and_then(|ip| ip.parse().ok()) {
                Some(address) => {
                    let mode = match entry.ip_mode.as_deref() {
                        Some("Proxy") => IpMode::Proxy,
                        _ => IpMode::Vip,
                    };
                    shown.addresses.insert((address, mode));
                }
                None => shown.has_others = true,
            }
        }
        shown
    }
}

impl Spec {
    fn families(&self) -> Vec<IpFamily> {
        let families = self.ip_families.iter().flatten().map(|family| match family.as_str() {
            "IPv6" => IpFamily::IPv6,
            _ => IpFamily::IPv4,
        });
        families.collect()
    }

    fn policy(&self) -> Policy {
        match self.ip_family_policy.as_deref() {
            Some("RequireDualStack") => Policy::Require,
            Some("PreferDualStack") => Policy::Prefer,
            _ => Policy::SingleStack,
        }
    }

    fn ports(&self) -> Arc<[(Protocol, u16)]> {
        let ports = self.ports.iter().flatten().map(|port| {
            let protocol = match port.protocol.as_deref() {
                Some("UDP") => Protocol::Udp,
                Some("SCTP") => Protocol::Sctp,
                _ => Protocol::Tcp,
            };
            (protocol, port.port)
        });
        ports.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

fn version(metadata: &ObjectMeta) -> u64 {
    let text = metadata.resource_version.as_deref();
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// The manager behind the newest write of the status that is not ours; empty if there is none.
fn other_writer(metadata: &ObjectMeta) -> String {
    let entries = metadata.managed_fields.iter().flatten();
    let others = entries.filter(|entry| entry.manager.as_deref() != Some(super::FIELD_MANAGER));
    let newest = others.max_by_key(|entry| entry.time.as_ref().map(|time| time.0));
    newest.and_then(|entry| entry.manager.clone()).unwrap_or_default()
}

/// `metadata` without what is not read: of the annotations only requests, of the managers only those of the status.
fn slim<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    SlimMeta::<Requests, StatusManagers>::deserialize(deserializer).map(Into::into)
}

#[derive(Deserialize)]
struct StatusManagers(Vec<SlimManager>);

impl From<StatusManagers> for Vec<ManagedFieldsEntry> {
    fn from(StatusManagers(all): StatusManagers) -> Self {
        let of_status = all
            .into_iter()
            .filter(|entry| entry.subresource.as_deref() == Some("status"));
        of_status
            .map(|entry| ManagedFieldsEntry {
                manager: entry.manager,
                time: entry.time,
                ..ManagedFieldsEntry::default()
            })
            .collect()
    }
}

#[derive(Deserialize)]
struct SlimManager {
    manager: Option<String>,
    subresource: Option<String>,
    time: Option<Time>,
}

/// The annotations that ask for something; others can be long.
struct Requests(BTreeMap<String, String>);

impl From<Requests> for BTreeMap<String, String> {
    fn from(Requests(annotations): Requests) -> Self {
        annotations
    }
}

impl<'de> Deserialize<'de> for Requests {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Requests;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("annotations")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Requests, A::Error> {
                let mut kept = BTreeMap::new();
                while let Some(name) = map.next_key::<String>()? {
                    if is_request(&name) {
                        kept.insert(name, map.next_value()?);
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(Requests(kept))
            }
        }
        deserializer.deserialize_map(Each)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use svcplane_allocators::balancers::Reason;

    use super::*;

    fn read(spec: &serde_json::Value, status: &serde_json::Value, annotations: &serde_json::Value) -> Option<Seen> {
        let object = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7",
                "creationTimestamp": "2026-01-02T03:04:05Z", "annotations": annotations,
                "managedFields": [
                    {"manager": "kubectl", "time": "2026-01-02T03:04:07Z"},
                    {"manager": "kube-vip", "subresource": "status", "time": "2026-01-02T03:04:06Z"},
                    {"manager": "older", "subresource": "status", "time": "2026-01-02T03:04:05Z"},
                    {"manager": "svcplane", "subresource": "status", "time": "2026-01-02T03:04:08Z"}]},
            "spec": spec, "status": status});
        let service: BalancedService = serde_json::from_value(object).unwrap();
        service.read(Products::ALL)
    }

    #[test]
    fn all_that_matters_is_read() {
        let spec = json!({"type": "LoadBalancer", "loadBalancerClass": "svcplane.io/lb", "ipFamilies": ["IPv6", "IPv4"],
            "ipFamilyPolicy": "RequireDualStack", "externalTrafficPolicy": "Local", "selector": {"app": "web"},
            "ports": [{"port": 53, "protocol": "UDP"}, {"port": 53}, {"port": 53, "protocol": "TCP", "name": "again"}]});
        let status = json!({"loadBalancer": {"ingress": [{"ip": "203.0.113.7"}, {"ip": "2001:db8::7", "ipMode": "Proxy"}]},
            "conditions": [{"type": "other", "status": "True"}, {"type": CONDITION, "status": "False", "reason": "Exhausted"}]});
        let annotations = json!({"svcplane.io/sharing-key": "k", "metallb.io/address-pool": "reed", "long": "text"});
        let seen = read(&spec, &status, &annotations).unwrap();
        assert_eq!(
            (seen.key.to_string(), seen.version, &*seen.class),
            ("shop/web".into(), 7, "svcplane.io/lb")
        );
        assert_eq!(seen.other_writer, "kube-vip");
        assert_eq!(seen.shown.addresses.len(), 2);
        assert_eq!(seen.condition.unwrap().reason, "Exhausted");
        let ask = seen.ask.unwrap();
        assert_eq!(
            (ask.families, ask.policy),
            (vec![IpFamily::IPv6, IpFamily::IPv4], Policy::Require)
        );
        assert_eq!(ask.pools, [Arc::from("reed")]);
        assert_eq!(&*seen.share.ports, [(Protocol::Tcp, 53), (Protocol::Udp, 53)]);
        assert!(matches!(&seen.share.terms.traffic, Traffic::Local { selector, .. } if selector.len() == 1));
    }

    #[test]
    fn other_types_are_not_read_and_wrong_requests_are_told() {
        assert!(read(&json!({"type": "NodePort"}), &json!(null), &json!(null)).is_none());
        let balanced = json!({"type": "LoadBalancer", "loadBalancerIP": "nowhere"});
        let seen = read(
            &balanced,
            &json!({"loadBalancer": {"ingress": [{"hostname": "a.example"}]}}),
            &json!(null),
        )
        .unwrap();
        assert_eq!(seen.ask.unwrap_err().reason, Reason::InvalidRequest);
        assert!(seen.shown.has_others);
    }
}
