//! svcplane: a Kubernetes Service control plane.
//!
//! ```text
//! apiserver ─watch─► wire ─► model ─► index ──affected keys──► queue ─► compute ─► plan ─► write ─► apiserver
//! ```
//!
//! * [`args`]: the command line.
//! * [`cli`]: from the command line to an exit code.
//! * [`endpoints`]: the Endpoints controller.
//! * [`feed`]: from the watches into the index, and from there into the queue.
//! * [`gate`]: may this process write now?
//! * [`index`]: what is stored, and who is affected by a change.
//! * [`leadership`]: the life of a term.
//! * [`model`]: what the controllers know, in types that cannot be wrong.
//! * [`permissions`]: missing rights, named at start.
//! * [`run`]: `svcplane run`, wired in one place.
//! * [`start`]: the log, and an apiserver that answers.
//! * [`state`]: what the process shows of itself.
//! * [`wire`]: the API's JSON, read into the model.

pub mod args;
pub mod cli;
pub mod endpoints;
pub mod feed;
pub mod gate;
pub mod index;
pub mod leadership;
pub mod model;
pub mod permissions;
pub mod run;
pub mod start;
pub mod state;
pub mod wire;
