//! A cluster whose Services svcplane sees, and requests for Services and pools in it.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::time::Duration;

use crate::admission::{Credentials, Said, address, install_crds, send, wait_choosing};
use crate::cluster::{Cluster, Flavour, on_own_runtime};
use crate::namespace::TestNamespace;
use crate::proxy::FaultProxy;
use crate::svcplane::{Builder, Svcplane};
use anyhow::Result;
use futures::future::join_all;
use kube::Client;
use serde_json::{Value, json};

/// How long a state may take to come.
pub const SOON: Duration = Duration::from_secs(30);

/// A cluster whose Services svcplane sees.
pub struct Governed {
    /// The control plane.
    pub cluster: Cluster,
    /// The only replica.
    pub svcplane: Svcplane,
    builder: Builder,
}

/// The one that all tests of this process share, `--allocate=all`, on a cluster of the flavour that the first of them asks for.
///
/// # Panics
/// It cannot be started.
pub fn shared(flavour: Flavour) -> &'static Governed {
    static SHARED: OnceLock<Result<Governed, String>> = OnceLock::new();
    let start = || on_own_runtime(async || Governed::start(Cluster::start(flavour).await?).await);
    SHARED
        .get_or_init(start)
        .as_ref()
        .unwrap_or_else(|error| panic!("{error}"))
}

impl Governed {
    /// With `--allocate=all`.
    pub async fn start(cluster: Cluster) -> Result<Self> {
        Self::start_with(cluster, &["--allocate=all"]).await
    }

    /// With these flags.
    pub async fn start_with(cluster: Cluster, flags: &[&str]) -> Result<Self> {
        let builder = Svcplane::builder().cluster(&cluster);
        Self::start_as(cluster, builder, flags).await
    }

    /// With these flags, and svcplane behind this proxy of the cluster.
    pub async fn start_behind(proxy: &FaultProxy, cluster: Cluster, flags: &[&str]) -> Result<Self> {
        let kubeconfig = proxy.kubeconfig(cluster.admin_token())?;
        let builder = Svcplane::builder().kubeconfig(kubeconfig);
        Self::start_as(cluster, builder, flags).await
    }

    async fn start_as(cluster: Cluster, builder: Builder, flags: &[&str]) -> Result<Self> {
        let client = cluster.client();
        install_crds(&client).await?;
        let credentials = Credentials::make()?;
        let builder = flags
            .iter()
            .fold(credentials.serve(builder), |builder, flag| builder.arg(flag));
        let svcplane = builder.clone().start().await?;
        svcplane.wait_ready().await?;
        let webhook = address(&svcplane).await?;
        credentials.register(&client, &webhook, &[&svcplane]).await?;
        wait_choosing(&svcplane).await?;
        Ok(Self {
            cluster,
            svcplane,
            builder,
        })
    }

    /// Another svcplane of the same flags, which the apiserver does not know of.
    pub async fn restart(&self) -> Result<Svcplane> {
        let svcplane = self.builder.clone().replica(2).start().await?;
        svcplane.wait_ready().await?;
        Ok(svcplane)
    }

    /// As `admin`.
    pub fn client(&self) -> Client {
        self.cluster.client()
    }

    /// Values that svcplane has chosen, of clusterips or nodeports, by this counter.
    pub async fn counted(&self, counter: &str, resource: &str) -> f64 {
        self.svcplane
            .metrics()
            .await
            .unwrap()
            .sum(counter, &[("resource", resource)])
    }
}

/// Creates a Service in this namespace.
pub async fn create(namespace: &TestNamespace, service: &Value) -> Said {
    post(namespace, service, "").await
}

/// The same with a query such as `?dryRun=All`.
pub async fn post(namespace: &TestNamespace, service: &Value, query: &str) -> Said {
    let path = format!("/api/v1/namespaces/{}/services{query}", namespace.name());
    send(&namespace.client(), "POST", &path, Some(service)).await.unwrap()
}

/// Changes a Service by a merge patch.
pub async fn patch(namespace: &TestNamespace, name: &str, patch: &Value) -> Said {
    let path = format!("/api/v1/namespaces/{}/services/{name}", namespace.name());
    send(&namespace.client(), "PATCH", &path, Some(patch)).await.unwrap()
}

/// Deletes a Service.
pub async fn delete(namespace: &TestNamespace, name: &str) {
    let path = format!("/api/v1/namespaces/{}/services/{name}", namespace.name());
    send(&namespace.client(), "DELETE", &path, None)
        .await
        .unwrap()
        .accepted()
        .unwrap();
}

/// Deletes `{prefix}0` and so on, so many by so many writers at once.
pub async fn delete_all(namespace: &TestNamespace, prefix: &str, count: usize, writers: usize) {
    let writer = async |writer: usize| {
        for number in (writer..count).step_by(writers) {
            delete(namespace, &format!("{prefix}{number}")).await;
        }
    };
    join_all((0..writers).map(writer)).await;
}

/// A NodePort Service.
pub fn node_port(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}})
}

/// A ClusterIP Service.
pub fn cluster_ip(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}})
}

/// What a stored Service lists: addresses and nodePorts.
pub fn values(service: &Value) -> (Vec<String>, BTreeSet<u64>) {
    let addresses = service["spec"]["clusterIPs"].as_array().into_iter().flatten();
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    (
        addresses.filter_map(|ip| ip.as_str().map(str::to_owned)).collect(),
        ports.filter_map(|port| port["nodePort"].as_u64()).collect(),
    )
}

/// Creates a pool and waits until svcplane knows it, which it shows in a review of a Service that asks for it by name.
pub async fn pool(governed: &Governed, namespace: &TestNamespace, kind: &str, name: &str, spec: &Value) {
    let said = try_pool(governed, kind, name, spec).await;
    said.accepted().unwrap();
    let annotation = match kind {
        "ClusterIPPool" => "svcplane.io/cluster-ip-pool",
        _ => "svcplane.io/node-port-pool",
    };
    let mut probe = node_port("probe");
    probe["metadata"]["annotations"] = json!({annotation: name});
    let end = tokio::time::Instant::now() + SOON;
    loop {
        let said = post(namespace, &probe, "?dryRun=All").await;
        if !said.message().contains("there is no pool") {
            return;
        }
        assert!(tokio::time::Instant::now() < end, "svcplane does not know pool {name}");
    }
}

/// Asks for a pool.
pub async fn try_pool(governed: &Governed, kind: &str, name: &str, spec: &Value) -> Said {
    let pool = json!({"apiVersion": "svcplane.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let path = format!("/apis/svcplane.io/v1alpha1/{}s", kind.to_lowercase());
    send(&governed.client(), "POST", &path, Some(&pool)).await.unwrap()
}
