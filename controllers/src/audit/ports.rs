//! nodePorts: the findings of kube-apiserver's repair, pools that were bypassed, and numbers that an ExternalName Service carries.

use svcplane_webhook::service::{EXTERNAL_NAME, port_number};

use super::addresses::conflicts;
use super::gather::{Known, Stored};
use super::report::{Finding, Subject};

/// Everything that is wrong with them.
pub fn findings(stored: &Stored) -> Vec<Finding> {
    let mut findings = conflicts(stored.ledger.node_ports(), "PortAlreadyAllocated", "spec.ports");
    for known in &stored.services {
        findings.extend(of_service(stored, known));
    }
    findings
}

fn of_service(stored: &Stored, known: &Known) -> Vec<Finding> {
    let (service, spec) = (&known.holder.owner.service, &known.service.spec);
    let mut findings = Vec::new();
    let mut find = |rule, field: String, message: String| {
        findings.push(Finding::error(rule, Subject::Service(service.clone()), field, message));
    };
    let book = stored.ledger.node_ports();
    for (index, port) in spec.ports.iter().enumerate() {
        let Some(number) = port_number(port.node_port) else {
            continue;
        };
        let field = format!("spec.ports[{index}].nodePort");
        if spec.is(EXTERNAL_NAME) {
            let message = format!(
                "{number} is not reserved for a Service of this type, and is given out again if it is deleted while another has it"
            );
            find("ExternalNameHoldsPort", field, message);
            continue;
        }
        if !book.is_in_any_range(number) {
            let message = format!("{number} lies outside of --service-node-port-range");
            find("PortOutOfRange", field.clone(), message);
        }
        if let Err(refusal) = stored
            .ledger
            .judge_node_port(service, &known.service.metadata.labels, number)
        {
            find("PoolBypassed", field, format!("{number} {refusal}"));
        }
    }
    if let Some(number) = port_number(spec.health_check_node_port)
        && !book.is_in_any_range(number)
    {
        let message = format!("{number} lies outside of --service-node-port-range");
        find("PortOutOfRange", "spec.healthCheckNodePort".into(), message);
    }
    findings
}
