//! What was found, in words.

use std::fmt::{self, Write as _};

use serde::{Serialize, Serializer};
use svcplane_allocators::service::ServiceKey;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Severity {
    /// Somebody should act.
    Error,
    /// Somebody should know. It does not fail the audit.
    Note,
}

/// What a finding is about. Shown as `Service shop/web`, `IPAddress 10.96.0.7`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The IPAddress of this name.
    IpAddress(String),
    /// A pool of a kind, by name.
    Pool(&'static str, String),
    /// A Service.
    Service(ServiceKey),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IpAddress(name) => write!(f, "IPAddress {name}"),
            Self::Pool(kind, name) => write!(f, "{kind} {name}"),
            Self::Service(service) => write!(f, "Service {service}"),
        }
    }
}

impl Serialize for Subject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One fault of one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Which rule is broken; where kube-apiserver's repair has an Event of it, that Event's reason.
    pub rule: &'static str,
    /// Whose fault it is.
    pub object: Subject,
    /// Where it is.
    pub field: String,
    /// What is wrong.
    pub message: String,
}

impl Finding {
    /// A fault.
    pub fn error(rule: &'static str, object: Subject, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            rule,
            object,
            field: field.into(),
            message: message.into(),
        }
    }
}

/// Those of the first reading, which is sorted, that the second one bears out, word for word: what changes meanwhile is no fault.
pub fn borne_out(first: &[Finding], second: Vec<Finding>) -> Vec<Finding> {
    let borne_out = second
        .into_iter()
        .filter(|finding| first.binary_search(finding).is_ok());
    borne_out.collect()
}

/// For people.
pub fn text(findings: &[Finding], services: usize) -> String {
    let mut out = String::new();
    let mut rule = "";
    for finding in findings {
        if finding.rule != rule {
            rule = finding.rule;
            let separator = if out.is_empty() { "" } else { "\n" };
            let kind = if finding.severity == Severity::Note {
                " (note)"
            } else {
                ""
            };
            let _ = writeln!(out, "{separator}{rule}{kind}");
        }
        let _ = writeln!(out, "  {}: {}: {}", finding.object, finding.field, finding.message);
    }
    let notes = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Note)
        .count();
    let separator = if out.is_empty() { "" } else { "\n" };
    let errors = findings.len() - notes;
    let _ = writeln!(
        out,
        "{separator}{services} Services looked at: {errors} found wrong, {notes} to know"
    );
    out
}
