//! Starting, stopping and continuing the programs of a cluster.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use kube::Client;
use parking_lot::Mutex;
use tempfile::TempDir;

use super::{Cluster, POLL, START_DEADLINE, ports};
use crate::process::{Process, Program};
use crate::tools::Tools;

/// How long one may take to stop after SIGTERM before it gets SIGKILL. kube-apiserver closes its port at once, and would
/// then serve those who watch for another minute.
const STOP_DEADLINE: Duration = Duration::from_secs(1);

/// The controllers of kube-controller-manager that make the rig behave like a cluster. The endpoint controllers are
/// not among them: they are what svcplane replaces.
pub const CONTROLLERS: [&str; 7] = [
    "deployment-controller",
    "replicaset-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "disruption-controller",
    "service-cidr-controller",
];

impl Cluster {
    /// Ends kube-apiserver as a rolling update of the control plane does: SIGTERM.
    ///
    /// # Errors
    /// It cannot be ended.
    pub async fn stop_apiserver(&self) -> Result<()> {
        stop(&self.apiserver, STOP_DEADLINE).await
    }

    /// Ends kube-apiserver with SIGKILL.
    ///
    /// # Errors
    /// It cannot be ended.
    pub async fn kill_apiserver(&self) -> Result<()> {
        stop(&self.apiserver, Duration::ZERO).await
    }

    /// Starts kube-apiserver on its old port after [`Cluster::stop_apiserver`] and waits until it is ready.
    ///
    /// # Errors
    /// It does not become ready.
    pub async fn start_apiserver(&self) -> Result<()> {
        let log = self.directory.join("kube-apiserver.log");
        let args = self.config.apiserver_args(self.port, &self.etcd_url, &self.directory);
        let process = Program::new("kube-apiserver", &self.tools.kube_apiserver, log)
            .args(args)
            .start()?;
        let client = self.client();
        wait_ready(&process, async || Ok(client.request_text(get("/readyz")?).await?)).await?;
        *self.apiserver.lock() = Some(process);
        Ok(())
    }

    /// Stops kube-apiserver and starts it on the same port.
    ///
    /// # Errors
    /// It cannot be ended or does not become ready.
    pub async fn restart_apiserver(&self) -> Result<()> {
        self.stop_apiserver().await?;
        self.start_apiserver().await
    }

    /// Starts the real kube-controller-manager with [`CONTROLLERS`].
    ///
    /// # Errors
    /// It does not become ready, or runs already.
    pub async fn start_controller_manager(&self) -> Result<()> {
        self.start_controller_manager_with(&CONTROLLERS).await
    }

    /// Starts the real kube-controller-manager with exactly these controllers.
    ///
    /// # Errors
    /// It does not become ready, or runs already.
    pub async fn start_controller_manager_with(&self, controllers: &[&str]) -> Result<()> {
        if self.controller_manager.lock().is_some() {
            bail!("kube-controller-manager runs already");
        }
        let log = self.directory.join("kube-controller-manager.log");
        let ((), port) = ports::with_free_port(async |port| {
            let args = self.config.controller_manager_args(port, controllers, &self.directory);
            let path = &self.tools.kube_controller_manager;
            let process = Program::new("kube-controller-manager", path, &log).args(args).start()?;
            // Its certificate is the apiserver's, so any client of this cluster can ask it.
            let mut config = self.client_config("admin");
            config.cluster_url = format!("https://127.0.0.1:{port}").parse()?;
            let client = Client::try_from(config)?;
            wait_ready(&process, async || Ok(client.request_text(get("/healthz")?).await?)).await?;
            *self.controller_manager.lock() = Some(process);
            Ok(())
        })
        .await?;
        self.reservations.lock().push(port);
        Ok(())
    }

    /// Ends kube-controller-manager.
    ///
    /// # Errors
    /// It cannot be ended.
    pub async fn stop_controller_manager(&self) -> Result<()> {
        stop(&self.controller_manager, STOP_DEADLINE).await
    }
}

pub(super) async fn start_etcd(tools: &Tools, directory: &Path) -> Result<((Process, String), ports::Reservation)> {
    ports::with_free_port(async |port| {
        // etcd writes 64 MB ahead: not into the build directory, and removed by the reaper.
        let data = TempDir::with_prefix("svcplane-etcd-")?.keep();
        let url = format!("http://127.0.0.1:{port}");
        let process = Program::new("etcd", &tools.etcd, directory.join("etcd.log"))
            .remove_afterwards(&data)
            .arg(format!("--data-dir={}", data.display()))
            .arg(format!("--listen-client-urls={url}"))
            .arg(format!("--advertise-client-urls={url}"))
            // There are no peers; the port is chosen by the kernel.
            .arg("--listen-peer-urls=http://127.0.0.1:0")
            .args(["--unsafe-no-fsync", "--log-level=warn"])
            .start()?;
        let client = Client::try_from(kube::Config::new(url.parse()?))?;
        wait_ready(&process, async || Ok(client.request_text(get("/readyz")?).await?)).await?;
        Ok((process, url))
    })
    .await
}

async fn stop(slot: &Mutex<Option<Process>>, deadline: Duration) -> Result<()> {
    let Some(process) = slot.lock().take() else {
        return Ok(());
    };
    if deadline.is_zero() {
        process.kill9().await?
    } else {
        process.terminate(deadline).await?
    };
    Ok(())
}

/// Asks until the answer is good; fails when the program ends or the deadline passes.
async fn wait_ready(process: &Process, ask: impl AsyncFn() -> Result<String>) -> Result<()> {
    let started = tokio::time::Instant::now();
    loop {
        let last = match tokio::time::timeout(Duration::from_secs(5), ask()).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => "no answer within 5 s".into(),
        };
        match process.exit() {
            // The other end may be a stranger who took the port meanwhile.
            Some(exit) => bail!(
                "{} ended with {exit} while it was starting{}",
                process.name(),
                process.log_tail()
            ),
            None if started.elapsed() > START_DEADLINE => {
                bail!(
                    "{} is not ready after {START_DEADLINE:?}: {last}{}",
                    process.name(),
                    process.log_tail()
                )
            }
            None => tokio::time::sleep(POLL).await,
        }
    }
}

pub(super) fn get(path: &str) -> Result<http::Request<Vec<u8>>> {
    Ok(http::Request::get(path).body(Vec::new())?)
}
