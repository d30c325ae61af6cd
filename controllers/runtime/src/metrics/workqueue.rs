//! `workqueue_*`: what client-go's work queue reports about itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec};

use super::{Register, gauges};

/// One queue at the moment of a scrape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Items that are due and wait for a worker.
    pub due: usize,
    /// Items whose time has not come: batch period, back-off.
    pub delayed: usize,
    /// The ages of all items being worked on, added up.
    pub unfinished: Duration,
    /// The age of the item that has been worked on longest.
    pub longest: Duration,
}

/// The metrics of one queue. Cheap to clone.
#[derive(Clone)]
pub struct WorkqueueMetrics {
    name: &'static str,
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

    /// Sets what is asked, at each scrape, for the backlog; it replaces an earlier closure of this queue. The
    /// closure must not block for long; let it hold the queue weakly, since it lives as long as the registry.
    pub fn observe_backlog(&self, probe: impl Fn() -> Backlog + Send + Sync + 'static) {
        self.probes.lock().insert(self.name, Box::new(probe));
    }
}

type Probe = Box<dyn Fn() -> Backlog + Send + Sync>;
type Probes = Arc<Mutex<BTreeMap<&'static str, Probe>>>;

/// The vectors behind all queues.
#[derive(Clone)]
pub(super) struct Vectors {
    adds: IntCounterVec,
    waited: HistogramVec,
    worked: HistogramVec,
    retries: IntCounterVec,
    probes: Probes,
}

impl Vectors {
    pub(super) fn new(register: &Register<'_>) -> prometheus::Result<Self> {
        let probes = Probes::default();
        register.collector(AtScrape {
            depth: gauges("workqueue_depth", "Items that are due and wait for a worker.", "name")?,
            delayed: gauges(
                "svcplane_workqueue_delayed",
                "Items whose time has not come: batch period, back-off.",
                "name",
            )?,
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

/// The gauges that are computed when somebody scrapes.
struct AtScrape {
    depth: GaugeVec,
    delayed: GaugeVec,
    unfinished: GaugeVec,
    longest: GaugeVec,
    probes: Probes,
}

impl AtScrape {
    fn gauges(&self) -> [&GaugeVec; 4] {
        [&self.depth, &self.delayed, &self.unfinished, &self.longest]
    }
}

impl Collector for AtScrape {
    fn desc(&self) -> Vec<&Desc> {
        self.gauges().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let items = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).into();
        for (name, probe) in self.probes.lock().iter() {
            let backlog = probe();
            let values = [
                items(backlog.due),
                items(backlog.delayed),
                backlog.unfinished.as_secs_f64(),
                backlog.longest.as_secs_f64(),
            ];
            for (gauge, value) in self.gauges().into_iter().zip(values) {
                gauge.with_label_values(&[name]).set(value);
            }
        }
        self.gauges().into_iter().flat_map(Collector::collect).collect()
    }
}
