//! `svcplane run`: everything that the process consists of, wired together in one place.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use parking_lot::Mutex;
use prometheus::Registry;
use svcplane_allocators::service::ServiceKey;
use svcplane_runtime::admin::{AdminServer, DebugServer, Probes};
use svcplane_runtime::client;
use svcplane_runtime::events::{self, EventWriter};
use svcplane_runtime::leader::{LeaderElection, LeaseConfig, TermHandle, identity};
use svcplane_runtime::metrics::Metrics;
use svcplane_runtime::queue::{Backoff, Queue};
use svcplane_runtime::readiness::Readiness;
use svcplane_runtime::supervise::{Supervisor, TaskFailure};
use svcplane_runtime::watch::{self, Pulse};
use svcplane_webhook::pools::PoolUsers;
use tokio_util::sync::CancellationToken;

use crate::args::RunArgs;
use crate::coexistence::Coexistence;
use crate::contention::Contention;
use crate::controller::Controller;
use crate::drift::Drift;
use crate::endpoints::TriggerTracker;
use crate::feed::Feed;
use crate::first_look::FirstLook;
use crate::foreign_writers::{Suspects, suspects};
use crate::gate::Gate;
use crate::identity::Identity;
use crate::index::Index;
use crate::leadership::{lead, resync};
use crate::loadbalancer::{LoadBalancers, Settings};
use crate::metrics::ControllerMetrics;
use crate::model::Interner;
use crate::reconcile::{Desk, EndpointsPart, MirroringPart, Reconciler, SlicesPart};
use crate::repair::{Repair, RepairMetrics};
use crate::serving::Webhook;
use crate::signals::told_to_stop;
use crate::state::{Debug, IndexCollector};
use crate::watches::{Kinds, Watches};
use crate::write::Writer;
use crate::{permissions, start};

/// Retries of a failing Service: fast at first, never rarer than twice a minute.
const RETRY: Backoff = Backoff {
    base: Duration::from_millis(5),
    cap: Duration::from_secs(30),
};
/// What a signal leaves to writes in flight. One that is not answered by then fails on its precondition if somebody else has written.
const DRAIN_LIMIT: Duration = Duration::from_millis(600);
/// What each further step of the shutdown may take.
const STOP_LIMIT: Duration = Duration::from_millis(1500);

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

/// Tasks stop in this order; each token ends those that hang on it.
#[derive(Default)]
struct Stops {
    /// Workers and what feeds the queue: after the writes in flight are answered.
    work: CancellationToken,
    /// The election, which gives the Lease back.
    election: CancellationToken,
    /// Watches, Events and HTTP: last.
    rest: CancellationToken,
}

/// Runs until [a signal](told_to_stop) (`Ok`) or until something happens that cannot be mended from inside.
pub async fn run(args: RunArgs) -> Result<(), RunError> {
    let told_to_stop = told_to_stop().map_err(because)?;
    let (mut tasks, stops) = (Supervisor::new(), Stops::default());
    let mut queues = Queues::default();
    let outcome = tokio::select! {
        signal = told_to_stop => {
            tracing::info!(signal, "stopping");
            Ok(())
        }
        error = serve(&args, &mut tasks, &stops, &mut queues) => Err(error),
    };
    queues.drain().await;
    for token in [&stops.work, &stops.election, &stops.rest] {
        if let Err(failure) = tasks.stop(token, STOP_LIMIT).await
            && !matches!(failure, TaskFailure::Overdue { .. })
            && outcome.is_ok()
        {
            return Err(because(failure));
        }
    }
    outcome
}

type WorkQueue = Queue<crate::model::ObjectKey>;

/// What workers draw from.
#[derive(Default)]
struct Queues {
    endpoints: Option<WorkQueue>,
    load_balancers: Option<Queue<ServiceKey>>,
}

impl Queues {
    /// Takes nothing more in, and waits for the writes in flight.
    async fn drain(self) {
        let idle = async {
            if let Some(queue) = &self.endpoints {
                queue.idle().await;
            }
            if let Some(queue) = &self.load_balancers {
                queue.idle().await;
            }
        };
        self.endpoints.iter().for_each(Queue::close);
        self.load_balancers.iter().for_each(Queue::close);
        // What is late is cut off with its worker.
        let _ = tokio::time::timeout(DRAIN_LIMIT, idle).await;
    }
}

/// Starts everything and waits for the first thing to fail.
async fn serve(args: &RunArgs, tasks: &mut Supervisor, stops: &Stops, work: &mut Queues) -> RunError {
    match build(args, tasks, stops, work).await {
        Ok(()) => because(tasks.failed().await),
        Err(error) => error,
    }
}

