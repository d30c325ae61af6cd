//! The differential test: one stream of random operations on two control planes, one kept by svcplane and one by the
//! real kube-controller-manager, and after each window of it their Endpoints and EndpointSlices must say the same.
//!
//! ```text
//! seed ─► generate ─► window of ops ─┬─► side: svcplane behind the fault proxy ─┐
//!             │ draws from           └─► side: kube-controller-manager ─────────┴─► snapshot ─► judge ─► difference
//!           model (what is stored, by the operations alone)                                       │          │
//!                                                             exemption: a cause, counted ◄───────┘        shrink
//! ```
//!
//! What is compared, what is not and why: `docs/differential.md`. The generator and the model are pure: the same seed
//! gives the same operations, whatever the servers answer.

mod checkpoint;
mod effects;
mod exempt;
mod generate;
mod judge;
mod look;
mod model;
mod ops;
mod pair;
mod proofs;
mod render;
mod report;
mod run;
mod settle;
mod shrink;
mod side;
mod snapshot;

pub use self::exempt::{Cause, Tally};
pub use self::generate::Generator;
pub use self::ops::{Kind, Op, Window};
pub use self::pair::Setup;
pub use self::proofs::prove;
pub use self::report::Difference;
pub use self::run::{Ended, Options, Stream, replay, run};
pub use self::side::{Controllers, OurController};
