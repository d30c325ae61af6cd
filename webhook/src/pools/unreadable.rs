//! Pools that were stored while no webhook could refuse them.

use std::sync::Arc;

use kube::{Resource, ResourceExt as _};
use svcplane_allocators::pools::FieldError;

/// A pool whose spec cannot be used. It is as if it were not there, but for what is said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.generation`.
    pub generation: i64,
    /// What is wrong, with the fields.
    pub faults: String,
}

impl Unreadable {
    /// The pool in which this was wrong.
    pub fn of(pool: &impl Resource, errors: &[FieldError]) -> Self {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Self {
            name: pool.name_any().into(),
            generation: pool.meta().generation.unwrap_or_default(),
            faults: errors.join("; "),
        }
    }

    /// What becomes of it and why, in words.
    pub fn complaint(&self) -> String {
        format!("it gives and keeps nothing, as if it were not there: {}", self.faults)
    }
}
