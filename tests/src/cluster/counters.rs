//! What the apiserver says it was asked to do. It proves "0 writes" without believing the writer.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use kube::Client;
use tokio::time::{Instant, sleep};

use super::{Cluster, get};
use crate::metrics::Metrics;

const REQUESTS: &str = "apiserver_request_total";
const WRITE_VERBS: [&str; 6] = ["POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"];

impl Cluster {
    /// The apiserver's `/metrics`. They start at zero when it restarts.
    ///
    /// # Errors
    /// It does not answer within 10 s.
    pub async fn metrics(&self) -> Result<Metrics> {
        metrics_of(&self.client()).await.context("kube-apiserver")
    }

    /// Requests answered so far, by verb (`GET LIST WATCH POST PUT PATCH APPLY DELETE DELETECOLLECTION`) and resource
    /// (such as `endpoints`), whatever the outcome.
    ///
    /// # Errors
    /// As [`Cluster::metrics`].
    pub async fn request_total(&self, verb: &str, resource: &str) -> Result<u64> {
        Ok(count(&self.metrics().await?, |labels| {
            labels("verb") == verb && labels("resource") == resource
        }))
    }

    /// Writes answered with success so far to one resource, subresources included.
    ///
    /// # Errors
    /// As [`Cluster::metrics`].
    pub async fn writes(&self, resource: &str) -> Result<u64> {
        Ok(count_writes(&self.metrics().await?, |written| written == resource))
    }

    /// Writes answered with success so far to all resources but these; Leases and Events are usually named.
    ///
    /// # Errors
    /// As [`Cluster::metrics`].
    pub async fn writes_except(&self, resources: &[&str]) -> Result<u64> {
        Ok(count_writes(&self.metrics().await?, |written| {
            !resources.contains(&written)
        }))
    }

    /// Waits until nothing but Leases and Events has been written for `quiet`, and returns the number of such writes
    /// so far. A test that wants to see "0 writes" takes this number, does what it does, and compares.
    ///
    /// # Errors
    /// Writes still come at the deadline.
    pub async fn settled(&self, quiet: Duration, deadline: Duration) -> Result<u64> {
        let end = Instant::now() + deadline;
        let mut last = self.writes_except(&["leases", "events"]).await?;
        let mut since = Instant::now();
        while since.elapsed() < quiet {
            if Instant::now() >= end {
                bail!("still being written to after {deadline:?}: {last} writes so far");
            }
            sleep(quiet.min(Duration::from_secs(1)) / 4).await;
            let now = self.writes_except(&["leases", "events"]).await?;
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        Ok(last)
    }
}

pub(super) async fn metrics_of(client: &Client) -> Result<Metrics> {
    let page = tokio::time::timeout(Duration::from_secs(10), client.request_text(get("/metrics")?))
        .await
        .context("no answer from /metrics within 10 s")??;
    Ok(Metrics::parse(&page))
}

fn count_writes(metrics: &Metrics, wanted: impl Fn(&str) -> bool) -> u64 {
    count(metrics, |labels| {
        WRITE_VERBS.contains(&labels("verb"))
            && labels("code").starts_with('2')
            && labels("dry_run").is_empty()
            // A question in the form of a POST: nothing is stored.
            && !labels("resource").ends_with("accessreviews")
            && wanted(labels("resource"))
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "request counts are small and not negative"
)]
fn count<'a>(metrics: &'a Metrics, wanted: impl Fn(&dyn Fn(&str) -> &'a str) -> bool) -> u64 {
    let samples = metrics.matching(REQUESTS, &[]);
    let values = samples.filter(|sample| wanted(&|label| sample.labels.get(label).map_or("", String::as_str)));
    values.map(|sample| sample.value as u64).sum()
}
