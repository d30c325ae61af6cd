//! A Node, as far as its addresses could be a pool's.

use std::sync::Arc;

use k8s_openapi::api::core::v1 as api;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;

use super::super::neighbours::{Both, Neighbour};
use crate::wire::slim;

/// The fields that say which addresses it uses.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = api::Node)]
pub struct NeighbourNode {
    #[serde(deserialize_with = "slim")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Option<Spec>,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Clone, Debug, Deserialize)]
struct Spec {
    #[serde(rename = "podCIDR")]
    pod_cidr: Option<String>,
    #[serde(rename = "podCIDRs")]
    pod_cidrs: Option<Vec<String>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Status {
    addresses: Option<Vec<Address>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Address {
    address: String,
}

impl NeighbourNode {
    /// What itself and its Pods use.
    pub fn uses(&self) -> Vec<(Neighbour, Both)> {
        let name: Arc<str> = self.metadata.name.as_deref().unwrap_or_default().into();
        let own = self.status.iter().flat_map(|status| status.addresses.iter().flatten());
        let own = Both::named(own.map(|entry| entry.address.as_str()));
        let pods = self
            .spec
            .iter()
            .flat_map(|spec| spec.pod_cidrs.iter().flatten().chain(&spec.pod_cidr));
        let pods = Both::named(pods.map(String::as_str));
        vec![(Neighbour::Node(name.clone()), own), (Neighbour::Pods(name), pods)]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_of_a_node_and_of_its_pods_are_read() {
        let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
            "spec": {"podCIDR": "10.0.1.0/24", "podCIDRs": ["10.0.1.0/24", "fd00::/64"]},
            "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.7"}, {"type": "Hostname", "address": "n1"}]}});
        let node: NeighbourNode = serde_json::from_value(object).unwrap();
        let want = vec![
            (Neighbour::Node("n1".into()), Both::named(["192.0.2.7/32"])),
            (Neighbour::Pods("n1".into()), Both::named(["10.0.1.0/24", "fd00::/64"])),
        ];
        assert_eq!(node.uses(), want);
        let bare: NeighbourNode =
            serde_json::from_value(json!({"metadata": {"name": "n2"}, "spec": {}, "status": {"addresses": null}}))
                .unwrap();
        assert!(bare.uses().iter().all(|(_, uses)| *uses == Both::default()));
    }
}
