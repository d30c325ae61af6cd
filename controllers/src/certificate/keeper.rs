//! The leader's part: keeps the Secret and what the webhook configurations trust, step by step. Each step is one write of one object, over the
//! version that was looked at, so that another leader can take over between any two.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::Value;
use svcplane_runtime::api::{Failure, Repeated, call};
use svcplane_runtime::client::RESPONSE_HEAD_LIMIT;
use svcplane_runtime::leader::TermHandle;
use svcplane_webhook::authority::Holdings;
use svcplane_webhook::handshake::{HandshakeError, shake_hands};
use svcplane_webhook::rotation::{EARLIEST, Policy, Seconds, Step, next};
use thiserror::Error;
use tokio::sync::watch;

use super::CertificateMetrics;
use super::one::{Known, Watching};
use super::published::{patch, trusted, trusts};
use crate::model::ObjectKey;
use crate::run::until;

/// Field manager of what is published.
const MANAGER: &str = "svcplane";

/// On the Secret, with any value: a new authority is wanted now.
const RENEW: &str = "svcplane.io/renew";

/// Label of the Secret.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "svcplane");

/// How soon is looked again after a failure, and at most how late at the term.
const RETRY: Duration = Duration::from_secs(1);

/// How long may be waited at most: clocks are set.
const LONGEST_WAIT: Duration = Duration::from_mins(10);

/// What is kept, and how.
#[derive(Clone, Debug)]
pub struct Keeping {
    /// The Secret.
    pub secret: ObjectKey,
    /// What the certificate is for.
    pub names: Vec<String>,
    /// How long certificates live.
    pub policy: Policy,
    /// The name of both webhook configurations.
    pub configuration: String,
    /// The Deployment with which the Secret goes.
    pub owner: Option<String>,
}

/// Why a step was not done.
#[derive(Debug, Error)]
enum StepError {
    #[error("{0}")]
    Call(Failure),
    #[error("{0}")]
    Make(#[from] svcplane_webhook::authority::MakeError),
    #[error("the webhook's certificate: {0}")]
    Handshake(#[from] HandshakeError),
}

impl StepError {
    fn as_str(&self) -> &'static str {
        match self {
            Self::Call(failure) => failure.as_str(),
            Self::Make(_) => "not_made",
            Self::Handshake(_) => "failed",
        }
    }

    /// The same as a failure of a call, for [`Repeated`].
    fn failure(&self) -> Failure {
        match self {
            Self::Call(failure) => failure.clone(),
            Self::Make(error) => Failure::Invalid(error.to_string()),
            Self::Handshake(error) => Failure::Invalid(error.to_string()),
        }
    }
}

impl From<Failure> for StepError {
    fn from(failure: Failure) -> Self {
        Self::Call(failure)
    }
}

/// Keeps it where this replica leads.
pub struct Keeper {
    keeping: Keeping,
    client: Client,
    term: TermHandle,
    metrics: CertificateMetrics,
    secret: watch::Receiver<Known<Secret>>,
    mutating: watch::Receiver<Known<MutatingWebhookConfiguration>>,
    validating: watch::Receiver<Known<ValidatingWebhookConfiguration>>,
    /// What was last found whole: a Secret that is deleted comes back as it was, and no handshake fails.
    remembered: Option<Holdings>,
    /// A bundle, and since when all configurations have been seen to trust it.
    seen: Option<(String, Seconds)>,
    /// Where this replica serves.
    server: SocketAddr,
    /// What a handshake was last good with.
    verified: Option<Holdings>,
}

impl Keeping {
    /// Starts its watches and its task.
    pub fn start(
        self,
        client: &Client,
        term: TermHandle,
        metrics: CertificateMetrics,
        secret: watch::Receiver<Known<Secret>>,
        server: SocketAddr,
        watching: &mut Watching<'_>,
    ) {
        let mutating = Api::all(client.clone());
        let validating = Api::all(client.clone());
        let keeper = Keeper {
            mutating: watching.start("mutatingwebhookconfigurations", mutating, &self.configuration),
            validating: watching.start("validatingwebhookconfigurations", validating, &self.configuration),
            keeping: Keeping {
                policy: Policy {
                    early: rand::random_range(0..=EARLIEST),
                    ..self.policy
                },
                ..self
            },
            client: client.clone(),
            term,
            metrics,
            secret,
            remembered: None,
            seen: None,
            server,
            verified: None,
        };
        let keep = until(watching.stop, keeper.keep());
        watching.tasks.spawn("webhook authorities", watching.stop, keep);
    }
}

impl Keeper {
    /// Runs for ever.
    async fn keep(mut self) {
        let mut trouble = Repeated::default();
        loop {
            let wait = match self.step().await {
                Ok(wait) => {
                    trouble.over(Instant::now());
                    wait
                }
                // Somebody was faster; the watch is about to show it.
                Err(StepError::Call(Failure::Conflict | Failure::AlreadyExists)) => RETRY,
                Err(error) => {
                    if trouble.news(&error.failure(), Instant::now()).is_some() {
                        tracing::warn!(%error, "cannot keep the webhook's certificate, trying again");
                    }
                    RETRY
                }
            };
            self.news(wait).await;
        }
    }

