//! What the controllers count.

use prometheus::{IntCounterVec, Opts, Registry};

use crate::controller::Controller;

/// Counters; all label values are from closed sets.
#[derive(Clone)]
pub struct ControllerMetrics {
    planned: IntCounterVec,
    operations: IntCounterVec,
    syncs: IntCounterVec,
    foreign: IntCounterVec,
}

impl ControllerMetrics {
    /// Registers the counters. `running`: those whose series begin at 0, so that the first increase shows.
    pub fn new(registry: &Registry, running: &[Controller]) -> prometheus::Result<Self> {
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
                "Changes by somebody else of Endpoints and EndpointSlices that svcplane keeps.",
                &["controller"],
            )?,
            syncs: counter(
                "svcplane_syncs_total",
                "Looks at one Service, by result.",
                &["controller", "result"],
            )?,
        };
        for controller in running {
            metrics.foreign.with_label_values(&[controller.as_str()]).reset();
        }
        Ok(metrics)
    }

    pub(crate) fn planned(&self, controller: Controller, operation: &str, reason: &str) {
        let labels = [controller.as_str(), operation, reason];
        self.planned.with_label_values(&labels).inc();
    }

    pub(crate) fn operation(&self, controller: Controller, operation: &str, outcome: &str) {
        let labels = [controller.as_str(), operation, outcome];
        self.operations.with_label_values(&labels).inc();
    }

    pub(crate) fn foreign_change(&self, controller: Controller) {
        self.foreign.with_label_values(&[controller.as_str()]).inc();
    }

    pub(crate) fn sync(&self, controller: Controller, result: &str) {
        self.syncs.with_label_values(&[controller.as_str(), result]).inc();
    }
}
