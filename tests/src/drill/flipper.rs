//! Changes the readiness of a Pod every 100 ms, past every proxy, whatever happens to svcplane meanwhile.

use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::history::PODS;
use crate::namespace::TestNamespace;

/// The time between two flips.
pub const PERIOD: Duration = Duration::from_millis(100);

/// The apiserver may be away: then the same flip is tried again.
const PATIENCE: Duration = Duration::from_secs(5);

/// The running flipper; it ends when this is dropped.
pub struct Flipper {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Flipper {
    /// Starts it on the Pods `web-0`, `web-1`, … of the namespace, which are all ready. It takes them in turn: first each
    /// becomes not ready, then each ready again, so that which are ready tells one flip from the sixteen around it.
    pub fn start(namespace: TestNamespace) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(run(namespace, stop.clone()));
        Self { stop, task }
    }

    /// Ends it after the flip under way.
    ///
    /// # Errors
    /// It has panicked.
    pub async fn stop(mut self) -> Result<()> {
        self.stop.cancel();
        (&mut self.task).await.context("the flipper")
    }
}

impl Drop for Flipper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(namespace: TestNamespace, stop: CancellationToken) {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut number = 0;
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let (pod, ready) = (number % PODS, number / PODS % 2 == 1);
        let name = format!("web-{pod}");
        let flip = namespace.set_pod_ready(&name, ready);
        if let Ok(Ok(_)) = timeout(PATIENCE, flip).await {
            number += 1;
        }
    }
}
