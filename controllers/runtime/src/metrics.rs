//! Prometheus metrics of the kit. One [`Metrics`] value is built from an explicit [`Registry`] and passed down: there are
//! no globals, so every test has a registry of its own. Names, help texts, buckets and labels follow component-base
//! (`metrics/prometheus/{workqueue,restclient,clientgo/leaderelection}`), so that dashboards made for
//! kube-controller-manager work; only upstream's `host` label is left out (there is one apiserver).
//!
//! Label values come from closed sets: queue and resource names are `&'static str`, methods and reasons are enums or
//! folded into `other`. Names of objects, addresses and error texts never become labels.

mod workqueue;

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::{
    Encoder, GaugeVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

pub use workqueue::{Backlog, WorkqueueMetrics};

/// Content-Type of what [`Metrics::encode`] returns: the Prometheus text format 0.0.4.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What `svcplane_build_info` says about this binary.
#[derive(Clone, Copy, Debug)]
pub struct BuildInfo {
    /// The program's version, as in Cargo.toml.
    pub version: &'static str,
    /// The Kubernetes version this build follows, for example `1.37`.
    pub kubernetes: &'static str,
}

/// All metrics of the kit. Cheap to clone: the vectors inside are shared.
#[derive(Clone)]
pub struct Metrics {
    registry: Registry,
    workqueue: workqueue::Vectors,
    requests: RestClientMetrics,
    master_status: IntGaugeVec,
    slowpath: IntCounterVec,
    transitions: IntCounterVec,
    watch_events: IntCounterVec,
    watch_errors: IntCounterVec,
    watch_relists: IntCounterVec,
    events_dropped: IntCounterVec,
}

impl Metrics {
    /// Registers every metric of the kit, the process's own and the build information in `registry`.
    ///
    /// # Errors
    /// When a metric of that name is registered already: call this once per registry.
    pub fn new(registry: Registry, build: BuildInfo) -> prometheus::Result<Self> {
        let register = Register(&registry);
        let info = register.gauges(
            "svcplane_build_info",
            "Always 1; the labels describe the build.",
            &["version", "kubernetes"],
        )?;
        info.with_label_values(&[build.version, build.kubernetes]).set(1);
        register.collector(prometheus::process_collector::ProcessCollector::for_self())?;
        Ok(Self {
            workqueue: workqueue::Vectors::new(&register)?,
            requests: RestClientMetrics {
                total: register.counters(
                    "rest_client_requests_total",
                    "Requests to the apiserver, by HTTP status and method.",
                    &["code", "method"],
                )?,
                duration: register.histograms(
                    "rest_client_request_duration_seconds",
                    "Seconds until the head of the answer, by method.",
                    "verb",
                    vec![0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0],
                )?,
            },
            master_status: register.gauges(
                "leader_election_master_status",
                "1 while this process leads, else 0.",
                &["name"],
            )?,
            slowpath: register.counters(
                "leader_election_slowpath_total",
                "Renewals that had to read the Lease first.",
                &["name"],
            )?,
            transitions: register.counters(
                "svcplane_leader_election_transitions_total",
                "Times this process began or ceased to lead.",
                &["name"],
            )?,
            watch_events: register.counters(
                "svcplane_watch_events_total",
                "Objects received, lists included.",
                &["resource"],
            )?,
            watch_errors: register.counters(
                "svcplane_watch_errors_total",
                "Failures of the watch or its list.",
                &["resource"],
            )?,
            watch_relists: register.counters(
                "svcplane_watch_relists_total",
                "Lists begun after the first complete one.",
                &["resource"],
            )?,
            events_dropped: register.counters(
                "svcplane_events_dropped_total",
                "Events that were not written, by reason.",
                &["reason"],
            )?,
            registry,
        })
    }

    /// The registry, for metrics that a controller adds.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Everything registered, in the Prometheus text format ([`CONTENT_TYPE`]).
    ///
    /// # Errors
    /// When a metric cannot be written, for example a family without a sample.
    pub fn encode(&self) -> prometheus::Result<Vec<u8>> {
        let mut text = Vec::with_capacity(16 * 1024);
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }

    /// The metrics of the work queue called `name` (label `name`). Its series exist from now on.
    pub fn workqueue(&self, name: &'static str) -> WorkqueueMetrics {
        self.workqueue.queue(name)
    }

    /// The metrics of requests to the apiserver.
    pub fn rest_client(&self) -> RestClientMetrics {
        self.requests.clone()
    }

    /// The metrics of the election for the lease called `name`. A fresh process is no leader: the gauge starts at 0.
    pub fn leader_election(&self, name: &str) -> LeaderElectionMetrics {
        LeaderElectionMetrics {
            master_status: self.master_status.with_label_values(&[name]),
            slowpath: self.slowpath.with_label_values(&[name]),
            transitions: self.transitions.with_label_values(&[name]),
        }
    }

    /// The metrics of the watch of `resource` (plural and lower case, as in a URL).
    pub fn watch(&self, resource: &'static str) -> WatchMetrics {
        WatchMetrics {
            events: self.watch_events.with_label_values(&[resource]),
            errors: self.watch_errors.with_label_values(&[resource]),
            relists: self.watch_relists.with_label_values(&[resource]),
        }
    }

    /// The counter of Events that were dropped for `reason`.
    pub fn events_dropped(&self, reason: &'static str) -> IntCounter {
        self.events_dropped.with_label_values(&[reason])
    }
}

/// Requests to the apiserver: `rest_client_requests_total` and `rest_client_request_duration_seconds`.
#[derive(Clone)]
pub struct RestClientMetrics {
    total: IntCounterVec,
    duration: HistogramVec,
}

impl RestClientMetrics {
    /// Counts one request that took `took`. `code` is the HTTP status, `None` when no answer came (`<error>`, as in
    /// client-go); a method that the apiserver's clients do not use counts as `other`.
    pub fn observe(&self, method: &str, code: Option<u16>, took: Duration) {
        let method = match method {
            "GET" => "GET",
            "POST" => "POST",
            "PUT" => "PUT",
            "PATCH" => "PATCH",
            "DELETE" => "DELETE",
            _ => "other",
        };
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        self.total.with_label_values(&[code.as_str(), method]).inc();
        self.duration.with_label_values(&[method]).observe(took.as_secs_f64());
    }
}

/// The election for one lease.
#[derive(Clone)]
pub struct LeaderElectionMetrics {
    /// `leader_election_master_status`: 1 while this process leads, else 0.
    pub master_status: IntGauge,
    /// `leader_election_slowpath_total`: renewals that had to read the lease first.
    pub slowpath: IntCounter,
    /// `svcplane_leader_election_transitions_total`: times this process began or ceased to lead.
    pub transitions: IntCounter,
}

/// The watch of one resource.
#[derive(Clone)]
pub struct WatchMetrics {
    /// `svcplane_watch_events_total`: objects received.
    pub events: IntCounter,
    /// `svcplane_watch_errors_total`: failed watches and lists.
    pub errors: IntCounter,
    /// `svcplane_watch_relists_total`: complete lists after the first.
    pub relists: IntCounter,
}

/// Makes a metric and registers it, in one call.
struct Register<'a>(&'a Registry);

