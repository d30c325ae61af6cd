//! What the Endpoints controller counts.

use prometheus::{IntCounterVec, Opts, Registry};

/// The word that `--controllers` and the label `controller` use.
pub const CONTROLLER: &str = "endpoints-controller";

/// Counters; all label values are from closed sets.
#[derive(Clone)]
pub struct EndpointsMetrics {
    planned: IntCounterVec,
    operations: IntCounterVec,
    syncs: IntCounterVec,
    foreign: IntCounterVec,
}

impl EndpointsMetrics {
    /// Registers the counters.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let metrics = Self {
            planned: counter(
                "svcplane_planned_operations_total",
                "Writes found necessary, whether or not they were made (observe mode makes none).",
                &["controller", "operation", "reason"],
            )?,
            operations: counter(
                "svcplane_operations_total",
                "Writes sent, by what became of them.",
                &["controller", "operation", "outcome"],
            )?,
            foreign: counter(
                "svcplane_foreign_changes_total",
                "Changes of Endpoints by somebody else.",
                &["controller"],
            )?,
            syncs: counter(
                "svcplane_syncs_total",
                "Looks at one Service, by result.",
                &["controller", "result"],
            )?,
        };
        // A series that begins at 0, so that its first increase shows.
        metrics.foreign.with_label_values(&[CONTROLLER]).reset();
        Ok(metrics)
    }

    pub(super) fn planned(&self, operation: &str, reason: &str) {
        self.planned.with_label_values(&[CONTROLLER, operation, reason]).inc();
    }

    pub(super) fn operation(&self, operation: &str, outcome: &str) {
        self.operations
            .with_label_values(&[CONTROLLER, operation, outcome])
            .inc();
    }

    pub(super) fn foreign_change(&self) {
        self.foreign.with_label_values(&[CONTROLLER]).inc();
    }

    pub(super) fn sync(&self, result: &str) {
        self.syncs.with_label_values(&[CONTROLLER, result]).inc();
    }
}
