//! `metadata`, without what nobody here reads: managedFields alone are half of a Pod.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use k8s_openapi::jiff::civil;
use serde::{Deserialize, Deserializer};

use super::nullable;
use crate::model::{Interner, Labels, ObjectKey, Revision, Timestamp, Uid};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SlimMeta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
}

impl From<SlimMeta> for ObjectMeta {
    fn from(slim: SlimMeta) -> Self {
        Self {
            name: slim.name,
            namespace: slim.namespace,
            uid: slim.uid,
            resource_version: slim.resource_version,
            creation_timestamp: slim.creation_timestamp,
            deletion_timestamp: slim.deletion_timestamp,
            labels: slim.labels,
            ..Self::default()
        }
    }
}

/// Identity, labels and times only.
pub(super) fn slim<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    SlimMeta::deserialize(deserializer).map(Into::into)
}

// No `flatten`: it would copy all of `metadata`, managedFields too, before looking at it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WholeMeta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    finalizers: Option<Vec<String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

/// All that a PUT must send back.
pub(super) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let meta = WholeMeta::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: meta.name,
        namespace: meta.namespace,
        uid: meta.uid,
        resource_version: meta.resource_version,
        labels: meta.labels,
        annotations: meta.annotations,
        finalizers: meta.finalizers,
        owner_references: meta.owner_references,
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
