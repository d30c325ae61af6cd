//! What slices list and kube-proxy does not use: it takes a port of theirs by its name and protocol, and addresses of the Service's families.

use k8s_openapi::api::core::v1::{ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::{EndpointPort, EndpointSlice};

use super::{is_read, protocol_of};
use crate::endpoints::HEADLESS_LABEL;
use crate::listing::limited;

/// A sentence for each such slice or port; `families`: those of the clusterIPs. Slices without endpoints are nobody's loss.
pub fn unused(spec: &ServiceSpec, families: &[&str], slices: &[EndpointSlice]) -> Vec<String> {
    let own: Vec<&ServicePort> = spec.ports.iter().flatten().collect();
    let mut all = Vec::new();
    for slice in slices {
        if slice.endpoints.iter().flatten().next().is_none() {
            continue;
        }
        let name = slice.metadata.name.as_deref().unwrap_or_default();
        let ports = slice.ports.as_deref().unwrap_or_default();
        let reasons: Vec<String> = if !is_read(slice) {
            vec![format!("label {HEADLESS_LABEL}, which keeps a slice from it")]
        } else if !families.contains(&slice.address_type.as_str()) {
            vec![format!("the Service has no {} address", slice.address_type)]
        } else if ports.is_empty() {
            vec!["it has no ports".to_owned()]
        } else {
            ports.iter().filter_map(|port| mismatch(&own, port)).collect()
        };
        let told = reasons
            .into_iter()
            .map(|why| format!("does not use slice {name}: {why}"));
        all.extend(told);
    }
    limited(all)
}

fn mismatch(own: &[&ServicePort], port: &EndpointPort) -> Option<String> {
    // An absent name is the empty one, on both sides.
    let name = port.name.as_deref().unwrap_or_default();
    let protocol = protocol_of(port.protocol.as_deref());
    let named = |own: &&&ServicePort| own.name.as_deref().unwrap_or_default() == name;
    let mut same_name = own.iter().filter(named).peekable();
    if same_name.peek().is_none() {
        let names: Vec<String> = own
            .iter()
            .map(|own| format!("{:?}", own.name.as_deref().unwrap_or_default()))
            .collect();
        let names = names.join(", ");
        return Some(format!(
            "its port name {name:?} matches none of the Service's ports (names {names})"
        ));
    }
    let mut protocols = same_name.map(|own| protocol_of(own.protocol.as_deref()));
    if protocols.any(|own| own == protocol) {
        let is_numbered = port.port.is_some_and(|number| number != 0);
        return (!is_numbered).then(|| format!("its port {name:?} has no number"));
    }
    Some(format!(
        "its port {name:?} is {protocol}, and the Service has none of that name and protocol"
    ))
}
