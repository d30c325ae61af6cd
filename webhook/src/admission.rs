//! From the body of a request to the answer, without a byte of I/O.

use std::sync::Arc;
use std::time::Instant;

use serde_json::value::RawValue;

use crate::cause::{Cause, Findings, Reason, quoted};
use crate::enforcement::{Verdict, enforce};
use crate::filling::{Allocate, Asker, Terms, fill, namespace_of};
use crate::judge::judge;
use crate::ledger::{Ledger, SharedLedger};
use crate::metrics::WebhookMetrics;
use crate::policy::ExternalIps;
use crate::pools::PoolUsers;
use crate::remarks::remarks;
use crate::review::{Answer, NotAReview, Refusal, Request};
use crate::service::Service;
use crate::{environment, pools};

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
    /// Where values are chosen (`--allocate`).
    pub allocate: Allocate,
}

/// Answers reviews. Never panics and never waits, whatever the bytes.
#[derive(Clone, Debug)]
pub struct Admission {
    settings: Settings,
    metrics: WebhookMetrics,
    ledger: Option<SharedLedger>,
    pool_users: Option<Arc<dyn PoolUsers>>,
}

impl Admission {
    /// With these settings. Without a ledger it judges and knows nothing of values.
    pub fn new(settings: Settings, metrics: WebhookMetrics, ledger: Option<SharedLedger>) -> Self {
        Self {
            settings,
            metrics,
            ledger,
            pool_users: None,
        }
    }

    /// The same; LoadBalancerPools are judged beside the others and beside those who use them, which this one knows.
    #[must_use]
    pub fn with_pool_users(self, pool_users: Arc<dyn PoolUsers>) -> Self {
        Self {
            pool_users: Some(pool_users),
            ..self
        }
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

    /// The answer to one request. What is not the creation or change of a Service, nor about a pool, is allowed: nothing that heals a cluster
    /// may depend on us.
    pub fn answer(&self, endpoint: Endpoint, request: &Request<'_>) -> Answer {
        let changes = matches!(&*request.operation, "CREATE" | "UPDATE");
        let Some(object) = request.object.filter(|_| changes && request.is_service()) else {
            return pools::review(request, self.pool_users.as_deref(), self.ledger.as_ref()).unwrap_or_default();
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
                reason: Reason::Invalid,
                message: problem.to_owned(),
            };
            return Answer::refused(Refusal::invalid(
                "Service",
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
        let mut answer = self.judge(request, new, old);
        let being_deleted = old.is_some_and(Service::is_being_deleted);
        let ledger = self
            .ledger
            .as_ref()
            .filter(|_| answer.refusal.is_none() && !being_deleted);
        if let Some(ledger) = ledger {
            self.fill(&mut ledger.lock(), request, (new, old), &mut answer);
        }
        answer
    }

    /// Chooses what is missing, and tells what is wrong with what was chosen by the user.
    fn fill(
        &self,
        ledger: &mut Ledger,
        request: &Request<'_>,
        (new, old): (&Service, Option<&Service>),
        answer: &mut Answer,
    ) {
        let now = Instant::now();
        let asker = Asker::new(request, new);
        let is_live = ledger.waits_for(now).is_none();
        if is_live {
            let remarks = remarks(ledger, &asker, new, old);
            answer.warnings.extend(remarks);
        }
        let terms = Terms {
            allocate: self.settings.allocate,
            is_live,
            is_update: old.is_some(),
            dry_run: request.dry_run.unwrap_or_default(),
            random: rand::random(),
            now,
        };
        let mut refused = Vec::new();
        if terms.dry_run {
            let user = &request.user_info.username;
            refused = enforce(ledger, &asker, user, (new, old), false, now).refused;
        }
        let filled = fill(ledger, &asker, new, old, terms);
        self.metrics.chosen(filled.addresses, filled.ports);
        refused.extend(filled.refused);
        if filled.bypassed {
            let words = "svcplane does not know the pools and addresses of the cluster well enough right now";
            self.metrics.bypassed(Endpoint::Mutate.as_str());
            if self.settings.strict {
                let message = format!("{words}, and a pool is enforced for this Service; try again");
                refused.push(Cause {
                    field: "spec".to_owned(),
                    reason: Reason::Forbidden,
                    message,
                });
            } else {
                let warning =
                    format!("{words}: a pool is enforced for this Service, and the apiserver chooses instead");
                answer.warnings.push(warning);
            }
        }
        if refused.is_empty() {
            answer.patch = filled.patch;
        } else {
            answer.refusal = Some(Refusal::forbidden(&new.metadata.name, &refused));
        }
    }

    fn judge(&self, request: &Request<'_>, new: &Service, old: Option<&Service>) -> Answer {
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
            answer.refusal = Some(Refusal::invalid("Service", name, found.causes(), found.left_out()));
        } else {
            answer.warnings.extend(found.causes().iter().map(ToString::to_string));
        }
        answer.warnings.extend(doubts(&found));
        answer
    }

    fn validate(&self, request: &Request<'_>, new: &Service, old: Option<&Service>) -> Answer {
        let being_deleted = old.is_some_and(Service::is_being_deleted);
        if being_deleted {
            return Answer::default();
        }
        let mut refused = self.settings.external_ips.refused(&new.spec, old.map(|old| &old.spec));
        let mut warnings = environment::warnings(new, old, namespace_of(request, new));
        if let Some(ledger) = &self.ledger {
            let mut ledger = ledger.lock();
            let asker = Asker::new(request, new);
            let user = &request.user_info.username;
            // What a dry run shows here may be a stand-in of the apiserver's; the mutating call has seen what the user chose.
            let verdict = if request.dry_run.unwrap_or_default() {
                Verdict::default()
            } else {
                let keeps = refused.is_empty();
                enforce(&mut ledger, &asker, user, (new, old), keeps, Instant::now())
            };
            warnings.extend(verdict.warnings);
            refused.extend(verdict.refused);
            if self.settings.strict {
                refused.extend(verdict.doubted);
            } else if !verdict.doubted.is_empty() {
                self.metrics.bypassed(Endpoint::Validate.as_str());
                let doubted = verdict.doubted.iter();
                warnings
                    .extend(doubted.map(|cause| {
                        format!("{cause} (let go: the namespace is new to svcplane, or its watches lag)")
                    }));
            }
        }
        if refused.is_empty() {
            Answer {
                warnings,
                ..Answer::default()
            }
        } else {
            Answer::refused(Refusal::forbidden(&new.metadata.name, &refused))
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
