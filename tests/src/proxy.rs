//! The fault proxy: plain HTTP/1.1 on loopback for the client, TLS to the apiserver, and in between whatever a test
//! wants to go wrong. It never retries and never invents a reply that no rule asked for. Replies come uncompressed.
//!
//! ```text
//! let proxy = FaultProxy::start(&cluster)?;
//! let kubeconfig = proxy.kubeconfig(cluster.admin_token())?;
//! // ... start svcplane with it, then:
//! let conflict = Action::Refuse(Refusal::conflict());
//! let rule = proxy.rule(Match::writes("endpoints").name("web"), conflict, Times::First(1));
//! rule.wait_hits(1, Duration::from_secs(5)).await?;
//! assert!(proxy.writes("endpoints", "default").len() >= 1);
//! ```
//!
//! Faults between one replica and the apiserver: by `User-Agent` ([`Match::user_agent`]), or with a proxy per replica.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

mod body;
mod connection;
mod matcher;
mod record;
mod refusal;
mod request;
mod rule;
mod serve;
mod shared;
mod stream;
mod upstream;
mod wire;

pub use matcher::Match;
pub use record::{Outcome, Record};
pub use refusal::Refusal;
pub use request::ApiRequest;
pub use rule::{Action, RuleHandle, Times, WatchEnd};

use crate::cluster::Cluster;
use shared::Shared;
use upstream::Upstream;

/// A running proxy; dropping it closes every connection.
///
/// It runs on threads of its own, so a test that blocks its runtime does not stop it, and every method may be called
/// from any runtime.
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    door: mpsc::Sender<(Door, oneshot::Sender<io::Result<()>>)>,
    runtime: Option<tokio::runtime::Runtime>,
    files: tempfile::TempDir,
}

/// Whether new connections are let in.
#[derive(Clone, Copy)]
enum Door {
    Open,
    Shut,
}

impl FaultProxy {
    /// Starts a proxy in front of `cluster`'s apiserver. It outlives restarts of the apiserver.
    pub fn start(cluster: &Cluster) -> anyhow::Result<Self> {
        Self::in_front_of(&cluster.server_url(), cluster.ca_pem())
    }

