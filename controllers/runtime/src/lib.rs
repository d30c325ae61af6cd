//! svcplane's kit: what every controller and the webhook need from a runtime, and nothing about any of them.
//!
//! ```text
//! client ──► watch ──► (a controller's index) ──► queue ──► (its workers) ──► api ──► apiserver
//! ```
//!
//! * [`admin`]: health, metrics and debugging over HTTP.
//! * [`api`]: one call under a deadline, its outcome in the classes that callers act on.
//! * [`args`]: flag values in kube-controller-manager's syntax.
//! * [`client`]: how we connect, with kube's silent retries off.
//! * [`connections`]: the connections of a server, from the first to the last.
//! * [`events`]: Events behind a bounded queue, aggregated and rate-limited.
//! * [`leader`]: leader election by Lease, and the term that writers check.
//! * [`metrics`]: Prometheus metrics of the kit, under client-go's names.
//! * [`queue`]: keys that need work, each at most once and with at most one worker.
//! * [`readiness`]: what must have happened once.
//! * [`supervise`]: every task has an owner, and one that ends early ends the process.
//! * [`watch`]: one watch per kind, restarted for ever.

pub mod admin;
pub mod api;
pub mod args;
pub mod client;
pub mod connections;
pub mod events;
pub mod leader;
pub mod metrics;
pub mod queue;
pub mod readiness;
pub mod supervise;
pub mod watch;
