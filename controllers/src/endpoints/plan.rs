//! What to write so that a stored Endpoints object is right, and when to write nothing.

use std::net::IpAddr;
use std::sync::Arc;

use crate::model::{
    EndpointsObject, Labels, ObjectKey, OwnerReference, Pod, Revision, Service, Subset, Timestamp, Uid, Version,
};

use super::repack::{pack, repack};
use super::uniform::Uniform;
use super::{CAPACITY, compute, truncate};

/// Label with an empty value on Endpoints and slices of a Service without a clusterIP.
pub const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";
/// Label that says who writes an Endpoints object.
pub const MANAGED_BY_LABEL: &str = "endpoints.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY_LABEL`] on Endpoints made from a selector; upstream's own value, because we write in its stead.
pub const MANAGED_BY: &str = "endpoint-controller";
/// Annotation with the time of the change that the last write published, see [`super::TriggerTracker`].
pub const TRIGGER_TIME_ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// Annotation on an object that lists only some of the addresses.
pub const OVER_CAPACITY_ANNOTATION: &str = "endpoints.kubernetes.io/over-capacity";
/// Value of [`OVER_CAPACITY_ANNOTATION`].
pub const TRUNCATED: &str = "truncated";

/// One write, decided and not yet made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Why.
    pub reason: Reason,
    /// What the write replaces: `None` = POST, which fails if the object exists; otherwise PUT with this uid and resourceVersion as
    /// preconditions.
    pub replaces: Option<Version>,
    /// What is stored afterwards.
    pub content: Content,
}

/// An Endpoints object but for what the apiserver gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Namespace and name.
    pub key: ObjectKey,
    /// `metadata.generateName`.
    pub generate_name: Option<Box<str>>,
    /// `metadata.labels`.
    pub labels: Labels,
    /// `metadata.annotations`.
    pub annotations: Labels,
    /// `metadata.finalizers`.
    pub finalizers: Vec<Box<str>>,
    /// `metadata.ownerReferences`.
    pub owner_references: Vec<OwnerReference>,
    /// `subsets`.
    pub subsets: Vec<Subset>,
}

impl Operation {
    /// The object as stored once the write has succeeded, under the uid and resourceVersion of the apiserver's reply.
    pub fn into_object(self, uid: Uid, revision: Revision) -> EndpointsObject {
        let Content {
            key,
            generate_name,
            labels,
            annotations,
            finalizers,
            owner_references,
            subsets,
        } = self.content;
        EndpointsObject {
            key,
            uid,
            revision,
            terminating: false,
            generate_name,
            labels,
            annotations,
            finalizers,
            owner_references,
            subsets,
        }
    }
}

/// Why a write is due. If several hold, one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// There is no Endpoints object.
    Missing,
    /// Addresses or ports differ.
    Subsets,
    /// Labels differ from the Service's, or [`MANAGED_BY_LABEL`] is missing.
    Labels,
    /// The object lists more than [`CAPACITY`] addresses, or its over-capacity annotation is wrong.
    Capacity,
}

impl Reason {
    /// The value of the metric's label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Subsets => "subsets",
            Self::Labels => "labels",
            Self::Capacity => "capacity",
        }
    }
}

/// [`compute`] and [`plan`] in one, without building addresses that are not to be written where that can be told.
pub fn decide(
    service: &Service,
    pods: &[Arc<Pod>],
    observed: Option<&EndpointsObject>,
    trigger: Option<Timestamp>,
) -> Decision {
    let desired = Uniform::of(service, pods).map_or_else(|| Desired::any(compute(service, pods)), Desired::Uniform);
    Decision {
        cut: desired.cut(),
        operation: plan_desired(service, desired, observed, trigger),
    }
}

/// What [`decide`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The write that is due, if one is.
    pub operation: Option<Operation>,
    /// For [`super::Settled`]: the last address listed, where no more than ready Pods are listed, and not all of these.
    pub cut: Option<IpAddr>,
}

/// What is to be stored, truncated.
enum Desired<'a> {
    Any(Vec<Subset>, bool),
    Uniform(Uniform<'a>),
}

impl Desired<'_> {
    fn any(subsets: Vec<Subset>) -> Self {
        let (subsets, truncated) = truncate(subsets);
        Self::Any(subsets, truncated)
    }

    fn truncated(&self) -> bool {
        match self {
            Self::Any(_, truncated) => *truncated,
            Self::Uniform(uniform) => uniform.truncated(),
        }
    }

    fn cut(&self) -> Option<IpAddr> {
        match self {
            Self::Any(..) => None,
            Self::Uniform(uniform) => uniform.cut(),
        }
    }

    fn into_subsets(self) -> Vec<Subset> {
        match self {
            Self::Any(subsets, _) => subsets,
            Self::Uniform(uniform) => uniform.into_subsets(),
        }
    }

    fn is_said_by(&self, stored: &[Subset]) -> bool {
        match self {
            Self::Any(subsets, truncated) => same_subsets(subsets, *truncated, stored),
            Self::Uniform(uniform) => uniform
                .is_said_by(stored)
                .unwrap_or_else(|| same_subsets(&uniform.clone().into_subsets(), uniform.truncated(), stored)),
        }
    }
}

