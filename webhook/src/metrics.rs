//! What the webhook counts. Label values are from closed sets; names of objects never become labels.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, IntCounterVec, Opts, Registry};

/// The label of addresses.
pub const CLUSTER_IPS: &str = "clusterips";

/// The label of nodePorts.
pub const NODE_PORTS: &str = "nodeports";

/// Counters of one server.
#[derive(Clone, Debug)]
pub struct WebhookMetrics {
    reviews: IntCounterVec,
    unreadable: IntCounterVec,
    refused_requests: IntCounterVec,
    chosen: IntCounterVec,
    bypassed: IntCounterVec,
    duration: Histogram,
}

impl WebhookMetrics {
    /// Registers them.
    ///
    /// # Errors
    /// One of the names is registered already.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let duration = Histogram::with_opts(
            HistogramOpts::new(
                "svcplane_admission_duration_seconds",
                "From a whole body to its answer.",
            )
            .buckets(prometheus::exponential_buckets(0.000_01, 4.0, 9)?),
        )?;
        registry.register(Box::new(duration.clone()))?;
        let metrics = Self {
            reviews: counter(
                "svcplane_admission_reviews_total",
                "AdmissionReviews answered, by endpoint and verdict.",
                &["endpoint", "verdict"],
            )?,
            unreadable: counter(
                "svcplane_admission_unreadable_total",
                "Objects in AdmissionReviews that could not be read as a Service, by endpoint.",
                &["endpoint"],
            )?,
            refused_requests: counter(
                "svcplane_admission_refused_requests_total",
                "HTTP requests that were no AdmissionReview or came at a bad time, by status code.",
                &["code"],
            )?,
            chosen: counter(
                "svcplane_allocation_chosen_total",
                "Values that this replica has chosen at admission, by resource.",
                &["resource"],
            )?,
            bypassed: counter(
                "svcplane_admission_bypass_total",
                "Reviews in which an enforced pool could not be enforced because the watches lag, by endpoint.",
                &["endpoint"],
            )?,
            duration,
        };
        for resource in [CLUSTER_IPS, NODE_PORTS] {
            metrics.chosen.with_label_values(&[resource]).reset();
        }
        for endpoint in ["mutate", "validate"] {
            for verdict in ["allowed", "denied"] {
                metrics.reviews.with_label_values(&[endpoint, verdict]).reset();
            }
            metrics.unreadable.with_label_values(&[endpoint]).reset();
            metrics.bypassed.with_label_values(&[endpoint]).reset();
        }
        Ok(metrics)
    }

    pub(crate) fn answered(&self, endpoint: &str, allowed: bool, took: Duration) {
        let verdict = if allowed { "allowed" } else { "denied" };
        self.reviews.with_label_values(&[endpoint, verdict]).inc();
        self.duration.observe(took.as_secs_f64());
    }

    pub(crate) fn unreadable(&self, endpoint: &str) {
        self.unreadable.with_label_values(&[endpoint]).inc();
    }

    pub(crate) fn chosen(&self, addresses: usize, ports: usize) {
        for (resource, count) in [(CLUSTER_IPS, addresses), (NODE_PORTS, ports)] {
            self.chosen.with_label_values(&[resource]).inc_by(count as u64);
        }
    }

    pub(crate) fn bypassed(&self, endpoint: &str) {
        self.bypassed.with_label_values(&[endpoint]).inc();
    }

    pub(crate) fn refused_request(&self, code: http::StatusCode) {
        self.refused_requests.with_label_values(&[code.as_str()]).inc();
    }
}
