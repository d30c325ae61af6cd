//! `svcplane run`: everything that the process consists of, wired together in one place.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::{Api, Client};
use parking_lot::Mutex;
use prometheus::Registry;
use svcplane_runtime::client;
use svcplane_runtime::events::EventSink;
use svcplane_runtime::leader::TermHandle;
use svcplane_runtime::metrics::{BuildInfo, Metrics};
use svcplane_runtime::queue::{Backoff, Queue};
use svcplane_runtime::readiness::Readiness;
use svcplane_runtime::supervise::Supervisor;
use svcplane_runtime::watch::{self, ListStyle};

use crate::args::RunArgs;
use crate::endpoints::{CONTROLLER, Contention, EndpointsController, EndpointsMetrics, TriggerTracker, Writer};
use crate::feed::{Feed, Watched};
use crate::gate::Gate;
use crate::index::Index;
use crate::model::{Interner, ObjectKey};
use crate::state::IndexCollector;
use crate::wire::{WireEndpoints, WirePod, WireService};
use crate::{permissions, start};

/// Retries of a failing Service: fast at first, never rarer than twice a minute.
const RETRY: Backoff = Backoff {
    base: Duration::from_millis(5),
    cap: Duration::from_secs(30),
};

/// Why the process ends other than by a signal: one line.
#[derive(Debug)]
pub struct RunError(String);

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RunError {}

fn because(error: impl fmt::Display) -> RunError {
    RunError(error.to_string())
}

/// Runs until SIGTERM or SIGINT (`Ok`) or until something that cannot be mended from inside happens.
pub async fn run(args: RunArgs) -> Result<(), RunError> {
    let registry = Registry::new();
    let metrics = Metrics::new(
        registry.clone(),
        BuildInfo {
            version: env!("CARGO_PKG_VERSION"),
            kubernetes: "1.37",
        },
    )
    .map_err(because)?;
    let config = client::load_config(args.kubeconfig.as_deref()).await.map_err(because)?;
    let server = client::server(&config).clone();
    let client = client::connect(config, "svcplane", &metrics).map_err(because)?;
    let minor = start::reach(&client, &server).await;
    let missing = permissions::missing(&client, permissions::needed(args.mode, None))
        .await
        .map_err(because)?;
    if !missing.is_empty() {
        return Err(RunError(permissions::complaint(&missing)));
    }
    let index = Arc::new(Mutex::new(Index::default()));
    registry
        .register(Box::new(IndexCollector::new(Arc::clone(&index)).map_err(because)?))
        .map_err(because)?;
    let term = TermHandle;
    let controller = Arc::new(EndpointsController {
        index: Arc::clone(&index),
        queue: Queue::new(RETRY, metrics.workqueue("endpoint")),
        gate: Gate::new(term.clone(), args.mode),
        writer: Writer::new(client.clone()),
        events: EventSink,
        metrics: EndpointsMetrics::new(&registry).map_err(because)?,
        batch_period: args.endpoint_updates_batch_period,
        trigger: Mutex::new(TriggerTracker::default()),
        contention: Mutex::new(Contention::default()),
    });
    let feed = Feed {
        interner: Arc::new(Mutex::new(Interner::default())),
        index: Arc::clone(&index),
        controller: Arc::clone(&controller),
    };
    let style = watch::list_style(args.watch_list, minor);
    let mut tasks = Supervisor::default();
    let synced = [
        spawn_watch::<WireService>(&mut tasks, &client, style, &metrics, &feed),
        spawn_watch::<WirePod>(&mut tasks, &client, style, &metrics, &feed),
        spawn_watch::<WireEndpoints>(&mut tasks, &client, style, &metrics, &feed),
    ];
    if args.controllers.runs(CONTROLLER) {
        tasks.spawn("leadership", lead(Arc::clone(&controller), term, synced.to_vec()));
        for _ in 0..args.concurrent_endpoint_syncs {
            tasks.spawn("endpoints worker", Arc::clone(&controller).work());
        }
    }
    Err(RunError(tasks.failed().await))
}

fn spawn_watch<K: Watched>(
    tasks: &mut Supervisor,
    client: &Client,
    style: ListStyle,
    metrics: &Metrics,
    feed: &Feed,
) -> Readiness {
    let ready = Readiness::new(K::RESOURCE);
    let feed = feed.clone();
    let watch = watch::run(
        K::RESOURCE,
        Api::<K>::all(client.clone()),
        style,
        metrics.watch(K::RESOURCE),
        ready.clone(),
        move |event| feed.event(event),
    );
    tasks.spawn(K::RESOURCE, watch);
    ready
}

/// Opens the queue with every key when a term begins, closes it when it ends.
async fn lead(controller: Arc<EndpointsController>, term: TermHandle, synced: Vec<Readiness>) {
    for ready in &synced {
        ready.raised().await;
    }
    loop {
        term.leading().await;
        controller.queue.open();
        let keys: Vec<ObjectKey> = controller.index.lock().start_term();
        tracing::info!(services = keys.len(), "leading");
        for key in &keys {
            controller.queue.add(key, Duration::ZERO);
        }
        term.lost().await;
        controller.queue.close();
        tracing::info!("not leading any more");
    }
}
