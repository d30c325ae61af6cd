//! The mirroring controller: hand-made Endpoints of Services without a selector, as slices.
//!
//! Pure: [`mirror`] says what is to be mirrored, [`plan`] makes writes of it. No clock, no client, no task.

mod desired;
mod plan;

pub use desired::{
    LEADER_ANNOTATION, Mirror, Mirrored, SKIP_LABEL, Skipped, Unmirrored, is_mirrored, mirror, unmirrored,
};
pub use plan::{plan, plan_all};
