//! LoadBalancer addresses at start: svcplane's controller beside MetalLB's, on one kind of cluster, one after the other.
//!
//! All Services are there before the controller is, `allocateLoadBalancerNodePorts` is off, and the pool has two per cent more addresses
//! than there are Services. Then the controller is started again, with nothing to do.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Service;
use kube::api::{ListParams, Patch, PatchParams};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::record::Row;
use crate::admission::{install_crds, send};
use crate::balanced::{CLASS, at_rest, shown};
use crate::cluster::{Cluster, Flavour};
use crate::metallb::{self, MetalLb};
use crate::metrics::Metrics;
use crate::svcplane::Svcplane;
use crate::usage;

const NAMESPACES: usize = 10;
const IN_FLIGHT: usize = 24;
/// Nothing takes longer, or the run is void.
const LIMIT: Duration = Duration::from_secs(1200);
/// Without a write for so long, a controller is at rest.
const REST: Duration = Duration::from_secs(8);
/// How long the apiserver is written to for the roof.
const ROOF: Duration = Duration::from_secs(5);
/// The first address of the pool.
const FIRST: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 0);

/// Whose controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Side {
    /// svcplane's.
    Ours,
    /// MetalLB's, as it is: its client makes 20 requests a second.
    Peer,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Ours => "svcplane",
            Self::Peer => "metallb",
        }
    }
}

enum Running {
    Ours(Svcplane),
    Peer(MetalLb),
}

impl Running {
    async fn start(side: Side, cluster: &Cluster) -> Result<Self> {
        Ok(match side {
            Side::Ours => {
                let builder = Svcplane::builder().cluster(cluster).observe();
                let program = builder.arg("--controllers=loadbalancer-controller").start().await?;
                Self::Ours(program)
            }
            Side::Peer => Self::Peer(MetalLb::spawn(cluster, Some(CLASS))?),
        })
    }

    fn pid(&self) -> u32 {
        match self {
            Self::Ours(svcplane) => svcplane.pid(),
            Self::Peer(metallb) => metallb.process().pid(),
        }
    }

