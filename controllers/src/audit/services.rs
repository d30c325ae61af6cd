//! Stored Services that no apiserver would take today, and those that others should know of.

use svcplane_webhook::filling::SKIP_LABEL;
use svcplane_webhook::judge::judge;
use svcplane_webhook::service::{EXTERNAL_NAME, Service};

use super::gather::Stored;
use super::report::{Finding, Severity, Subject};

/// Everything that is wrong with them.
pub fn findings(stored: &Stored) -> Vec<Finding> {
    let mut findings = Vec::new();
    for known in &stored.services {
        let name = || Subject::Service(known.holder.owner.service.clone());
        let service = &known.service;
        // As if it were written again as it is.
        for cause in judge(service, Some(service)).causes() {
            findings.push(Finding::error("ServiceInvalid", name(), &cause.field, &cause.message));
        }
        if has_lost_its_address(service) {
            let message =
                "is empty: a later change may take an address that is in use, and deleting it then frees the owner's";
            findings.push(Finding::error("ClusterIPMissing", name(), "spec.clusterIP", message));
        }
        if service.metadata.labels.contains_key(SKIP_LABEL) {
            findings.push(Finding {
                severity: Severity::Note,
                ..Finding::error(
                    "SkipsSvcplane",
                    name(),
                    "metadata.labels",
                    format!("has the label {SKIP_LABEL}: svcplane chooses nothing for it"),
                )
            });
        }
    }
    findings
}

fn has_lost_its_address(service: &Service) -> bool {
    !service.spec.is(EXTERNAL_NAME) && service.spec.cluster_ip.is_empty() && !service.is_being_deleted()
}
