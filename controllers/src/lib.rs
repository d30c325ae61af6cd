//! svcplane: a Kubernetes Service control plane.
//!
//! ```text
//! apiserver ─watch─► wire ─► model ─► index ──affected keys──► queue ─► compute ─► plan ─► write ─► apiserver
//! ```
//!
//! * [`wire`]: the API's JSON, read into the model.
//! * [`model`]: what the controllers know, in types that cannot be wrong.
//! * [`index`]: what is stored, and who is affected by a change.

pub mod index;
pub mod model;
pub mod wire;
