//! A real control plane on loopback: etcd, kube-apiserver and, on request, kube-controller-manager.
//!
//! [`shared`] is the one for tests that need nothing special; [`Cluster::start`] and [`Cluster::builder`] start others.
//! A cluster belongs to no tokio runtime: its processes are watched by threads, and clients are made in the caller's
//! runtime.

mod builder;
mod control;
mod counters;
mod credentials;
mod directory;
mod ports;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::{Api, Client};
use parking_lot::Mutex;

pub use self::builder::{Builder, Flavour, IPV4_RANGE};
pub use self::control::{CONTROLLERS, ENDPOINT_CONTROLLERS, UNTHROTTLED};
use self::control::{get, start_etcd};
use self::credentials::Credentials;
pub(crate) use self::directory::create as run_directory;
use crate::process::Process;
use crate::tools::Tools;

/// How long one of the programs may take to become ready on a busy machine.
const START_DEADLINE: Duration = Duration::from_secs(90);
/// The pause between two looks at something that cannot be watched.
const POLL: Duration = Duration::from_millis(40);

/// A running control plane. Dropping it ends its processes.
#[derive(Debug)]
pub struct Cluster {
    // Fields are dropped in this order: clients of a program before the program.
    controller_manager: Mutex<Option<(Process, u16)>>,
    apiserver: Mutex<Option<Process>>,
    etcd: Process,
    config: Builder,
    tools: Tools,
    credentials: Credentials,
    directory: PathBuf,
    port: u16,
    etcd_url: String,
    reservations: Mutex<Vec<ports::Reservation>>,
}

/// The control plane that all tests of this process share: dual stack, without kube-controller-manager.
///
/// # Panics
/// It cannot be started.
pub fn shared() -> &'static Cluster {
    static SHARED: OnceLock<Result<Cluster, String>> = OnceLock::new();
    let started = SHARED.get_or_init(|| on_own_runtime(async || Cluster::start(Flavour::DualStack).await));
    started
        .as_ref()
        .unwrap_or_else(|error| panic!("the shared cluster did not start: {error}"))
}

/// Runs to the end on a thread and runtime of its own, for callers that are inside a runtime which must not be blocked
/// on and which ends before the result does.
///
/// # Errors
/// Its own, or that it panicked.
pub fn on_own_runtime<T: Send>(make: impl AsyncFnOnce() -> Result<T> + Send) -> Result<T, String> {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(make())
    };
    let joined = std::thread::scope(|scope| scope.spawn(run).join());
    joined
        .map_err(|_| "panicked".to_string())?
        .map_err(|error: anyhow::Error| format!("{error:#}"))
}

impl Cluster {
    /// Starts a control plane of this flavour.
    ///
    /// # Errors
    /// A binary is missing or a program does not become ready; with the last lines of its log.
    pub async fn start(flavour: Flavour) -> Result<Self> {
        Self::builder(flavour).start().await
    }

    /// To change more than the flavour.
    pub fn builder(flavour: Flavour) -> Builder {
        Builder::new(flavour)
    }

    async fn start_with(config: Builder) -> Result<Self> {
        let tools = Tools::find()?;
        let directory = directory::create(config.flavour().label())?;
        let credentials = Credentials::create(&directory, config.users())?;
        let ((etcd, etcd_url), etcd_port) = start_etcd(&tools, &directory, config.data()).await?;
        let mut cluster = Self {
            controller_manager: Mutex::new(None),
            apiserver: Mutex::new(None),
            etcd,
            config,
            tools,
            credentials,
            directory,
            port: 0,
            etcd_url,
            reservations: Mutex::new(vec![etcd_port]),
        };
        let ((), port) = ports::with_free_port(async |port| {
            cluster.port = port;
            cluster
                .credentials
                .write_kubeconfigs(&cluster.directory, &cluster.server_url())?;
            cluster.start_apiserver().await
        })
        .await?;
        cluster.reservations.lock().push(port);
        cluster.wait_usable().await?;
        Ok(cluster)
    }

