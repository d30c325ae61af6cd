//! Endpoints as tests compare them: one line per subset, in the stored order.
//!
//! `10.0.0.1 10.0.0.2(web-0) !10.0.0.3 -> http:8080/TCP grpc:9090/TCP=kubernetes.io/h2c`: ready addresses (with their
//! hostnames), not ready ones after a `!`, and ports as name, number, protocol and appProtocol.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints};

use crate::eventually::eventually_one;
use crate::namespace::TestNamespace;

/// Longer than any change takes to be seen in Endpoints on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);

/// One line per subset.
pub fn lines(endpoints: &Endpoints) -> Vec<String> {
    endpoints.subsets.iter().flatten().map(line).collect()
}

fn line(subset: &EndpointSubset) -> String {
    let ready = subset.addresses.iter().flatten().map(|it| address("", it));
    let not_ready = subset.not_ready_addresses.iter().flatten().map(|it| address("!", it));
    let mut words: Vec<String> = ready.chain(not_ready).collect();
    if let Some(ports) = subset.ports.as_deref().filter(|ports| !ports.is_empty()) {
        words.push("->".into());
        words.extend(ports.iter().map(port));
    }
    words.join(" ")
}

fn address(mark: &str, address: &EndpointAddress) -> String {
    let hostname = address.hostname.as_ref().map(|name| format!("({name})"));
    format!("{mark}{}{}", address.ip, hostname.unwrap_or_default())
}

fn port(port: &EndpointPort) -> String {
    let app = port.app_protocol.as_ref().map(|app| format!("={app}"));
    let name = port.name.as_deref().unwrap_or_default();
    let protocol = port.protocol.as_deref().unwrap_or_default();
    format!("{name}:{}/{protocol}{}", port.port, app.unwrap_or_default())
}

impl TestNamespace {
    /// Waits until the Endpoints of this name exist with exactly these [`lines`].
    ///
    /// # Errors
    /// They do not after half a minute.
    pub async fn endpoints_become(&self, name: &str, subsets: &[&str]) -> Result<Endpoints> {
        self.endpoints_become_within(name, subsets, DEADLINE).await
    }

    /// The same with another deadline.
    ///
    /// # Errors
    /// They do not before it.
    pub async fn endpoints_become_within(&self, name: &str, subsets: &[&str], deadline: Duration) -> Result<Endpoints> {
        let what = format!("Endpoints {name} with {subsets:?}");
        eventually_one(&what, deadline, &self.endpoints(), name, |found| match found {
            None => Err("there are none".into()),
            Some(found) if lines(found) == subsets => Ok(found.clone()),
            Some(found) => Err(format!("they say {:?}", lines(found))),
        })
        .await
    }
}
