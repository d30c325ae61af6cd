//! Pods, with the status that a kubelet would have given them.

use anyhow::Result;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Container, ContainerPort, Pod, PodSpec};
use kube::api::ObjectMeta;
use serde_json::json;

use crate::namespace::{TestNamespace, ready_condition};

/// A Pod to be: on node `node-1`, running, ready once it has an address, until told otherwise.
#[derive(Debug, Clone)]
pub struct PodBuilder {
    pod: Pod,
    phase: String,
    ips: Vec<String>,
    ready: bool,
}

/// A Pod with one container without ports.
pub fn pod(name: &str) -> PodBuilder {
    let metadata = ObjectMeta {
        name: Some(name.into()),
        ..ObjectMeta::default()
    };
    let spec = PodSpec {
        containers: vec![container("main")],
        ..PodSpec::default()
    };
    let pod = Pod {
        metadata,
        spec: Some(spec),
        status: None,
    };
    PodBuilder {
        pod,
        phase: "Running".into(),
        ips: Vec::new(),
        ready: true,
    }
    .node("node-1")
}

/// How many Pods are being created at the same time.
const AT_ONCE: usize = 24;

/// Creates many, several at a time.
///
/// # Errors
/// The apiserver refuses one.
pub async fn create_pods(pods: impl IntoIterator<Item = PodBuilder>, namespace: &TestNamespace) -> Result<()> {
    let creations = pods.into_iter().map(|pod| pod.create(namespace));
    stream::iter(creations)
        .buffer_unordered(AT_ONCE)
        .try_for_each(async |_| Ok(()))
        .await
}

fn container(name: &str) -> Container {
    Container {
        name: name.into(),
        image: Some("registry.invalid/none".into()),
        ..Container::default()
    }
}

fn container_port(protocol: &str, name: &str, number: i32) -> ContainerPort {
    ContainerPort {
        name: Some(name).filter(|name| !name.is_empty()).map(Into::into),
        container_port: number,
        protocol: Some(protocol.into()),
        ..ContainerPort::default()
    }
}

impl PodBuilder {
    fn spec(&mut self) -> &mut PodSpec {
        self.pod.spec.get_or_insert_default()
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.pod
            .metadata
            .labels
            .get_or_insert_default()
            .insert(key.into(), value.into());
        self
    }

    /// Adds an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.pod
            .metadata
            .annotations
            .get_or_insert_default()
            .insert(key.into(), value.into());
        self
    }

    /// Adds an address; the first one is `podIP`.
    #[must_use]
    pub fn ip(mut self, address: &str) -> Self {
        self.ips.push(address.into());
        self
    }

    /// The Ready condition. A Pod without address has none.
    #[must_use]
    pub fn ready(mut self, ready: bool) -> Self {
        self.ready = ready;
        self
    }

    /// `nodeName`; empty: not scheduled. Only a scheduled Pod can be terminating.
    #[must_use]
    pub fn node(mut self, name: &str) -> Self {
        self.spec().node_name = Some(name).filter(|name| !name.is_empty()).map(Into::into);
        self
    }

    /// `status.phase`.
    #[must_use]
    pub fn phase(mut self, phase: &str) -> Self {
        self.phase = phase.into();
        self
    }

    /// Adds a TCP port to the container. An empty name is no name.
    #[must_use]
    pub fn port(self, name: &str, number: i32) -> Self {
        self.port_with_protocol("TCP", name, number)
    }

    /// Adds a port to the container.
    #[must_use]
    pub fn port_with_protocol(mut self, protocol: &str, name: &str, number: i32) -> Self {
        if let Some(container) = self.spec().containers.first_mut() {
            container
                .ports
                .get_or_insert_default()
                .push(container_port(protocol, name, number));
        }
        self
    }

    /// Adds an init container with this TCP port; `restartable` makes it a sidecar.
    #[must_use]
    pub fn init_port(mut self, container_name: &str, restartable: bool, name: &str, number: i32) -> Self {
        let mut container = container(container_name);
        container.restart_policy = restartable.then(|| "Always".into());
        container.ports = Some(vec![container_port("TCP", name, number)]);
        self.spec().init_containers.get_or_insert_default().push(container);
        self
    }

    /// `hostname` and `subdomain`; an empty one is left out.
    #[must_use]
    pub fn hostname(mut self, hostname: &str, subdomain: &str) -> Self {
        let filled = |text: &str| Some(text).filter(|text| !text.is_empty()).map(Into::into);
        self.spec().hostname = filled(hostname);
        self.spec().subdomain = filled(subdomain);
        self
    }

    /// `restartPolicy`.
    #[must_use]
    pub fn restart_policy(mut self, policy: &str) -> Self {
        self.spec().restart_policy = Some(policy.into());
        self
    }

    /// The object, with no status: that goes through its own subresource.
    pub fn build(self) -> Pod {
        self.pod
    }

    /// Creates it, then writes its status.
    ///
    /// # Errors
    /// The apiserver refuses.
    pub async fn create(self, namespace: &TestNamespace) -> Result<Pod> {
        let created = super::create(&namespace.pods(), &self.pod).await?;
        let mut status = json!({ "phase": self.phase });
        if let Some(first) = self.ips.first() {
            status["podIP"] = first.as_str().into();
            status["podIPs"] = self.ips.iter().map(|ip| json!({ "ip": ip })).collect();
            status["conditions"] = json!([ready_condition(self.ready)]);
        }
        namespace
            .patch_pod_status(created.metadata.name.as_deref().unwrap_or_default(), status)
            .await
    }
}
