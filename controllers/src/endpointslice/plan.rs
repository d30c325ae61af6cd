//! The writes that make the stored slices of a Service say what is wanted, and their order.

use std::collections::HashSet;
use std::sync::Arc;

use super::name::name_prefix;
use super::pack::{Batch, Existing, Fate, Packing, pack};
use super::topology::{self, Refusal, Zones};
use super::wanted::Wanted;
use crate::endpoints::{TRIGGER_TIME_ANNOTATION, annotate, handed_on};
use crate::model::{
    Distribution, Endpoint, IpFamily, Labels, Manager, OwnerReference, PodName, Service, Slice, SliceContent,
    Timestamp, fitted,
};

/// Label that names a slice's Service.
pub const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";
/// Label that says which controller writes a slice.
pub const MANAGED_BY_LABEL: &str = "endpointslice.kubernetes.io/managed-by";

/// One write, decided and not yet made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// POST.
    Create(SliceContent),
    /// PUT over exactly this version.
    Update(Arc<Slice>, SliceContent),
    /// DELETE of exactly this version.
    Delete(Arc<Slice>),
}

/// The writes for the slices of one Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Steps: the writes of one may be made in any order, and must have succeeded before the next begins. What lists a Pod comes before
    /// what stops listing it elsewhere: first those that take no Pod from others, then those that do both, then those that only stop;
    /// deletions last.
    pub steps: [Vec<Operation>; 4],
    /// Topology mode `Auto` is asked for and gives no hints.
    pub refusal: Option<Refusal>,
}

impl Plan {
    /// Nothing is to be written.
    pub fn is_empty(&self) -> bool {
        self.steps.iter().all(Vec::is_empty)
    }

    /// Takes in what another plan, for slices that this one does not touch, says.
    pub fn merge(&mut self, other: Self) {
        for (step, more) in self.steps.iter_mut().zip(other.steps) {
            step.extend(more);
        }
        self.refusal = self.refusal.or(other.refusal);
    }
}

/// What [`plan`] goes by.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// Whose slices they are.
    pub manager: Manager,
    /// `--max-endpoints-per-slice`, at least 1.
    pub max: usize,
    /// The time that writes are annotated with, see [`crate::endpoints::TriggerTracker`].
    pub trigger: Option<Timestamp>,
    /// For topology mode `Auto`.
    pub zones: Option<&'a Zones>,
}

/// The writes for the slices of `service` that hold addresses of `family`, where `stored` are all that are there and not being deleted.
///
/// As upstream: the trigger time and users' annotations are no reason to write; a write sets the first and keeps the others, finalizers
/// and owner references. Labels are the Service's but for the three that the controller sets itself; unlike upstream a wrong one of those
/// is a reason to write too.
pub fn plan(service: &Service, family: IpFamily, stored: &[Arc<Slice>], wanted: Wanted, terms: Terms<'_>) -> Plan {
    let labels = final_labels(service, terms.manager);
    let uid = service.uid.to_string();
    let mut existing: Vec<Existing> = stored
        .iter()
        .map(|slice| Existing {
            slice: Arc::clone(slice),
            owned: is_owned(slice, &uid),
            // Of what was right and is not touched by what changed, nothing has to be looked at.
            mislabelled: wanted.is_complete() && slice.content.labels != labels,
        })
        .collect();
    existing.sort_unstable_by(|one, other| one.slice.key.name.cmp(&other.slice.key.name));
    let mut packing = pack(&existing, wanted, terms.max.max(1));
    let refusal = match service.distribution {
        Distribution::Auto => topology::assign(&mut packing, &existing, terms.zones).err(),
        Distribution::Anywhere | Distribution::SameZone | Distribution::SameNode => None,
    };
    let moving = moving(&existing, &packing);
    let mut plan = Plan {
        refusal,
        ..Plan::default()
    };
    let [first, second, third, last] = &mut plan.steps;
    for batch in packing.creates {
        if !service.terminating {
            first.push(Operation::Create(new_slice(service, family, &labels, batch, terms)));
        }
    }
    for (existing, fate) in existing.into_iter().zip(packing.fates) {
        match fate {
            Fate::Stays => {}
            // Hints that had to be given anew may come out as they were.
            Fate::Becomes(batch) if !existing.mislabelled && says_the_same(&existing.slice, &batch) => {}
            Fate::Goes => last.push(Operation::Delete(existing.slice)),
            Fate::Becomes(batch) => {
                let (lists, unlists) = moves(&existing.slice, &batch, &moving);
                let content = rewritten(&existing.slice, &labels, batch, terms.trigger);
                let step = match (lists, unlists) {
                    (_, false) => &mut *first,
                    (true, true) => &mut *second,
                    (false, true) => &mut *third,
                };
                step.push(Operation::Update(existing.slice, content));
            }
        }
    }
    plan
}

