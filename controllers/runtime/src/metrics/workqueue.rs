//! `workqueue_*`: what client-go's work queue reports about itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use super::{Register, gauges};

/// The work in progress of one queue at the moment of a scrape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// The ages of all items being worked on, added up.
    pub unfinished: Duration,
    /// The age of the item that has been worked on longest.
    pub longest: Duration,
}

/// The metrics of one queue. Cheap to clone.
#[derive(Clone)]
pub struct WorkqueueMetrics {
    name: &'static str,
    depth: IntGauge,
    adds: IntCounter,
    waited: Histogram,
    worked: Histogram,
    retries: IntCounter,
    probes: Probes,
}

impl WorkqueueMetrics {
    /// Counts an item that entered the queue. An item that is in it already counts once, as in client-go.
    pub fn added(&self) {
        self.adds.inc();
    }

    /// Sets how many items wait for a worker.
    pub fn depth(&self, items: usize) {
        self.depth.set(i64::try_from(items).unwrap_or(i64::MAX));
    }

    /// Records how long an item waited before a worker took it.
    pub fn waited(&self, time: Duration) {
        self.waited.observe(time.as_secs_f64());
    }

    /// Records how long a worker was busy with an item.
    pub fn worked(&self, time: Duration) {
        self.worked.observe(time.as_secs_f64());
    }

    /// Counts an item that comes again after a failure.
    pub fn retried(&self) {
        self.retries.inc();
    }

    /// Sets what is asked, at each scrape, for the work in progress; it replaces an earlier closure of this queue. The
    /// closure must not block for long; let it hold the queue weakly, since it lives as long as the registry.
    pub fn observe_running(&self, probe: impl Fn() -> Running + Send + Sync + 'static) {
        self.probes.lock().insert(self.name, Box::new(probe));
    }
}

type Probe = Box<dyn Fn() -> Running + Send + Sync>;
type Probes = Arc<Mutex<BTreeMap<&'static str, Probe>>>;

/// The vectors behind all queues.
#[derive(Clone)]
pub(super) struct Vectors {
    depth: IntGaugeVec,
    adds: IntCounterVec,
    waited: HistogramVec,
    worked: HistogramVec,
    retries: IntCounterVec,
    probes: Probes,
}

impl Vectors {
    pub(super) fn new(register: &Register<'_>) -> prometheus::Result<Self> {
        let probes = Probes::default();
        register.collector(InProgress {
            unfinished: gauges(
                "workqueue_unfinished_work_seconds",
                "Seconds that the items being worked on right now have taken so far, added up; growing = stuck.",
                "name",
            )?,
            longest: gauges(
                "workqueue_longest_running_processor_seconds",
                "Seconds that the item being worked on longest has taken so far.",
                "name",
            )?,
            probes: probes.clone(),
        })?;
        Ok(Self {
            depth: register.gauges("workqueue_depth", "Items that wait, due or not.", &["name"])?,
            adds: register.counters("workqueue_adds_total", "Items that entered the queue.", &["name"])?,
            waited: register.histograms(
                "workqueue_queue_duration_seconds",
                "Seconds from when an item was due until a worker took it.",
                "name",
                buckets()?,
            )?,
            worked: register.histograms(
                "workqueue_work_duration_seconds",
                "Seconds that a worker was busy with an item.",
                "name",
                buckets()?,
            )?,
            retries: register.counters(
                "workqueue_retries_total",
                "Items that came back after a failure.",
                &["name"],
            )?,
            probes,
        })
    }

    pub(super) fn queue(&self, name: &'static str) -> WorkqueueMetrics {
        WorkqueueMetrics {
            name,
            depth: self.depth.with_label_values(&[name]),
            adds: self.adds.with_label_values(&[name]),
            waited: self.waited.with_label_values(&[name]),
            worked: self.worked.with_label_values(&[name]),
            retries: self.retries.with_label_values(&[name]),
            probes: self.probes.clone(),
        }
    }
}

/// client-go's buckets for both durations: 10 ns to 10 s.
fn buckets() -> prometheus::Result<Vec<f64>> {
    prometheus::exponential_buckets(1e-8, 10.0, 10)
}

/// The two gauges that are computed when somebody scrapes.
struct InProgress {
    unfinished: GaugeVec,
    longest: GaugeVec,
    probes: Probes,
}

impl Collector for InProgress {
    fn desc(&self) -> Vec<&Desc> {
        let mut descriptions = self.unfinished.desc();
        descriptions.extend(self.longest.desc());
        descriptions
    }

    fn collect(&self) -> Vec<MetricFamily> {
        for (name, probe) in self.probes.lock().iter() {
            let running = probe();
            self.unfinished
                .with_label_values(&[name])
                .set(running.unfinished.as_secs_f64());
            self.longest
                .with_label_values(&[name])
                .set(running.longest.as_secs_f64());
        }
        let mut families = self.unfinished.collect();
        families.extend(self.longest.collect());
        families
    }
}
