//! What somebody does to objects that a controller writes.

use serde::{Deserialize, Serialize};

/// An edit of Endpoints by somebody who is not their controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tamper {
    /// A label more.
    ExtraLabel,
    /// The label of the controller is taken away.
    NoManagedBy,
    /// Other addresses.
    ForeignSubsets,
    /// No addresses.
    NoSubsets,
    /// A user's annotation, which stays.
    Annotation,
    /// The annotation of an object that is cut.
    OverCapacity,
    /// One address that is not ready is listed as ready too.
    Contradiction,
    /// The addresses of each subset in reverse.
    Reorder,
}

/// An edit of a slice by somebody who is not its controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SliceTamper {
    /// Other endpoints.
    ForeignEndpoints,
    /// No endpoints.
    NoEndpoints,
    /// Other ports.
    OtherPorts,
    /// A label more.
    ExtraLabel,
    /// The label of headless Services with another value.
    HeadlessLabel,
    /// A user's annotation, which stays.
    Annotation,
    /// The slice is deleted.
    Delete,
    /// A second one that says the same.
    Double,
    /// A second one that an earlier Service of that name seems to have left behind.
    Orphan,
    /// Nobody owns it any more.
    NoOwner,
    /// Somebody else claims it. The reference is stuck then (spec/endpoints.md 6.1).
    OtherManager,
    /// It names another Service. The reference is stuck then.
    OtherService(String),
    /// It is deleted while a finalizer holds it. The reference is stuck then.
    Dying,
}

impl SliceTamper {
    /// Whether the reference takes a slice of its own for one that its cache does not show yet, and writes none for the
    /// Service from then on.
    pub fn wedges(&self) -> bool {
        matches!(self, Self::OtherManager | Self::OtherService(_) | Self::Dying)
    }
}