/// A slice of a family that the Service does not have goes.
pub fn remove(slices: impl IntoIterator<Item = Arc<Slice>>) -> Plan {
    Plan {
        steps: [
            Vec::new(),
            Vec::new(),
            Vec::new(),
            slices.into_iter().map(Operation::Delete).collect(),
        ],
        refusal: None,
    }
}

fn says_the_same(slice: &Slice, batch: &Batch) -> bool {
    let stored = slice.content.endpoints.iter().map(Endpoint::as_pod);
    slice.content.ports == batch.ports && stored.eq(batch.endpoints.iter().map(Some))
}

type Names<'a> = HashSet<&'a PodName, ahash::RandomState>;

/// Pods that one slice lists today and another one will.
fn moving(existing: &[Existing], packing: &Packing) -> HashSet<PodName, ahash::RandomState> {
    let mut added = Names::default();
    for batch in &packing.creates {
        added.extend(batch_names(batch));
    }
    for (existing, fate) in existing.iter().zip(&packing.fates) {
        if let Fate::Becomes(batch) = fate {
            let had: Names<'_> = names(&existing.slice).collect();
            added.extend(batch_names(batch).filter(|name| !had.contains(name)));
        }
    }
    if added.is_empty() {
        return HashSet::default();
    }
    let touched = existing.iter().zip(&packing.touched).filter(|(_, touched)| **touched);
    let listed = touched.flat_map(|(existing, _)| names(&existing.slice));
    listed.filter(|name| added.contains(name)).cloned().collect()
}

fn names(slice: &Slice) -> impl Iterator<Item = &PodName> {
    let pods = slice.content.endpoints.iter().filter_map(Endpoint::as_pod);
    pods.map(|endpoint| &endpoint.name)
}

fn batch_names(batch: &Batch) -> impl Iterator<Item = &PodName> {
    batch.endpoints.iter().map(|endpoint| &endpoint.name)
}

/// Whether the write lists a Pod that another write takes off its slice, and whether it takes a Pod off this slice that another write lists.
fn moves(slice: &Slice, batch: &Batch, moving: &HashSet<PodName, ahash::RandomState>) -> (bool, bool) {
    if moving.is_empty() {
        return (false, false);
    }
    let (had, has): (Names<'_>, Names<'_>) = (names(slice).collect(), batch_names(batch).collect());
    let lists = has.iter().any(|name| moving.contains(*name) && !had.contains(name));
    let unlists = had.iter().any(|name| moving.contains(*name) && !has.contains(name));
    (lists, unlists)
}

/// Whether the Service of this uid owns it.
fn is_owned(slice: &Slice, uid: &str) -> bool {
    let owners = &slice.content.owner_references;
    owners
        .iter()
        .any(|owner| &*owner.uid == uid && &*owner.kind == "Service" && &*owner.api_version == "v1")
}

/// The labels of every slice of this Service.
fn final_labels(service: &Service, manager: Manager) -> Labels {
    let mut labels = handed_on(service);
    labels.insert(SERVICE_NAME_LABEL.into(), Arc::clone(&service.key.name));
    labels.insert(MANAGED_BY_LABEL.into(), manager.as_str().into());
    labels
}

fn new_slice(service: &Service, family: IpFamily, labels: &Labels, batch: Batch, terms: Terms<'_>) -> SliceContent {
    let owner = OwnerReference::controller("Service", &service.key.name, &service.uid);
    SliceContent {
        service: Arc::clone(&service.key.name),
        manager: terms.manager,
        family: Some(family),
        generate_name: Some(name_prefix(&service.key.name)),
        labels: labels.clone(),
        annotations: annotated(Labels::new(), terms.trigger),
        finalizers: Vec::new(),
        owner_references: vec![owner],
        ports: batch.ports,
        endpoints: fitted(batch.endpoints.into_iter().map(Endpoint::Pod)),
    }
}

fn rewritten(slice: &Slice, labels: &Labels, batch: Batch, trigger: Option<Timestamp>) -> SliceContent {
    let before = &slice.content;
    SliceContent {
        generate_name: before.generate_name.clone(),
        labels: labels.clone(),
        annotations: annotated(before.annotations.clone(), trigger),
        ports: batch.ports,
        endpoints: fitted(batch.endpoints.into_iter().map(Endpoint::Pod)),
        service: Arc::clone(&before.service),
        manager: before.manager,
        family: before.family,
        finalizers: before.finalizers.clone(),
        owner_references: before.owner_references.clone(),
    }
}

fn annotated(mut annotations: Labels, trigger: Option<Timestamp>) -> Labels {
    let trigger = trigger.map(|time| time.to_string());
    annotate(&mut annotations, TRIGGER_TIME_ANNOTATION, trigger.as_deref());
    annotations
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
