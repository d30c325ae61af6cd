//! svcplane's admission webhook: AdmissionReview in, verdict and JSON Patch out.
//!
//! ```text
//! apiserver ──TLS──► server ──body──► admission ──► review (read) ──► judge ─► findings ──► review (answer)
//!                      ▲                                 └──► policy, environment
//!            certificate, renewed while it serves
//! ```
//!
//! Only [`server`] and [`handshake`] do I/O. Nothing here asks the apiserver anything.
//!
//! * [`address`]: addresses and ranges as the apiserver reads them.
//! * [`admission`]: from a body to its answer.
//! * [`authority`]: the webhook's own authorities and leaves, made and read.
//! * [`cause`]: what is wrong with which field.
//! * [`certificate`]: what the server shows, renewed while it serves.
//! * `enforcement`: may this Service have its values?
//! * [`environment`]: legal values that make trouble in Pods.
//! * [`filling`]: chooses addresses and nodePorts.
//! * [`handshake`]: a fresh handshake, as an apiserver makes it.
//! * [`judge`](mod@judge): would the apiserver take this Service?
//! * [`ledger`]: what is known of the cluster.
//! * [`metrics`]: what is counted.
//! * [`names`]: the formats of names.
//! * [`policy`]: which external addresses Services may have.
//! * [`pools`]: the custom resources.
//! * `remarks`: what is wrong with values that a user chose.
//! * [`review`]: AdmissionReview v1.
//! * [`rotation`]: which step comes next in the life of the certificate.
//! * [`server`]: HTTP over TLS within limits.
//! * [`service`]: a Service as far as it is judged.

pub mod address;
pub mod admission;
pub mod authority;
pub mod cause;
pub mod certificate;
mod enforcement;
pub mod environment;
pub mod filling;
pub mod handshake;
pub mod judge;
pub mod ledger;
pub mod metrics;
pub mod names;
pub mod policy;
pub mod pools;
mod remarks;
pub mod review;
pub mod rotation;
pub mod server;
pub mod service;
