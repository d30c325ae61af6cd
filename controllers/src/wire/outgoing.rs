//! Objects as they are written: whole, borrowed from the model.

mod endpoints;
mod slice;

pub use endpoints::{is_subsets_text, write_endpoints};
pub use slice::write_slice;

use serde::{Serialize, Serializer};

use crate::model::{Labels, ObjectKey, OwnerReference, Revision, TargetRef, Uid};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutgoingMeta<'a> {
    name: &'a str,
    namespace: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    generate_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
    #[serde(skip_serializing_if = "Labels::is_empty")]
    labels: &'a Labels,
    #[serde(skip_serializing_if = "Labels::is_empty")]
    annotations: &'a Labels,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    finalizers: &'a [Box<str>],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    owner_references: Vec<OutgoingOwner<'a>>,
}

/// The parts of `metadata` that every object has.
#[derive(Clone, Copy)]
struct Kept<'a> {
    generate_name: Option<&'a str>,
    labels: &'a Labels,
    annotations: &'a Labels,
    finalizers: &'a [Box<str>],
    owner_references: &'a [OwnerReference],
}

impl<'a> OutgoingMeta<'a> {
    /// `over`: the stored version that a PUT replaces.
    fn new(key: &'a ObjectKey, over: Option<(&Uid, Revision)>, kept: Kept<'a>) -> Self {
        Self {
            name: &key.name,
            namespace: &key.namespace,
            generate_name: kept.generate_name,
            uid: over.map(|(uid, _)| uid.to_string()),
            resource_version: over.map(|(_, revision)| revision.0.to_string()),
            labels: kept.labels,
            annotations: kept.annotations,
            finalizers: kept.finalizers,
            owner_references: kept.owner_references.iter().map(OutgoingOwner::of).collect(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutgoingOwner<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
    uid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    controller: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_owner_deletion: Option<bool>,
}

impl<'a> OutgoingOwner<'a> {
    fn of(owner: &'a OwnerReference) -> Self {
        Self {
            api_version: &owner.api_version,
            kind: &owner.kind,
            name: &owner.name,
            uid: &owner.uid,
            controller: owner.controller,
            block_owner_deletion: owner.block_owner_deletion,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutgoingTarget<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "Uid::is_empty", serialize_with = "text")]
    uid: &'a Uid,
    #[serde(skip_serializing_if = "str::is_empty")]
    api_version: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    field_path: &'a str,
}

impl<'a> OutgoingTarget<'a> {
    fn of(target: &'a TargetRef) -> Self {
        Self {
            kind: &target.kind,
            namespace: &target.namespace,
            name: &target.name,
            uid: &target.uid,
            api_version: target.api_version(),
            field_path: target.field_path(),
        }
    }

    fn pod(namespace: &'a str, name: &'a str, uid: &'a Uid) -> Self {
        Self {
            kind: "Pod",
            namespace,
            name,
            uid,
            api_version: "",
            field_path: "",
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference to the field"
)]
fn text<S: Serializer>(uid: &&Uid, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(uid)
}
