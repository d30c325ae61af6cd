//! The election's dealings with the apiserver: one task that reads, creates and replaces one Lease as the elector says.
//! Every call has a deadline, and every write carries the version it replaces.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DynamicObject, PostParams};
use kube::{Client, ResourceExt};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use super::args::{LeaseConfig, RESOURCE_NAMESPACE};
use super::elector::{Elector, Refusal, Step};
use super::handover::Handover;
use super::notes::notes;
use super::progress::Progress;
use super::record::{Record, Stamp};
use super::stored::{self, record_of, with_record};
use super::term::{Standing, Term, TermHandle, TermSender};
use crate::api::{Failure, Repeated, call, in_seconds, lasting};
use crate::metrics::LeaderElectionMetrics;

/// Set to `observe` on the Lease by the breaker and by `svcplane handback`; see [`Term::forced_observe`].
pub const MODE_ANNOTATION: &str = "svcplane.io/mode";

/// How long a release may take at shutdown.
const RELEASE_LIMIT: Duration = Duration::from_secs(1);

/// This process's name in elections: the Pod's, or else the host's, and a part that no other process has.
pub fn identity() -> String {
    let pod = std::env::var("POD_NAME").ok().filter(|name| !name.is_empty());
    let host = || {
        std::fs::read_to_string("/proc/sys/kernel/hostname")
            .ok()
            .map(|name| name.trim().to_owned())
    };
    let name = pod.or_else(host).unwrap_or_else(|| "svcplane".to_owned());
    format!(
        "{name}_{}",
        uuid::Builder::from_random_bytes(rand::random()).into_uuid()
    )
}

/// One election, to be run as one task.
pub struct LeaderElection {
    api: Api<DynamicObject>,
    config: LeaseConfig,
    elector: Elector,
    handover: Handover,
    /// The Lease as last read or written.
    lease: Option<DynamicObject>,
    /// Its metadata when it last existed: what a person or the breaker set on it outlives a deletion.
    metadata: ObjectMeta,
    term: TermSender,
    metrics: LeaderElectionMetrics,
    progress: Progress,
    /// What was said of the Lease, so that it is said once.
    unknown_mode: Option<String>,
    long_duration: Option<(i32, Duration)>,
    reads: Repeated,
    writes: Repeated,
}

impl LeaderElection {
    /// An election for the Lease of `config`. `client` must not retry by itself (`default_retry` off). `identity` must be
    /// unique to this process ([`identity`]).
    pub fn new(
        client: Client,
        config: LeaseConfig,
        identity: String,
        metrics: LeaderElectionMetrics,
    ) -> (Self, TermHandle) {
        let (term, handle) = TermSender::new();
        let api = stored::leases(client, &config.namespace);
        let election = Self {
            handover: Handover::new(api.clone(), &config.name),
            api,
            elector: Elector::new(identity, config.timing),
            lease: None,
            metadata: ObjectMeta::default(),
            term,
            metrics,
            progress: Progress::new(&config),
            unknown_mode: None,
            long_duration: None,
            reads: Repeated::default(),
            writes: Repeated::default(),
            config,
        };
        (election, handle)
    }

    /// What `/livez` and `/readyz` ask.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Contends for the Lease until `shutdown`, then gives it back within a second. Cancel `shutdown` only when no write
    /// that depends on the term is under way any more.
    pub async fn run(mut self, shutdown: CancellationToken) {
        info!(lease = %self.config, identity = self.elector.identity(), "attempting to acquire leader lease");
        // `None` ends the loop: a call that is cut short is settled by the release.
        while shutdown.run_until_cancelled(self.turn()).await.is_some() {}
        if tokio::time::timeout(RELEASE_LIMIT, self.release()).await.is_err() {
            warn!(lease = %self.config, "the lease could not be released in time; it runs out by itself");
        }
    }

