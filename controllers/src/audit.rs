//! `svcplane audit`: what is stored against the rules of allocation, validation and pools.

mod addresses;
mod gather;
mod ports;
mod report;
mod services;

#[cfg(test)]
mod tests;

pub use self::report::{Finding, Severity};

use self::gather::Stored;
use crate::args::{AuditArgs, Form};
use crate::start;

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
    let client = start::connect(args.kubeconfig.as_deref(), "svcplane-audit").await?;
    let stored = Box::pin(gather::gather(&client, args.ranges.ranges())).await?;
    let findings = findings(&stored);
    let text = match args.output {
        Form::Text => report::text(&findings, stored.services.len()),
        Form::Json => serde_json::to_string_pretty(&findings).map_err(|error| error.to_string())? + "\n",
    };
    Ok(Audited {
        text,
        in_order: findings.iter().all(|finding| finding.severity == Severity::Note),
    })
}

/// Everything that is wrong, by rule, then by object.
fn findings(stored: &Stored) -> Vec<Finding> {
    let mut findings = addresses::findings(stored);
    findings.extend(ports::findings(stored));
    findings.extend(services::findings(stored));
    findings.sort();
    findings
}
