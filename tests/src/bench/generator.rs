//! The sending of a stream: each step at its time.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::{Timestamp, Unit};
use kube::api::{DeleteParams, Patch};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::stream::{Change, Step, Stream};
use crate::cluster::Cluster;
use crate::load::{Load, kubelet};
use crate::usage::thread_cpu_time;

/// How the sending went.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Processor time of the generator's thread.
    pub cpu: Duration,
    /// The latest that a step was taken after its time.
    pub behind: Duration,
}

/// Takes the steps from a thread of its own, each at its time whatever became of those before it, but those of a Pod one after another.
///
/// # Errors
/// The apiserver refused one.
pub async fn send(cluster: &Arc<Cluster>, load: Load, stream: Stream) -> Result<Sent> {
    let (tell, told) = oneshot::channel();
    let cluster = Arc::clone(cluster);
    thread::spawn(move || {
        let sent = || -> Result<Sent> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async { send_here(cluster.client(), load, stream).await })
        };
        let _ = tell.send(sent());
    });
    told.await.context("the generator's thread died")?
}

async fn send_here(client: Client, load: Load, stream: Stream) -> Result<Sent> {
    let (mut under_way, mut behind) = (JoinSet::new(), Duration::ZERO);
    let mut last_of: HashMap<usize, oneshot::Receiver<()>> = HashMap::new();
    let start = Instant::now();
    for step in stream {
        let due = start + step.at;
        tokio::time::sleep_until(due.into()).await;
        behind = behind.max(due.elapsed());
        let (done, next) = oneshot::channel();
        let before = last_of.insert(step.pod, next);
        let client = client.clone();
        under_way.spawn(async move {
            if let Some(before) = before {
                // One that failed says so itself.
                let _ = before.await;
            }
            let taken = take(client, load, step).await;
            let _ = done.send(());
            taken.with_context(|| format!("{step:?}"))
        });
        while let Some(done) = under_way.try_join_next() {
            done??;
        }
    }
    while let Some(done) = under_way.join_next().await {
        done??;
    }
    Ok(Sent {
        cpu: thread_cpu_time()?,
        behind,
    })
}

async fn take(client: Client, load: Load, step: Step) -> Result<()> {
    let pods = Api::namespaced(client.clone(), &load.namespace(load.service_of(step.pod)));
    let name = load.pod(step.pod);
    match step.change {
        Change::Ready(ready) => flip(&pods, &name, ready).await,
        Change::Arrives => load.create_pod(client, step.pod).await,
        // As it is by default.
        Change::Terminates => delete(&pods, &name, 30).await,
        Change::Ends => delete(&pods, &name, 0).await,
    }
}

async fn flip(pods: &Api<Pod>, name: &str, ready: bool) -> Result<()> {
    let status = if ready { "True" } else { "False" };
    let now = Timestamp::now().round(Unit::Second)?.to_string();
    let condition = json!({"type": "Ready", "status": status, "lastTransitionTime": now});
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    pods.patch_status(name, &kubelet(), &patch).await?;
    Ok(())
}

async fn delete(pods: &Api<Pod>, name: &str, grace: u32) -> Result<()> {
    pods.delete(name, &DeleteParams::default().grace_period(grace)).await?;
    Ok(())
}
