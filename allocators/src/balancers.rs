//! LoadBalancer addresses: whose each one is, which one a waiting Service gets, and why it gets none.
//!
//! ```text
//! annotations ─► request ─┐
//! pools ──────────────────┼─► Balancers ──► what each Service should show, and why
//! Services, their status ─┘      └─ book (one per family): free gaps, holders, rests, reservations
//! ```
//!
//! [`Balancers`] is one state machine without I/O, locks or clock. The status of Services is the only durable record: it is imported when a
//! term begins, and from then on what a Service shows stays its own until the apiserver has stored that it does not any more. An address
//! moves only if its Service may not have it any longer, or has asked for another one and gets it.

mod ask;
mod book;
mod choose;
mod decide;
mod engine;
mod families;
mod free;
mod group;
mod obtain;
mod part;
mod pool;
mod read;
mod reason;
mod request;
mod rest;
mod share;
mod term;
mod trouble;
mod wait;

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;

pub use self::ask::{Ask, Facts, Outcome, Policy};
pub use self::book::AddressBook;
pub use self::engine::Balancers;
pub use self::part::AddressCounts;
pub use self::pool::{BalancerPool, IpMode, OnRemoval, Order, Withheld};
pub use self::reason::{Reason, Wrong};
pub use self::request::{Products, Request, is_request, read_request};
pub use self::share::{Consent, Refusal, Share, Terms, Traffic};
