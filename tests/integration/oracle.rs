//! The apiserver as the oracle for validation: thousands of Services are sent to a real one, whose mutating webhook is a server
//! of ours in this process. It lets everything pass and keeps what it was asked; afterwards what our judge says of it is set
//! beside the apiserver's own answer.
//!
//! ```text
//! generate ─► apiserver ─► witness (keeps the review, allows)
//!                │              │
//!             its answer    judge's findings
//!                └── compare ───┘ ─► tally ─► table
//! ```

mod answer;
mod base;
mod compare;
mod draw;
mod moves;
mod run;
mod tally;
mod transitions;
mod witness;

pub use self::run::{Options, run};
pub use self::tally::Tally;
