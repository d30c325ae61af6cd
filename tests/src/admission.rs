//! svcplane's admission webhook as a cluster's owner installs it: certificate, custom resources, configurations.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use futures::future::try_join_all;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use k8s_openapi::ByteString;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::client::Body;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::cluster::run_directory;
use crate::eventually::eventually_one;
use crate::ran;
use crate::svcplane::{Builder, Svcplane};

/// How long an apiserver may take to learn of a resource or a webhook.
const DEADLINE: Duration = Duration::from_secs(60);

/// The pause between two looks at something that cannot be watched.
const POLL: Duration = Duration::from_millis(100);

/// Certificate and key of a webhook on loopback, in files.
#[derive(Debug)]
pub struct Credentials {
    chain: PathBuf,
    key: PathBuf,
    ca: ByteString,
}

impl Credentials {
    /// Makes them, for 127.0.0.1 and for 0.0.0.0, which leads to the same place and which the apiserver does not take for loopback: it
    /// speaks HTTP/1.1 there, over as many connections as it needs, as it does to a Service.
    ///
    /// # Errors
    /// The files cannot be written.
    pub fn make() -> Result<Self> {
        let names = [Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED].map(|address| address.to_string());
        let made = rcgen::generate_simple_self_signed(names)?;
        let directory = run_directory("webhook")?;
        let (chain, key) = (directory.join("tls.crt"), directory.join("tls.key"));
        std::fs::write(&chain, made.cert.pem())?;
        std::fs::write(&key, made.signing_key.serialize_pem())?;
        Ok(Self {
            chain,
            key,
            ca: ByteString(made.cert.pem().into_bytes()),
        })
    }

    /// svcplane with a webhook on a free port of loopback.
    #[must_use]
    pub fn serve(&self, builder: Builder) -> Builder {
        builder
            .arg("--webhook-address=127.0.0.1:0")
            .arg(&format!("--webhook-tls-cert-file={}", self.chain.display()))
            .arg(&format!("--webhook-tls-private-key-file={}", self.key.display()))
    }

    /// Registers the webhook at `HOST:PORT` for all Services and pools, those of kube-system apart, and waits until the apiserver asks it.
    ///
    /// # Errors
    /// The apiserver does not ask it within a minute.
    pub async fn register(&self, client: &Client, address: &str, asked: &[&Svcplane]) -> Result<()> {
        for (kind, path) in [
            ("MutatingWebhookConfiguration", "mutate"),
            ("ValidatingWebhookConfiguration", "validate"),
        ] {
            let mut webhooks = vec![self.entry(
                &format!("{path}.services.svcplane.io"),
                address,
                path,
                "",
                "v1",
                &["services"],
            )];
            if path == "validate" {
                let pools = ["clusterippools", "loadbalancerpools", "nodeportpools"];
                webhooks.push(self.entry("pools.svcplane.io", address, path, "svcplane.io", "v1alpha1", &pools));
            }
            let configuration = json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": "zz-svcplane"},
                "webhooks": webhooks,
            });
            let collection = format!("{}s", kind.to_lowercase());
            let path = format!("/apis/admissionregistration.k8s.io/v1/{collection}");
            send(client, "POST", &path, Some(&configuration)).await?.accepted()?;
        }
        is_asked(client, asked).await
    }

    fn entry(&self, name: &str, address: &str, path: &str, group: &str, version: &str, resources: &[&str]) -> Value {
        // A pool in use is not deleted by mistake.
        let operations = if group.is_empty() {
            vec!["CREATE", "UPDATE"]
        } else {
            vec!["CREATE", "UPDATE", "DELETE"]
        };
        json!({
            "name": name,
            "clientConfig": {"url": format!("https://{address}/{path}"), "caBundle": self.ca},
            "rules": [{"apiGroups": [group], "apiVersions": [version], "operations": operations, "resources": resources}],
            "namespaceSelector": {"matchExpressions":
                [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]},
            "failurePolicy": "Ignore",
            "timeoutSeconds": 5,
            "sideEffects": "NoneOnDryRun",
            "admissionReviewVersions": ["v1"],
        })
    }
}

