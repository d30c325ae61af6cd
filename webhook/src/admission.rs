//! From the body of a request to the answer, without a byte of I/O.

use std::time::Instant;

use serde_json::value::RawValue;

use crate::cause::{Cause, Findings, quoted};
use crate::environment;
use crate::judge::judge;
use crate::metrics::WebhookMetrics;
use crate::policy::ExternalIps;
use crate::review::{Answer, NotAReview, Refusal, Request};
use crate::service::Service;

/// Which of the two calls of the apiserver this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `/mutate`: the only call that a Service which the apiserver would refuse ever reaches.
    Mutate,
    /// `/validate`: sees the final values of what the apiserver takes.
    Validate,
}

impl Endpoint {
    /// Its name in metrics, and its path after the `/`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mutate => "mutate",
            Self::Validate => "validate",
        }
    }
}

/// What the cluster's owner has decided.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Judge Services before the apiserver does (`--early-validation`).
    pub early_validation: bool,
    /// Refuse what cannot be read, instead of leaving it to the apiserver.
    pub strict: bool,
    /// Which external addresses Services may have.
    pub external_ips: ExternalIps,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            early_validation: true,
            strict: false,
            external_ips: ExternalIps::Allow,
        }
    }
}

/// Answers reviews. Never panics and never waits, whatever the bytes.
#[derive(Clone, Debug)]
pub struct Admission {
    settings: Settings,
    metrics: WebhookMetrics,
}

impl Admission {
    /// With these settings.
    pub fn new(settings: Settings, metrics: WebhookMetrics) -> Self {
        Self { settings, metrics }
    }

    /// What is counted.
    pub fn metrics(&self) -> &WebhookMetrics {
        &self.metrics
    }

    /// Answers one body with another one.
    ///
    /// # Errors
    /// The body is no review that could be answered.
    pub fn review(&self, endpoint: Endpoint, body: &[u8]) -> Result<Vec<u8>, NotAReview> {
        let begun = Instant::now();
        let request = Request::parse(body)?;
        let answer = self.answer(endpoint, &request);
        self.metrics
            .answered(endpoint.as_str(), answer.refusal.is_none(), begun.elapsed());
        Ok(answer.into_review(&request.uid)?)
    }

    /// The answer to one request. What is not the creation or change of a Service is allowed: nothing that heals a cluster
    /// may depend on us.
    pub fn answer(&self, endpoint: Endpoint, request: &Request<'_>) -> Answer {
        let changes = matches!(&*request.operation, "CREATE" | "UPDATE");
        let Some(object) = request.object.filter(|_| changes && request.is_service()) else {
            return Answer::default();
        };
        let read = Self::read(object, "object").and_then(|new| {
            let old = request.old_object.map(|old| Self::read(old, "oldObject")).transpose()?;
            Ok((new, old))
        });
        match read {
            Ok((new, old)) => match endpoint {
                Endpoint::Mutate => self.mutate(request, &new, old.as_ref()),
                Endpoint::Validate => self.validate(request, &new, old.as_ref()),
            },
            Err(problem) => self.unreadable(endpoint, request, &problem),
        }
    }

    fn read(object: &RawValue, what: &str) -> Result<Service, String> {
        Service::parse(object.get()).map_err(|error| format!("request.{what} cannot be read as a Service: {error}"))
    }

    /// Not the user's fault: an apiserver that knows more than we do must not be stopped by that.
    fn unreadable(&self, endpoint: Endpoint, request: &Request<'_>, problem: &str) -> Answer {
        self.metrics.unreadable(endpoint.as_str());
        if self.settings.strict {
            let cause = Cause {
                field: "object".to_owned(),
                reason: crate::cause::Reason::Invalid,
                message: problem.to_owned(),
            };
            return Answer::refused(Refusal::invalid(
                request.name.as_deref().unwrap_or_default(),
                &[cause],
                0,
            ));
        }
        Answer {
            warnings: vec![format!("svcplane did not check this Service: {problem}")],
            ..Answer::default()
        }
    }

    fn mutate(&self, request: &Request<'_>, new: &Service, old: Option<&Service>) -> Answer {
        if !self.settings.early_validation {
            return Answer::default();
        }
        let found = judge(new, old);
        let mut answer = if found.causes().is_empty() {
            Answer::default()
        } else {
            let name = if new.metadata.name.is_empty() {
                &new.metadata.generate_name
            } else {
                &new.metadata.name
            };
            let name = if name.is_empty() {
                request.name.as_deref().unwrap_or_default()
            } else {
                name
            };
            Answer::refused(Refusal::invalid(name, found.causes(), found.left_out()))
        };
        answer.warnings = doubts(&found);
        answer
    }

    fn validate(&self, request: &Request<'_>, new: &Service, old: Option<&Service>) -> Answer {
        let being_deleted = old.is_some_and(|old| old.metadata.deletion_timestamp.is_some());
        let refused = self.settings.external_ips.refused(&new.spec, old.map(|old| &old.spec));
        if !refused.is_empty() && !being_deleted {
            return Answer::refused(Refusal::forbidden(&new.metadata.name, &refused));
        }
        let warnings = match old {
            // The name does not change, and neither does what there is to say about it.
            Some(_) => Vec::new(),
            None => environment::warnings(new, request.namespace.as_deref().unwrap_or(&new.metadata.namespace)),
        };
        Answer {
            warnings,
            ..Answer::default()
        }
    }
}

/// What an apiserver with the gate on will refuse. kubectl shows it above the refusal.
fn doubts(found: &Findings) -> Vec<String> {
    let warning = |cause: &Cause| format!("{cause} (refused where the gate StrictIPCIDRValidation is on)");
    found.doubts().iter().map(warning).collect()
}

/// A request that is no review, in words for the apiserver's log.
pub(crate) fn no_review(error: &NotAReview) -> String {
    // A parser's message may quote the input.
    let text = error.to_string();
    let short: String = text.chars().take(300).collect();
    if short.len() < text.len() {
        quoted(&short)
    } else {
        short
    }
}

#[cfg(test)]
mod tests;
