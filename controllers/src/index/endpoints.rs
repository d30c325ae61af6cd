//! An Endpoints object in the index: what the watch has shown, with our own writes laid over it.

use std::sync::Arc;

use super::Epoch;
use crate::model::EndpointsObject;

/// Why an Endpoints object without a Service of its name is to be deleted. Without such a reason it is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orphan {
    /// The watch told us that its Service was deleted.
    ServiceDeleted,
    /// Its Service was missing from a list, or it bears the mark of an endpoints controller and had no Service when we began to lead.
    /// The Service is asked for once more, by a read that no cache answers, before anything is deleted.
    Leftover,
}

#[derive(Debug)]
pub(super) struct EndpointsEntry {
    pub object: Arc<EndpointsObject>,
    pub orphan: Option<Orphan>,
    pub epoch: Epoch,
}

/// Equal in all that we read or write; who stored it when does not matter.
pub(super) fn same_content(one: &EndpointsObject, other: &EndpointsObject) -> bool {
    one.labels == other.labels
        && one.subsets == other.subsets
        && one.annotations == other.annotations
        && one.finalizers == other.finalizers
        && one.owner_references == other.owner_references
}

/// Bears the mark of an endpoints controller, and is nobody's leader lock.
pub(super) fn is_leftover(object: &EndpointsObject) -> bool {
    let managed = object.labels.get("endpoints.kubernetes.io/managed-by");
    managed.is_some_and(|value| &**value == "endpoint-controller")
        && !object
            .annotations
            .contains_key("control-plane.alpha.kubernetes.io/leader")
}
