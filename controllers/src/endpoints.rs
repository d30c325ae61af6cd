//! The Endpoints reconciler's pure half: what an Endpoints object should hold, and what to write so that it does.
//!
//! `compute` reads a Service and its Pods, `plan` compares the result with what is stored, `TriggerTracker` supplies the time that a write
//! is annotated with. No clock, no client, no task.

mod compute;
mod plan;
mod repack;
mod trigger;
mod truncate;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod reference;

pub use compute::compute;
pub use plan::{
    Content, HEADLESS_LABEL, MANAGED_BY, MANAGED_BY_LABEL, OVER_CAPACITY_ANNOTATION, Operation, Reason,
    TRIGGER_TIME_ANNOTATION, TRUNCATED, Version, plan,
};
pub use repack::repack;
pub use trigger::TriggerTracker;
pub use truncate::{CAPACITY, truncate};