    /// `https://127.0.0.1:PORT`. The port stays the same over [`Cluster::restart_apiserver`].
    pub fn server_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The certificate authority of the apiserver's certificate.
    pub fn ca_pem(&self) -> &str {
        self.credentials.ca_pem()
    }

    /// The bearer token of `admin`, who is in `system:masters`.
    pub fn admin_token(&self) -> &str {
        self.token("admin")
    }

    /// The bearer token of a user known since the start.
    ///
    /// # Panics
    /// There is no such user: name it with [`Builder::user`].
    pub fn token(&self, user: &str) -> &str {
        self.credentials
            .token(user)
            .unwrap_or_else(|| panic!("no user {user}: name it with Cluster::builder().user()"))
    }

    /// The kubeconfig file of `admin`.
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig_for("admin")
    }

    /// The kubeconfig file of a user known since the start.
    ///
    /// # Panics
    /// There is no such user: name it with [`Builder::user`].
    pub fn kubeconfig_for(&self, user: &str) -> PathBuf {
        self.token(user);
        credentials::kubeconfig_path(&self.directory, user)
    }

    /// Where logs, certificates and kubeconfigs of this cluster are. It stays after the end, for a while.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The binaries the cluster was made with.
    pub fn tools(&self) -> &Tools {
        &self.tools
    }

    /// A client of `admin` in the current runtime. It does not retry.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn client(&self) -> Client {
        self.client_for("admin")
    }

    /// The same for a user known since the start. Without RBAC bindings of the test's own it may do nothing.
    ///
    /// # Panics
    /// Outside a tokio runtime, or there is no such user: name it with [`Builder::user`].
    pub fn client_for(&self, user: &str) -> Client {
        let config = self.client_config(user);
        Client::try_from(config).expect("a client for our own kubeconfig")
    }

    /// A client configuration, to be changed by the caller.
    ///
    /// # Panics
    /// There is no such user: name it with [`Builder::user`].
    pub fn client_config(&self, user: &str) -> kube::Config {
        let mut config = kube::Config::new(self.server_url().parse().expect("our own URL"));
        config.root_cert = Some(vec![self.credentials.ca_der().to_vec()]);
        config.auth_info = serde_json::from_value(serde_json::json!({ "token": self.token(user) })).expect("a token");
        config.default_retry = false;
        config
    }

    /// etcd's process id.
    pub fn etcd_pid(&self) -> u32 {
        self.etcd.pid()
    }

    /// etcd's process, to stop and continue it.
    pub fn etcd(&self) -> &Process {
        &self.etcd
    }

    /// etcd's client URL.
    pub fn etcd_url(&self) -> &str {
        &self.etcd_url
    }

    /// kube-apiserver's process id; none while it is stopped.
    pub fn apiserver_pid(&self) -> Option<u32> {
        self.apiserver.lock().as_ref().map(Process::pid)
    }

    /// Sends kube-apiserver a signal (SIGSTOP and SIGCONT make it hang and go on).
    pub fn signal_apiserver(&self, signal: crate::process::Signal) {
        if let Some(process) = self.apiserver.lock().as_ref() {
            process.signal(signal);
        }
    }

    /// kube-controller-manager's process id, if it was started.
    pub fn controller_manager_pid(&self) -> Option<u32> {
        self.controller_manager
            .lock()
            .as_ref()
            .map(|(process, _)| process.pid())
    }

    /// `/readyz` is green a little before a Service can be created: wait for what the apiserver creates itself.
    async fn wait_usable(&self) -> Result<()> {
        let client = self.client();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let services: Api<Service> = Api::namespaced(client, "default");
        let usable = async || -> Result<()> {
            namespaces.get("kube-system").await?;
            services.get("kubernetes").await?;
            Ok(())
        };
        let started = tokio::time::Instant::now();
        while let Err(error) = usable().await {
            if started.elapsed() > START_DEADLINE {
                return Err(error).context("kube-apiserver did not create its own namespaces and Service");
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }
}
