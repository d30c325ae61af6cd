//! The life of a term: every Service is looked at when one begins, and again now and then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use svcplane_runtime::leader::{Standing, TermHandle};
use svcplane_runtime::readiness::Readiness;

use crate::gate::Mode;
use crate::reconcile::Reconciler;

/// Opens the queue with every key when a term begins, closes it when it ends.
pub async fn lead(controller: Arc<Reconciler>, mut term: TermHandle, synced: Vec<Readiness>) {
    for ready in &synced {
        ready.raised().await;
    }
    let mut holds = controller.desk.gate.holds();
    loop {
        while term.check(Instant::now()).is_err() {
            term.changed().await;
        }
        // Read before the keys are handed out: a change from now on makes them all due again.
        let mode = controller.desk.gate.mode();
        begin(&controller, mode);
        loop {
            let follows = tokio::select! {
                term = term.changed() => term.standing == Standing::Follower,
                _ = holds.changed() => false,
            };
            if follows {
                controller.queue.close();
                controller.forget();
                tracing::info!("not leading any more");
                break;
            }
            if controller.desk.gate.mode() != mode {
                // What was only planned so far has to be looked at again.
                break;
            }
        }
        controller.first_look.abandon();
    }
}

/// Opens the queue with every key, and says in what mode and over how much the term begins.
fn begin(controller: &Reconciler, mode: Mode) {
    controller.queue.open();
    let (keys, counts) = {
        let mut index = controller.desk.index.lock();
        (index.start_term(), index.counts())
    };
    if controller.keeps_nothing() {
        tracing::info!(%mode, endpoints = "left to the cluster's own controllers", "leading");
    } else {
        if mode == Mode::Observe {
            tracing::warn!("leading in observe mode: no Endpoints and no EndpointSlices are written");
        }
        tracing::info!(
            %mode,
            services = counts.services,
            pods = counts.pods,
            endpoints_without_service = counts.endpoints_without_service,
            "leading"
        );
        if mode == Mode::Observe
            && let Some(summary) = controller.first_look.begin(&keys, counts.services)
        {
            tracing::info!("{summary}");
        }
    }
    for key in &keys {
        controller.queue.add(key, Duration::ZERO);
    }
}

/// Every Service again now and then, as client-go's resync: heals what no event tells.
pub async fn resync(controller: Arc<Reconciler>, period: Duration) {
    loop {
        tokio::time::sleep(period.mul_f64(1.0 + rand::random::<f64>())).await;
        controller.look_at_everything();
        let keys = controller.desk.index.lock().service_keys();
        for key in &keys {
            controller.queue.add(key, Duration::ZERO);
        }
    }
}
