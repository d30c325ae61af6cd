//! `targetRef`, in Endpoints and in slices.

use serde::Deserialize;

use super::{meta, nullable};
use crate::model::{Interner, TargetRef, TargetRest, Uid, boxed};

/// All fields but `resourceVersion`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WireTarget {
    #[serde(deserialize_with = "nullable")]
    pub kind: String,
    #[serde(deserialize_with = "nullable")]
    pub namespace: String,
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    #[serde(deserialize_with = "meta::uid")]
    pub uid: Uid,
    #[serde(deserialize_with = "nullable")]
    pub api_version: String,
    #[serde(deserialize_with = "nullable")]
    pub field_path: String,
}

impl WireTarget {
    pub(super) fn into_model(self, interner: &mut Interner) -> TargetRef {
        TargetRef {
            kind: interner.get(&self.kind),
            namespace: interner.get(&self.namespace),
            name: interner.get(&self.name),
            uid: self.uid,
            rest: boxed(TargetRest {
                api_version: self.api_version.into(),
                field_path: self.field_path.into(),
            }),
        }
    }
}
