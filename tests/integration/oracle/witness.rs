//! The webhook in this process: svcplane's own server, which lets everything pass and keeps what it was asked.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::StatusCode;
use k8s_openapi::ByteString;
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use svcplane_webhook::admission::Endpoint;
use svcplane_webhook::certificate::Certificate;
use svcplane_webhook::review::{Answer, NotAReview, Request};
use svcplane_webhook::server::{Reviewer, Server};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::answer;

/// The bodies of reviews, by the namespace of their Service.
type Asked = Arc<Mutex<HashMap<String, Vec<Vec<u8>>>>>;

/// A server that listens, and is known to the apiserver for some namespaces.
pub(super) struct Witness {
    asked: Asked,
    stop: CancellationToken,
    task: JoinHandle<Result<(), rustls::Error>>,
}

struct Keeps(Asked);

impl Reviewer for Keeps {
    fn review(&self, _: Endpoint, body: &[u8]) -> Result<Vec<u8>, NotAReview> {
        let request = Request::parse(body)?;
        let namespace = request.namespace.as_deref().unwrap_or_default().to_owned();
        self.0.lock().entry(namespace).or_default().push(body.to_vec());
        Ok(Answer::default().into_review(&request.uid)?)
    }

    fn refused(&self, code: StatusCode) {
        panic!("the apiserver sent what is no review: {code}");
    }
}

impl Witness {
    /// Starts it, and registers it for the Services of these namespaces.
    pub(super) async fn start(client: &Client, namespaces: &[String]) -> Result<Self> {
        let made = rcgen::generate_simple_self_signed([Ipv4Addr::LOCALHOST.to_string()])?;
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let certificate = Certificate::from_pem(chain.as_bytes(), key.as_bytes())?;
        let (_, certificates) = watch::channel(Some(certificate));
        let server = Server::bind((Ipv4Addr::LOCALHOST, 0).into()).await?;
        let url = format!("https://{}/mutate", server.address());
        let (asked, stop) = (Asked::default(), CancellationToken::new());
        let task = tokio::spawn(server.run(Keeps(asked.clone()), certificates, stop.clone()));
        let witness = Self { asked, stop, task };
        let ca = ByteString(chain.into_bytes());
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "zz-oracle"},
            "webhooks": [{
                "name": "oracle.svcplane.io",
                "clientConfig": {"url": url, "caBundle": ca},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["services"]}],
                "namespaceSelector": {"matchExpressions":
                    [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces}]},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }],
        });
        let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
        answer::send(client, "POST", path, Some(&configuration))
            .await?
            .accepted()?;
        for namespace in namespaces {
            witness.wait_for(client, namespace).await?;
        }
        Ok(witness)
    }

    /// Registrations take a moment.
    async fn wait_for(&self, client: &Client, namespace: &str) -> Result<()> {
        let trial = json!({"metadata": {"name": "trial"}, "spec": {"ports": [{"port": 80}]}});
        let path = format!("/api/v1/namespaces/{namespace}/services?dryRun=All");
        for _ in 0..200 {
            answer::send(client, "POST", &path, Some(&trial)).await?.accepted()?;
            if !self.take(namespace).is_empty() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        anyhow::bail!("the apiserver does not ask the webhook for namespace {namespace}")
    }

    /// What was asked about this namespace since the last time.
    pub(super) fn take(&self, namespace: &str) -> Vec<Vec<u8>> {
        self.asked.lock().remove(namespace).unwrap_or_default()
    }

    /// Stops it.
    pub(super) async fn stop(self) -> Result<()> {
        ensure!(!self.task.is_finished(), "the witness ended early");
        self.stop.cancel();
        self.task.await?.context("the witness")
    }
}

/// Makes a namespace.
pub(super) async fn namespace(client: &Client, name: &str) -> Result<()> {
    let namespace: Value = json!({"metadata": {"name": name}});
    answer::send(client, "POST", "/api/v1/namespaces", Some(&namespace))
        .await?
        .accepted()?;
    Ok(())
}
