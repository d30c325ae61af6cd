//! How svcplane is started.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;

use super::{GRACE, Svcplane};
use crate::binaries;
use crate::cluster::{Cluster, run_directory};
use crate::namespace::TestNamespace;
use crate::process::Program;

/// How long others wait after the last renewal of one that was started with [`Builder::short_lease`].
pub const SHORT_LEASE: Duration = Duration::from_secs(3);

/// How svcplane is to be started.
#[derive(Debug, Clone)]
pub struct Builder {
    program: Option<PathBuf>,
    command: Vec<String>,
    flags: Vec<String>,
    env: Vec<(String, String)>,
    name: String,
}

impl Builder {
    pub(super) fn new() -> Self {
        let flags = [
            "--mode=active",
            "--acknowledge-builtins-disabled",
            "--admin-address=127.0.0.1:0",
            "--debug-address=127.0.0.1:0",
            "--leader-elect-resource-namespace=kube-system",
            "--log-format=json",
        ];
        Self {
            program: None,
            command: vec!["run".into()],
            flags: flags.map(String::from).into(),
            env: Vec::new(),
            name: "svcplane".into(),
        }
    }

    /// A command with no flags yet.
    pub(crate) fn bare(command: &str) -> Self {
        Self {
            command: vec![command.into()],
            flags: Vec::new(),
            ..Self::new()
        }
    }

    /// The name of its log files.
    pub(crate) fn replica_named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// As `admin` of this cluster.
    #[must_use]
    pub fn cluster(self, cluster: &Cluster) -> Self {
        self.kubeconfig(cluster.kubeconfig())
    }

    /// With this kubeconfig, such as another user's or the fault proxy's.
    #[must_use]
    pub fn kubeconfig(self, path: impl AsRef<Path>) -> Self {
        self.arg(&format!("--kubeconfig={}", path.as_ref().display()))
    }

    /// Adds a flag, or replaces the one of the same name.
    #[must_use]
    pub fn arg(self, arg: &str) -> Self {
        let name = arg.split('=').next().unwrap_or(arg);
        let mut changed = self.without(name);
        changed.flags.push(arg.into());
        changed
    }

    /// Takes a flag away, given as `--name`.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.flags.retain(|flag| flag.split('=').next() != Some(name));
        self
    }

    /// With a Lease of its own in this namespace: it contends only with those that share it.
    #[must_use]
    pub fn lease_in(self, namespace: &TestNamespace) -> Self {
        self.arg(&format!("--leader-elect-resource-namespace={}", namespace.name()))
    }

    /// With a lease of [`SHORT_LEASE`], renewed twice a second.
    #[must_use]
    pub fn short_lease(self) -> Self {
        self.lease_times(SHORT_LEASE, Duration::from_secs(2), Duration::from_millis(500))
    }

    /// With these times instead of 15 s, 10 s and 2 s.
    #[must_use]
    pub fn lease_times(self, lease: Duration, renew_deadline: Duration, retry_period: Duration) -> Self {
        self.arg(&format!("--leader-elect-lease-duration={}ms", lease.as_millis()))
            .arg(&format!(
                "--leader-elect-renew-deadline={}ms",
                renew_deadline.as_millis()
            ))
            .arg(&format!("--leader-elect-retry-period={}ms", retry_period.as_millis()))
    }

    /// In observe mode, which is the default: it plans and counts, and may run beside others.
    #[must_use]
    pub fn observe(self) -> Self {
        self.without("--mode").without("--acknowledge-builtins-disabled")
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Tells several apart: the name of its log files.
    #[must_use]
    pub fn replica(mut self, number: usize) -> Self {
        self.name = format!("svcplane-{number}");
        self
    }

    /// Another program than svcplane, with these arguments before the flags instead of `run`.
    #[must_use]
    pub fn program(mut self, path: impl Into<PathBuf>, command: &[&str]) -> Self {
        self.program = Some(path.into());
        self.command = command.iter().map(ToString::to_string).collect();
        self
    }

    /// Starts it and waits until its servers listen.
    ///
    /// # Errors
    /// It ended, or does not listen; with the last lines of its log.
    pub async fn start(self) -> Result<Svcplane> {
        let mut svcplane = self.spawn()?;
        svcplane.admin_url = svcplane.wait_listening("admin server listening").await?;
        svcplane.debug_url = svcplane.wait_listening("debug server listening").await?;
        Ok(svcplane)
    }

    /// Starts it and waits for nothing. [`Svcplane::admin_url`] and [`Svcplane::debug_url`] stay empty.
    ///
    /// # Errors
    /// The binary cannot be built or executed.
    pub fn spawn(self) -> Result<Svcplane> {
        let program = self.program.map_or_else(binaries::svcplane, Ok)?;
        let directory = run_directory(&self.name)?;
        let stdout = directory.join("stdout.log");
        let mut start = Program::new(&self.name, program, directory.join("stderr.log"))
            .stdout(&stdout)
            .grace(GRACE)
            .args(self.command)
            .args(self.flags);
        for (name, value) in &self.env {
            start = start.env(name, value);
        }
        Ok(Svcplane {
            process: start.start()?,
            stdout,
            admin_url: String::new(),
            debug_url: String::new(),
        })
    }
}
