//! Our judgement beside the apiserver's.

use anyhow::{Context as _, Result};
use serde_json::Value;
use svcplane_webhook::cause::{Cause, Findings};
use svcplane_webhook::judge::{self, Rule};
use svcplane_webhook::review::Request;
use svcplane_webhook::service::Service;

use super::answer::{Answer, Causes};

/// How the two go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Outcome {
    /// Both accept.
    Accepted,
    /// Both refuse, for the same fields and reasons.
    Same,
    /// The apiserver refuses for what depends on its state or flags; we may say anything.
    Allocation,
    /// The apiserver refuses by a gate that it might not have; we doubt, as we should.
    Gate,
    /// The apiserver fails with another code than 422; we may say anything.
    Failed,
    /// The old object is being deleted: we do not judge.
    BeingDeleted,
    /// Both refuse, for different reasons.
    Different,
    /// The apiserver refuses and we do not.
    Missed,
    /// We refuse what the apiserver accepts.
    FalseRefusal,
    /// We doubt what an apiserver with the gate accepts.
    FalseDoubt,
}

/// One comparison.
pub(super) struct Compared {
    pub(super) outcome: Outcome,
    /// The rules that were asked, and whether they were broken.
    pub(super) rules: Vec<(&'static Rule, bool)>,
    /// The object as the apiserver sent it.
    pub(super) object: Value,
    /// Both, in words.
    pub(super) words: String,
}

/// Judges a review, and sets it beside the answer that the request got. `gated`: the apiserver has
/// `StrictIPCIDRValidation`.
pub(super) fn compare(body: &[u8], answer: &Answer, gated: bool) -> Result<Compared> {
    let request = Request::parse(body)?;
    let object = request.object.context("a review without an object")?.get();
    let new = Service::parse(object).context(object.to_owned())?;
    let old = request
        .old_object
        .map(|old| Service::parse(old.get()).context(old.get().to_owned()))
        .transpose()?;
    let mut rules = Vec::new();
    let found = judge::trace(&new, old.as_ref(), &mut |rule, broken| rules.push((rule, broken)));
    let deleted = old.is_some_and(|old| old.metadata.deletion_timestamp.is_some());
    let outcome = if deleted {
        Outcome::BeingDeleted
    } else {
        outcome(&found, answer, gated)
    };
    let object: Value = serde_json::from_str(object)?;
    let words = format!(
        "{} {}\n  {:?}\n  ours: {:?} doubts: {:?}",
        request.operation,
        object["spec"],
        short(answer),
        found.causes(),
        found.doubts()
    );
    Ok(Compared {
        outcome,
        rules,
        object,
        words,
    })
}

fn outcome(found: &Findings, answer: &Answer, gated: bool) -> Outcome {
    let (ours, doubts) = (causes(found.causes()), causes(found.doubts()));
    match answer {
        Answer::Accepted(_) if !ours.is_empty() => Outcome::FalseRefusal,
        Answer::Accepted(_) if gated && !doubts.is_empty() => Outcome::FalseDoubt,
        Answer::Accepted(_) => Outcome::Accepted,
        Answer::Refused { causes, .. } if *causes == ours => Outcome::Same,
        Answer::Refused { allocation: true, .. } => Outcome::Allocation,
        Answer::Refused { causes, .. } if gated && causes.intersection(&doubts).next().is_some() => Outcome::Gate,
        Answer::Refused { .. } if ours.is_empty() => Outcome::Missed,
        Answer::Refused { .. } => Outcome::Different,
        Answer::Failed { .. } => Outcome::Failed,
    }
}

fn causes(list: &[Cause]) -> Causes {
    list.iter()
        .map(|cause| (cause.field.clone(), cause.reason.as_str().to_owned()))
        .collect()
}

fn short(answer: &Answer) -> String {
    match answer {
        Answer::Accepted(_) => "accepted".into(),
        Answer::Refused { causes, message, .. } => format!("{causes:?} {message:.400}"),
        Answer::Failed { code, message } => format!("{code} {message:.400}"),
    }
}
