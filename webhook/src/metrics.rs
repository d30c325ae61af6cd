//! What the webhook counts. Label values are from closed sets; names of objects never become labels.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, IntCounterVec, Opts, Registry};

/// Counters of one server.
#[derive(Clone, Debug)]
pub struct WebhookMetrics {
    reviews: IntCounterVec,
    unreadable: IntCounterVec,
    refused_requests: IntCounterVec,
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
            duration,
        };
        for endpoint in ["mutate", "validate"] {
            for verdict in ["allowed", "denied"] {
                metrics.reviews.with_label_values(&[endpoint, verdict]).reset();
            }
            metrics.unreadable.with_label_values(&[endpoint]).reset();
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

    pub(crate) fn refused_request(&self, code: http::StatusCode) {
        self.refused_requests.with_label_values(&[code.as_str()]).inc();
    }
}
