//! Annotations of the Lease under `svcplane.io/`: what outlives processes and leaders without an object of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::DynamicObject;

use super::record::Record;
use super::stored::{leases, record_of};
use crate::api::{Failure, call};

/// What the names of notes begin with.
const PREFIX: &str = "svcplane.io/";

/// How often a note is tried again because the leader renewed meanwhile.
const TRIES: u32 = 10;

/// The notes on a Lease, by their whole names.
pub type Notes = BTreeMap<String, String>;

/// Which Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for LeaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A Lease as somebody sees it who does not contend for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenLease {
    /// Who holds it.
    pub record: Record,
    /// What is noted on it.
    pub notes: Notes,
}

impl SeenLease {
    fn of(lease: &DynamicObject) -> Self {
        Self {
            record: record_of(lease),
            notes: notes(&lease.metadata),
        }
    }
}

/// Those of its annotations that are notes.
pub fn notes(metadata: &ObjectMeta) -> Notes {
    let all = metadata.annotations.iter().flatten();
    all.filter(|(name, _)| name.starts_with(PREFIX))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Sets notes on the Lease, or takes them off (`None`), and nothing else. Answers with what was written. Each call may take `limit`.
///
/// Conditional on what was read, like every write of the Lease: a leader's renewal is never overwritten.
///
/// # Errors
/// [`Failure::NotFound`] if there is no Lease.
pub async fn annotate(
    client: &Client,
    lease: &LeaseName,
    changes: &[(&str, Option<String>)],
    limit: Duration,
) -> Result<SeenLease, Failure> {
    let api = leases(client.clone(), &lease.namespace);
    let mut outcome = Err(Failure::Conflict);
    for _ in 0..TRIES {
        let mut stored = call(limit, api.get(&lease.name)).await?;
        let annotations = stored.metadata.annotations.get_or_insert_default();
        let before = annotations.clone();
        for (name, value) in changes {
            match value {
                Some(value) => annotations.insert((*name).to_owned(), value.clone()),
                None => annotations.remove(*name),
            };
        }
        if *annotations == before {
            return Ok(SeenLease::of(&stored));
        }
        outcome = call(limit, api.replace(&lease.name, &super::lease::parameters(), &stored)).await;
        if !matches!(outcome, Err(Failure::Conflict)) {
            break;
        }
    }
    outcome.map(|written| SeenLease::of(&written))
}

/// The Lease now, if there is one.
///
/// # Errors
/// It could not be read within `limit`.
pub async fn look(client: &Client, lease: &LeaseName, limit: Duration) -> Result<Option<SeenLease>, Failure> {
    let api = leases(client.clone(), &lease.namespace);
    let stored = call(limit, api.get_opt(&lease.name)).await?;
    Ok(stored.as_ref().map(SeenLease::of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_told_from_other_annotations() {
        let annotations = [
            ("svcplane.io/mode", "observe"),
            ("team", "marsh"),
            ("svcplane.io.example/x", "y"),
        ];
        let metadata = ObjectMeta {
            annotations: Some(
                annotations
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .into(),
            ),
            ..ObjectMeta::default()
        };
        assert_eq!(
            notes(&metadata),
            Notes::from([("svcplane.io/mode".to_owned(), "observe".to_owned())])
        );
        assert_eq!(notes(&ObjectMeta::default()), Notes::new());
    }
}