    /// It has looked at everything and writes nothing more.
    async fn rest(&self, cluster: &Cluster) -> Result<()> {
        let started = Instant::now();
        match self {
            Self::Ours(svcplane) => {
                svcplane.wait_log("loadbalancer-controller is leading", LIMIT).await?;
                at_rest(svcplane).await?;
            }
            Self::Peer(metallb) => {
                while !metallb.has_configuration().await {
                    ensure!(started.elapsed() < LIMIT, "MetalLB does not read its configuration");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        cluster.settled(REST, LIMIT).await.map(drop)
    }

    async fn stop(self) -> Result<()> {
        match self {
            Self::Ours(svcplane) => svcplane.terminate().await.map(drop),
            Self::Peer(metallb) => metallb.stop().await,
        }
    }
}

/// One run on a cluster of its own: a row for the start with nothing assigned, and one for the start after that.
///
/// # Errors
/// Something does not start, or not every Service gets an address of its own.
pub async fn run(services: usize, side: Side, turn: usize) -> Result<Vec<Row>> {
    let memory = Path::new("/dev/shm");
    let below = if memory.is_dir() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    };
    let cluster = Cluster::builder(Flavour::Ipv4Only).etcd_below(below).start().await?;
    let client = cluster.client();
    install_crds(&client).await?;
    metallb::install(&client).await?;
    create(&client, services).await?;
    let roof = roof(&client).await?;
    pool(&client, services).await?;
    let mut watched = Watched::start(client.clone());
    let mut rows = Vec::new();
    let mut before = BTreeMap::new();
    for phase in ["assign", "restart"] {
        let page = Writes::of(&cluster.metrics().await?);
        let started = Instant::now();
        let running = Running::start(side, &cluster).await?;
        watched.wait(services).await?;
        let wall = started.elapsed().as_secs_f64();
        let cpu = usage::cpu_time(running.pid())?.as_secs_f64();
        running.rest(&cluster).await?;
        let memory = usage::memory(running.pid())?;
        let writes = Writes::of(&cluster.metrics().await?).since(page);
        let at_rest = usage::cpu_time(running.pid())?.as_secs_f64();
        running.stop().await?;
        let addresses = addresses(&client).await?;
        ensure!(
            addresses.len() == services,
            "{} of {services} have an address of their own",
            addresses.len()
        );
        let mut row = Row {
            workload: format!("lb-{services}"),
            phase: phase.into(),
            side: side.name().into(),
            turn,
            ..Row::default()
        };
        if phase == "assign" {
            row.set("wall_s", wall);
            row.set("cpu_until_assigned_s", cpu);
            row.set("status_writes_per_s", writes.status / wall);
            row.set("raw_status_writes_per_s", roof);
            row.set("share_of_raw", writes.status / wall / roof);
        } else {
            let moved = addresses
                .iter()
                .filter(|(name, address)| before.get(*name) != Some(*address))
                .count();
            row.set("moved", count(moved));
        }
        row.set("cpu_s", at_rest);
        row.set("status_writes", writes.status);
        row.set("other_service_writes", writes.services);
        row.set("event_writes", writes.events);
        row.set("rss_mb", megabytes(memory.resident));
        row.set("peak_rss_mb", megabytes(memory.peak));
        rows.push(row);
        before = addresses;
    }
    Ok(rows)
}

#[expect(clippy::cast_precision_loss, reason = "thousands")]
fn count(number: usize) -> f64 {
    number as f64
}

#[expect(clippy::cast_precision_loss, reason = "megabytes")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Writes that the apiserver has answered with success.
#[derive(Clone, Copy)]
struct Writes {
    status: f64,
    services: f64,
    events: f64,
}

impl Writes {
    fn of(page: &Metrics) -> Self {
        let sum = |resource: &str, subresource: Option<&str>| -> f64 {
            let of_resource = [("resource", resource)];
            let found = page.matching("apiserver_request_total", &of_resource);
            let label = |labels: &BTreeMap<String, String>, name: &str| labels.get(name).cloned().unwrap_or_default();
            let counted = found.filter(|sample| {
                let verb = label(&sample.labels, "verb");
                ["POST", "PUT", "PATCH", "APPLY"].contains(&verb.as_str())
                    && label(&sample.labels, "code").starts_with('2')
                    && subresource.is_none_or(|it| label(&sample.labels, "subresource") == it)
            });
            counted.map(|sample| sample.value).sum()
        };
        Self {
            status: sum("services", Some("status")),
            services: sum("services", Some("")),
            events: sum("events", None),
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            status: self.status - before.status,
            services: self.services - before.services,
            events: self.events - before.events,
        }
    }
}

fn service(name: &str, class: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": name, "team": "night-shift"}}, "spec": {
        "type": "LoadBalancer", "loadBalancerClass": class, "allocateLoadBalancerNodePorts": false,
        "selector": {"app": name}, "ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}]}})
}

async fn create(client: &Client, services: usize) -> Result<()> {
    for number in 0..NAMESPACES {
        let namespace = json!({"metadata": {"name": format!("lb-{number}")}});
        send(client, "POST", "/api/v1/namespaces", Some(&namespace))
            .await?
            .accepted()?;
    }
    let requests = (0..services).map(|number| async move {
        let path = format!("/api/v1/namespaces/lb-{}/services", number % NAMESPACES);
        let body = service(&format!("web-{number}"), CLASS);
        send(client, "POST", &path, Some(&body)).await?.accepted().map(drop)
    });
    stream::iter(requests).buffer_unordered(IN_FLIGHT).try_collect().await
}

/// A pool for both, of which the other one's controller does not run.
async fn pool(client: &Client, services: usize) -> Result<()> {
    let last = FIRST.to_bits() + u32::try_from(services + services / 50)? - 1;
    let range = format!("{FIRST}-{}", Ipv4Addr::from_bits(last));
    let ours = json!({"apiVersion": "svcplane.io/v1alpha1", "kind": "LoadBalancerPool", "metadata": {"name": "all"}, "spec": {"ranges": [range]}});
    let pools = "/apis/svcplane.io/v1alpha1/loadbalancerpools";
    send(client, "POST", pools, Some(&ours)).await?.accepted()?;
    let theirs = metallb::pool("all", &json!({"addresses": [range]}));
    send(client, "POST", metallb::POOLS, Some(&theirs)).await?.accepted()?;
    Ok(())
}

/// Patches of the status of Services per second by as many writers as are best, without any controller.
async fn roof(client: &Client) -> Result<f64> {
    let namespace = json!({"metadata": {"name": "raw"}});
    send(client, "POST", "/api/v1/namespaces", Some(&namespace))
        .await?
        .accepted()?;
    let (done, end) = (Arc::new(AtomicU64::new(0)), Instant::now() + ROOF);
    let mut writers = JoinSet::new();
    let begun = Instant::now();
    for number in 0..IN_FLIGHT {
        let (client, done) = (client.clone(), Arc::clone(&done));
        writers.spawn(async move {
            let services: Api<Service> = Api::namespaced(client.clone(), "raw");
            let name = format!("raw-{number}");
            let body = service(&name, "example.org/nobody");
            send(&client, "POST", "/api/v1/namespaces/raw/services", Some(&body)).await?.accepted()?;
            let mut round = 0_u8;
            while Instant::now() < end {
                round = round.wrapping_add(1);
                let address = format!("203.0.113.{round}");
                let condition = json!({"type": "example.org/Raw", "status": "True", "reason": "Raw", "message": address,
                    "lastTransitionTime": "2026-01-02T03:04:05Z"});
                let patch = json!({"status": {"loadBalancer": {"ingress": [{"ip": address, "ipMode": "VIP"}]}, "conditions": [condition]}});
                services
                    .patch_status(&name, &PatchParams::default(), &Patch::Strategic(patch))
                    .await?;
                done.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended??;
    }
    #[expect(clippy::cast_precision_loss, reason = "thousands")]
    let done = done.load(Ordering::Relaxed) as f64;
    send(client, "DELETE", "/api/v1/namespaces/raw/services", None)
        .await?
        .accepted()?;
    Ok(done / begun.elapsed().as_secs_f64())
}

/// How many Services of the namespaces show an address, by a watch.
struct Watched {
    count: watch::Receiver<usize>,
    /// Ends with it.
    _task: JoinSet<()>,
}

impl Watched {
    fn start(client: Client) -> Self {
        let (sender, count) = watch::channel(0);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let services: Api<Service> = Api::all(client);
            let config = watcher::Config::default().fields("spec.type=LoadBalancer");
            let mut events = Box::pin(watcher::watcher(services, config));
            let mut have = std::collections::HashSet::new();
            while let Some(event) = events.next().await {
                if let Ok(Event::Apply(service) | Event::InitApply(service)) = event
                    && !shown(&service).is_empty()
                    && service
                        .spec
                        .as_ref()
                        .and_then(|spec| spec.load_balancer_class.as_deref())
                        == Some(CLASS)
                {
                    have.insert((service.namespace(), service.name_any()));
                    sender.send_replace(have.len());
                }
            }
        });
        Self { count, _task: task }
    }

    async fn wait(&mut self, services: usize) -> Result<()> {
        let all = self.count.wait_for(|count| *count >= services);
        let waited = tokio::time::timeout(LIMIT, all).await.map(drop);
        waited.with_context(|| format!("not all {services} Services have an address"))
    }
}

/// Each Service's address, if nobody else has it.
async fn addresses(client: &Client) -> Result<BTreeMap<String, String>> {
    let services: Api<Service> = Api::all(client.clone());
    let all = services
        .list(&ListParams::default().fields("spec.type=LoadBalancer"))
        .await?;
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    for service in &all.items {
        for address in shown(service) {
            owners.insert(
                address,
                format!("{}/{}", service.namespace().unwrap_or_default(), service.name_any()),
            );
        }
    }
    Ok(owners.into_iter().map(|(address, owner)| (owner, address)).collect())
}
