//! svcplane: a Kubernetes Service control plane.
//!
//! ```text
//! apiserver ─watch─► wire ─► model ─► index ──affected keys──► queue ─► compute ─► plan ─► write ─► apiserver
//! ```
//!
//! * [`wire`]: the API's JSON, read into the model.
//! * [`model`]: what the controllers know, in types that cannot be wrong.
//! * [`endpoints`]: the Endpoints controller.
//! * [`index`]: what is stored, and who is affected by a change.

pub mod endpoints;
pub mod index;
pub mod model;
pub mod wire;
