//! The tasks: watches that feed the desk, workers that write, and the life of a term.

mod feed;
mod guard;
mod work;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::api::ListParams;
use kube::{Api, Client};
use parking_lot::Mutex;
use prometheus::Registry;
use svcplane_allocators::service::ServiceKey;
use svcplane_runtime::api::{Failure, Repeated, call};
use svcplane_runtime::client::RESPONSE_HEAD_LIMIT;
use svcplane_runtime::events::EventSink;
use svcplane_runtime::leader::{Standing, Term, TermHandle};
use svcplane_runtime::metrics::Metrics;
use svcplane_runtime::queue::{Backoff, Queue};
use svcplane_runtime::readiness::Readiness;
use svcplane_runtime::supervise::Supervisor;
use svcplane_runtime::watch::{self, ListStyle, Pulse, Selection, WatchBackoff};
use svcplane_webhook::pools::LoadBalancerPool;
use tokio_util::sync::CancellationToken;

pub use self::feed::Fed;

use super::desk::{Desk, Scope};
use super::metrics::LoadBalancerMetrics;
use super::pool_status;
use super::wire::{BalancedService, NeighbourNode};
use crate::books;
use crate::permissions::{self, Right};
use crate::run::until;
use crate::watches::spawn;

/// Where LoadBalancerPools are.
const GROUP_VERSION: &str = "svcplane.io/v1alpha1";

/// Only these Services are watched.
pub const BALANCED: &str = "spec.type=LoadBalancer";

/// Writes that are under way at once.
const WORKERS: usize = 8;

/// Retries of a failing write.
const RETRY: Backoff = Backoff {
    base: Duration::from_millis(50),
    cap: Duration::from_mins(1),
};

/// How often time goes on.
const TICK: Duration = Duration::from_secs(1);

/// How often it is looked whether the cluster has LoadBalancerPools by now.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// What is looked for before it is watched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// LoadBalancerPools, without which there is nothing to do.
    ForPools,
    /// Nodes and ServiceCIDRs, which may have addresses of pools.
    Around,
}

/// What becomes of the controller without.
impl fmt::Display for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ForPools => "is at rest",
            Self::Around => "does not see which addresses of pools Nodes, Pods and ClusterIPs have",
        })
    }
}

/// What it is made of.
pub struct Settings {
    /// Which Services are ours.
    pub scope: Scope,
    /// To the apiserver.
    pub client: Client,
    /// Whether this replica leads.
    pub term: TermHandle,
    /// Tells people.
    pub events: EventSink,
    /// Counts.
    pub metrics: Metrics,
    /// Where the counts of its own go.
    pub registry: Registry,
}

/// The controller `loadbalancer-controller`.
pub struct LoadBalancers {
    desk: Mutex<Desk>,
    queue: Queue<ServiceKey>,
    client: Client,
    term: TermHandle,
    events: EventSink,
    watches: Metrics,
    metrics: LoadBalancerMetrics,
    /// The cluster has LoadBalancerPools, and we may work with them.
    found: Readiness,
    /// The same of what others in the cluster use.
    around: Readiness,
    synced: [Readiness; 5],
}

impl LoadBalancers {
    /// It does nothing before [`start`](Self::start).
    ///
    /// # Errors
    /// Never in practice: a metric is malformed.
    pub fn new(settings: Settings) -> prometheus::Result<Arc<Self>> {
        let Settings {
            scope,
            client,
            term,
            events,
            metrics,
            registry,
        } = settings;
        Ok(Arc::new(Self {
            desk: Mutex::new(Desk::new(scope)),
            queue: Queue::new(RETRY, WORKERS, metrics.workqueue("loadbalancer")),
            client,
            term,
            events,
            metrics: LoadBalancerMetrics::new(registry)?,
            watches: metrics,
            found: Readiness::new("loadbalancerpools"),
            around: Readiness::new("nodes and servicecidrs"),
            synced: [
                BalancedService::NAME,
                LoadBalancerPool::NAME,
                Namespace::NAME,
                NeighbourNode::NAME,
                ServiceCIDR::NAME,
            ]
            .map(Readiness::new),
        }))
    }

    /// What waits to be written.
    pub fn queue(&self) -> Queue<ServiceKey> {
        self.queue.clone()
    }

