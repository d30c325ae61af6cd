//! High availability drills: something happens to the leader, the Lease or the apiserver while the readiness of a Pod flips
//! ten times a second; what became of the Endpoints meanwhile is measured, and who wrote without a term.
//!
//! ```text
//! flipper ──► apiserver ◄── fault proxy ◄── replica     (one proxy for each of two or three)
//!                │
//!                └─► observer: Pods, Endpoints and Lease by one clock ──► history: gaps, staleness
//!                                                   proxies' records ──► judge: who held the Lease at each write
//! ```

pub mod clock;
mod evidence;
pub mod faults;
pub mod flipper;
pub mod history;
pub mod judge;
pub mod observer;
pub mod report;
pub mod rig;

pub use faults::Drill;
pub use report::Report;
pub use rig::{Rig, Times};
