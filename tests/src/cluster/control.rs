//! Starting, stopping and continuing the programs of a cluster.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use kube::Client;
use tempfile::TempDir;

use super::builder::EtcdData;
use super::counters::metrics_of;
use super::{Cluster, POLL, START_DEADLINE, ports};
use crate::metrics::Metrics;
use crate::process::{Process, Program};
use crate::tools::Tools;

/// How long one may take to stop after SIGTERM before it gets SIGKILL. kube-apiserver closes its port at once, and would
/// then serve those who watch for another minute.
const STOP_DEADLINE: Duration = Duration::from_secs(1);
/// How long an etcd whose data are kept may take to close its files.
const ETCD_GRACE: Duration = Duration::from_secs(20);

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

/// Those that svcplane replaces.
pub const ENDPOINT_CONTROLLERS: [&str; 3] = [
    "endpoints-controller",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
];

/// Flags that take the throttle off kube-controller-manager's client.
pub const UNTHROTTLED: [&str; 2] = ["--kube-api-qps=5000", "--kube-api-burst=5000"];

impl Cluster {
    /// Ends kube-apiserver as a rolling update of the control plane does: SIGTERM.
    ///
    /// # Errors
    /// It cannot be ended.
    pub async fn stop_apiserver(&self) -> Result<()> {
        let process = self.apiserver.lock().take();
        stop_process(process, STOP_DEADLINE).await
    }

    /// Ends kube-apiserver with SIGKILL.
    ///
    /// # Errors
    /// It cannot be ended.
    pub async fn kill_apiserver(&self) -> Result<()> {
        let process = self.apiserver.lock().take();
        stop_process(process, Duration::ZERO).await
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

    /// Ends etcd for good, with time to close its files.
    ///
    /// # Errors
    /// It cannot be ended.
    pub async fn stop_etcd(&self) -> Result<()> {
        self.etcd.terminate(ETCD_GRACE).await?;
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
        self.start_controller_manager_as("admin", controllers, &[]).await
    }

    /// The same, as this user and with further flags, of which the last one of a name wins.
    ///
    /// # Errors
    /// It does not become ready, or runs already.
    ///
    /// # Panics
    /// There is no such user.
    pub async fn start_controller_manager_as(&self, user: &str, controllers: &[&str], flags: &[&str]) -> Result<()> {
        self.token(user);
        if self.controller_manager.lock().is_some() {
            bail!("kube-controller-manager runs already");
        }
        let log = self.directory.join("kube-controller-manager.log");
        let ((), port) = ports::with_free_port(async |port| {
            let config = &self.config;
            let args = config.controller_manager_args(port, user, controllers, &self.directory);
            let path = &self.tools.kube_controller_manager;
            let process = Program::new("kube-controller-manager", path, &log)
                .args(args)
                .args(flags.iter().copied())
                .start()?;
            let client = self.client_at(port)?;
            wait_ready(&process, async || Ok(client.request_text(get("/healthz")?).await?)).await?;
            *self.controller_manager.lock() = Some((process, port));
            Ok(())
        })
        .await?;
        self.reservations.lock().push(port);
        Ok(())
    }

    /// Ends kube-controller-manager if it runs, and starts it as `admin`, unthrottled, with [`CONTROLLERS`], these and further flags.
    ///
    /// # Errors
    /// It does not end, or not become ready.
    pub async fn restart_controller_manager(&self, besides: &[&str], flags: &[&str]) -> Result<()> {
        self.stop_controller_manager().await?;
        let (controllers, flags) = ([&CONTROLLERS[..], besides].concat(), [&UNTHROTTLED[..], flags].concat());
        self.start_controller_manager_as("admin", &controllers, &flags).await
    }

    /// Its certificate is the apiserver's, so any client of this cluster can ask it.
    fn client_at(&self, port: u16) -> Result<Client> {
        let mut config = self.client_config("admin");
        config.cluster_url = format!("https://127.0.0.1:{port}").parse()?;
        Ok(Client::try_from(config)?)
    }

    /// kube-controller-manager's `/metrics`. They start at zero when it restarts.
    ///
    /// # Errors
    /// It does not run, or does not answer within 10 s.
    pub async fn controller_manager_metrics(&self) -> Result<Metrics> {
        let port = self.controller_manager.lock().as_ref().map(|(_, port)| *port);
        let client = self.client_at(port.context("kube-controller-manager does not run")?)?;
        metrics_of(&client).await
    }

    /// Ends kube-controller-manager.
    ///
    /// # Errors
    /// It cannot be ended.
    pub async fn stop_controller_manager(&self) -> Result<()> {
        stop_process(self.take_controller_manager(), STOP_DEADLINE).await
    }

    /// Ends kube-controller-manager with SIGKILL.
    ///
    /// # Errors
    /// It cannot be ended.
    pub async fn kill_controller_manager(&self) -> Result<()> {
        stop_process(self.take_controller_manager(), Duration::ZERO).await
    }

    fn take_controller_manager(&self) -> Option<Process> {
        self.controller_manager.lock().take().map(|(process, _)| process)
    }
}

pub(super) async fn start_etcd(
    tools: &Tools,
    directory: &Path,
    data: &EtcdData,
) -> Result<((Process, String), ports::Reservation)> {
    ports::with_free_port(async |port| {
        let url = format!("http://127.0.0.1:{port}");
        let program = Program::new("etcd", &tools.etcd, directory.join("etcd.log"));
        let (program, data) = match data {
            // etcd writes 64 MB ahead: not into the build directory, and removed by the reaper.
            EtcdData::Temporary(below) => {
                let data = TempDir::with_prefix_in("svcplane-etcd-", below)?.keep();
                (program.remove_afterwards(&data), data)
            }
            EtcdData::Copy(data) => (program.remove_afterwards(data), data.clone()),
            EtcdData::Kept(data) => (program.grace(ETCD_GRACE), data.clone()),
        };
        let process = program
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

async fn stop_process(process: Option<Process>, deadline: Duration) -> Result<()> {
    let Some(process) = process else {
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