    /// Starts its tasks: those that write until `work`, the others until `rest`.
    pub fn start(
        self: &Arc<Self>,
        style: ListStyle,
        tasks: &mut Supervisor,
        work: &CancellationToken,
        rest: &CancellationToken,
    ) {
        let [services, pools, namespaces, nodes, cidrs] = &self.synced;
        let (found, around) = (&self.found, &self.around);
        self.watch::<BalancedService>(found, Some(BALANCED), style, services, tasks, rest);
        self.watch::<LoadBalancerPool>(found, None, style, pools, tasks, rest);
        self.watch::<Namespace>(found, None, style, namespaces, tasks, rest);
        self.watch::<NeighbourNode>(around, None, style, nodes, tasks, rest);
        self.watch::<ServiceCIDR>(around, None, style, cidrs, tasks, rest);
        tasks.spawn("loadbalancer start", rest, until(rest, Arc::clone(self).find()));
        for _ in 0..WORKERS {
            tasks.spawn("loadbalancer worker", work, until(work, Arc::clone(self).work()));
        }
        tasks.spawn("loadbalancer leadership", work, until(work, Arc::clone(self).lead()));
        tasks.spawn("loadbalancer clock", work, until(work, Arc::clone(self).keep_time()));
        let statuses = pool_status::keep(Arc::clone(self));
        tasks.spawn("loadbalancer pool status", work, until(work, statuses));
    }

    fn watch<K: Fed>(
        self: &Arc<Self>,
        from: &Readiness,
        fields: Option<&str>,
        style: ListStyle,
        ready: &Readiness,
        tasks: &mut Supervisor,
        stop: &CancellationToken,
    ) {
        let (this, ready, fields) = (Arc::clone(self), ready.clone(), fields.map(str::to_owned));
        let from = from.clone();
        let watch = async move {
            from.raised().await;
            let mut intake = feed::Intake::<K>::new(Arc::clone(&this));
            watch::run(
                K::NAME,
                Api::<K>::all(this.client.clone()),
                Selection {
                    fields,
                    ..Selection::all(style)
                },
                this.watches.watch(K::NAME),
                ready,
                Pulse::default(),
                move |event| intake.event(event),
            )
            .await
        };
        spawn(tasks, stop, K::NAME, watch);
    }

    /// Waits until there is something to do: a cluster without LoadBalancerPools, or a role without the rights, is left in peace.
    async fn find(self: Arc<Self>) {
        self.until_clear(Look::ForPools).await;
        if self.metrics.register(&self).is_ok() {
            self.found.raise();
        }
        self.until_clear(Look::Around).await;
        self.around.raise();
        std::future::pending::<()>().await;
    }

