//! Endpoints as a person reads them.

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointSubset, Endpoints};
use kube::ResourceExt;

/// Addresses that are ready, without ports, each once, sorted.
pub fn ready(endpoints: &Endpoints) -> Vec<String> {
    sorted(endpoints, |subset| subset.addresses.as_deref())
}

/// Addresses that are not ready, without ports, each once, sorted.
pub fn not_ready(endpoints: &Endpoints) -> Vec<String> {
    sorted(endpoints, |subset| subset.not_ready_addresses.as_deref())
}

fn sorted(endpoints: &Endpoints, of: impl Fn(&EndpointSubset) -> Option<&[EndpointAddress]>) -> Vec<String> {
    let subsets = endpoints.subsets.iter().flatten();
    let mut ips: Vec<String> = subsets
        .flat_map(|s| of(s).unwrap_or_default())
        .map(|a| a.ip.clone())
        .collect();
    ips.sort();
    ips.dedup();
    ips
}

/// `name:number` of every port, each once, sorted; an unnamed port has an empty name.
pub fn ports(endpoints: &Endpoints) -> Vec<String> {
    let subsets = endpoints.subsets.iter().flatten();
    let ports = subsets.flat_map(|s| s.ports.iter().flatten());
    let mut ports: Vec<String> = ports
        .map(|p| format!("{}:{}", p.name.as_deref().unwrap_or_default(), p.port))
        .collect();
    ports.sort();
    ports.dedup();
    ports
}

/// Everything on one line: `10.244.0.1:9376,9377 10.244.0.2:9376,9377 (not ready: 10.244.0.3)`.
pub fn line(endpoints: &Endpoints) -> String {
    let mut parts = Vec::new();
    for subset in endpoints.subsets.iter().flatten() {
        let numbers: Vec<String> = subset.ports.iter().flatten().map(|p| p.port.to_string()).collect();
        for address in subset.addresses.iter().flatten() {
            let hostname = address.hostname.as_ref().map(|h| format!("({h})")).unwrap_or_default();
            let colon = if numbers.is_empty() { "" } else { ":" };
            parts.push(format!("{}{hostname}{colon}{}", address.ip, numbers.join(",")));
        }
    }
    let waiting = not_ready(endpoints);
    if !waiting.is_empty() {
        parts.push(format!("(not ready: {})", waiting.join(" ")));
    }
    if parts.is_empty() {
        return "<none>".to_owned();
    }
    parts.join(" ")
}

/// `namespace/name`.
pub fn key(endpoints: &Endpoints) -> String {
    format!("{}/{}", endpoints.namespace().unwrap_or_default(), endpoints.name_any())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_line_says_all() {
        let table = [
            (json!([]), "<none>", vec![], vec![], vec![]),
            (
                json!([{"addresses": [{"ip": "10.9.0.2"}, {"ip": "10.9.0.1", "hostname": "h"}],
                        "notReadyAddresses": [{"ip": "10.9.0.3"}],
                        "ports": [{"name": "http", "port": 80}, {"port": 81}]}]),
                "10.9.0.2:80,81 10.9.0.1(h):80,81 (not ready: 10.9.0.3)",
                vec!["10.9.0.1", "10.9.0.2"],
                vec!["10.9.0.3"],
                vec![":81", "http:80"],
            ),
            (
                json!([{"addresses": [{"ip": "10.9.0.1"}]}]),
                "10.9.0.1",
                vec!["10.9.0.1"],
                vec![],
                vec![],
            ),
        ];
        for (subsets, text, up, waiting, numbers) in table {
            let endpoints = json!({"metadata": {"name": "web", "namespace": "a"}, "subsets": subsets});
            let endpoints: Endpoints = serde_json::from_value(endpoints).unwrap();
            assert_eq!(line(&endpoints), text);
            assert_eq!(
                (ready(&endpoints), not_ready(&endpoints), ports(&endpoints)),
                (
                    up.into_iter().map(String::from).collect(),
                    waiting.into_iter().map(String::from).collect(),
                    numbers.into_iter().map(String::from).collect()
                )
            );
        }
    }
}
