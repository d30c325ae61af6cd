//! What a stretch of time cost, whom, and in which writes.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::observer::Observer;
use super::side::Running;
use crate::cluster::Cluster;
use crate::metrics::Metrics;
use crate::usage::{self, Machine};

/// All counters at one moment.
pub struct Account {
    at: Instant,
    controller: Duration,
    apiserver: Duration,
    etcd: Duration,
    observer: Duration,
    own: Duration,
    machine: Machine,
    endpoints: Writes,
    slices: Writes,
}

/// Requests to objects of one kind, as the apiserver counts them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Writes {
    /// POST, answered with success.
    pub creates: f64,
    /// PUT, answered with success.
    pub updates: f64,
    /// DELETE, answered with success.
    pub deletes: f64,
    /// Answered with 409.
    pub conflicts: f64,
    /// Bytes of bodies of POST and PUT; protobuf from the peer, JSON from us.
    pub bytes: f64,
    /// How long the apiserver took for all PUTs, in seconds.
    pub update_time: f64,
}

/// What lies between two accounts. Times in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// On the clock.
    pub wall: f64,
    /// Of the controller's processor time.
    pub controller: f64,
    /// Of the apiserver's.
    pub apiserver: f64,
    /// Of etcd's.
    pub etcd: f64,
    /// Of the observer's thread.
    pub observer: f64,
    /// Of the rest of this program.
    pub harness: f64,
    /// Part of the machine that others had, 0 to 1.
    pub others: f64,
    /// Requests to Endpoints.
    pub endpoints: Writes,
    /// Requests to EndpointSlices.
    pub slices: Writes,
}

impl Account {
    /// Takes stock. `side` = `None`: before it is started.
    ///
    /// # Errors
    /// A process is gone, or the apiserver does not answer.
    pub async fn take(cluster: &Cluster, observer: &Observer, side: Option<&Running<'_>>) -> Result<Self> {
        // Asked for first: the page itself costs the apiserver tens of milliseconds, in both accounts alike.
        let page = cluster.metrics().await?;
        let apiserver = cluster.apiserver_pid().context("the apiserver does not run")?;
        let controller = side.map(Running::pid).transpose()?.map(usage::cpu_time).transpose()?;
        Ok(Self {
            at: Instant::now(),
            controller: controller.unwrap_or_default(),
            apiserver: usage::cpu_time(apiserver)?,
            etcd: usage::cpu_time(cluster.etcd_pid())?,
            observer: observer.cpu(),
            own: usage::cpu_time(std::process::id())?,
            machine: usage::machine()?,
            endpoints: Writes::read(&page, "endpoints"),
            slices: Writes::read(&page, "endpointslices"),
        })
    }

    /// The clock of this account.
    pub fn at(&self) -> Instant {
        self.at
    }

    /// What was spent from `self` to `end`.
    pub fn until(&self, end: &Self) -> Cost {
        let spent = |from: Duration, to: Duration| to.saturating_sub(from).as_secs_f64();
        let controller = spent(self.controller, end.controller);
        let (apiserver, etcd) = (spent(self.apiserver, end.apiserver), spent(self.etcd, end.etcd));
        let own = spent(self.own, end.own);
        let observer = spent(self.observer, end.observer);
        let busy = spent(self.machine.busy, end.machine.busy);
        let all = spent(self.machine.all, end.machine.all).max(f64::EPSILON);
        Cost {
            wall: (end.at - self.at).as_secs_f64(),
            controller,
            apiserver,
            etcd,
            observer,
            harness: (own - observer).max(0.0),
            others: ((busy - controller - apiserver - etcd - own) / all).clamp(0.0, 1.0),
            endpoints: self.endpoints.until(end.endpoints),
            slices: self.slices.until(end.slices),
        }
    }
}

impl Writes {
    /// All that were answered with success.
    pub fn all(self) -> f64 {
        self.creates + self.updates + self.deletes
    }

    fn read(page: &Metrics, resource: &str) -> Self {
        let requests = |verb: &str, code: &str| -> f64 {
            let labels = [("resource", resource), ("verb", verb)];
            let found = page.matching("apiserver_request_total", &labels);
            let found = found.filter(|sample| sample.labels.get("code").is_some_and(|it| it.starts_with(code)));
            found.map(|sample| sample.value).sum()
        };
        let bytes = |verb: &str| {
            let labels = [("resource", resource), ("verb", verb)];
            page.sum("apiserver_request_body_size_bytes_sum", &labels)
        };
        Self {
            creates: requests("POST", "2"),
            updates: requests("PUT", "2"),
            deletes: requests("DELETE", "2"),
            conflicts: requests("POST", "409") + requests("PUT", "409"),
            bytes: bytes("create") + bytes("update"),
            update_time: {
                let labels = [("resource", resource), ("verb", "PUT")];
                page.sum("apiserver_request_duration_seconds_sum", &labels)
            },
        }
    }

    fn until(self, end: Self) -> Self {
        Self {
            creates: end.creates - self.creates,
            updates: end.updates - self.updates,
            deletes: end.deletes - self.deletes,
            conflicts: end.conflicts - self.conflicts,
            bytes: end.bytes - self.bytes,
            update_time: end.update_time - self.update_time,
        }
    }
}
