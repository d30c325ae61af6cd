//! svcplane as a process.

mod builder;
mod replica;
mod waiting;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use http::StatusCode;
use serde_json::Value;

pub use self::builder::{Builder, SHORT_LEASE};
pub use self::replica::Replica;
use crate::cluster::{self, on_own_runtime};
use crate::fetch;
use crate::metrics::Metrics;
use crate::process::{Exit, Process, Signal};
use crate::proxy::FaultProxy;

/// How long svcplane may take to listen, to be ready or to lead on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);
/// How long it gets after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);
/// The pause between two looks at something that cannot be watched.
const POLL: Duration = Duration::from_millis(30);

/// The svcplane that all tests of this process share, active on [`cluster::shared`] and ready.
///
/// # Panics
/// It cannot be started.
pub fn shared() -> &'static Svcplane {
    static SHARED: OnceLock<Result<Svcplane, String>> = OnceLock::new();
    let started = SHARED.get_or_init(|| {
        on_own_runtime(async || {
            let svcplane = Svcplane::builder().cluster(cluster::shared()).start().await?;
            svcplane.wait_leader().await?;
            Ok(svcplane)
        })
    });
    started
        .as_ref()
        .unwrap_or_else(|error| panic!("the shared svcplane did not start: {error}"))
}

/// Waits until no other test of this process holds what this returns. A test that starts an active svcplane of its own
/// holds it: active ones with Leases of their own would all write the same objects.
pub async fn alone() -> tokio::sync::MutexGuard<'static, ()> {
    static ACTIVE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    ACTIVE.lock().await
}

/// As [`shared`], but behind a fault proxy of its own, which counts its writes and makes them fail. A test binary uses
/// one of the two, since only one svcplane leads.
///
/// # Panics
/// It cannot be started.
pub fn shared_behind_proxy() -> &'static (FaultProxy, Svcplane) {
    static SHARED: OnceLock<Result<(FaultProxy, Svcplane), String>> = OnceLock::new();
    let cluster = cluster::shared();
    let started = SHARED.get_or_init(|| {
        on_own_runtime(async || {
            let proxy = FaultProxy::start(cluster)?;
            let kubeconfig = proxy.kubeconfig(cluster.admin_token())?;
            let svcplane = Svcplane::builder().kubeconfig(kubeconfig).start().await?;
            svcplane.wait_leader().await?;
            Ok((proxy, svcplane))
        })
    });
    started
        .as_ref()
        .unwrap_or_else(|error| panic!("the shared svcplane did not start: {error}"))
}

/// A running svcplane. Dropping it sends SIGTERM and waits.
#[derive(Debug)]
pub struct Svcplane {
    process: Process,
    stdout: PathBuf,
    admin_url: String,
    debug_url: String,
}

impl Svcplane {
    /// `svcplane run` with all its controllers, active, logging JSON, with servers on free ports of loopback.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Its process, for what is not here.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// `http://127.0.0.1:PORT` of the admin server.
    pub fn admin_url(&self) -> &str {
        &self.admin_url
    }

    /// `http://127.0.0.1:PORT` of the server of `/debug/state`.
    pub fn debug_url(&self) -> &str {
        &self.debug_url
    }

    /// Looks for the address of its admin server in its log, if it was only [spawned](Builder::spawn).
    pub(crate) fn find_admin(&mut self) {
        if self.admin_url.is_empty()
            && let Some(entry) = self.log_entries("admin server listening").first()
            && let Some(address) = field(entry, "address")
        {
            self.admin_url = format!("http://{address}");
        }
    }

    /// A page of the admin server.
    ///
    /// # Errors
    /// No answer within 10 s.
    pub async fn get(&self, path: &str) -> Result<(StatusCode, String)> {
        fetch::get(&format!("{}{path}", self.admin_url)).await
    }