    /// Waits for so long at most, or until something it looks at has changed.
    async fn news(&mut self, wait: Duration) {
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            _ = self.term.changed() => {}
            () = changed(&mut self.secret) => {}
            () = changed(&mut self.mutating) => {}
            () = changed(&mut self.validating) => {}
        }
    }

    /// Does what comes next. Returns how long there is nothing to do unless something changes.
    async fn step(&mut self) -> Result<Duration, StepError> {
        let secret = self.secret.borrow_and_update().clone();
        let mutating = self.mutating.borrow_and_update().clone();
        let validating = self.validating.borrow_and_update().clone();
        let stored = match &secret {
            Known::There(secret) => read(secret),
            Known::Missing | Known::Nothing => Holdings::default(),
        };
        if stored.is_whole() {
            self.remembered = Some(stored.clone());
        }
        if self.term.check(Instant::now()).is_err() {
            self.seen = None;
            self.metrics.not_leading();
            return Ok(RETRY);
        }
        if matches!(secret, Known::Nothing)
            || matches!(mutating, Known::Nothing)
            || matches!(validating, Known::Nothing)
        {
            return Ok(LONGEST_WAIT);
        }
        if !stored.is_whole()
            && let Some(remembered) = &self.remembered
        {
            let outcome = self.store(&secret, remembered).await;
            return self.count("restore", outcome);
        }
        let (now, bundle) = (now(), stored.bundle());
        let published = [trusts(&mutating, &bundle), trusts(&validating, &bundle)];
        self.metrics.published("mutating", published[0]);
        self.metrics.published("validating", published[1]);
        let since = self.published_since(&bundle, published, now);
        let policy = &self.keeping.policy;
        let mut state = stored.state(&self.keeping.names, since);
        // Somebody asks for a new one, as if the old one could not sign any more.
        state.can_sign &= !asks_for_renewal(&secret);
        let step = next(&state, policy, now);
        let outcome = match step {
            Step::Wait(_) if stored.served().is_some() && self.verified.as_ref() != Some(&stored) => {
                let outcome = self.verify(&stored).await;
                return self.count("verify", outcome);
            }
            Step::Wait(until) => {
                let seconds = u64::try_from(until - now).unwrap_or_default();
                return Ok(Duration::from_secs(seconds).min(LONGEST_WAIT));
            }
            Step::Publish => self.publish(&mutating, &validating, &bundle).await,
            Step::NewAuthority => {
                // Of what others trust only what we cannot know better.
                let known = if stored.bundle().is_empty() {
                    trusted(&mutating) + &trusted(&validating)
                } else {
                    String::new()
                };
                let new = stored.with_new_authority(&known, policy, now)?;
                self.store(&without_request(secret), &new).await
            }
            Step::Issue => {
                let new = stored.with_new_leaf(&self.keeping.names, policy, now)?;
                self.store(&secret, &new).await
            }
            Step::DropOld => self.store(&secret, &stored.without_old(policy, now)).await,
        };
        self.count(step.as_str(), outcome)
    }

    /// Counts and logs a step. The watch shows what it has changed.
    fn count(&self, step: &str, outcome: Result<(), StepError>) -> Result<Duration, StepError> {
        match outcome {
            Ok(()) => {
                self.metrics.step(step, "ok");
                tracing::info!(step, "webhook certificate");
                Ok(RETRY)
            }
            Err(error) => {
                self.metrics.step(step, error.as_str());
                Err(error)
            }
        }
    }

