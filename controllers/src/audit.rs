//! `svcplane audit`: what is stored against the rules of allocation, validation, pools and endpoints.

mod addresses;
mod drift;
mod gather;
mod pools;
mod ports;
mod report;
mod services;

#[cfg(test)]
mod tests;

use std::time::Duration;

pub use self::gather::{Stored, gather_values};
pub use self::report::{Finding, Severity, Subject, borne_out};

use kube::Client;

use crate::args::{AuditArgs, Form};
use crate::start;

/// When a second look follows a first one that has found something: a list is not of one moment, and controllers need theirs.
const AGAIN: Duration = Duration::from_secs(3);

/// What there is to print.
#[derive(Debug)]
pub struct Audited {
    /// All of it.
    pub text: String,
    /// Nothing is wrong.
    pub in_order: bool,
}

/// Reads the cluster and audits it. The error is one line.
pub async fn audit(args: &AuditArgs) -> Result<Audited, String> {
    let client = start::connect(&args.cluster, "svcplane-audit").await?;
    let (services, mut findings) = Box::pin(look(&client, args)).await?;
    if !findings.is_empty() {
        tokio::time::sleep(AGAIN).await;
        let (_, second) = Box::pin(look(&client, args)).await?;
        findings = borne_out(&findings, second);
    }
    let text = match args.output {
        Form::Text => report::text(&findings, services),
        Form::Json => serde_json::to_string_pretty(&findings).map_err(|error| error.to_string())? + "\n",
    };
    Ok(Audited {
        text,
        in_order: findings.iter().all(|finding| finding.severity == Severity::Note),
    })
}

/// How many Services there are, and everything that is wrong, by rule, then by object.
async fn look(client: &Client, args: &AuditArgs) -> Result<(usize, Vec<Finding>), String> {
    let stored = Box::pin(gather::gather(client, args.ranges.ranges())).await?;
    let mut findings = service_findings(&stored);
    let services = stored.services.len();
    drop(stored);
    let mut world = drift::gather(client).await?;
    findings.extend(drift::findings(&mut world, &args.sizes.limits()));
    findings.sort();
    Ok((services, findings))
}

/// What is wrong with Services and their values.
fn service_findings(stored: &Stored) -> Vec<Finding> {
    let mut findings = value_findings(stored);
    findings.extend(services::findings(stored));
    findings.extend(pools::findings(stored));
    findings.sort();
    findings
}

/// What is wrong with addresses and nodePorts: the rules that the repair goes by, too.
pub fn value_findings(stored: &Stored) -> Vec<Finding> {
    let mut findings = addresses::findings(stored);
    findings.extend(ports::findings(stored));
    findings.sort();
    findings
}
