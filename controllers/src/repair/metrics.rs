//! What the repair controller counts. These series are its own: nothing of what it reads is counted as an allocation.

use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};

use crate::audit::Finding;

/// All rules that it goes by.
const RULES: [&str; 11] = [
    "ClusterIPAlreadyAllocated",
    "ClusterIPNotAllocated",
    "ClusterIPNotCanonical",
    "ClusterIPNotValid",
    "ClusterIPOutOfRange",
    "ExternalNameHoldsPort",
    "IPAddressNotAllocated",
    "IPAddressWrongLabels",
    "IPAddressWrongReference",
    "PortAlreadyAllocated",
    "PortOutOfRange",
];

/// Counters and gauges; all label values are from closed sets.
#[derive(Clone)]
pub struct RepairMetrics {
    faults: IntGaugeVec,
    told: IntCounterVec,
    looks: IntCounterVec,
}

impl RepairMetrics {
    /// Registers them. All series begin at 0.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let faults = Opts::new(
            "svcplane_repair_faults",
            "Faulty ClusterIPs, IPAddresses and nodePorts at the leader's last look.",
        );
        let told = Opts::new(
            "svcplane_repair_told_total",
            "Faults that were told, each once as long as it lasts.",
        );
        let looks = Opts::new("svcplane_repair_looks_total", "Looks at all allocations, by result.");
        let metrics = Self {
            faults: IntGaugeVec::new(faults, &["rule"])?,
            told: IntCounterVec::new(told, &["rule"])?,
            looks: IntCounterVec::new(looks, &["result"])?,
        };
        registry.register(Box::new(metrics.faults.clone()))?;
        registry.register(Box::new(metrics.told.clone()))?;
        registry.register(Box::new(metrics.looks.clone()))?;
        for rule in RULES {
            metrics.faults.with_label_values(&[rule]).set(0);
            metrics.told.with_label_values(&[rule]).reset();
        }
        for result in ["ok", "failed"] {
            metrics.looks.with_label_values(&[result]).reset();
        }
        Ok(metrics)
    }

    /// These are all that there are.
    pub fn found(&self, findings: &[Finding]) {
        for rule in RULES {
            let count = findings.iter().filter(|finding| finding.rule == rule).count();
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.faults.with_label_values(&[rule]).set(count);
        }
    }

    /// One was told.
    pub fn told(&self, rule: &str) {
        self.told.with_label_values(&[rule]).inc();
    }

    /// A look is over.
    pub fn looked(&self, succeeded: bool) {
        let result = if succeeded { "ok" } else { "failed" };
        self.looks.with_label_values(&[result]).inc();
    }
}