async fn build(args: &RunArgs, tasks: &mut Supervisor, stops: &Stops, work: &mut Queues) -> Result<(), RunError> {
    let registry = Registry::new();
    let metrics = Metrics::new(registry.clone(), start::build_info()).map_err(because)?;
    let config = client::load_config(&args.cluster).await.map_err(because)?;
    let server = client::server(&config).clone();
    let name = identity();
    let user_agent = format!("svcplane/{} ({name})", env!("CARGO_PKG_VERSION"));
    let client = client::connect(config.clone(), &user_agent, &metrics).map_err(because)?;
    // The election has a client of its own: a full pool of writes must not hold up a renewal.
    let for_election = client::connect(config, &user_agent, &metrics).map_err(because)?;
    let lease = args.leader_election.config().map_err(because)?;
    let running = args.controllers.running();
    let mut rights = permissions::needed(
        args.mode,
        &running,
        lease
            .as_ref()
            .map(|lease| (lease.namespace.as_str(), lease.name.as_str())),
        args.webhook.webhook_address.is_some(),
    );
    if args.webhook.webhook_address.is_some()
        && let Some(source) = args.webhook.source().map_err(RunError)?
    {
        rights.extend(permissions::for_certificate(&source));
    }
    let mut webhook = Webhook::open(&args.webhook, &registry).await.map_err(RunError)?;
    let named = lease.as_ref().map(LeaseConfig::lease);
    let (election, term) = elect(lease, for_election, &name, &metrics);

    let index = Arc::new(Mutex::new(Index::default()));
    let collector = IndexCollector::new(Arc::clone(&index)).map_err(because)?;
    registry.register(Box::new(collector)).map_err(because)?;
    let workers = args.tuning.workers(&args.controllers);
    let queue = Queue::new(RETRY, workers.into(), metrics.workqueue("endpoint"));
    work.endpoints = Some(queue.clone());
    let (sink, waiting) = events::queue(&metrics);
    let events = EventWriter::new(client.clone(), waiting, &name, &metrics);
    let load_balancers = running.contains(&Controller::LoadBalancers).then(|| {
        LoadBalancers::new(Settings {
            scope: args.load_balancer.scope(),
            client: client.clone(),
            term: term.clone(),
            events: sink.clone(),
            metrics: metrics.clone(),
            registry: registry.clone(),
        })
    });
    let load_balancers = load_balancers.transpose().map_err(because)?;
    if let Some(load_balancers) = &load_balancers {
        work.load_balancers = Some(load_balancers.queue());
        if let Some(webhook) = &mut webhook {
            webhook.ask(Arc::clone(load_balancers) as Arc<dyn PoolUsers>);
        }
    }
    let repair = if running.contains(&Controller::Repair) {
        Some(Repair {
            client: client.clone(),
            ranges: args.webhook.ranges.ranges(),
            term: term.clone(),
            events: sink.clone(),
            metrics: RepairMetrics::new(&registry).map_err(because)?,
            period: args.repair_period,
        })
    } else {
        None
    };
    let desk = Desk {
        index: Arc::clone(&index),
        gate: Gate::new(term.clone(), args.mode, args.canary.holds()),
        writer: Writer::new(client.clone()),
        events: sink.clone(),
        metrics: ControllerMetrics::new(&registry, &args.controllers.of_endpoints()).map_err(because)?,
        taken: Mutex::default(),
    };
    let (suspects, suspected) = suspects();
    let controller = Arc::new(reconciler(args, desk, queue.clone(), suspects));
    let kinds = Kinds::of(&running, args.identity, webhook.is_some());
    let synced = kinds.readiness();
    let electing = Readiness::new("leader election");
    let state = Debug {
        identity: name,
        gate: controller.desk.gate.clone(),
        term: term.clone(),
        index: Arc::clone(&index),
        queue,
        synced: synced.clone(),
        ledger: webhook.as_ref().map(Webhook::ledger),
    };
    let booked = webhook.iter().flat_map(Webhook::readiness);
    let all: Vec<Readiness> = synced.iter().cloned().chain(booked).collect();
    let certified = webhook.as_ref().map(Webhook::has_certificate);
    let probes = certificate_probe(probes(&all, election.as_ref(), electing.clone()), certified);
    serve_http(args, tasks, stops, probes, &metrics, state).await?;

    let minor = start::admit(&client, &server, &rights).await.map_err(RunError)?;
    if let Some(webhook) = &mut webhook {
        webhook.adapt(minor).map_err(RunError)?;
    }

    let feed = Feed {
        interner: Arc::new(Mutex::new(Interner::default())),
        index,
        controller: kinds.endpoints.then(|| Arc::clone(&controller)),
        services: webhook.as_ref().map(Webhook::services),
    };
    let coexistence = Coexistence {
        client: client.clone(),
        lease: named,
        events: sink,
        term: term.clone(),
        running: args.controllers.of_endpoints(),
    };
    // Of objects of its own nobody else is the writer.
    if args.identity == Identity::DropIn {
        coexistence.start(args, &controller.desk, suspected, tasks, &stops.work);
    }
    let style = watch::list_style(args.watch_list, minor);
    let watches = Watches {
        client,
        style,
        metrics,
        feed,
        services: Pulse::default(),
    };
    watches.start_all(tasks, &stops.rest, &synced, kinds.slices.as_ref());
    if let Some(webhook) = webhook {
        webhook.start(watches, term.clone(), tasks, &stops.rest);
    }
    if let Some(load_balancers) = load_balancers {
        load_balancers.start(style, tasks, &stops.work, &stops.rest);
    }
    tasks.spawn("events", &stops.rest, events.run(stops.rest.clone()));
    if let Some(election) = election {
        electing.raise();
        tasks.spawn("leader election", &stops.election, election.run(stops.election.clone()));
    }
    start_controllers(args, tasks, stops, &controller, term, synced);
    if let Some(repair) = repair {
        tasks.spawn("repair", &stops.work, until(&stops.work, repair.work()));
    }
    Ok(())
}

