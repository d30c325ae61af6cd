//! Waiting for svcplane: it cannot be watched, so it is asked again and again until a deadline.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use kube::api::ListParams;
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{DEADLINE, POLL, Svcplane, field};
use crate::eventually::Object;
use crate::metrics::Metrics;

impl Svcplane {
    /// Waits for `/readyz`.
    ///
    /// # Errors
    /// It is not ready after a minute, or has ended.
    pub async fn wait_ready(&self) -> Result<()> {
        self.wait_until("ready", DEADLINE, async || {
            self.readyz().await.unwrap_or(false).then_some(())
        })
        .await
    }

    /// Waits until it leads.
    ///
    /// # Errors
    /// It does not lead after a minute, or has ended.
    pub async fn wait_leader(&self) -> Result<()> {
        self.wait_until("leading", DEADLINE, async || {
            self.leads().await.unwrap_or(false).then_some(())
        })
        .await
    }

    /// Waits until the check accepts a page of metrics, and returns what it makes of it.
    ///
    /// # Errors
    /// It has not before the deadline, or the process has ended; with the check's last reason.
    pub async fn wait_metrics<T>(
        &self,
        what: &str,
        deadline: Duration,
        check: impl Fn(&Metrics) -> Result<T, String>,
    ) -> Result<T> {
        let reason = Mutex::new("no page was read yet".to_string());
        let look = async || {
            let checked = match self.metrics().await {
                Ok(page) => check(&page),
                Err(error) => Err(format!("{error:#}")),
            };
            checked.map_err(|why| *reason.lock() = why).ok()
        };
        let found = self.wait_until(what, deadline, look).await;
        found.with_context(|| format!("metrics: {}", reason.lock()))
    }

    /// Waits until this metric, summed over the series with these labels, satisfies the check.
    ///
    /// # Errors
    /// As [`Svcplane::wait_metrics`].
    pub async fn wait_metric(
        &self,
        name: &str,
        labels: &[(&str, &str)],
        deadline: Duration,
        check: impl Fn(f64) -> bool,
    ) -> Result<f64> {
        let look = |page: &Metrics| match page.sum(name, labels) {
            value if check(value) => Ok(value),
            value => Err(format!("{name}{labels:?} is {value}")),
        };
        self.wait_metrics(&format!("showing a good {name}"), deadline, look)
            .await
    }

    /// Waits until it has looked at everything it knows of and has nothing in hand: it leads, its first lists are
    /// complete, each Service known was looked at, and nothing waits.
    ///
    /// # Errors
    /// It is not idle after a minute.
    pub async fn wait_idle(&self) -> Result<()> {
        let idle = |page: &Metrics| {
            let services = page.sum("svcplane_objects", &[("resource", "services")]);
            let looks = looks(page);
            let backlog = [
                "workqueue_depth",
                "svcplane_workqueue_delayed",
                "workqueue_unfinished_work_seconds",
            ];
            let in_hand: f64 = backlog.iter().map(|name| page.sum(name, &[])).sum();
            let leads = page.sum("leader_election_master_status", &[]);
            if leads > 0.5 && services > 0.5 && looks >= services && in_hand == 0.0 {
                return Ok(());
            }
            Err(format!(
                "leads {leads}, {services} Services, {looks} looks, {in_hand} in hand"
            ))
        };
        self.wait_ready().await?;
        self.wait_metrics("idle", DEADLINE, idle).await
    }

    /// Waits until it knows of as many Services, Pods and Endpoints as fresh lists show, whoever writes them.
    ///
    /// # Errors
    /// It does not after a minute.
    pub async fn wait_informed(&self, client: &Client) -> Result<()> {
        let stored = async || -> Result<[usize; 3]> {
            Ok([
                count(Api::<Service>::all(client.clone())).await?,
                count(Api::<Pod>::all(client.clone())).await?,
                count(Api::<Endpoints>::all(client.clone())).await?,
            ])
        };
        let look = async || {
            let (stored, page) = (stored().await.ok()?, self.metrics().await.ok()?);
            let known = |resource| page.get("svcplane_objects", &[("resource", resource)]);
            let known = ["services", "pods", "endpoints"].map(known);
            (known == stored.map(|count| u32::try_from(count).ok().map(f64::from))).then_some(())
        };
        self.wait_until("informed of all objects", DEADLINE, look).await
    }

    /// How often it has looked at a Service so far, whatever came of it.
    ///
    /// # Errors
    /// As [`Svcplane::metrics`].
    pub async fn looks(&self) -> Result<f64> {
        Ok(looks(&self.metrics().await?))
    }

    /// Waits until it has looked at Services so often.
    ///
    /// # Errors
    /// As [`Svcplane::wait_metrics`].
    pub async fn wait_looks(&self, least: f64, deadline: Duration) -> Result<()> {
        let enough = |page: &Metrics| match looks(page) {
            looks if looks >= least => Ok(()),
            looks => Err(format!("{looks} looks")),
        };
        self.wait_metrics(&format!("at {least} looks"), deadline, enough).await
    }

    /// Waits for a line of its log with exactly this message.
    ///
    /// # Errors
    /// None before the deadline, or it has ended without.
    pub async fn wait_log(&self, message: &str, deadline: Duration) -> Result<Value> {
        let first = |entries: &[Value]| entries.first().cloned();
        self.wait_logged(&format!("logging \"{message}\""), message, deadline, first)
            .await
    }

    /// Waits until something is found in the lines of its log with exactly this message.
    ///
    /// # Errors
    /// Nothing before the deadline, or it has ended without.
    pub async fn wait_logged<T>(
        &self,
        what: &str,
        message: &str,
        deadline: Duration,
        find: impl Fn(&[Value]) -> Option<T>,
    ) -> Result<T> {
        let look = async || find(&self.log_entries(message));
        self.wait_until(what, deadline, look).await
    }

    /// The part after the colon is what svcplane chose.
    /// Waits until its log says this, and returns the URL of the address that it names.
    pub(crate) async fn wait_listening(&self, message: &str) -> Result<String> {
        let entry = self.wait_log(message, DEADLINE).await?;
        let address = field(&entry, "address").with_context(|| format!("\"{message}\" without a field address"))?;
        Ok(format!("http://{address}"))
    }

    async fn wait_until<T>(&self, what: &str, deadline: Duration, look: impl AsyncFn() -> Option<T>) -> Result<T> {
        let end = Instant::now() + deadline;
        loop {
            // Before the look: what it wrote before it ended counts.
            let exit = self.process.exit();
            if let Some(found) = look().await {
                return Ok(found);
            }
            if let Some(exit) = exit {
                bail!(
                    "{} ended with {exit} before {what}{}",
                    self.process.name(),
                    self.tails()
                );
            }
            if Instant::now() >= end {
                bail!(
                    "{} is not {what} after {deadline:?}{}",
                    self.process.name(),
                    self.tails()
                );
            }
            sleep(POLL).await;
        }
    }
}

/// Each controller that runs counts a look at a Service once.
fn looks(page: &Metrics) -> f64 {
    let mut looks: BTreeMap<&str, f64> = BTreeMap::new();
    for sample in page.matching("svcplane_syncs_total", &[]) {
        let controller = sample.labels.get("controller").map_or("", String::as_str);
        *looks.entry(controller).or_default() += sample.value;
    }
    looks.into_values().fold(0.0, f64::max)
}

async fn count<K: Object<DynamicType = ()>>(api: Api<K>) -> Result<usize> {
    Ok(api.list_metadata(&ListParams::default()).await?.items.len())
}
