//! The Endpoints controller.
//!
//! Pure: `compute` reads a Service and its Pods, `plan` compares the result with what is stored, `TriggerTracker` supplies the time that a
//! write is annotated with, `Settled` spares syncs that would find nothing. No clock, no client, no task.

mod compute;
mod ip_text;
mod plan;
mod repack;
mod settled;
mod trigger;
mod truncate;
mod uniform;
mod unlisted;

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod reference;

pub use compute::compute;
pub(crate) use compute::{hostname, may_be_endpoint, resolve, verdict};
pub use plan::{
    Content, Decision, HEADLESS_LABEL, MANAGED_BY, MANAGED_BY_LABEL, OVER_CAPACITY_ANNOTATION, Operation, Reason,
    TRIGGER_TIME_ANNOTATION, TRUNCATED, decide, plan,
};
pub(crate) use plan::{annotate, handed_on, is_managed};
pub use repack::repack;
pub use settled::Settled;
pub use trigger::TriggerTracker;
pub use truncate::{CAPACITY, truncate};
pub use unlisted::Unlisted;
