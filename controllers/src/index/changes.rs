//! What has become of a Service's Pods from one sync to the next.

use std::sync::Arc;

use super::namespace::Namespace;
use super::{Affected, Cause};
use crate::model::{Pod, Service, Version};

/// Changes that are remembered one by one; who has more has to look at everything anyway.
const REMEMBERED: usize = 64;

/// What is new about a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// As it is now.
    pub service: Arc<Service>,
    /// What has become of its Pods, if nothing else has happened to what is kept for it.
    pub pods: PodChanges,
    /// Which state of its Endpoints is known, if there are any.
    pub endpoints: Option<Version>,
}

/// What has become of the Pods of a Service since somebody last asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodChanges {
    /// These have changed, in this order, one of them perhaps several times. Nothing else.
    Few(Vec<PodChange>),
    /// Anything, of Pods or of what is kept for the Service.
    Any,
}

/// What has become of one Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodChange {
    /// As it is now, or was last.
    pub pod: Arc<Pod>,
    /// What about it.
    pub what: PodEvent,
}

/// What may become of a Pod, as a Service sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodEvent {
    /// It became Ready or stopped being it, and is otherwise as it was.
    Flipped,
    /// It is new, or something else about it has changed.
    Changed,
    /// It was deleted, or the selector does not match it any more.
    Gone,
}

impl PodChanges {
    /// None.
    pub(super) const NONE: Self = Self::Few(Vec::new());

    fn note(&mut self, pod: &Arc<Pod>, what: PodEvent) {
        match self {
            Self::Few(changes) if changes.len() < REMEMBERED => changes.push(PodChange {
                pod: Arc::clone(pod),
                what,
            }),
            _ => *self = Self::Any,
        }
    }
}

impl Namespace {
    /// The Service of this name is to be looked at, all of it.
    pub(super) fn affect(&mut self, name: &Arc<str>, cause: Cause, affected: &mut Vec<Affected>) {
        if let Some(entry) = self.services.get_mut(name) {
            entry.changes = PodChanges::Any;
        }
        affected.push(self.affected(name, cause));
    }

    /// The same because of one Pod alone.
    pub(super) fn affect_by_pod(
        &mut self,
        name: &Arc<str>,
        pod: &Arc<Pod>,
        what: PodEvent,
        affected: &mut Vec<Affected>,
    ) {
        if let Some(entry) = self.services.get_mut(name) {
            entry.changes.note(pod, what);
        }
        affected.push(self.affected(name, Cause::Pod));
    }
}