    /// One step of the elector.
    async fn turn(&mut self) {
        let now = Stamp::now();
        let step = self.elector.step(now, rand::random_range(0.0..1.0));
        self.publish(now);
        match step {
            Step::Sleep(until) => self.sleep(until).await,
            Step::Read => self.read(self.elector.call_limit(now)).await,
            Step::Create(record) => {
                let metadata = ObjectMeta {
                    name: Some(self.config.name.clone()),
                    namespace: Some(self.config.namespace.clone()),
                    labels: self.metadata.labels.clone(),
                    annotations: self.metadata.annotations.clone(),
                    ..ObjectMeta::default()
                };
                let lease = with_record(stored::new(metadata), &record);
                let created = call(self.elector.call_limit(now), self.api.create(&parameters(), &lease)).await;
                let created = created.map_err(|failure| match failure {
                    Failure::NotFound => {
                        let namespace = &self.config.namespace;
                        let text = format!(
                            "namespace {namespace} does not exist: create it, or name another with {RESOURCE_NAMESPACE}"
                        );
                        Failure::Refused(404, text)
                    }
                    other => other,
                });
                self.wrote(created);
            }
            Step::Replace(record) => {
                let replaced = self.replace(self.elector.call_limit(now), &record).await;
                self.wrote(replaced);
            }
        }
        self.publish(Stamp::now());
    }

    /// Waits; as a candidate, at the longest until the Lease changes.
    async fn sleep(&mut self, until: Instant) {
        let leading = self.elector.tenure(Stamp::now()).is_some();
        let version = self
            .lease
            .as_ref()
            .filter(|_| !leading)
            .and_then(ResourceExt::resource_version);
        tokio::select! {
            () = tokio::time::sleep_until(until.into()) => {}
            () = self.handover.wait(version) => self.elector.look_now(),
        }
    }

    async fn read(&mut self, limit: Duration) {
        let found = call(limit, self.api.get_opt(&self.config.name)).await;
        let now = Stamp::now();
        match found {
            Ok(lease) => {
                self.works(Access::Read);
                self.elector.read(now, lease.as_ref().map(record_of));
                self.remember(lease);
                let holder = self.elector.holder();
                if !holder.is_empty() && holder != self.elector.identity() {
                    // Nothing is to be written any more; the next failure is a new one.
                    self.writes.over(now.monotonic);
                }
            }
            Err(failure) => {
                self.elector.read_failed();
                self.fails(Access::Read, &failure);
            }
        }
    }

    async fn replace(&mut self, limit: Duration, record: &Record) -> Result<DynamicObject, Failure> {
        match &self.lease {
            // A PUT without a version would be unconditional.
            Some(lease)
                if lease
                    .metadata
                    .resource_version
                    .as_ref()
                    .is_some_and(|version| !version.is_empty()) =>
            {
                let lease = with_record(lease.clone(), record);
                call(limit, self.api.replace(&self.config.name, &parameters(), &lease)).await
            }
            _ => Err(Failure::Conflict),
        }
    }

    /// Notes the outcome of a write.
    fn wrote(&mut self, outcome: Result<DynamicObject, Failure>) {
        let now = Stamp::now();
        match outcome {
            Ok(lease) => {
                self.works(Access::Write);
                self.elector.written(now, record_of(&lease));
                self.remember(Some(lease));
            }
            // Somebody else was faster: the write certainly did not happen.
            Err(failure @ (Failure::Conflict | Failure::AlreadyExists | Failure::NotFound)) => {
                debug!(lease = %self.config, %failure, "lease not written");
                self.elector.not_written(Refusal::Definite);
            }
            Err(failure) => {
                self.elector.not_written(Refusal::Unknown);
                self.fails(Access::Write, &failure);
            }
        }
    }

    fn remember(&mut self, lease: Option<DynamicObject>) {
        if let Some(lease) = &lease {
            self.metadata = lease.metadata.clone();
            self.progress.found();
        }
        self.lease = lease;
    }

    /// Gives the Lease back if it is ours: the term ends first. Retries on conflict, as client-go does, because a renewal
    /// that was cut short may have happened.
    async fn release(&mut self) {
        let released = self.elector.release(Stamp::now());
        self.publish(Stamp::now());
        if released.is_none() && !self.elector.is_uncertain() {
            return;
        }
        loop {
            if self.elector.is_uncertain() {
                self.read(RELEASE_LIMIT).await;
            }
            let Some(record) = self.elector.release(Stamp::now()) else {
                return;
            };
            match self.replace(RELEASE_LIMIT, &record).await {
                Ok(_) => {
                    info!(lease = %self.config, "released the lease");
                    return;
                }
                Err(Failure::Conflict) => self.read(RELEASE_LIMIT).await,
                Err(failure) => {
                    warn!(lease = %self.config, "the lease was not released and runs out by itself: {failure}");
                    return;
                }
            }
        }
    }