    async fn until_clear(&self, look: Look) {
        let mut trouble = Repeated::default();
        let mut backoff = WatchBackoff::default();
        let mut told = String::new();
        loop {
            let looked = match look {
                Look::ForPools => self.look_for_pools().await,
                Look::Around => self.look_around().await,
            };
            let why = match looked {
                Ok(None) => return,
                Ok(Some(why)) => why,
                Err(failure) => {
                    if trouble.news(&failure, Instant::now()).is_some() {
                        tracing::warn!(error = %failure, "loadbalancer-controller: {look}: cannot look, trying again");
                    }
                    tokio::time::sleep(backoff.next(Instant::now(), rand::random())).await;
                    continue;
                }
            };
            if why != told {
                tracing::info!("loadbalancer-controller {look}: {why}");
                told = why;
            }
            if look == Look::Around {
                // Addresses are given without.
                let [_, _, _, nodes, cidrs] = &self.synced;
                nodes.raise();
                cidrs.raise();
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// What is missing, if anything is.
    async fn look_for_pools(&self) -> Result<Option<String>, Failure> {
        // Anybody may ask this.
        let kinds = self.client.list_api_group_resources(GROUP_VERSION);
        let is_there = match call(RESPONSE_HEAD_LIMIT, kinds).await {
            Ok(kinds) => kinds.resources.iter().any(|kind| kind.name == LoadBalancerPool::NAME),
            Err(Failure::NotFound) => false,
            Err(failure) => return Err(failure),
        };
        if !is_there {
            let why = "the cluster has no LoadBalancerPools; svcplane crds | kubectl apply -f - adds the kind";
            return Ok(Some(why.to_owned()));
        }
        let missing = permissions::missing(&self.client, &rights()).await?;
        Ok((!missing.is_empty()).then(|| permissions::complaint(&missing)))
    }

    /// The same for what others in the cluster use.
    async fn look_around(&self) -> Result<Option<String>, Failure> {
        let kinds = call(
            RESPONSE_HEAD_LIMIT,
            self.client.list_api_group_resources("networking.k8s.io/v1"),
        )
        .await?;
        if !kinds.resources.iter().any(|kind| kind.name == "servicecidrs") {
            return Ok(Some(
                "the apiserver has no ServiceCIDRs, which are there from Kubernetes 1.33 on".to_owned(),
            ));
        }
        let all = [("", "nodes"), ("networking.k8s.io", "servicecidrs")];
        let rights = all.map(|(group, resource)| ["list", "watch"].map(|verb| Right::new(verb, group, resource, None)));
        let missing = permissions::missing(&self.client, rights.as_flattened()).await?;
        Ok((!missing.is_empty()).then(|| permissions::complaint(&missing)))
    }

    /// Opens the queue when a term begins, closes it when it ends.
    async fn lead(self: Arc<Self>) {
        for ready in &self.synced {
            ready.raised().await;
        }
        let mut term = self.term.clone();
        let mut trouble = Repeated::default();
        loop {
            while term.check(Instant::now()).is_err() {
                term.changed().await;
            }
            let tenure = tenure(&term.term());
            if let Err(why) = self.refresh().await {
                if trouble.news(&why, Instant::now()).is_some() {
                    tracing::warn!(error = %why, "loadbalancer-controller: cannot list, trying again");
                }
                tokio::time::sleep(TICK).await;
                continue;
            }
            self.queue.open();
            self.apply(|desk| desk.begin(Instant::now()));
            tracing::info!("loadbalancer-controller is leading");
            loop {
                let now = term.changed().await;
                // Another tenure: somebody else may have led in between.
                if now.standing == Standing::Follower || self::tenure(&now) != tenure {
                    break;
                }
            }
            self.queue.close();
            self.desk.lock().end();
        }
    }

    /// The watches may lag behind what the last leader has written.
    async fn refresh(&self) -> Result<(), Failure> {
        let services: Api<BalancedService> = Api::all(self.client.clone());
        let pools: Api<LoadBalancerPool> = Api::all(self.client.clone());
        let products = self.desk.lock().scope().products;
        let ((services, services_at), (pools, pools_at)) = tokio::try_join!(
            books::listed_at(&services, ListParams::default().fields(BALANCED), |it| it
                .fact(products)),
            books::listed_at(&pools, ListParams::default(), |it| it.fact(products)),
        )?;
        let mut desk = self.desk.lock();
        // Or the lists are behind the watches, which do not say again what they have told while the lists came.
        if pools_at >= desk.told.pools {
            LoadBalancerPool::replace(&mut desk, pools, Instant::now());
        }
        if services_at >= desk.told.services {
            BalancedService::replace(&mut desk, services, Instant::now());
        }
        Ok(())
    }

    async fn keep_time(self: Arc<Self>) {
        let mut tick = tokio::time::interval(TICK);
        loop {
            tick.tick().await;
            self.apply(|desk| desk.advance(Instant::now()));
        }
    }

    /// Changes the desk, and hands out what is due by that.
    fn apply<T>(&self, change: impl FnOnce(&mut Desk) -> T) -> T {
        let (done, due) = {
            let mut desk = self.desk.lock();
            (change(&mut desk), desk.take_due())
        };
        for key in due {
            self.queue.add(&key, Duration::ZERO);
        }
        done
    }

    /// The desk, to read.
    pub(super) fn desk(&self) -> &Mutex<Desk> {
        &self.desk
    }

    /// To the apiserver.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Whether this replica leads.
    pub(super) fn term(&self) -> &TermHandle {
        &self.term
    }
}

/// Which tenure of the Lease this is, if it is one.
fn tenure(term: &Term) -> Option<i32> {
    match term.standing {
        Standing::Leader(tenure) => Some(tenure.transitions),
        Standing::Follower | Standing::Unelected => None,
    }
}

/// What it needs beside what every part of svcplane does.
fn rights() -> Vec<Right> {
    let pools = svcplane_webhook::pools::GROUP;
    let mut rights = vec![Right::new("patch", "", "services/status", None)];
    for verb in ["get", "list", "watch"] {
        rights.push(Right::new(verb, pools, "loadbalancerpools", None));
        rights.push(Right::new(verb, "", "services", None));
    }
    rights.push(Right::new("patch", pools, "loadbalancerpools/status", None));
    for verb in ["list", "watch"] {
        rights.push(Right::new(verb, "", "namespaces", None));
    }
    rights
}
