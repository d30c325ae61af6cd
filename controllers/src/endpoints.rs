//! The Endpoints controller.
//!
//! Pure: `compute` reads a Service and its Pods, `plan` compares the result with what is stored, `TriggerTracker` supplies the time that a
//! write is annotated with, `Contention` the patience with other writers. No clock, no client, no task. Around them: `reconcile` brings one
//! Service's Endpoints to what they should be, `write` makes the calls.

mod change;
mod compute;
mod contention;
mod metrics;
mod plan;
mod reconcile;
mod repack;
mod trigger;
mod truncate;
mod write;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod reference;

pub use compute::compute;
pub use contention::Contention;
pub use metrics::{CONTROLLER, EndpointsMetrics};
pub use plan::{
    Content, HEADLESS_LABEL, MANAGED_BY, MANAGED_BY_LABEL, OVER_CAPACITY_ANNOTATION, Operation, Reason,
    TRIGGER_TIME_ANNOTATION, TRUNCATED, Version, plan,
};
pub use reconcile::EndpointsController;
pub use repack::repack;
pub use trigger::TriggerTracker;
pub use truncate::{CAPACITY, truncate};
pub use write::Writer;