/// Asks for a Service until both endpoints of one of these have answered.
async fn is_asked(client: &Client, asked: &[&Svcplane]) -> Result<()> {
    let trial = json!({"metadata": {"name": "trial"}, "spec": {"ports": [{"port": 80}]}});
    let answered = async |endpoint| -> Result<f64> {
        let pages = try_join_all(asked.iter().map(|svcplane| svcplane.metrics())).await?;
        let labels = [("endpoint", endpoint)];
        Ok(pages
            .iter()
            .map(|page| page.sum("svcplane_admission_reviews_total", &labels))
            .sum())
    };
    let end = tokio::time::Instant::now() + DEADLINE;
    while answered("mutate").await? < 0.5 || answered("validate").await? < 0.5 {
        ensure!(
            tokio::time::Instant::now() < end,
            "the apiserver does not ask the webhook"
        );
        send(
            client,
            "POST",
            "/api/v1/namespaces/default/services?dryRun=All",
            Some(&trial),
        )
        .await?;
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// Installs what `svcplane crds` prints, and waits until the apiserver serves it.
///
/// # Errors
/// The apiserver does not take it.
pub async fn install_crds(client: &Client) -> Result<()> {
    // It asks no cluster.
    let printed = ran::svcplane("/nowhere".as_ref(), &["crds"], DEADLINE)
        .await?
        .succeeded();
    let list: Value = serde_json::from_str(&printed.context("svcplane crds")?).context("svcplane crds")?;
    for item in list["items"].as_array().context("svcplane crds prints no list")? {
        install_crd(client, item).await?;
    }
    Ok(())
}

/// Creates a custom resource definition and waits until the apiserver serves the resource.
///
/// # Errors
/// It is refused, or not served in time.
pub async fn install_crd(client: &Client, definition: &Value) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crd: CustomResourceDefinition = serde_json::from_value(definition.clone())?;
    api.create(&PostParams::default(), &crd).await?;
    let established = |crd: Option<&CustomResourceDefinition>| {
        let conditions = crd
            .into_iter()
            .filter_map(|crd| crd.status.as_ref())
            .flat_map(|status| status.conditions.iter().flatten());
        let mut established = conditions.filter(|it| it.type_ == "Established" && it.status == "True");
        established
            .next()
            .map(|_| ())
            .ok_or_else(|| "not established".to_owned())
    };
    eventually_one("an established resource", DEADLINE, &api, &crd.name_any(), established)
        .await
        .map(drop)
}

/// Waits until this replica can choose from all ranges.
///
/// # Errors
/// It cannot within a minute.
pub async fn wait_choosing(svcplane: &Svcplane) -> Result<()> {
    let end = tokio::time::Instant::now() + DEADLINE;
    loop {
        let books = svcplane.debug_state().await?["books"].take();
        let all = |part: &str, good: fn(&Value) -> bool| {
            books[part]
                .as_object()
                .is_some_and(|map| map.len() > 1 && map.values().all(good))
        };
        if all("sources", |state| state == "Live") && all("ranges", |range| range["settled"] == true) {
            return Ok(());
        }
        ensure!(tokio::time::Instant::now() < end, "cannot choose: {books}");
        tokio::time::sleep(POLL).await;
    }
}

/// The address that svcplane's webhook listens on.
///
/// # Errors
/// It does not say so within a minute.
pub async fn address(svcplane: &Svcplane) -> Result<String> {
    let url = svcplane.wait_listening("webhook listening").await?;
    url.split("//").nth(1).map(str::to_owned).context("no address")
}

/// What the apiserver says to a request.
#[derive(Clone, Debug)]
pub struct Said {
    /// The status code.
    pub code: StatusCode,
    /// The object, or a Status.
    pub body: Value,
    /// The texts of its `Warning` headers.
    pub warnings: Vec<String>,
}

impl Said {
    /// The object, where nothing else is expected.
    ///
    /// # Errors
    /// It is a refusal.
    pub fn accepted(self) -> Result<Value> {
        if self.code.is_success() {
            return Ok(self.body);
        }
        bail!("refused: {} {}", self.code, self.message())
    }

    /// The message of a refusal.
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// The fields that a refusal names.
    pub fn fields(&self) -> Vec<&str> {
        let causes = self.body["details"]["causes"].as_array().into_iter().flatten();
        causes.filter_map(|cause| cause["field"].as_str()).collect()
    }
}

/// Sends one request as JSON.
///
/// # Errors
/// There is no answer, or no JSON in it.
pub async fn send(client: &Client, method: &str, path: &str, body: Option<&Value>) -> Result<Said> {
    let body = body.map(serde_json::to_vec).transpose()?.unwrap_or_default();
    let media_type = if method == "PATCH" {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::CONTENT_TYPE, media_type)
        .body(Body::from(body))?;
    let (head, body) = client.send(request).await?.into_parts();
    let warnings = head.headers.get_all(http::header::WARNING).iter();
    let bytes = body.collect().await?.to_bytes();
    Ok(Said {
        code: head.status,
        body: serde_json::from_slice(&bytes).with_context(|| String::from_utf8_lossy(&bytes).into_owned())?,
        // 299 - "the text"
        warnings: warnings
            .filter_map(|value| {
                Some(
                    value
                        .to_str()
                        .ok()?
                        .splitn(3, ' ')
                        .nth(2)?
                        .trim_matches('"')
                        .replace("\\\"", "\""),
                )
            })
            .collect(),
    })
}
