//! The environment variables that a kubelet gives a container for a Service, as its package `envvars` makes them.
//!
//! They are made when a container starts and never change while it runs.

use k8s_openapi::api::core::v1::Service;
use serde::Serialize;

/// `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Variable {
    /// To the left of the `=`.
    pub name: String,
    /// To the right of it.
    pub value: String,
}

/// The namespace of the Service that every container is told of.
const MASTER_NAMESPACE: &str = "default";
/// Its name.
const MASTER: &str = "kubernetes";

/// The variables for one Service, in upstream's order; none for one without a clusterIP.
///
/// Names are in upper case with `_` for `-`; nothing else is done to them. A Service of several families counts with its first address.
pub fn from_service(service: &Service) -> Vec<Variable> {
    let mut variables = Vec::new();
    let mut add = |name: String, value: String| variables.push(Variable { name, value });
    let Some(host) = cluster_ip(service) else {
        return variables;
    };
    let spec = service.spec.as_ref();
    let ports = spec.and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    let Some(first) = ports.first() else {
        return variables;
    };
    let prefix = variable_name(service.metadata.name.as_deref().unwrap_or_default());
    add(format!("{prefix}_SERVICE_HOST"), host.to_owned());
    add(format!("{prefix}_SERVICE_PORT"), first.port.to_string());
    for port in ports {
        if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            let name = format!("{prefix}_SERVICE_PORT_{}", variable_name(name));
            add(name, port.port.to_string());
        }
    }
    for (place, port) in ports.iter().enumerate() {
        let protocol = port
            .protocol
            .as_deref()
            .filter(|text| !text.is_empty())
            .unwrap_or("TCP");
        let (number, lower) = (port.port, protocol.to_lowercase());
        let url = format!("{lower}://{}", join_host_port(host, number));
        if place == 0 {
            add(format!("{prefix}_PORT"), url.clone());
        }
        let link = format!("{prefix}_PORT_{number}_{}", protocol.to_uppercase());
        add(link.clone(), url);
        add(format!("{link}_PROTO"), lower);
        add(format!("{link}_PORT"), number.to_string());
        add(format!("{link}_ADDR"), host.to_owned());
    }
    variables
}

/// Those of `services` that a Pod of `namespace` is told of. `links`: its `spec.enableServiceLinks`.
///
/// `default/kubernetes` always, unless the namespace has a Service of its name; the others of the namespace only with links.
pub fn visible<'a>(services: &'a [Service], namespace: &str, links: bool) -> Vec<&'a Service> {
    let own = |service: &&Service| links && namespace_of(service) == namespace && !is_master(service);
    let has_ip = |service: &&Service| cluster_ip(service).is_some();
    let mut found: Vec<&Service> = services.iter().filter(has_ip).filter(own).collect();
    let shadowed = found
        .iter()
        .any(|service| service.metadata.name.as_deref() == Some(MASTER));
    if !shadowed {
        found.extend(services.iter().filter(has_ip).find(|service| is_master(service)));
    }
    found
}

/// Whether Pods of its namespace are told of this Service instead of `default/kubernetes`.
pub fn shadows_the_apiserver(service: &Service) -> bool {
    service.metadata.name.as_deref() == Some(MASTER) && !is_master(service)
}

/// `spec.clusterIP`, if it is an address.
fn cluster_ip(service: &Service) -> Option<&str> {
    let ip = service.spec.as_ref()?.cluster_ip.as_deref()?;
    (!ip.is_empty() && ip != "None").then_some(ip)
}

fn is_master(service: &Service) -> bool {
    namespace_of(service) == MASTER_NAMESPACE && service.metadata.name.as_deref() == Some(MASTER)
}

fn namespace_of(service: &Service) -> &str {
    service.metadata.namespace.as_deref().unwrap_or_default()
}

fn variable_name(text: &str) -> String {
    text.replace('-', "_").to_uppercase()
}

/// As Go's `net.JoinHostPort`.
pub(super) fn join_host_port(host: &str, port: i32) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

#[cfg(test)]
mod tests;
