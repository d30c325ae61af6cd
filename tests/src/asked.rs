//! Is svcplane asked? Services that it refuses and that the apiserver takes where svcplane does not answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use kube::Client;
use serde_json::json;
use tokio::time::MissedTickBehavior;

use crate::admission::send;
use crate::cluster::Cluster;

/// How long an apiserver may take to ask.
const SOON: Duration = Duration::from_secs(60);

/// How many requests are under way at most.
const UNDER_WAY: usize = 16;

/// Asks for Services in one namespace, of an svcplane with `--external-ips=deny`.
#[derive(Clone)]
pub struct Asker {
    client: Client,
    path: String,
}

impl Asker {
    /// In this namespace.
    pub fn new(client: Client, namespace: &str) -> Self {
        let path = format!("/api/v1/namespaces/{namespace}/services?dryRun=All");
        Self { client, path }
    }

    /// Whether svcplane has answered.
    ///
    /// # Errors
    /// The apiserver does not answer.
    pub async fn is_answered(&self) -> Result<bool> {
        let service = json!({"metadata": {"generateName": "asked-"},
            "spec": {"ports": [{"port": 80}], "externalIPs": ["192.0.2.9"]}});
        let said = send(&self.client, "POST", &self.path, Some(&service)).await?;
        Ok(said.message().contains("externalIPs"))
    }

    /// Waits until svcplane answers.
    ///
    /// # Errors
    /// It does not within a minute.
    pub async fn wait_answered(&self) -> Result<()> {
        let end = tokio::time::Instant::now() + SOON;
        while !self.is_answered().await? {
            ensure!(tokio::time::Instant::now() < end, "the apiserver does not ask svcplane");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// 50 admissions a second until told to stop, each of which svcplane must answer. Returns how many.
    ///
    /// # Errors
    /// One went past it.
    pub async fn keep_asking(&self, stop: &AtomicBool) -> Result<usize> {
        let (mut asked, mut under_way) = (0, FuturesUnordered::new());
        let mut tick = tokio::time::interval(Duration::from_millis(20));
        // What a busy moment kept back is made up for.
        tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
        loop {
            let stopped = stop.load(Ordering::Relaxed);
            if stopped && under_way.is_empty() {
                break;
            }
            tokio::select! {
                _ = tick.tick(), if !stopped && under_way.len() < UNDER_WAY => {
                    asked += 1;
                    under_way.push(self.is_answered());
                }
                Some(answered) = under_way.next() => {
                    ensure!(answered?, "one of {asked} admissions went past svcplane");
                }
            }
        }
        Ok(asked)
    }
}

/// How often the apiserver has gone on without an answer of a webhook.
///
/// # Errors
/// It gives no metrics.
pub async fn failed_open(cluster: &Cluster) -> Result<f64> {
    let metrics = cluster.metrics().await?;
    Ok(metrics.sum("apiserver_admission_webhook_fail_open_count", &[]))
}