/// The write that makes the stored Endpoints of `service` say `desired`, the result of [`super::compute`]; `None` = they do already.
/// `trigger` is what [`super::TriggerTracker::observe`] said of this sync.
///
/// As upstream: order, the headless label, the trigger time and users' annotations are never a reason to write; a write also sets the
/// headless label right, sets the trigger time or takes it away, and keeps other annotations, finalizers, owner references and the generateName. Labels that
/// the Service does not have are removed.
///
/// Unlike upstream, everything is compared with what would be written: a truncated object is written again only if the addresses that
/// survive truncation changed, and a Service that carries [`HEADLESS_LABEL`] or [`MANAGED_BY_LABEL`] itself does not cause a write at every
/// sync. An object that contradicts itself (one address with two states or two hostnames) is put right; upstream repacks it before it
/// compares, which settles on one of them.
pub fn plan(
    service: &Service,
    desired: Vec<Subset>,
    observed: Option<&EndpointsObject>,
    trigger: Option<Timestamp>,
) -> Option<Operation> {
    plan_desired(service, Desired::any(desired), observed, trigger)
}

fn plan_desired(
    service: &Service,
    desired: Desired<'_>,
    observed: Option<&EndpointsObject>,
    trigger: Option<Timestamp>,
) -> Option<Operation> {
    let reason = match observed {
        None => Reason::Missing,
        Some(stored) => difference(service, &desired, stored)?,
    };
    let truncated = desired.truncated();
    let mut annotations = observed.map(|stored| stored.annotations.clone()).unwrap_or_default();
    let trigger = trigger.map(|time| time.to_string());
    annotate(&mut annotations, TRIGGER_TIME_ANNOTATION, trigger.as_deref());
    annotate(&mut annotations, OVER_CAPACITY_ANNOTATION, capacity_mark(truncated));
    Some(Operation {
        reason,
        replaces: observed.map(EndpointsObject::version),
        content: Content {
            key: service.key.clone(),
            generate_name: observed.and_then(|stored| stored.generate_name.clone()),
            labels: final_labels(service),
            annotations,
            finalizers: observed.map(|stored| stored.finalizers.clone()).unwrap_or_default(),
            owner_references: observed
                .map(|stored| stored.owner_references.clone())
                .unwrap_or_default(),
            subsets: desired.into_subsets(),
        },
    })
}

fn difference(service: &Service, desired: &Desired<'_>, stored: &EndpointsObject) -> Option<Reason> {
    let size: usize = stored.subsets.iter().map(Subset::len).sum();
    let mark = stored.annotations.get(OVER_CAPACITY_ANNOTATION);
    if size > CAPACITY {
        // Not of our making, and of any size: it is not compared, so that comparing it costs no memory.
        Some(Reason::Capacity)
    } else if !desired.is_said_by(&stored.subsets) {
        Some(Reason::Subsets)
    } else if !same_labels(service, &stored.labels) {
        Some(Reason::Labels)
    } else if mark.map(AsRef::as_ref) != capacity_mark(desired.truncated()) {
        Some(Reason::Capacity)
    } else {
        None
    }
}

/// Whether `stored` says what `subsets` say, in whatever order and grouping.
fn same_subsets(subsets: &[Subset], truncated: bool, stored: &[Subset]) -> bool {
    if subsets == stored {
        return true;
    }
    let stored = pack(stored.to_vec());
    stored.consistent
        && if truncated {
            // What truncation leaves may repack further: two subsets can lose the addresses that set them apart.
            stored.subsets == repack(subsets.to_vec())
        } else {
            stored.subsets == subsets
        }
}

fn same_labels(service: &Service, stored: &Labels) -> bool {
    is_managed(stored) && users_labels(&service.labels).eq(users_labels(stored))
}

/// Whether they say that an endpoints controller writes the object.
pub(crate) fn is_managed(labels: &Labels) -> bool {
    labels.get(MANAGED_BY_LABEL).is_some_and(|value| **value == *MANAGED_BY)
}

/// All labels but the two that we set ourselves.
fn users_labels(labels: &Labels) -> impl Iterator<Item = (&str, &str)> {
    labels
        .iter()
        .map(|(key, value)| (&**key, &**value))
        .filter(|(key, _)| ![HEADLESS_LABEL, MANAGED_BY_LABEL].contains(key))
}

fn final_labels(service: &Service) -> Labels {
    let mut labels = handed_on(service);
    labels.insert(MANAGED_BY_LABEL.into(), MANAGED_BY.into());
    labels
}

/// The labels that a Service hands on to its Endpoints and slices: all, with the headless label set right.
pub(crate) fn handed_on(service: &Service) -> Labels {
    let mut labels = service.labels.clone();
    if service.headless {
        labels.insert(HEADLESS_LABEL.into(), "".into());
    } else {
        labels.remove(HEADLESS_LABEL);
    }
    labels
}

fn capacity_mark(truncated: bool) -> Option<&'static str> {
    truncated.then_some(TRUNCATED)
}

/// Sets an annotation, or takes it away.
pub(crate) fn annotate(annotations: &mut Labels, key: &str, value: Option<&str>) {
    match value {
        Some(value) => annotations.insert(key.into(), value.into()),
        None => annotations.remove(key),
    };
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
