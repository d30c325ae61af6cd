//! svcplane's kit: what every controller and the webhook need from a runtime, and nothing about any of them.
//!
//! * [`metrics`]: Prometheus metrics of the kit, under client-go's names.

pub mod metrics;