impl Register<'_> {
    fn collector<C: Collector + 'static>(&self, collector: C) -> prometheus::Result<()> {
        self.0.register(Box::new(collector))
    }

    fn add<C: Collector + Clone + 'static>(&self, collector: C) -> prometheus::Result<C> {
        self.collector(collector.clone())?;
        Ok(collector)
    }

    fn counters(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntCounterVec> {
        self.add(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntGaugeVec> {
        self.add(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    fn histograms(&self, name: &str, help: &str, label: &str, buckets: Vec<f64>) -> prometheus::Result<HistogramVec> {
        self.add(HistogramVec::new(
            HistogramOpts::new(name, help).buckets(buckets),
            &[label],
        )?)
    }
}

/// A vector of floating-point gauges that its owner registers as part of a collector.
fn gauges(name: &str, help: &str, label: &str) -> prometheus::Result<GaugeVec> {
    GaugeVec::new(Opts::new(name, help), &[label])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics() -> Metrics {
        let build = BuildInfo {
            version: "0.1.0",
            kubernetes: "1.37",
        };
        Metrics::new(Registry::new(), build).unwrap()
    }

    fn text(metrics: &Metrics) -> String {
        String::from_utf8(metrics.encode().unwrap()).unwrap()
    }

    /// Every series line, without its value.
    fn series(metrics: &Metrics) -> Vec<String> {
        let text = text(metrics);
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
    }

    #[test]
    fn names_and_values_are_client_gos() {
        let metrics = metrics();
        let queue = metrics.workqueue("endpoint");
        queue.added();
        queue.added();
        queue.waited(Duration::from_millis(5));
        queue.worked(Duration::from_millis(20));
        queue.retried();
        queue.observe_backlog(|| Backlog {
            due: 1,
            delayed: 4,
            unfinished: Duration::from_secs(3),
            longest: Duration::from_secs(2),
        });
        metrics
            .rest_client()
            .observe("PUT", Some(409), Duration::from_millis(30));
        metrics.rest_client().observe("PUT", None, Duration::from_secs(10));
        metrics.leader_election("svcplane").master_status.set(1);
        metrics.watch("pods").events.inc_by(7);
        metrics.events_dropped("queue_full").inc();
        let text = text(&metrics);
        for line in [
            r#"workqueue_adds_total{name="endpoint"} 2"#,
            r#"workqueue_depth{name="endpoint"} 1"#,
            r#"svcplane_workqueue_delayed{name="endpoint"} 4"#,
            r#"workqueue_queue_duration_seconds_bucket{name="endpoint",le="0.001"} 0"#,
            r#"workqueue_queue_duration_seconds_sum{name="endpoint"} 0.005"#,
            r#"workqueue_work_duration_seconds_count{name="endpoint"} 1"#,
            r#"workqueue_retries_total{name="endpoint"} 1"#,
            r#"workqueue_unfinished_work_seconds{name="endpoint"} 3"#,
            r#"workqueue_longest_running_processor_seconds{name="endpoint"} 2"#,
            r#"rest_client_requests_total{code="409",method="PUT"} 1"#,
            r#"rest_client_requests_total{code="<error>",method="PUT"} 1"#,
            r#"rest_client_request_duration_seconds_bucket{verb="PUT",le="0.1"} 1"#,
            r#"leader_election_master_status{name="svcplane"} 1"#,
            r#"leader_election_slowpath_total{name="svcplane"} 0"#,
            r#"svcplane_watch_events_total{resource="pods"} 7"#,
            r#"svcplane_watch_errors_total{resource="pods"} 0"#,
            r#"svcplane_watch_relists_total{resource="pods"} 0"#,
            r#"svcplane_events_dropped_total{reason="queue_full"} 1"#,
            r#"svcplane_build_info{kubernetes="1.37",version="0.1.0"} 1"#,
        ] {
            assert!(text.lines().any(|have| have == line), "missing {line} in\n{text}");
        }
        assert!(text.contains("process_resident_memory_bytes "), "{text}");
        assert!(!text.contains("_total_total"), "{text}");
    }

    #[test]
    fn the_number_of_series_does_not_grow_with_use() {
        let metrics = metrics();
        let round = |metrics: &Metrics, number: u16| {
            metrics.workqueue("endpoint").observe_backlog(Backlog::default);
            metrics
                .workqueue("endpoint")
                .worked(Duration::from_secs(u64::from(number)));
            metrics.watch("pods").relists.inc();
            metrics.leader_election("svcplane").slowpath.inc();
            metrics
                .rest_client()
                .observe(&format!("METHOD{number}"), Some(200), Duration::ZERO);
        };
        round(&metrics, 0);
        let first = series(&metrics);
        for number in 1..100 {
            round(&metrics, number);
        }
        assert_eq!(first, series(&metrics));
    }

    #[test]
    fn a_second_set_in_the_same_registry_is_refused() {
        let metrics = metrics();
        let build = BuildInfo {
            version: "0.1.0",
            kubernetes: "1.37",
        };
        assert!(Metrics::new(metrics.registry().clone(), build).is_err());
    }
}
