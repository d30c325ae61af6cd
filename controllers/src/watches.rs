//! Which kinds are watched, and the tasks that do it.

use kube::{Api, Client};
use svcplane_runtime::metrics::Metrics;
use svcplane_runtime::readiness::Readiness;
use svcplane_runtime::supervise::Supervisor;
use svcplane_runtime::watch::{self, ListStyle, Pulse, Selection, WentBack};
use tokio_util::sync::CancellationToken;

use crate::controller::Controller;
use crate::endpointslice::MANAGED_BY_LABEL;
use crate::feed::{Feed, Watched};
use crate::identity::Identity;
use crate::index::Kind;
use crate::model::Manager;
use crate::wire::{WireEndpoints, WireNode, WirePod, WireService, WireSlice};

/// Which kinds are watched. LoadBalancer addresses and the repair look for themselves.
pub struct Kinds {
    /// Services: endpoints depend on them, and admission has to know them.
    services: bool,
    /// Pods and Endpoints: nobody else looks at them.
    pub endpoints: bool,
    /// Label selector of the slices, if any are.
    pub slices: Option<String>,
    nodes: bool,
}

impl Kinds {
    /// What these controllers need, and admission if it is `served`.
    pub fn of(running: &[Controller], identity: Identity, served: bool) -> Self {
        let managers = [identity.manager(), Manager::Mirroring].into_iter();
        let managers: Vec<&str> = managers
            .filter(|manager| running.contains(&Controller::from(*manager)))
            .map(Manager::as_str)
            .collect();
        let selector = || format!("{MANAGED_BY_LABEL} in ({})", managers.join(","));
        let endpoints = running.iter().any(|controller| controller.is_of_endpoints());
        Self {
            services: endpoints || served,
            endpoints,
            slices: (!managers.is_empty()).then(selector),
            nodes: running.contains(&Controller::Slices),
        }
    }

    /// One for each kind, named after it.
    pub fn readiness(&self) -> Vec<Readiness> {
        let mut kinds = Vec::new();
        kinds.extend(self.services.then_some("services"));
        kinds.extend(self.endpoints.then_some(["pods", "endpoints"]).into_iter().flatten());
        kinds.extend(self.slices.is_some().then_some("endpointslices"));
        kinds.extend(self.nodes.then_some("nodes"));
        kinds.into_iter().map(Readiness::new).collect()
    }
}

/// Starts watches.
pub struct Watches {
    /// To the apiserver.
    pub client: Client,
    /// How the first state is fetched.
    pub style: ListStyle,
    /// Counts.
    pub metrics: Metrics,
    /// Where events go.
    pub feed: Feed,
    /// Whether the watch of Services is at work.
    pub services: Pulse,
}

impl Watches {
    /// Starts one for each kind; they run until `stop`.
    pub fn start_all(
        &self,
        tasks: &mut Supervisor,
        stop: &CancellationToken,
        synced: &[Readiness],
        slices: Option<&String>,
    ) {
        for ready in synced {
            match ready.name() {
                WireService::RESOURCE => self.start::<WireService>(tasks, stop, ready, None),
                WirePod::RESOURCE => self.start::<WirePod>(tasks, stop, ready, None),
                WireEndpoints::RESOURCE => self.start::<WireEndpoints>(tasks, stop, ready, None),
                WireSlice::RESOURCE => self.start::<WireSlice>(tasks, stop, ready, slices.cloned()),
                WireNode::RESOURCE => self.start::<WireNode>(tasks, stop, ready, None),
                _ => {}
            }
        }
    }

    fn start<K: Watched>(
        &self,
        tasks: &mut Supervisor,
        stop: &CancellationToken,
        ready: &Readiness,
        labels: Option<String>,
    ) {
        let is_services = K::KIND == Kind::Service;
        let pulse = if is_services {
            self.services.clone()
        } else {
            Pulse::default()
        };
        let feed = self.feed.clone();
        let watch = watch::run(
            K::RESOURCE,
            Api::<K>::all(self.client.clone()),
            Selection {
                labels,
                ..Selection::all(self.style)
            },
            self.metrics.watch(K::RESOURCE),
            ready.clone(),
            pulse,
            move |event| feed.event(event),
        );
        spawn(tasks, stop, K::RESOURCE, watch);
    }
}

/// Runs a watch of this name until `stop`. It ends early only if the apiserver's history went back, which ends the process.
pub fn spawn(
    tasks: &mut Supervisor,
    stop: &CancellationToken,
    name: &str,
    watch: impl Future<Output = WentBack> + Send + 'static,
) {
    let until = stop.clone();
    let watch = async move { until.run_until_cancelled(watch).await.map_or(Ok(()), Err) };
    tasks.spawn(format!("watch {name}"), stop, watch);
}
