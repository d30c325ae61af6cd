//! Endpoints as a person makes them, for a Service without selector.

use anyhow::Result;
use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints};
use kube::api::ObjectMeta;

use crate::namespace::TestNamespace;

/// Endpoints to be.
#[derive(Debug, Clone)]
pub struct EndpointsBuilder(Endpoints);

/// Endpoints without subsets.
pub fn endpoints(name: &str) -> EndpointsBuilder {
    let metadata = ObjectMeta {
        name: Some(name.into()),
        ..ObjectMeta::default()
    };
    EndpointsBuilder(Endpoints {
        metadata,
        subsets: None,
    })
}

impl EndpointsBuilder {
    /// Adds a subset with these ready addresses and TCP ports.
    #[must_use]
    pub fn subset(mut self, addresses: &[&str], ports: &[(&str, i32)]) -> Self {
        let address = |ip: &&str| EndpointAddress {
            ip: (*ip).into(),
            ..EndpointAddress::default()
        };
        let port = |(name, port): &(&str, i32)| EndpointPort {
            name: Some(*name).filter(|name| !name.is_empty()).map(Into::into),
            port: *port,
            protocol: Some("TCP".into()),
            app_protocol: None,
        };
        self.0.subsets.get_or_insert_default().push(EndpointSubset {
            addresses: Some(addresses.iter().map(address).collect()),
            not_ready_addresses: None,
            ports: Some(ports.iter().map(port).collect()),
        });
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0
            .metadata
            .labels
            .get_or_insert_default()
            .insert(key.into(), value.into());
        self
    }

    /// Adds an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.0
            .metadata
            .annotations
            .get_or_insert_default()
            .insert(key.into(), value.into());
        self
    }

    /// The object.
    pub fn build(self) -> Endpoints {
        self.0
    }

    /// Creates it.
    ///
    /// # Errors
    /// The apiserver refuses.
    pub async fn create(self, namespace: &TestNamespace) -> Result<Endpoints> {
        super::create(&namespace.endpoints(), &self.0).await
    }
}
