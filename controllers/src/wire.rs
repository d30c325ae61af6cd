//! The only place that knows the API's JSON: partial types to read, whole ones to write.
//!
//! An API object is parsed into a type with just the fields that matter, turned into the model and dropped: half a kilobyte per Pod
//! instead of 38. Every field may be absent or null: the apiserver sends empty lists as null.

mod endpoints;
mod ip;
mod meta;
mod node;
mod outgoing;
mod pod;
mod service;
mod slice;
mod target;

pub use endpoints::{ParsedEndpoints, WireEndpoints};
pub use ip::parse_ip;
pub use meta::Stored;
pub(crate) use meta::{SlimMeta, slim};
pub use node::WireNode;
pub use outgoing::{write_endpoints, write_slice};
pub use pod::WirePod;
pub use service::{WireService, auto_annotation};
pub use slice::WireSlice;
use target::WireTarget;

use serde::{Deserialize, Deserializer};

/// Reads a field that may be absent or null as its default.
fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests;
