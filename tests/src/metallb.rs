//! MetalLB's real controller, and the custom resources that it and its speaker read.

use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::admission::{install_crd, send};
use crate::cluster::Cluster;
use crate::metrics::Metrics;
use crate::process::{Process, Program};
use crate::tools::other_tool;

/// Where it looks for pools.
pub const NAMESPACE: &str = "metallb-system";

/// Where pools are.
pub const POOLS: &str = "/apis/metallb.io/v1beta1/namespaces/metallb-system/ipaddresspools";

const START: Duration = Duration::from_secs(60);
const STOP: Duration = Duration::from_secs(20);

/// Its controller, running. Its webhook is off: only the apiserver checks its objects.
pub struct MetalLb {
    process: Process,
    port: u16,
}

impl MetalLb {
    /// Starts it, and waits until it has read its configuration. `class`: which `spec.loadBalancerClass` it serves; `None`: Services without one.
    ///
    /// # Errors
    /// It is not built, or does not start.
    pub async fn start(cluster: &Cluster, class: Option<&str>) -> Result<Self> {
        let metallb = Self::spawn(cluster, class)?;
        let started = Instant::now();
        while !metallb.has_configuration().await {
            anyhow::ensure!(
                started.elapsed() < START && metallb.process.exit().is_none(),
                "MetalLB's controller has not read its configuration{}",
                metallb.process.log_tail()
            );
            sleep(Duration::from_millis(50)).await;
        }
        Ok(metallb)
    }

    /// Starts it and waits for nothing.
    ///
    /// # Errors
    /// It is not built, or cannot be executed.
    pub fn spawn(cluster: &Cluster, class: Option<&str>) -> Result<Self> {
        // Free a moment ago; MetalLB does not take port 0.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let log = cluster.directory().join("metallb.log");
        let program = Program::new("metallb", other_tool("metallb")?, log)
            .env("KUBECONFIG", &cluster.kubeconfig().to_string_lossy())
            .arg(format!("-namespace={NAMESPACE}"))
            .arg(format!("-port={port}"))
            .args(["-webhook-mode=disabled", "-disable-cert-rotation", "-log-level=info"])
            .grace(STOP);
        let program = class
            .iter()
            .fold(program, |program, class| program.arg(format!("-lb-class={class}")));
        Ok(Self {
            process: program.start()?,
            port,
        })
    }

    /// Its process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Its metrics.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn metrics(&self) -> Result<Metrics> {
        let client = Client::try_from(kube::Config::new(format!("http://127.0.0.1:{}", self.port).parse()?))?;
        let request = http::Request::get("/metrics").body(Vec::new())?;
        let page = tokio::time::timeout(Duration::from_secs(5), client.request_text(request)).await??;
        Ok(Metrics::parse(&page))
    }

    /// It has read pools and found nothing wrong with them.
    pub async fn has_configuration(&self) -> bool {
        self.metrics().await.is_ok_and(|page| {
            let value = |name| page.sum(name, &[]);
            value("metallb_k8s_client_config_loaded_bool") > 0.5 && value("metallb_k8s_client_config_stale_bool") < 0.5
        })
    }

    /// Ends it.
    ///
    /// # Errors
    /// It does not end.
    pub async fn stop(self) -> Result<()> {
        self.process.terminate(STOP).await.map(drop)
    }
}

/// Where its real custom resource definitions are, as one file.
fn crds() -> Result<PathBuf> {
    let controller = other_tool("metallb")?;
    Ok(controller.with_file_name("metallb-crds.yaml"))
}

/// Gives the cluster MetalLB's namespace and its real custom resource definitions, and waits until they are served.
///
/// # Errors
/// The apiserver refuses something.
pub async fn install(client: &Client) -> Result<()> {
    let namespace = json!({"metadata": {"name": NAMESPACE}});
    send(client, "POST", "/api/v1/namespaces", Some(&namespace))
        .await?
        .accepted()?;
    let path = crds()?;
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let definitions: Vec<Value> = serde_saphyr::from_multiple(&text)?;
    for definition in definitions {
        install_crd(client, &definition).await?;
    }
    Ok(())
}

/// An IPAddressPool with this spec.
pub fn pool(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
}
