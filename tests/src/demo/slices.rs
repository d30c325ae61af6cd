//! EndpointSlices as a person reads them, beside the Endpoints of the same Service.

use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::{Api, Client, ResourceExt};

use super::view;
use crate::eventually::eventually;
use crate::slices::{belongs, endpoints};

/// Those of this Service, sorted by family and name.
pub fn of<'a>(all: &'a [EndpointSlice], namespace: &str, service: &str) -> Vec<&'a EndpointSlice> {
    let mut found: Vec<&EndpointSlice> = all
        .iter()
        .filter(|slice| slice.namespace().as_deref() == Some(namespace) && belongs(slice, service, None))
        .collect();
    found.sort_by_key(|slice| (slice.address_type.clone(), slice.name_any()));
    found
}

/// Addresses that are ready, each once, sorted.
pub fn ready(slices: &[&EndpointSlice]) -> Vec<String> {
    let all = slices.iter().flat_map(|slice| endpoints(slice));
    let mut ips: Vec<String> = all
        .filter(|it| is_ready(it))
        .flat_map(|it| it.addresses.clone())
        .collect();
    ips.sort();
    ips.dedup();
    ips
}

/// An absent condition is as good as true.
fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.as_ref().and_then(|it| it.ready) != Some(false)
}

/// Everything on one line: `10.244.0.1:9376 10.244.0.2:9376 (not ready: 10.244.0.3)`.
pub fn line(slice: &EndpointSlice) -> String {
    let numbers = slice.ports.iter().flatten().filter_map(|port| port.port);
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    let colon = if numbers.is_empty() { "" } else { ":" };
    let (ready, waiting): (Vec<&Endpoint>, Vec<&Endpoint>) = endpoints(slice).iter().partition(|it| is_ready(it));
    let mut ready: Vec<String> = ready
        .iter()
        .map(|it| format!("{}{colon}{}", it.addresses.join("+"), numbers.join(",")))
        .collect();
    ready.sort();
    let mut waiting: Vec<String> = waiting.iter().map(|it| it.addresses.join("+")).collect();
    waiting.sort();
    if !waiting.is_empty() {
        ready.push(format!("(not ready: {})", waiting.join(" ")));
    }
    if ready.is_empty() {
        return "<none>".to_owned();
    }
    ready.join(" ")
}

/// All slices, once those of each Service say of these Endpoints what the Endpoints say.
///
/// # Errors
/// They do not at the deadline.
pub async fn agree(client: &Client, with: &[Endpoints]) -> anyhow::Result<Vec<EndpointSlice>> {
    let all: Api<EndpointSlice> = Api::all(client.clone());
    eventually("slices", super::story::DEADLINE, &all, "", |all: &[EndpointSlice]| {
        for endpoints in with {
            let found = of(all, &endpoints.namespace().unwrap_or_default(), &endpoints.name_any());
            if found.is_empty() {
                return Err(format!("{} has no slices", view::key(endpoints)));
            }
            let (ready, wanted) = (ready(&found), view::ready(endpoints));
            if ready != wanted {
                let key = view::key(endpoints);
                return Err(format!("the slices of {key} should have {wanted:?} and have {ready:?}"));
            }
        }
        Ok(all.to_vec())
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_line_says_all() {
        let slice = json!({"metadata": {"name": "web-1", "namespace": "a", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4", "ports": [{"name": "a", "port": 80}, {"port": 81}], "endpoints": [
                {"addresses": ["10.9.0.2"], "conditions": {"ready": true}},
                {"addresses": ["10.9.0.1"]},
                {"addresses": ["10.9.0.3"], "conditions": {"ready": false}}]});
        let slice: EndpointSlice = serde_json::from_value(slice).unwrap();
        assert_eq!(line(&slice), "10.9.0.1:80,81 10.9.0.2:80,81 (not ready: 10.9.0.3)");
        let all = [slice];
        assert_eq!(ready(&of(&all, "a", "web")), ["10.9.0.1", "10.9.0.2"]);
        assert!(of(&all, "b", "web").is_empty() && of(&all, "a", "we").is_empty());
        let empty = json!({"metadata": {}, "addressType": "IPv4", "endpoints": null});
        assert_eq!(line(&serde_json::from_value(empty).unwrap()), "<none>");
    }
}
