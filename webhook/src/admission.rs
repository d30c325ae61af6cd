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

/// What is done with a Service that the apiserver would refuse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EarlyValidation {
    /// It is not judged.
    Off,
    /// Its faults become Warnings: for an apiserver that is newer than the rules here, which may accept what they forbid.
    Warn,
    /// It is refused.
    #[default]
    Refuse,
}

/// What the cluster's owner has decided.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Judge Services before the apiserver does (`--early-validation`).
    pub early_validation: EarlyValidation,
    /// Refuse what cannot be read, instead of leaving it to the apiserver.
    pub strict: bool,
    /// Which external addresses Services may have.
    pub external_ips: ExternalIps,
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
        let refuses = match self.settings.early_validation {
            EarlyValidation::Off => return Answer::default(),
            EarlyValidation::Warn => false,
            EarlyValidation::Refuse => true,
        };
        let found = judge(new, old);
        let mut answer = Answer::default();
        if refuses && !found.causes().is_empty() {
            let names = [
                &*new.metadata.name,
                &*new.metadata.generate_name,
                request.name.as_deref().unwrap_or_default(),
            ];
            let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
            answer.refusal = Some(Refusal::invalid(name, found.causes(), found.left_out()));
        } else {
            answer.warnings.extend(found.causes().iter().map(ToString::to_string));
        }
        answer.warnings.extend(doubts(&found));
        answer
    }

    fn validate(&self, request: &Request<'_>, new: &Service, old: Option<&Service>) -> Answer {
        let being_deleted = old.is_some_and(|old| old.metadata.deletion_timestamp.is_some());
        let refused = self.settings.external_ips.refused(&new.spec, old.map(|old| &old.spec));
        if !refused.is_empty() && !being_deleted {
            return Answer::refused(Refusal::forbidden(&new.metadata.name, &refused));
        }
        let namespace = request.namespace.as_deref().unwrap_or(&new.metadata.namespace);
        let warnings = environment::warnings(new, old, namespace);
        Answer {
            warnings,
            ..Answer::default()
        }
    }
}

/// What an apiserver with the gate on will refuse. kubectl shows it above the refusal.
fn doubts(found: &Findings) -> impl Iterator<Item = String> {
    let doubts = found.doubts().iter();
    doubts.map(|cause| format!("{cause} (refused where the gate StrictIPCIDRValidation is on)"))
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