    /// Shakes hands with ourselves as an apiserver does that trusts what is published. What is stored may be served a moment later than this
    /// replica has seen it, so a first one that fails means nothing.
    async fn verify(&mut self, stored: &Holdings) -> Result<(), StepError> {
        let (Some(served), Some(name)) = (stored.served(), self.keeping.names.first()) else {
            return Ok(());
        };
        let bundle = stored.bundle();
        let shake = async || shake_hands(self.server, name, &bundle, &served).await;
        if shake().await.is_err() {
            tokio::time::sleep(RETRY).await;
            shake().await?;
        }
        self.verified = Some(stored.clone());
        Ok(())
    }

    fn published_since(&mut self, bundle: &str, published: [Option<bool>; 2], now: Seconds) -> Option<Seconds> {
        if published.contains(&Some(false)) {
            self.seen = None;
            return None;
        }
        if published == [None, None] {
            // Nobody asks us: there is nobody to wait for.
            return Some(Seconds::MIN);
        }
        let since = match self.seen.take() {
            Some((seen, since)) if seen == bundle => since,
            _ => now,
        };
        self.seen = Some((bundle.to_owned(), since));
        Some(since)
    }

    async fn publish(
        &self,
        mutating: &Known<MutatingWebhookConfiguration>,
        validating: &Known<ValidatingWebhookConfiguration>,
        bundle: &str,
    ) -> Result<(), StepError> {
        if let Some(patch) = patch(mutating, bundle) {
            self.send::<MutatingWebhookConfiguration>(patch).await?;
        }
        if let Some(patch) = patch(validating, bundle) {
            self.send::<ValidatingWebhookConfiguration>(patch).await?;
        }
        Ok(())
    }

    async fn send<K>(&self, patch: Value) -> Result<(), Failure>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let api: Api<K> = Api::all(self.client.clone());
        let patch = Patch::Strategic(patch);
        call(
            RESPONSE_HEAD_LIMIT,
            api.patch(&self.keeping.configuration, &params, &patch),
        )
        .await?;
        Ok(())
    }

    /// Writes the Secret over the version that was looked at, or makes it.
    async fn store(&self, known: &Known<Secret>, holdings: &Holdings) -> Result<(), StepError> {
        let ObjectKey { namespace, name } = &self.keeping.secret;
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let params = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        let data: BTreeMap<String, ByteString> = holdings
            .data()
            .into_iter()
            .map(|(name, bytes)| (name, ByteString(bytes)))
            .collect();
        if let Known::There(secret) = known {
            let mut secret = secret.clone();
            secret.data = Some(data);
            call(RESPONSE_HEAD_LIMIT, api.replace(name, &params, &secret)).await?;
            return Ok(());
        }
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(name.to_string()),
                labels: Some([(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned())].into()),
                owner_references: self.owner(namespace).await?.map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            type_: Some("kubernetes.io/tls".to_owned()),
            data: Some(data),
            ..Secret::default()
        };
        call(RESPONSE_HEAD_LIMIT, api.create(&params, &secret)).await?;
        Ok(())
    }

    /// The Deployment, so that its end is the Secret's.
    async fn owner(&self, namespace: &str) -> Result<Option<OwnerReference>, Failure> {
        let Some(name) = &self.keeping.owner else {
            return Ok(None);
        };
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), namespace);
        let deployment = call(RESPONSE_HEAD_LIMIT, api.get_metadata(name)).await?;
        Ok(deployment.metadata.uid.map(|uid| OwnerReference {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            name: name.clone(),
            uid,
            ..OwnerReference::default()
        }))
    }
}

/// Waits for something new; for ever, if its watch has ended, which ends the process.
async fn changed<T>(known: &mut watch::Receiver<T>) {
    if known.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// It has been heard.
fn without_request(mut secret: Known<Secret>) -> Known<Secret> {
    if let Known::There(secret) = &mut secret
        && let Some(annotations) = &mut secret.metadata.annotations
    {
        annotations.remove(RENEW);
    }
    secret
}

fn asks_for_renewal(secret: &Known<Secret>) -> bool {
    matches!(secret, Known::There(secret) if secret.annotations().contains_key(RENEW))
}

fn read(secret: &Secret) -> Holdings {
    let data = secret.data.iter().flatten();
    Holdings::read(&data.map(|(name, bytes)| (name.clone(), bytes.0.clone())).collect())
}

fn now() -> Seconds {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |it| Seconds::try_from(it.as_secs()).unwrap_or(Seconds::MAX))
}
