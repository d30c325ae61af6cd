//! What the controllers count.

use prometheus::{IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use crate::controller::Controller;
use crate::drift::{Difference, WRITE_FAILED};
use crate::endpoints::Reason;
use crate::index::Orphan;

/// Why slices are written: what they hold is not what it should be.
pub(crate) const CONTENT: &str = "content";

const OPERATIONS: [&str; 3] = ["create", "update", "delete"];

/// Counters; all label values are from closed sets.
#[derive(Clone)]
pub struct ControllerMetrics {
    planned: IntCounterVec,
    operations: IntCounterVec,
    syncs: IntCounterVec,
    foreign: IntCounterVec,
    drift: IntGaugeVec,
    foreign_writer: IntGaugeVec,
    canary_passed: IntGauge,
}

/// How a built-in controller was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// By what it wrote.
    Breaker,
    /// By what it made for the canary.
    Canary,
}

impl FoundBy {
    const ALL: [Self; 2] = [Self::Breaker, Self::Canary];

    fn as_str(self) -> &'static str {
        match self {
            Self::Breaker => "breaker",
            Self::Canary => "canary",
        }
    }
}

impl ControllerMetrics {
    /// Registers the counters. `running`: those whose series begin at 0, so that the first increase shows, and so that none tells from none yet.
    pub fn new(registry: &Registry, running: &[Controller]) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let gauge = |name: &str, help: &str, labels: &[&str]| {
            let gauge = IntGaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        let canary_passed = IntGauge::new(
            "svcplane_canary_last_passed_timestamp_seconds",
            "When the canary last passed; 0 = not yet, or there is none.",
        )?;
        registry.register(Box::new(canary_passed.clone()))?;
        let metrics = Self {
            drift: gauge(
                "svcplane_drift",
                "Objects that differ now from what would be stored, as the last look at each Service found.",
                &["kind", "reason"],
            )?,
            foreign_writer: gauge(
                "svcplane_foreign_writer",
                "1 while a built-in controller was found to keep objects of this kind: svcplane writes none then.",
                &["kind", "found_by"],
            )?,
            canary_passed,
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
                "Changes by somebody else of Endpoints and EndpointSlices that svcplane keeps, seen while it may write.",
                &["controller"],
            )?,
            syncs: counter(
                "svcplane_syncs_total",
                "Looks at one Service, by result.",
                &["controller", "result"],
            )?,
        };
        for &controller in running {
            metrics.foreign.with_label_values(&[controller.as_str()]).reset();
            for found_by in FoundBy::ALL {
                let labels = [controller.kind(), found_by.as_str()];
                metrics.foreign_writer.with_label_values(&labels).set(0);
            }
            for operation in OPERATIONS {
                let labels = [controller.as_str(), operation, "ok"];
                metrics.operations.with_label_values(&labels).reset();
                for reason in differences(controller, operation) {
                    metrics.drift.with_label_values(&[controller.kind(), reason]).set(0);
                }
                for reason in reasons(controller, operation) {
                    let labels = [controller.as_str(), operation, reason];
                    metrics.planned.with_label_values(&labels).reset();
                }
            }
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

    /// The counterparts of these live, as far as was found in this way, and of no others.
    pub(crate) fn foreign_writers(&self, found_by: FoundBy, alive: &[Controller]) {
        for controller in Controller::OF_ENDPOINTS {
            let labels = [controller.kind(), found_by.as_str()];
            let is_alive = alive.contains(&controller);
            self.foreign_writer.with_label_values(&labels).set(is_alive.into());
        }
    }

    pub(crate) fn canary_passed(&self, seconds: i64) {
        self.canary_passed.set(seconds);
    }

    pub(crate) fn drift(&self, (controller, reason): Difference, by: i64) {
        self.drift.with_label_values(&[controller.kind(), reason]).add(by);
    }

    pub(crate) fn sync(&self, controller: Controller, result: &str) {
        self.syncs.with_label_values(&[controller.as_str(), result]).inc();
    }
}

/// All that a plan may give as the reason of an operation.
fn reasons(controller: Controller, operation: &str) -> Vec<&'static str> {
    match (controller, operation) {
        (Controller::Endpoints, "create") => vec![Reason::Missing.as_str()],
        (Controller::Endpoints, "update") => [Reason::Subsets, Reason::Labels, Reason::Capacity]
            .map(Reason::as_str)
            .into(),
        (Controller::Endpoints, _) => [Orphan::ServiceDeleted, Orphan::Leftover].map(Orphan::as_str).into(),
        (Controller::Slices | Controller::Mirroring, _) => vec![CONTENT],
        (Controller::Repair | Controller::LoadBalancers, _) => Vec::new(),
    }
}

/// Why a slice differs, by what would be done to it.
pub(crate) fn slice_reason(operation: &str) -> &'static str {
    match operation {
        "create" => "missing",
        "delete" => "surplus",
        _ => CONTENT,
    }
}

/// All that may be the reason of a difference that this operation would mend.
fn differences(controller: Controller, operation: &str) -> Vec<&'static str> {
    let mut all = match controller {
        Controller::Endpoints => reasons(controller, operation),
        Controller::Slices | Controller::Mirroring => vec![slice_reason(operation)],
        Controller::Repair | Controller::LoadBalancers => return Vec::new(),
    };
    all.push(WRITE_FAILED);
    all
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    #[test]
    fn what_has_not_happened_yet_is_0_and_not_absent() {
        let registry = Registry::new();
        let running = [Controller::Endpoints, Controller::Mirroring];
        let metrics = ControllerMetrics::new(&registry, &running).unwrap();
        let page = || TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let series = || {
            let page = page();
            let lines = page.lines().filter(|line| !line.starts_with('#'));
            lines
                .filter_map(|line| line.rsplit_once(' '))
                .map(|(name, _)| name.to_owned())
                .collect::<Vec<_>>()
        };
        let (before, shown) = (series(), page());
        for zero in [
            r#"svcplane_planned_operations_total{controller="endpoints-controller",operation="create",reason="missing"} 0"#,
            r#"svcplane_planned_operations_total{controller="endpoints-controller",operation="delete",reason="leftover"} 0"#,
            r#"svcplane_planned_operations_total{controller="endpointslice-mirroring-controller",operation="update",reason="content"} 0"#,
            r#"svcplane_operations_total{controller="endpoints-controller",operation="update",outcome="ok"} 0"#,
            r#"svcplane_drift{kind="Endpoints",reason="labels"} 0"#,
            r#"svcplane_drift{kind="MirroredEndpointSlice",reason="surplus"} 0"#,
        ] {
            assert!(shown.lines().any(|line| line == zero), "{zero}: {shown}");
        }
        assert!(!shown.contains("endpointslice-controller"), "it does not run: {shown}");
        for reason in [Reason::Subsets, Reason::Labels, Reason::Capacity] {
            metrics.planned(Controller::Endpoints, "update", reason.as_str());
        }
        metrics.planned(Controller::Endpoints, "delete", Orphan::ServiceDeleted.as_str());
        metrics.planned(Controller::Mirroring, "create", CONTENT);
        for operation in OPERATIONS {
            metrics.drift((Controller::Mirroring, slice_reason(operation)), 1);
            metrics.drift((Controller::Endpoints, WRITE_FAILED), -1);
        }
        metrics.operation(Controller::Mirroring, "delete", "ok");
        assert_eq!(series(), before);
    }
}