    /// `/metrics`.
    ///
    /// # Errors
    /// No answer within 10 s, or another status than 200.
    pub async fn metrics(&self) -> Result<Metrics> {
        let (status, page) = self.get("/metrics").await?;
        if status != StatusCode::OK {
            bail!("/metrics answered {status}: {page}");
        }
        Ok(Metrics::parse(&page))
    }

    /// `/debug/state`.
    ///
    /// # Errors
    /// No answer within 10 s, another status than 200, or no JSON.
    pub async fn debug_state(&self) -> Result<Value> {
        let (status, page) = fetch::get(&format!("{}/debug/state", self.debug_url)).await?;
        if status != StatusCode::OK {
            bail!("/debug/state answered {status}: {page}");
        }
        serde_json::from_str(&page).context("/debug/state")
    }

    /// Its name in elections, as the Lease shows it.
    ///
    /// # Errors
    /// As [`Svcplane::debug_state`].
    pub async fn identity(&self) -> Result<String> {
        let state = self.debug_state().await?;
        Ok(state["identity"]
            .as_str()
            .context("no identity in /debug/state")?
            .to_owned())
    }

    /// Whether `/readyz` says yes.
    ///
    /// # Errors
    /// No answer within 10 s.
    pub async fn readyz(&self) -> Result<bool> {
        Ok(self.get("/readyz").await?.0 == StatusCode::OK)
    }

    /// Whether it leads: `leader_election_master_status{name="svcplane"}` is 1.
    ///
    /// # Errors
    /// As [`Svcplane::metrics`].
    pub async fn leads(&self) -> Result<bool> {
        let status = self
            .metrics()
            .await?
            .get("leader_election_master_status", &[("name", "svcplane")]);
        Ok(status.is_some_and(|status| status > 0.5))
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// SIGSTOP: it hangs.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT: it goes on.
    pub fn cont(&self) {
        self.signal(Signal::CONT);
    }

    /// SIGTERM, and waits for its end.
    ///
    /// # Errors
    /// It still runs after 10 s.
    pub async fn terminate(&self) -> Result<Exit> {
        self.signal(Signal::TERM);
        self.wait_exit(GRACE).await
    }

    /// SIGKILL, and waits.
    ///
    /// # Errors
    /// It cannot be ended.
    pub async fn kill9(&self) -> Result<Exit> {
        self.process.kill9().await
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It still runs at the deadline.
    pub async fn wait_exit(&self, deadline: Duration) -> Result<Exit> {
        self.process.wait_exit(deadline).await
    }

    /// Whole lines of standard output and error so far.
    pub fn log_lines(&self) -> Vec<String> {
        let mut lines = whole_lines(&self.stdout);
        lines.extend(whole_lines(self.process.log()));
        lines
    }

    /// What it wrote to standard error so far.
    pub fn stderr(&self) -> String {
        fs::read_to_string(self.process.log()).unwrap_or_default()
    }

    /// What it wrote to standard output so far.
    pub fn stdout(&self) -> String {
        fs::read_to_string(&self.stdout).unwrap_or_default()
    }

    /// The JSON lines of its log with exactly this message.
    pub fn log_entries(&self, message: &str) -> Vec<Value> {
        let entries = self.log_lines().into_iter().filter(|line| line.contains(message));
        entries
            .filter_map(|line| serde_json::from_str::<Value>(&line).ok())
            .filter(|entry| field(entry, "message") == Some(message))
            .collect()
    }

    fn tails(&self) -> String {
        self.process.log_tail() + &crate::process::tail(&self.stdout, 15)
    }
}

/// The last line is left out while it has no end.
fn whole_lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let end = text.rfind('\n').unwrap_or(0);
    text[..end].lines().map(String::from).collect()
}

/// A field of a log line, which tracing puts below `fields` or at the top.
fn field<'a>(entry: &'a Value, name: &str) -> Option<&'a str> {
    entry["fields"][name].as_str().or_else(|| entry[name].as_str())
}
