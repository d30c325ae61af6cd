//! A part of the demo: addresses from a pool, and a refusal that says what would be right.

use anyhow::{Context as _, bail};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::screen::Screen;
use super::stage::Stage;
use super::story::DEADLINE;
use crate::admission::{Said, send};

const NAMESPACE: &str = "pooled";

/// Makes a pool of two addresses for a namespace, fills it, and asks for one more.
///
/// # Errors
/// The pool gives other values, or more.
pub async fn show(screen: &Screen, stage: &Stage, client: &Client) -> anyhow::Result<()> {
    screen.part("A ClusterIPPool of two addresses, for the namespace pooled alone");
    stage.wait_choosing().await?;
    let namespace = json!({"metadata": {"name": NAMESPACE}});
    send(client, "POST", "/api/v1/namespaces", Some(&namespace))
        .await?
        .accepted()?;
    let pool = json!({"apiVersion": "svcplane.io/v1alpha1", "kind": "ClusterIPPool", "metadata": {"name": "pair"},
        "spec": {"ranges": ["10.96.77.1-10.96.77.2"], "enforce": true, "selector": {"namespaces": [NAMESPACE]}}});
    let pools = "/apis/svcplane.io/v1alpha1/clusterippools";
    send(client, "POST", pools, Some(&pool)).await?.accepted()?;
    let first = first(client).await?;
    let second = create(client, "second", 80).await?.accepted()?;
    for service in [first, second] {
        screen.detail(format_args!(
            "Service {NAMESPACE}/{}: {}",
            text(&service, "/metadata/name"),
            text(&service, "/spec/clusterIP")
        ));
    }
    let third = create(client, "third", 80).await?;
    refused(screen, &third, "no value is free")?;
    screen.part("A Service that no apiserver would take is told what would be right");
    refused(screen, &create(client, "fourth", 80_000).await?, "65535")
}

/// Every replica must have seen the pool before it is sure to be used.
async fn first(client: &Client) -> anyhow::Result<Value> {
    let end = Instant::now() + DEADLINE;
    loop {
        let service = create(client, "first", 80).await?.accepted()?;
        let address = text(&service, "/spec/clusterIP");
        if address.starts_with("10.96.77.") {
            return Ok(service);
        }
        if Instant::now() > end {
            bail!("expected state did not come: {NAMESPACE}/first has {address}, which is not from the pool");
        }
        let path = format!("/api/v1/namespaces/{NAMESPACE}/services/first");
        send(client, "DELETE", &path, None).await?.accepted()?;
    }
}

async fn create(client: &Client, name: &str, port: u32) -> anyhow::Result<Said> {
    let service = json!({"metadata": {"name": name}, "spec": {"ports": [{"name": "web", "port": port}]}});
    let path = format!("/api/v1/namespaces/{NAMESPACE}/services");
    send(client, "POST", &path, Some(&service)).await
}

fn refused(screen: &Screen, said: &Said, because: &str) -> anyhow::Result<()> {
    let denied = said.message().split_once("denied the request: ");
    let (_, words) =
        denied.with_context(|| format!("expected state did not come: {} {}", said.code, said.message()))?;
    if !words.contains(because) {
        bail!("expected state did not come: {words}");
    }
    screen.detail(format_args!("refused: {words}"));
    Ok(())
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
