//! The life of a term: every Service is looked at when one begins, and again now and then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use svcplane_runtime::leader::{Standing, TermHandle};
use svcplane_runtime::readiness::Readiness;

use crate::endpoints::{EndpointsController, TriggerTracker};

/// Opens the queue with every key when a term begins, closes it when it ends.
pub async fn lead(controller: Arc<EndpointsController>, mut term: TermHandle, synced: Vec<Readiness>) {
    for ready in &synced {
        ready.raised().await;
    }
    loop {
        while term.check(Instant::now()).is_err() {
            term.changed().await;
        }
        // Read before the keys are handed out: a change from now on makes them all due again.
        let mode = controller.gate.mode();
        controller.queue.open();
        let (keys, counts) = {
            let mut index = controller.index.lock();
            (index.start_term(), index.counts())
        };
        tracing::info!(
            ?mode,
            services = counts.services,
            pods = counts.pods,
            endpoints_without_service = counts.endpoints_without_service,
            "leading"
        );
        for key in &keys {
            controller.queue.add(key, Duration::ZERO);
        }
        loop {
            if term.changed().await.standing == Standing::Follower {
                controller.queue.close();
                // What was noted grows stale while others lead: to the next term every Service is new.
                *controller.trigger.lock() = TriggerTracker::default();
                tracing::info!("not leading any more");
                break;
            }
            if controller.gate.mode() != mode {
                // What was only planned so far has to be looked at again.
                break;
            }
        }
    }
}

/// Every Service again now and then, as client-go's resync: heals what no event tells.
pub async fn resync(controller: Arc<EndpointsController>, period: Duration) {
    loop {
        tokio::time::sleep(period.mul_f64(1.0 + rand::random::<f64>())).await;
        let keys = controller.index.lock().service_keys();
        for key in &keys {
            controller.queue.add(key, Duration::ZERO);
        }
    }
}
