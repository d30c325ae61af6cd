//! Services.

use anyhow::Result;
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::ObjectMeta;

use crate::namespace::TestNamespace;

/// Where a Service's port leads: a number or the name of a container port.
#[derive(Debug, Clone)]
pub struct Target(IntOrString);

impl From<i32> for Target {
    fn from(number: i32) -> Self {
        Self(IntOrString::Int(number))
    }
}

impl From<&str> for Target {
    fn from(name: &str) -> Self {
        Self(IntOrString::String(name.into()))
    }
}

/// A Service to be.
#[derive(Debug, Clone)]
pub struct ServiceBuilder(Service);

/// A ClusterIP Service without selector and ports.
pub fn service(name: &str) -> ServiceBuilder {
    let metadata = ObjectMeta {
        name: Some(name.into()),
        ..ObjectMeta::default()
    };
    ServiceBuilder(Service {
        metadata,
        spec: Some(ServiceSpec::default()),
        status: None,
    })
}

impl ServiceBuilder {
    fn spec(&mut self) -> &mut ServiceSpec {
        self.0.spec.get_or_insert_default()
    }

    /// Adds one label to the selector.
    #[must_use]
    pub fn selector(mut self, key: &str, value: &str) -> Self {
        self.spec()
            .selector
            .get_or_insert_default()
            .insert(key.into(), value.into());
        self
    }

    /// Adds a TCP port. An empty name is no name.
    #[must_use]
    pub fn port(self, name: &str, port: i32, target: impl Into<Target>) -> Self {
        self.port_with_protocol("TCP", name, port, target)
    }

    /// Adds a port.
    #[must_use]
    pub fn port_with_protocol(mut self, protocol: &str, name: &str, port: i32, target: impl Into<Target>) -> Self {
        self.spec().ports.get_or_insert_default().push(ServicePort {
            name: Some(name).filter(|name| !name.is_empty()).map(Into::into),
            port,
            protocol: Some(protocol.into()),
            target_port: Some(target.into().0),
            ..ServicePort::default()
        });
        self
    }

    /// `clusterIP: None`.
    #[must_use]
    pub fn headless(self) -> Self {
        self.cluster_ip("None")
    }

    /// A fixed ClusterIP.
    #[must_use]
    pub fn cluster_ip(mut self, address: &str) -> Self {
        self.spec().cluster_ip = Some(address.into());
        self
    }

    /// `type`.
    #[must_use]
    pub fn type_(mut self, type_: &str) -> Self {
        self.spec().type_ = Some(type_.into());
        self
    }

    /// `type: ExternalName`.
    #[must_use]
    pub fn external_name(mut self, name: &str) -> Self {
        self.spec().external_name = Some(name.into());
        self.type_("ExternalName")
    }

    /// `ipFamilyPolicy` and `ipFamilies`.
    #[must_use]
    pub fn families(mut self, policy: &str, families: &[&str]) -> Self {
        self.spec().ip_family_policy = Some(policy.into());
        self.spec().ip_families = Some(families.iter().map(ToString::to_string).collect());
        self
    }

    /// `publishNotReadyAddresses: true`.
    #[must_use]
    pub fn publish_not_ready_addresses(mut self) -> Self {
        self.spec().publish_not_ready_addresses = Some(true);
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
    pub fn build(self) -> Service {
        self.0
    }

    /// Creates it.
    ///
    /// # Errors
    /// The apiserver refuses.
    pub async fn create(self, namespace: &TestNamespace) -> Result<Service> {
        super::create(&namespace.services(), &self.0).await
    }
}
