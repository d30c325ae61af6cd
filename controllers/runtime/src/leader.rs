//! Leader election by Lease: [`elector`] decides about [`record`]s, `lease` talks to the apiserver, [`term`] is what writers ask.
//!
//! ```text
//!  apiserver <--get, create, replace--> lease --answers, time--> elector
//!                                         \--publishes--> Term --check before each write--> writers
//! ```

mod args;
pub mod elector;
mod handover;
mod lease;
mod notes;
mod progress;
pub mod record;
mod stored;
pub mod term;

pub use args::{LeaderElectionArgs, LeaseConfig};
pub use lease::{LeaderElection, MODE_ANNOTATION, identity};
pub use notes::{LeaseName, Notes, SeenLease, annotate, look};
pub use progress::Progress;
pub use term::{NotLeader, Standing, Term, TermHandle};
