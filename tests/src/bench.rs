//! svcplane beside the real kube-controller-manager: same apiserver, same objects, same changes, one after the other.
//!
//! ```text
//! generator ─► Pod status ─► apiserver ◄─► Side (svcplane | kube-controller-manager)
//!                               │
//!                               └─► Observer: Pods, Endpoints and EndpointSlices, one process, one clock
//! ```
//!
//! A [`workload`] loads a control plane of its own with Pods, then lets each side in turn (A-B-B-A) start without Endpoints and slices and
//! follow the same [`stream`] of changes. What each run took is a row of a CSV file; [`table`] reads the rows and sets ours beside the
//! peer's and both beside the targets. Nothing here judges by time: a run is void when the sides' Endpoints or slices differ, when the peer was
//! throttled by its own client, or when it does not end.

pub mod account;
pub mod balancers;
pub mod calibrate;
pub mod controllers;
pub mod end_state;
pub mod figures;
pub mod generator;
pub mod latency;
pub mod observer;
pub mod plan;
pub mod record;
pub mod rig;
pub mod side;
pub mod storm;
pub mod stream;
pub mod table;
pub mod targets;
pub mod watching;
pub mod workload;
