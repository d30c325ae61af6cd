//! What the process shows of itself: gauges read from the index at scrape time, and `/debug/state`.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGauge, IntGaugeVec, Opts};

use serde_json::{Map, Value, json};
use svcplane_runtime::leader::TermHandle;
use svcplane_runtime::queue::Queue;
use svcplane_runtime::readiness::Readiness;
use svcplane_webhook::ledger::{Ledger, SharedLedger};

use crate::gate::Gate;
use crate::index::Index;
use crate::model::ObjectKey;

/// Gauges that are computed when somebody scrapes, so that nothing has to be kept in step.
pub struct IndexCollector {
    index: Arc<Mutex<Index>>,
    objects: IntGaugeVec,
    addresses: IntGaugeVec,
    without_service: IntGauge,
}

impl IndexCollector {
    /// Reads from `index`.
    pub fn new(index: Arc<Mutex<Index>>) -> prometheus::Result<Self> {
        Ok(Self {
            index,
            objects: IntGaugeVec::new(
                Opts::new("svcplane_objects", "Objects known from the watches."),
                &["resource"],
            )?,
            addresses: IntGaugeVec::new(
                Opts::new(
                    "svcplane_endpoints_addresses",
                    "Addresses in the Endpoints of Services with a selector.",
                ),
                &["state"],
            )?,
            without_service: IntGauge::new(
                "svcplane_endpoints_without_service",
                "Endpoints that have no Service of their name. Those that somebody else made are left alone.",
            )?,
        })
    }
}

impl Collector for IndexCollector {
    fn desc(&self) -> Vec<&Desc> {
        [self.objects.desc(), self.addresses.desc(), self.without_service.desc()].concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let counts = self.index.lock().counts();
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        for (resource, count) in [
            ("services", counts.services),
            ("pods", counts.pods),
            ("endpoints", counts.endpoints),
            ("endpointslices", counts.slices),
            ("nodes", counts.nodes),
        ] {
            self.objects.with_label_values(&[resource]).set(gauge(count));
        }
        for (state, count) in [
            ("ready", counts.ready_addresses),
            ("not_ready", counts.not_ready_addresses),
        ] {
            self.addresses.with_label_values(&[state]).set(gauge(count));
        }
        self.without_service.set(gauge(counts.endpoints_without_service));
        [
            self.objects.collect(),
            self.addresses.collect(),
            self.without_service.collect(),
        ]
        .concat()
    }
}

/// What `/debug/state` shows.
pub struct Debug {
    /// Who we are in the election.
    pub identity: String,
    /// The mode in force.
    pub gate: Gate,
    /// The election.
    pub term: TermHandle,
    /// What is stored.
    pub index: Arc<Mutex<Index>>,
    /// What waits.
    pub queue: Queue<ObjectKey>,
    /// Which watches have seen a complete state.
    pub synced: Vec<Readiness>,
    /// The books of admission, if it is served.
    pub ledger: Option<SharedLedger>,
}

impl Debug {
    /// The state at this moment.
    pub fn show(&self) -> Value {
        let counts = self.index.lock().counts();
        let term = self.term.term();
        let synced: Map<String, Value> = self
            .synced
            .iter()
            .map(|ready| (ready.name().to_owned(), ready.is_raised().into()))
            .collect();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "identity": self.identity,
            "mode": self.gate.mode().as_str(),
            "leading": self.term.check(Instant::now()).is_ok(),
            "leader": term.holder,
            "forcedObserve": term.forced_observe,
            "synced": synced,
            "books": self.ledger.as_ref().map(|ledger| books(&ledger.lock())),
            "queue": { "waiting": self.queue.waiting() },
            "objects": {
                "namespaces": counts.namespaces,
                "services": counts.services,
                "pods": counts.pods,
                "endpoints": counts.endpoints,
                "endpointsWithoutService": counts.endpoints_without_service,
                "endpointSlices": counts.slices,
                "nodes": counts.nodes,
            },
            "addresses": { "ready": counts.ready_addresses, "notReady": counts.not_ready_addresses },
        })
    }
}

/// Whether values can be chosen, and from which ranges.
fn books(ledger: &Ledger) -> Value {
    let now = Instant::now();
    let sources: Map<String, Value> = ledger
        .freshness(now)
        .map(|(kind, freshness)| (kind.as_str().to_owned(), format!("{freshness:?}").into()))
        .collect();
    let (addresses, ports) = (ledger.cluster_ips(), ledger.node_ports());
    let ranges = addresses
        .ipv4
        .ranges(now)
        .chain(addresses.ipv6.ranges(now))
        .chain(ports.ranges(now));
    let ranges: Map<String, Value> = ranges
        .map(|range| {
            let state = json!({ "ready": range.ready, "settled": range.settled, "resting": range.resting });
            (range.text.to_string(), state)
        })
        .collect();
    json!({ "sources": sources, "ranges": ranges })
}
