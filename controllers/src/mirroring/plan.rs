//! The writes that make the stored mirrored slices say what the Endpoints say.

use std::collections::HashSet;
use std::sync::Arc;

use super::desired::{Mirror, Skipped, is_mirrored, mirror};
use crate::endpoints::TRIGGER_TIME_ANNOTATION;
use crate::endpointslice::{MANAGED_BY_LABEL, Operation, Plan, SERVICE_NAME_LABEL, name_prefix, remove};
use crate::model::{Endpoint, EndpointsObject, Labels, Manager, OwnerReference, Service, Slice, SliceContent};

/// Annotation of `kubectl apply`, which tells of another object.
const LAST_APPLIED_ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// [`mirror`] and [`plan`] for the Endpoints of one Service, or [`remove`] if they are not mirrored. Of `stored`, all slices that name it,
/// those of other controllers and those that are being deleted do not count. What is left out of the mirror comes with the plan.
pub fn plan_all(
    service: Option<&Service>,
    endpoints: Option<&EndpointsObject>,
    stored: &[Arc<Slice>],
    max: usize,
) -> (Plan, Option<Skipped>) {
    let counts = |slice: &&Arc<Slice>| slice.content.manager == Manager::Mirroring && !slice.terminating;
    let stored: Vec<Arc<Slice>> = stored.iter().filter(counts).cloned().collect();
    let both = endpoints.zip(service);
    let mirrored = both.filter(|(endpoints, service)| is_mirrored(service, endpoints));
    match mirrored {
        Some((endpoints, _)) => {
            let mirrored = mirror(endpoints, max);
            (plan(endpoints, mirrored.slices, &stored), Some(mirrored.skipped))
        }
        None => (remove(stored), None),
    }
}

/// The writes that turn `stored`, all mirrored slices of these Endpoints that are not being deleted, into `mirrors`.
///
/// As upstream: one slice for each, with all labels of the Endpoints, and all annotations but the trigger time and kubectl's; it is written
/// if any of that, its endpoints or its owner differ, and others go. A slice to be made takes over one of its family that is to go, the
/// one that has most of the same addresses.
pub fn plan(endpoints: &EndpointsObject, mirrors: Vec<Mirror>, stored: &[Arc<Slice>]) -> Plan {
    let mut left: Vec<&Arc<Slice>> = stored.iter().collect();
    left.sort_unstable_by(|one, other| one.key.name.cmp(&other.key.name));
    let mut plan = Plan::default();
    let [writes, .., deletes] = &mut plan.steps;
    let mut homeless = Vec::new();
    for mirror in mirrors {
        let fits =
            |slice: &&Arc<Slice>| slice.content.family == Some(mirror.family) && slice.content.ports == mirror.ports;
        match left.iter().position(fits) {
            Some(place) => update(writes, endpoints, left.remove(place), mirror),
            None => homeless.push(mirror),
        }
    }
    for mirror in homeless {
        let of_family = left
            .iter()
            .enumerate()
            .filter(|(_, it)| it.content.family == Some(mirror.family));
        match of_family
            .max_by_key(|(_, slice)| shared(slice, &mirror))
            .map(|(place, _)| place)
        {
            Some(place) => update(writes, endpoints, left.remove(place), mirror),
            None if endpoints.terminating => {}
            None => writes.push(Operation::Create(content(endpoints, mirror, None))),
        }
    }
    deletes.extend(left.into_iter().map(|slice| Operation::Delete(Arc::clone(slice))));
    plan
}

fn update(writes: &mut Vec<Operation>, endpoints: &EndpointsObject, slice: &Arc<Slice>, mirror: Mirror) {
    let content = content(endpoints, mirror, Some(&slice.content));
    if content != slice.content {
        writes.push(Operation::Update(Arc::clone(slice), content));
    }
}

/// How many addresses a slice has in common with what is to be mirrored.
fn shared(slice: &Slice, mirror: &Mirror) -> usize {
    let wanted: HashSet<&[Box<str>], ahash::RandomState> = mirror.endpoints.iter().map(|it| &*it.addresses).collect();
    let stored = slice.content.endpoints.iter().filter(|endpoint| match endpoint {
        Endpoint::Other(other) => wanted.contains(&*other.addresses),
        Endpoint::Pod(_) => false,
    });
    stored.count()
}

fn content(endpoints: &EndpointsObject, mirror: Mirror, before: Option<&SliceContent>) -> SliceContent {
    let mut labels = endpoints.labels.clone();
    labels.insert(SERVICE_NAME_LABEL.into(), Arc::clone(&endpoints.key.name));
    labels.insert(MANAGED_BY_LABEL.into(), Manager::Mirroring.as_str().into());
    let mut annotations: Labels = endpoints.annotations.clone();
    annotations.remove(TRIGGER_TIME_ANNOTATION);
    annotations.remove(LAST_APPLIED_ANNOTATION);
    let owner = OwnerReference::controller("Endpoints", &endpoints.key.name, &endpoints.uid);
    let mut content = SliceContent {
        service: Arc::clone(&endpoints.key.name),
        manager: Manager::Mirroring,
        family: Some(mirror.family),
        generate_name: match before {
            Some(before) => before.generate_name.clone(),
            None => Some(name_prefix(&endpoints.key.name)),
        },
        labels,
        annotations,
        finalizers: before.map(|it| it.finalizers.clone()).unwrap_or_default(),
        owner_references: vec![owner],
        ports: mirror.ports,
        endpoints: mirror
            .endpoints
            .into_iter()
            .map(|endpoint| Endpoint::Other(Box::new(endpoint)))
            .collect(),
    };
    if let Some(before) = before {
        keep_order(&mut content, before);
    }
    content
}

/// The order of endpoints means nothing: if only that differs, the stored one stands.
fn keep_order(content: &mut SliceContent, before: &SliceContent) {
    if content.endpoints == before.endpoints || content.endpoints.len() != before.endpoints.len() {
        return;
    }
    if sorted(&content.endpoints) == sorted(&before.endpoints) {
        content.endpoints.clone_from(&before.endpoints);
    }
}

fn sorted(endpoints: &[Endpoint]) -> Vec<&Endpoint> {
    let mut all: Vec<&Endpoint> = endpoints.iter().collect();
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests;
