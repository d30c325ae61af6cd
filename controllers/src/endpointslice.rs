//! The EndpointSlice controller.
//!
//! Pure: [`Desired`] says of each Pod where it is listed and how, `pack` finds the slices for it, `topology` gives the hints of mode
//! `Auto`, `plan` makes writes of it. No clock, no client, no task.

mod desired;
mod families;
mod name;
mod pack;
mod plan;
mod topology;
mod wanted;

#[cfg(test)]
mod fixtures;

pub use desired::{Desired, Group};
pub use families::{Matched, Plans, plan_all};
pub use name::name;
pub(crate) use name::name_prefix;
pub use pack::{Batch, Existing, Fate, Packing, pack};
pub use plan::{MANAGED_BY_LABEL, Operation, Plan, SERVICE_NAME_LABEL, Terms, plan, remove};
pub use topology::{Refusal, Zones};
pub use wanted::Wanted;
