//! What is counted of the webhook's certificate.

use prometheus::{IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry};
use svcplane_webhook::rotation::{Seconds, Step};

/// Clones share the counters.
#[derive(Clone)]
pub struct CertificateMetrics {
    expiry: IntGaugeVec,
    unusable: IntCounter,
    steps: IntCounterVec,
    published: IntGaugeVec,
}

impl CertificateMetrics {
    /// Registers them.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let metrics = Self {
            // Without labels and yet a vector: no certificate is no series, and not one that ended in 1970.
            expiry: IntGaugeVec::new(
                Opts::new(
                    "svcplane_webhook_certificate_expiry_timestamp_seconds",
                    "When the certificate ends that this replica serves.",
                ),
                &[],
            )?,
            unusable: IntCounter::new(
                "svcplane_webhook_certificate_unusable_total",
                "Certificates that were given and could not be used.",
            )?,
            steps: IntCounterVec::new(
                Opts::new(
                    "svcplane_webhook_certificate_steps_total",
                    "Steps in the life of a self-managed certificate, by what became of them.",
                ),
                &["step", "outcome"],
            )?,
            published: IntGaugeVec::new(
                Opts::new(
                    "svcplane_webhook_ca_published",
                    "On the leader: 1 = this webhook configuration trusts exactly our authorities.",
                ),
                &["kind"],
            )?,
        };
        registry.register(Box::new(metrics.expiry.clone()))?;
        registry.register(Box::new(metrics.unusable.clone()))?;
        Ok(metrics)
    }

    /// Registers what only a self-managed certificate has.
    pub fn self_managed(&self, registry: &Registry) -> prometheus::Result<()> {
        for word in Step::WORDS {
            self.steps.with_label_values(&[word, "ok"]).reset();
        }
        registry.register(Box::new(self.steps.clone()))?;
        registry.register(Box::new(self.published.clone()))
    }

    pub(super) fn expiry(&self, ends: Option<Seconds>) {
        if let Some(ends) = ends {
            self.expiry.with_label_values(&[] as &[&str]).set(ends);
        }
    }

    pub(super) fn unusable(&self) {
        self.unusable.inc();
    }

    pub(super) fn step(&self, step: &str, outcome: &str) {
        self.steps.with_label_values(&[step, outcome]).inc();
    }

    pub(super) fn published(&self, kind: &str, published: Option<bool>) {
        match published {
            Some(published) => self.published.with_label_values(&[kind]).set(published.into()),
            // It is not there.
            None => {
                let _ = self.published.remove_label_values(&[kind]);
            }
        }
    }

    /// Only the leader tells.
    pub(super) fn not_leading(&self) {
        self.published.reset();
    }
}
