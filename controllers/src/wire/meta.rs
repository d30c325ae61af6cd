//! `metadata`, without what nobody here reads: managedFields alone are half of a Pod.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{self as api, ObjectMeta, Time};
use k8s_openapi::jiff::civil;
use serde::de::{self, IgnoredAny, Visitor};
use serde::{Deserialize, Deserializer};

use super::nullable;
use crate::model::{Interner, Labels, ObjectKey, OwnerReference, Revision, Timestamp, Uid, fitted};

/// `metadata` with what `A` keeps of the annotations and `M` of the managers.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SlimMeta<A, M> {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<A>,
    managed_fields: Option<M>,
}

/// `metadata.managedFields` that nobody reads.
#[derive(Deserialize)]
struct Unread(IgnoredAny);

impl From<Unread> for Vec<api::ManagedFieldsEntry> {
    fn from(_: Unread) -> Self {
        Self::new()
    }
}

/// The annotations that matter; others can be long.
#[derive(Deserialize)]
struct SlimAnnotations {
    #[serde(rename = "service.kubernetes.io/topology-aware-hints")]
    topology_aware_hints: Option<String>,
    #[serde(rename = "service.kubernetes.io/topology-mode")]
    topology_mode: Option<String>,
}

/// The two spellings of the annotation of a Service that asks for topology mode; the first one wins.
pub(super) const TOPOLOGY_ANNOTATIONS: [&str; 2] = [
    "service.kubernetes.io/topology-aware-hints",
    "service.kubernetes.io/topology-mode",
];

impl From<SlimAnnotations> for BTreeMap<String, String> {
    fn from(slim: SlimAnnotations) -> Self {
        let values = [slim.topology_aware_hints, slim.topology_mode];
        let both = TOPOLOGY_ANNOTATIONS.into_iter().zip(values);
        both.filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect()
    }
}

impl<A, M> From<SlimMeta<A, M>> for ObjectMeta
where
    A: Into<BTreeMap<String, String>>,
    M: Into<Vec<api::ManagedFieldsEntry>>,
{
    fn from(slim: SlimMeta<A, M>) -> Self {
        let managers: Vec<_> = slim.managed_fields.map(Into::into).unwrap_or_default();
        Self {
            name: slim.name,
            namespace: slim.namespace,
            uid: slim.uid,
            resource_version: slim.resource_version,
            creation_timestamp: slim.creation_timestamp,
            deletion_timestamp: slim.deletion_timestamp,
            labels: slim.labels,
            annotations: slim.annotations.map(Into::into),
            managed_fields: (!managers.is_empty()).then_some(managers),
            ..Self::default()
        }
    }
}

/// Identity, labels, times and the annotations that matter.
pub(crate) fn slim<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    SlimMeta::<SlimAnnotations, Unread>::deserialize(deserializer).map(Into::into)
}

// No `flatten`: it would copy all of `metadata`, managedFields too, before looking at it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WholeMeta {
    name: Option<String>,
    generate_name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    finalizers: Option<Vec<String>>,
    owner_references: Option<Vec<api::OwnerReference>>,
    deletion_timestamp: Option<Time>,
}

/// All that a PUT must send back.
pub(super) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let meta = WholeMeta::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: meta.name,
        generate_name: meta.generate_name,
        namespace: meta.namespace,
        uid: meta.uid,
        resource_version: meta.resource_version,
        labels: meta.labels,
        annotations: meta.annotations,
        finalizers: meta.finalizers,
        owner_references: meta.owner_references,
        deletion_timestamp: meta.deletion_timestamp,
        ..ObjectMeta::default()
    })
}

/// What the apiserver answers to a write when asked for metadata only.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Stored {
    #[serde(default, deserialize_with = "nullable")]
    metadata: StoredMeta,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredMeta {
    #[serde(default, deserialize_with = "nullable")]
    uid: String,
    #[serde(default, deserialize_with = "nullable")]
    resource_version: String,
}

impl Stored {
    /// `metadata.uid`.
    pub fn uid(&self) -> Uid {
        Uid::parse(&self.metadata.uid)
    }

    /// `metadata.resourceVersion`.
    pub fn revision(&self) -> Revision {
        Revision::parse(&self.metadata.resource_version)
    }
}

/// A uid, absent and null as the empty one. Read in place: no text is kept.
pub(super) fn uid<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Uid, D::Error> {
    struct Text;
    impl Visitor<'_> for Text {
        type Value = Uid;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a uid or null")
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<Uid, E> {
            Ok(Uid::parse(text))
        }
        fn visit_unit<E: de::Error>(self) -> Result<Uid, E> {
            Ok(Uid::default())
        }
    }
    deserializer.deserialize_any(Text)
}

/// The parts of `metadata` that every model type takes.
pub(super) struct Identity {
    pub key: ObjectKey,
    pub uid: Uid,
    pub revision: Revision,
}

pub(super) fn identity(meta: &ObjectMeta, interner: &mut Interner) -> Identity {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    Identity {
        key: ObjectKey {
            namespace: interner.get(&text(&meta.namespace)),
            name: interner.get(&text(&meta.name)),
        },
        uid: Uid::parse(&text(&meta.uid)),
        revision: Revision::parse(&text(&meta.resource_version)),
    }
}

/// The parts of `metadata` that a PUT must send back.
pub(super) struct Kept {
    pub generate_name: Option<Box<str>>,
    pub labels: Labels,
    pub annotations: Labels,
    pub finalizers: Vec<Box<str>>,
    pub owner_references: Vec<OwnerReference>,
}

pub(super) fn kept(meta: ObjectMeta, interner: &mut Interner) -> Kept {
    let owners = meta.owner_references.unwrap_or_default();
    Kept {
        generate_name: meta.generate_name.map(Into::into),
        labels: pairs(meta.labels, interner),
        annotations: pairs(meta.annotations, interner),
        finalizers: fitted(meta.finalizers.unwrap_or_default().into_iter().map(Into::into)),
        owner_references: fitted(owners.into_iter().map(owner)),
    }
}

pub(super) fn owner(owner: api::OwnerReference) -> OwnerReference {
    OwnerReference {
        api_version: owner.api_version.into(),
        kind: owner.kind.into(),
        name: owner.name.into(),
        uid: owner.uid.into(),
        controller: owner.controller,
        block_owner_deletion: owner.block_owner_deletion,
    }
}

pub(super) fn pairs(map: Option<BTreeMap<String, String>>, interner: &mut Interner) -> Labels {
    map.unwrap_or_default()
        .into_iter()
        .map(|(key, value)| (interner.get(&key), interner.get(&value)))
        .collect()
}

pub(super) fn seconds(time: Option<&Time>) -> Option<Timestamp> {
    time.map(|time| Timestamp(time.0.as_second()))
}

/// A time as the apiserver writes it, in UTC and without a fraction; `None` for any other text, such as a year of five digits. Reads the
/// last hours of the year 9999 too, a common "never", which the API type's parser refuses.
pub(super) fn read_time(text: &str) -> Option<Timestamp> {
    let time: civil::DateTime = text.strip_suffix('Z')?.parse().ok()?;
    let epoch = civil::date(1970, 1, 1).at(0, 0, 0, 0);
    Some(Timestamp(time.duration_since(epoch).as_secs()))
}
