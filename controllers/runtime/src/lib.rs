//! svcplane's kit: what every controller and the webhook need from a runtime, and nothing about any of them.
//!
//! * [`admin`]: health, metrics and debugging over HTTP.
//! * [`args`]: flag values in kube-controller-manager's syntax.
//! * [`events`]: Kubernetes Events, aggregated and rate-limited, that never hold a controller up.
//! * [`leader`]: leader election by Lease, and the term that writers check.
//! * [`metrics`]: Prometheus metrics of the kit, under client-go's names.
//! * [`supervise`]: every task has an owner, and one that ends early ends the process.

pub mod admin;
pub mod args;
pub mod events;
pub mod leader;
pub mod metrics;
pub mod supervise;
