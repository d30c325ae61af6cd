//! Feeds the ledger of admission: from the watches into the books of values.

mod collector;
mod intake;
mod kinds;
mod members;
mod read;
mod watches;

pub use self::collector::BookCollector;
pub use self::intake::Intake;
pub use self::kinds::{Booked, readable};
pub use self::members::{Members, serving_endpoints};
pub use self::read::{feed, list, list_if_permitted, listed, listed_at, pages, ranges_and_pools, require_ranges};
pub use self::watches::{BookWatches, keep_time, readiness};