    /// Starts a proxy in front of the apiserver at `url` (`https://host:port`), whose certificate `ca_pem` verifies.
    pub fn in_front_of(url: &str, ca_pem: &str) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared::new(Upstream::new(url, ca_pem)?));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("fault-proxy")
            .enable_all()
            .build()?;
        let (door, orders) = mpsc::channel(1);
        let listener =
            std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("fault proxy: bind on loopback")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let within = runtime.enter();
        let listener = TcpListener::from_std(listener)?;
        drop(within);
        runtime.spawn(accept(Arc::clone(&shared), listener, address, orders));
        Ok(Self {
            address,
            shared,
            door,
            runtime: Some(runtime),
            files: tempfile::tempdir()?,
        })
    }

    /// `http://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Writes a kubeconfig for this proxy with the bearer `token`, in a directory that goes with the proxy.
    pub fn kubeconfig(&self, token: &str) -> anyhow::Result<PathBuf> {
        let server = format!("{}{}", self.url(), self.shared.prefix_for(token));
        // JSON is YAML.
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": server}}],
            "users": [{"name": "user", "user": {"token": token}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "user"}}],
        });
        let mut file = tempfile::Builder::new()
            .suffix(".kubeconfig")
            .tempfile_in(self.files.path())?;
        writeln!(file, "{config}")?;
        Ok(file.keep()?.1)
    }

    /// A client through this proxy with the bearer `token`: no retries of its own, no read time-out.
    pub fn client(&self, token: &str) -> anyhow::Result<kube::Client> {
        let mut config = kube::Config::new(self.url().parse()?);
        config.auth_info.token = Some(token.to_owned().into());
        config.read_timeout = None;
        config.default_retry = false;
        Ok(kube::Client::try_from(config)?)
    }

    /// Puts a rule in force. Of the rules that match, the oldest acts.
    pub fn rule(&self, matcher: Match, action: Action, times: Times) -> RuleHandle {
        RuleHandle {
            id: self.shared.rules.add(matcher, action, times),
            rules: Arc::clone(&self.shared.rules),
        }
    }

    /// Removes every rule.
    pub fn clear_rules(&self) {
        self.shared.rules.clear();
    }

    /// Nothing passes to or from clients whose `User-Agent` contains this, and nobody is told, until the rule is
    /// removed; then what still waits goes on.
    pub fn partition(&self, user_agent: &str) -> RuleHandle {
        self.rule(Match::any().user_agent(user_agent), Action::Hold, Times::Always)
    }

    /// Resets the connections of such clients, and each new request of theirs, until the rule is removed.
    pub fn cut_off(&self, user_agent: &str) -> RuleHandle {
        let rule = self.rule(Match::any().user_agent(user_agent), Action::ResetBefore, Times::Always);
        self.shared.reset_connections(user_agent);
        rule
    }

    /// Resets the connections whose last request came from such a client (`""`: all) and gives their number.
    pub fn reset_connections(&self, user_agent: &str) -> usize {
        self.shared.reset_connections(user_agent)
    }

    /// Ends the open watches that `matcher` takes and gives their number.
    pub fn end_watches(&self, matcher: &Match, how: &WatchEnd) -> usize {
        self.shared.end_watches(matcher, how)
    }

    /// The number of open watches that `matcher` takes.
    pub fn open_watches(&self, matcher: &Match) -> usize {
        self.shared.open_watches(matcher)
    }

    /// The apiserver is away: open connections are reset, new ones refused, until [`FaultProxy::accept_connections`].
    pub async fn refuse_connections(&self) -> anyhow::Result<()> {
        self.set_door(Door::Shut).await?;
        self.shared.reset_connections("");
        Ok(())
    }

    /// Lets connections in again, on the same port.
    pub async fn accept_connections(&self) -> anyhow::Result<()> {
        self.set_door(Door::Open).await
    }

    async fn set_door(&self, door: Door) -> anyhow::Result<()> {
        let (done, answer) = oneshot::channel();
        self.door.send((door, done)).await?;
        answer
            .await?
            .with_context(|| format!("fault proxy: listen on {}", self.address))
    }

    /// Keeps request bodies in the records from now on.
    pub fn keep_bodies(&self, keep: bool) {
        self.shared.records.keep_bodies(keep);
    }

    /// The requests that `matcher` takes, oldest first, those in flight included.
    ///
    /// # Panics
    /// If old records had to go for lack of room (200,000 are kept).
    pub fn requests(&self, matcher: &Match) -> Vec<Record> {
        self.shared.records.select(matcher)
    }

    /// What the apiserver has refused for want of a right.
    pub fn forbidden(&self) -> Vec<Record> {
        let requests = self.requests(&Match::any()).into_iter();
        requests.filter(|it| it.status == Some(403)).collect()
    }

    /// Writes that reached the server and that `matcher` takes; dry runs are none.
    pub fn writes_of(&self, matcher: &Match) -> Vec<Record> {
        let mut records = self.requests(matcher);
        records.retain(Record::is_write);
        records
    }

    /// Writes of `resource` in `namespace` (`""`: all namespaces) that reached the server.
    pub fn writes(&self, resource: &str, namespace: &str) -> Vec<Record> {
        let matcher = Match::writes(resource);
        if namespace.is_empty() {
            return self.writes_of(&matcher);
        }
        self.writes_of(&matcher.namespace(namespace))
    }

    /// Those of [`FaultProxy::writes_of`] that changed the stored object, and those of which that is not known.
    pub fn writes_that_changed(&self, matcher: &Match) -> Vec<Record> {
        let mut records = self.writes_of(matcher);
        records.retain(|r| r.changed != Some(false));
        records
    }

    /// Forgets the requests so far.
    pub fn clear_records(&self) {
        self.shared.records.clear();
    }

    /// Waits until the requests that `matcher` takes satisfy `enough`, and gives them; an error tells how many there
    /// were at the deadline.
    pub async fn wait_requests(
        &self,
        matcher: &Match,
        deadline: Duration,
        enough: impl Fn(&[Record]) -> bool,
    ) -> anyhow::Result<Vec<Record>> {
        let mut changes = self.shared.records.subscribe();
        let wait = async {
            loop {
                let records = self.requests(matcher);
                if enough(&records) {
                    return records;
                }
                if changes.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        match tokio::time::timeout(deadline, wait).await {
            Ok(records) => Ok(records),
            Err(_) => anyhow::bail!(
                "the {} requests seen ({matcher:?}) are not what was waited for after {deadline:?}",
                self.requests(matcher).len()
            ),
        }
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        // A runtime may not be dropped within another one's task; this does not wait.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept(
    shared: Arc<Shared>,
    listener: TcpListener,
    address: SocketAddr,
    mut orders: mpsc::Receiver<(Door, oneshot::Sender<io::Result<()>>)>,
) {
    let mut listener = Some(listener);
    loop {
        tokio::select! {
            accepted = accept_on(listener.as_ref()) => match accepted {
                // Ends with its connection, or with the proxy's runtime.
                Ok((tcp, _)) => drop(tokio::spawn(Arc::clone(&shared).serve(tcp))),
                // Such as "too many open files": it passes when connections close.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            },
            order = orders.recv() => {
                let Some((door, done)) = order else { return };
                let result = match (door, &listener) {
                    (Door::Shut, _) => {
                        listener = None;
                        Ok(())
                    }
                    (Door::Open, Some(_)) => Ok(()),
                    (Door::Open, None) => TcpListener::bind(address).await.map(|l| listener = Some(l)),
                };
                let _ = done.send(result);
            }
        }
    }
}

async fn accept_on(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}