fn reconciler(args: &RunArgs, desk: Desk, queue: WorkQueue, suspects: Suspects) -> Reconciler {
    let runs = |controller| args.controllers.runs(controller);
    Reconciler {
        queue,
        desk,
        batch_period: args.tuning.batch_period(&args.controllers),
        trigger: Mutex::new(TriggerTracker::default()),
        contention: Mutex::new(Contention::default()),
        suspects,
        first_look: FirstLook::default(),
        drift: Drift::default(),
        endpoints: runs(Controller::Endpoints).then(EndpointsPart::default),
        slices: runs(Controller::Slices).then(|| {
            let max = args.tuning.sizes.max_endpoints_per_slice.into();
            SlicesPart::new(args.identity.manager(), max)
        }),
        mirroring: runs(Controller::Mirroring)
            .then(|| MirroringPart::new(args.tuning.sizes.mirroring_max_endpoints_per_subset.into())),
    }
}

fn elect(
    lease: Option<LeaseConfig>,
    client: Client,
    name: &str,
    metrics: &Metrics,
) -> (Option<LeaderElection>, TermHandle) {
    let Some(lease) = lease else {
        metrics.leader_election("svcplane").master_status.set(1);
        return (None, TermHandle::unelected());
    };
    let status = metrics.leader_election(&lease.name);
    let (election, term) = LeaderElection::new(client, lease, name.to_owned(), status);
    (Some(election), term)
}

/// Ready = every kind has been seen completely once, and the Lease. Alive = the election, once begun, goes on.
fn probes(synced: &[Readiness], election: Option<&LeaderElection>, electing: Readiness) -> Probes {
    let mut probes = Probes::new();
    for ready in synced {
        let ready = ready.clone();
        probes = probes.ready(ready.name(), move || {
            let waits = || format!("the first list of {} is not complete", ready.name());
            ready.is_raised().then_some(()).ok_or_else(waits)
        });
    }
    if let Some(election) = election {
        let (seen, progress) = (election.progress(), election.progress());
        probes = probes.ready(electing.name(), move || seen.seen());
        probes = probes.live(electing.name(), move || {
            if electing.is_raised() {
                progress.check(Instant::now())
            } else {
                Ok(())
            }
        });
    }
    probes
}

/// Ready = the webhook can answer a handshake.
fn certificate_probe(probes: Probes, certified: Option<Readiness>) -> Probes {
    let Some(certified) = certified else {
        return probes;
    };
    probes.ready(certified.name(), move || {
        let none = || "the webhook has no certificate yet".to_owned();
        certified.is_raised().then_some(()).ok_or_else(none)
    })
}

async fn serve_http(
    args: &RunArgs,
    tasks: &mut Supervisor,
    stops: &Stops,
    probes: Probes,
    metrics: &Metrics,
    state: Debug,
) -> Result<(), RunError> {
    let admin = AdminServer::bind(args.admin.admin_address, probes, metrics.clone());
    let admin = admin.await.map_err(because)?;
    tasks.spawn("admin server", &stops.rest, admin.run(stops.rest.clone()));
    if let Some(address) = args.admin.debug_address {
        let debug = DebugServer::bind(address, move || state.show());
        let debug = debug.await.map_err(because)?;
        tasks.spawn("debug server", &stops.rest, debug.run(stops.rest.clone()));
    }
    Ok(())
}

fn start_controllers(
    args: &RunArgs,
    tasks: &mut Supervisor,
    stops: &Stops,
    controller: &Arc<Reconciler>,
    term: TermHandle,
    synced: Vec<Readiness>,
) {
    for _ in 0..args.tuning.workers(&args.controllers) {
        let worker = Arc::clone(controller).work();
        tasks.spawn("worker", &stops.work, until(&stops.work, worker));
    }
    if !args.min_resync_period.is_zero() {
        let resync = resync(Arc::clone(controller), args.min_resync_period);
        tasks.spawn("resync", &stops.work, until(&stops.work, resync));
    }
    let lead = lead(Arc::clone(controller), term, synced);
    tasks.spawn("leadership", &stops.work, until(&stops.work, lead));
}

/// Runs `task` until `stop`.
pub(crate) fn until(
    stop: &CancellationToken,
    task: impl Future<Output = ()> + Send + 'static,
) -> impl Future<Output = ()> + Send + 'static {
    let stop = stop.clone();
    async move {
        stop.run_until_cancelled(task).await;
    }
}
