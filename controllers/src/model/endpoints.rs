//! An Endpoints object: everything a PUT must send back, because what it leaves out is deleted.

use std::sync::Arc;

use compact_str::CompactString;

use super::{Labels, ObjectKey, Protocol, Revision, Uid, Version};

/// A stored Endpoints object, with all that its PUT must preserve. `managedFields` are not kept: the apiserver keeps its own when a PUT
/// leaves them out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointsObject {
    /// Namespace and name.
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub revision: Revision,
    /// `metadata.deletionTimestamp` is set.
    pub terminating: bool,
    /// `metadata.generateName`: a hand-made object may have been named by the apiserver.
    pub generate_name: Option<Box<str>>,
    /// `metadata.labels`.
    pub labels: Labels,
    /// `metadata.annotations`.
    pub annotations: Labels,
    /// `metadata.finalizers`.
    pub finalizers: Vec<Box<str>>,
    /// `metadata.ownerReferences`.
    pub owner_references: Vec<OwnerReference>,
    /// `subsets` in stored order.
    pub subsets: Vec<Subset>,
}

impl EndpointsObject {
    /// Which state of which object this is.
    pub fn version(&self) -> Version {
        Version {
            uid: self.uid.clone(),
            revision: self.revision,
        }
    }
}

/// `metadata.ownerReferences[]`, kept only to be sent back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerReference {
    /// `apiVersion`.
    pub api_version: Box<str>,
    /// `kind`.
    pub kind: Box<str>,
    /// `name`.
    pub name: Box<str>,
    /// `uid`.
    pub uid: Box<str>,
    /// `controller`.
    pub controller: Option<bool>,
    /// `blockOwnerDeletion`.
    pub block_owner_deletion: Option<bool>,
}

impl OwnerReference {
    /// The controller that made an object, of API version `v1`; it is not deleted for good before the object is.
    pub fn controller(kind: &str, name: &str, uid: &Uid) -> Self {
        Self {
            api_version: "v1".into(),
            kind: kind.into(),
            name: name.into(),
            uid: uid.to_string().into(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }
}

/// One entry of `subsets`: every address serves every port.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subset {
    /// `addresses`: ready.
    pub addresses: Vec<Address>,
    /// `notReadyAddresses`.
    pub not_ready_addresses: Vec<Address>,
    /// `ports`; empty for a headless Service without ports.
    pub ports: Vec<EndpointPort>,
}

impl Subset {
    /// How many addresses it lists, ready and not ready.
    pub fn len(&self) -> usize {
        self.addresses.len() + self.not_ready_addresses.len()
    }

    /// Whether it lists no address.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One entry of `addresses` or `notReadyAddresses`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// `ip` as text: hand-made objects may hold any spelling. Up to 24 bytes stand here and nowhere else.
    pub ip: CompactString,
    /// `hostname`, never empty.
    pub hostname: Option<Box<str>>,
    /// `nodeName`; an explicit empty one is kept apart from an absent one.
    pub node_name: Option<Arc<str>>,
    /// `targetRef`.
    pub target: Option<Box<TargetRef>>,
}

/// `targetRef`, all fields but `resourceVersion`, which comparison must ignore and nobody reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetRef {
    /// `kind`, such as `Pod`; shared, because it is the same word thousands of times.
    pub kind: Arc<str>,
    /// `namespace`.
    pub namespace: Arc<str>,
    /// `name`.
    pub name: Arc<str>,
    /// `uid`.
    pub uid: Uid,
    /// What only hand-made ones have.
    pub rest: Option<Box<TargetRest>>,
}

/// The fields of a `targetRef` that no controller writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetRest {
    /// `apiVersion`.
    pub api_version: Box<str>,
    /// `fieldPath`.
    pub field_path: Box<str>,
}

impl TargetRef {
    /// `apiVersion`, empty if there is none.
    pub fn api_version(&self) -> &str {
        self.rest.as_ref().map_or("", |rest| &rest.api_version)
    }

    /// `fieldPath`, empty if there is none.
    pub fn field_path(&self) -> &str {
        self.rest.as_ref().map_or("", |rest| &rest.field_path)
    }
}

/// One entry of a subset's `ports`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointPort {
    /// `name`, empty if absent.
    pub name: Arc<str>,
    /// `port`.
    pub port: i32,
    /// `protocol`.
    pub protocol: Protocol,
    /// `appProtocol`.
    pub app_protocol: Option<Arc<str>>,
}