    /// A mistyped word must not look like an order that is obeyed.
    fn warn_of_unknown_mode(&mut self) {
        let mode = self
            .metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(MODE_ANNOTATION));
        let unknown = mode.filter(|mode| !mode.eq_ignore_ascii_case("observe")).cloned();
        if unknown != self.unknown_mode {
            if let Some(mode) = &unknown {
                warn!(lease = %self.config, "the lease's annotation {MODE_ANNOTATION}={mode} means nothing: only \"observe\" stops endpoint writes");
            }
            self.unknown_mode = unknown;
        }
    }

    /// Nobody leads for longer than anybody would expect: the log says which field to mend.
    fn warn_of_long_duration(&mut self) {
        let found = self.elector.disbelieved();
        if found == self.long_duration {
            return;
        }
        if let Some((seconds, most)) = found {
            warn!(lease = %self.config, "the lease's leaseDurationSeconds={seconds} is far more than --leader-elect-lease-duration: it is believed for {} s only", most.as_secs());
        }
        self.long_duration = found;
    }

    /// Publishes where the election stands `now`.
    fn publish(&mut self, now: Stamp) {
        self.progress.goes_on(now.monotonic);
        let tenure = self.elector.tenure(now);
        let annotations = self.metadata.annotations.as_ref();
        let term = Term {
            standing: tenure.map_or(Standing::Follower, Standing::Leader),
            forced_observe: annotations
                .and_then(|all| all.get(MODE_ANNOTATION))
                .is_some_and(|mode| mode.eq_ignore_ascii_case("observe")),
            holder: self.elector.holder().to_owned(),
            notes: Arc::new(notes(&self.metadata)),
        };
        let (holder, forced_observe) = (term.holder.clone(), term.forced_observe);
        let before = self.term.publish(term);
        let lease = &self.config;
        match (before.standing, tenure) {
            (Standing::Leader(_), None) => {
                self.led(0);
                let trouble = self.writes.last().or(self.reads.last());
                info!(%lease, holder, trouble = trouble.map(tracing::field::display), "stopped leading");
            }
            (Standing::Follower, Some(tenure)) => {
                self.led(1);
                info!(%lease, transitions = tenure.transitions, "became leader");
            }
            _ => {}
        }
        let is_another = !holder.is_empty() && holder != self.elector.identity();
        if tenure.is_none() && is_another && before.holder != holder {
            info!("standing by: {holder} holds Lease {lease}");
        }
        if before.forced_observe != forced_observe {
            warn!(%lease, forced_observe, "the lease's annotation {MODE_ANNOTATION} changed");
        }
        self.warn_of_unknown_mode();
        self.warn_of_long_duration();
        let counted = self.metrics.slowpath.get();
        self.metrics
            .slowpath
            .inc_by(self.elector.slow_renewals().saturating_sub(counted));
    }

    fn led(&self, status: i64) {
        self.metrics.master_status.set(status);
        self.metrics.transitions.inc();
    }

    fn fails(&mut self, access: Access, failure: &Failure) {
        let said = match access {
            Access::Read => &mut self.reads,
            Access::Write => &mut self.writes,
        };
        let (lease, access) = (&self.config, access.as_str());
        self.progress
            .fails(|| format!("cannot {access} Lease {lease}: {failure}"));
        let Some(time) = said.news(failure, Stamp::now().monotonic) else {
            return;
        };
        let text = format!("cannot {access} the lease{}: {failure}", lasting(time));
        // Only a person makes a namespace.
        if matches!(failure, Failure::Refused(404, _)) {
            error!(%lease, "{text}");
        } else {
            warn!(%lease, "{text}");
        }
    }

    /// A Lease that can be read is not yet one that can be written: a candidate reads before each write.
    fn works(&mut self, access: Access) {
        let now = Stamp::now().monotonic;
        let read = self.reads.over(now).map(|time| (Access::Read, time));
        let written = match access {
            Access::Read => None,
            Access::Write => self.writes.over(now).map(|time| (Access::Write, time)),
        };
        for (again, time) in [read, written].into_iter().flatten() {
            info!(lease = %self.config, after = in_seconds(time), "can {} the lease again", again.as_str());
        }
    }
}

/// What was done with the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

impl Access {
    fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

pub(super) fn parameters() -> PostParams {
    PostParams {
        field_manager: Some("svcplane".to_owned()),
        ..PostParams::default()
    }
}

#[cfg(test)]
mod tests;
