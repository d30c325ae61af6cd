//! The watches behind the ledger.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use kube::{Api, Client};
use svcplane_runtime::metrics::Metrics;
use svcplane_runtime::readiness::Readiness;
use svcplane_runtime::supervise::Supervisor;
use svcplane_runtime::watch::{self, ListStyle, Pulse, Selection};
use svcplane_webhook::ledger::{Kind, SharedLedger};
use svcplane_webhook::pools::{ClusterIPPool, NodePortPool};
use tokio_util::sync::CancellationToken;

use super::{Booked, Intake, Members};
use crate::endpointslice::SERVICE_NAME_LABEL;
use crate::model::ObjectKey;
use crate::watches::spawn;

/// How often time goes on in the books.
const TICK: Duration = Duration::from_secs(1);

/// One for each kind that must be listed once before this replica is ready. Services are watched for the controllers, too.
pub fn readiness(ledger: &SharedLedger) -> Vec<(Kind, Readiness)> {
    let kinds = ledger.lock().kinds().into_iter().filter(|kind| *kind != Kind::Services);
    kinds.map(|kind| (kind, Readiness::new(kind.as_str()))).collect()
}

/// Starts watches.
pub struct BookWatches {
    /// To the apiserver.
    pub client: Client,
    /// How the first state is fetched.
    pub style: ListStyle,
    /// Counts.
    pub metrics: Metrics,
    /// Where events go.
    pub ledger: SharedLedger,
}

impl BookWatches {
    /// Starts one for each kind; they run until `stop`. Returns whether each is at work.
    pub fn start_all(
        &self,
        tasks: &mut Supervisor,
        stop: &CancellationToken,
        ready: &[(Kind, Readiness)],
    ) -> BTreeMap<Kind, Pulse> {
        let mut pulses = BTreeMap::new();
        for (kind, ready) in ready {
            let pulse = match kind {
                Kind::Services => continue,
                Kind::ServiceCidrs => self.start::<ServiceCIDR>(tasks, stop, ready),
                Kind::IpAddresses => self.start::<IPAddress>(tasks, stop, ready),
                Kind::ClusterIpPools => self.start::<ClusterIPPool>(tasks, stop, ready),
                Kind::NodePortPools => self.start::<NodePortPool>(tasks, stop, ready),
                Kind::Namespaces => self.start::<Namespace>(tasks, stop, ready),
            };
            pulses.insert(*kind, pulse);
        }
        pulses
    }

    /// Starts the one of the slices of the webhook's own Service.
    pub fn start_members(
        &self,
        tasks: &mut Supervisor,
        stop: &CancellationToken,
        service: &ObjectKey,
        mut members: Members,
    ) {
        const NAME: &str = "webhook-endpointslices";
        let watch = watch::run(
            NAME,
            Api::<EndpointSlice>::namespaced(self.client.clone(), &service.namespace),
            Selection {
                labels: Some(format!("{SERVICE_NAME_LABEL}={}", service.name)),
                ..Selection::all(self.style)
            },
            self.metrics.watch(NAME),
            Readiness::new(NAME),
            Pulse::default(),
            move |event| members.event(&event),
        );
        spawn(tasks, stop, NAME, watch);
    }

    fn start<K: Booked>(&self, tasks: &mut Supervisor, stop: &CancellationToken, ready: &Readiness) -> Pulse {
        let (mut intake, pulse) = (Intake::<K>::new(self.ledger.clone()), Pulse::default());
        let name = K::KIND.as_str();
        let watch = watch::run(
            name,
            Api::<K>::all(self.client.clone()),
            Selection::all(self.style),
            self.metrics.watch(name),
            ready.clone(),
            pulse.clone(),
            move |event| intake.event(&event),
        );
        spawn(tasks, stop, name, watch);
        pulse
    }
}

/// Lets time go on in the books, and tells them which watches are at work.
pub async fn keep_time(ledger: SharedLedger, pulses: BTreeMap<Kind, Pulse>) {
    let mut tick = tokio::time::interval(TICK);
    loop {
        tick.tick().await;
        let now = Instant::now();
        let mut ledger = ledger.lock();
        for (kind, pulse) in &pulses {
            match pulse.broken_since() {
                Some(since) => ledger.broke(*kind, since),
                None => ledger.heard(*kind, false, now),
            }
        }
        ledger.advance(now);
    }
}
