//! What the controller counts. Label values are from closed sets, and names of pools that there are.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Histogram, HistogramOpts, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};
use svcplane_allocators::balancers::Reason;
use svcplane_allocators::cluster_ips::IpFamily;
use svcplane_runtime::api::Failure;

use super::LoadBalancers;
use super::desk::Desk;

/// Counters, and gauges that are read when somebody scrapes.
pub struct LoadBalancerMetrics {
    registry: Registry,
    writes: IntCounterVec,
    reasons: IntCounterVec,
    seconds: Histogram,
    gauges: Gauges,
}

#[derive(Clone)]
struct Gauges {
    services: IntGaugeVec,
    addresses: IntGaugeVec,
    contended: IntGauge,
    divergent: IntGauge,
}

impl LoadBalancerMetrics {
    /// Not registered yet: a cluster without LoadBalancerPools has nothing to count.
    pub fn new(registry: Registry) -> prometheus::Result<Self> {
        let gauges = |name: &str, help: &str, labels: &[&str]| IntGaugeVec::new(Opts::new(name, help), labels);
        let counters = |name: &str, help: &str, labels: &[&str]| IntCounterVec::new(Opts::new(name, help), labels);
        Ok(Self {
            registry,
            writes: counters(
                "svcplane_loadbalancer_status_writes_total",
                "Patches of the status of Services, by what became of them.",
                &["outcome"],
            )?,
            reasons: counters(
                "svcplane_loadbalancer_reasons_total",
                "Changes of the condition AddressesAssigned, by its new reason.",
                &["reason"],
            )?,
            seconds: Histogram::with_opts(
                HistogramOpts::new(
                    "svcplane_loadbalancer_assignment_seconds",
                    "From the event that made addresses due to the status that shows them.",
                )
                .buckets(vec![0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0]),
            )?,
            gauges: Gauges {
                services: gauges(
                    "svcplane_loadbalancer_services",
                    "Services of ours by the reason that is decided for them; only on the leader.",
                    &["reason"],
                )?,
                addresses: gauges(
                    "svcplane_loadbalancer_pool_addresses",
                    "Addresses of each pool by state, as this replica knows them.",
                    &["pool", "family", "state"],
                )?,
                contended: IntGauge::new(
                    "svcplane_loadbalancer_contended",
                    "Services of ours whose status somebody else writes, and which are left alone for that.",
                )?,
                divergent: IntGauge::new(
                    "svcplane_loadbalancer_divergence",
                    "Services of ours whose status does not show the addresses that are decided.",
                )?,
            },
        })
    }

    /// From now on they are shown.
    pub fn register(&self, controller: &Arc<LoadBalancers>) -> prometheus::Result<()> {
        for reason in Reason::ALL {
            self.reasons.with_label_values(&[reason.as_str()]).reset();
        }
        self.writes.with_label_values(&["ok"]).reset();
        self.registry.register(Box::new(self.writes.clone()))?;
        self.registry.register(Box::new(self.reasons.clone()))?;
        self.registry.register(Box::new(self.seconds.clone()))?;
        self.registry.register(Box::new(AtScrape {
            gauges: self.gauges.clone(),
            controller: Arc::downgrade(controller),
        }))
    }

    /// A write has ended.
    pub fn written(&self, failure: Option<&Failure>) {
        let outcome = failure.map_or("ok", Failure::as_str);
        self.writes.with_label_values(&[outcome]).inc();
    }

    /// Addresses are shown after this time.
    pub fn assigned(&self, waited: Option<Duration>) {
        if let Some(waited) = waited {
            self.seconds.observe(waited.as_secs_f64());
        }
    }

    /// The condition says something else.
    pub fn told(&self, reason: Reason) {
        self.reasons.with_label_values(&[reason.as_str()]).inc();
    }
}

impl Gauges {
    fn all(&self) -> [&dyn Collector; 4] {
        [&self.services, &self.addresses, &self.contended, &self.divergent]
    }

    fn read(&self, desk: &Desk) {
        for reason in Reason::ALL {
            self.services.with_label_values(&[reason.as_str()]).set(0);
        }
        let (mut contended, mut divergent) = (0, 0);
        for kept in desk.services() {
            let Some(outcome) = desk.balancers().outcome(&kept.seen.key) else {
                continue;
            };
            let is_contended = kept.is_contended(Instant::now());
            contended += i64::from(is_contended);
            let reason = if is_contended {
                Reason::Contended
            } else {
                outcome.reason
            };
            self.services.with_label_values(&[reason.as_str()]).inc();
            divergent += i64::from(!kept.seen.shown.is_just(&outcome.addresses));
        }
        self.contended.set(contended);
        self.divergent.set(divergent);
        self.addresses.reset();
        for pool in desk.balancers().pools() {
            let name = &*pool.terms.name;
            for (family, word) in [(IpFamily::IPv4, "IPv4"), (IpFamily::IPv6, "IPv6")] {
                let Some(counts) = desk.balancers().counts(name, family) else {
                    continue;
                };
                let states = [
                    ("held", counts.held),
                    ("reserved", counts.reserved),
                    ("quarantined", counts.quarantined),
                    ("free", counts.free),
                ];
                if states.iter().all(|(_, count)| *count == 0) {
                    continue;
                }
                for (state, count) in states {
                    let count = i64::try_from(count).unwrap_or(i64::MAX);
                    self.addresses.with_label_values(&[name, word, state]).set(count);
                }
            }
        }
    }
}

/// Reads the desk when somebody scrapes.
struct AtScrape {
    gauges: Gauges,
    controller: Weak<LoadBalancers>,
}

impl Collector for AtScrape {
    fn desc(&self) -> Vec<&Desc> {
        self.gauges.all().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(controller) = self.controller.upgrade() else {
            return Vec::new();
        };
        self.gauges.read(&controller.desk().lock());
        self.gauges.all().into_iter().flat_map(Collector::collect).collect()
    }
}
