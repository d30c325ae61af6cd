//! What was found, in words.

use std::fmt::Write as _;

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Severity {
    /// Somebody should act.
    Error,
    /// Somebody should know. It does not fail the audit.
    Note,
}

/// One fault of one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Which rule is broken; where kube-apiserver's repair has an Event of it, that Event's reason.
    pub rule: &'static str,
    /// `Service shop/web`, `IPAddress 10.96.0.7`.
    pub object: String,
    /// Where it is.
    pub field: String,
    /// What is wrong.
    pub message: String,
}

impl Finding {
    /// A fault.
    pub fn error(
        rule: &'static str,
        object: impl Into<String>,
        field: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            severity: Severity::Error,
            rule,
            object: object.into(),
            field: field.into(),
            message: message.into(),
        }
    }
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
