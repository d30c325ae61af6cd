//! What is wanted of each Pod, and what has become of it while the existing slices are gone through.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::desired::Group;
use super::pack::Existing;
use crate::model::{Endpoint, Extra, Hints, PodEndpoint, PodName, Slice, boxed};

/// What is wanted of the Pods of one Service in the slices of one family.
#[derive(Debug, Default)]
pub struct Wanted {
    pods: HashMap<PodName, Option<Listed>, ahash::RandomState>,
    /// Every Pod that the Service matches is in here. Otherwise: those that changed, and the others stand as they are stored.
    complete: bool,
    /// Hints are none of a Pod's own business (topology mode `Auto`): stored ones stand where nothing else changes.
    hints_apart: bool,
}

#[derive(Debug)]
struct Listed {
    group: Group,
    endpoint: PodEndpoint,
    /// A slice has it.
    placed: bool,
    /// The place of the slice that had it and cannot keep it.
    home: Option<usize>,
}

/// A Pod that needs a place.
#[derive(Debug)]
pub(super) struct Homeless {
    pub endpoint: PodEndpoint,
    /// The place of the slice that has it until then.
    pub home: Option<usize>,
}

pub(super) enum Verdict {
    /// Stands as it is stored.
    Same,
    /// Stays in its slice, with this content.
    Replaced(PodEndpoint),
    /// Must not be in this slice.
    Dropped,
}

impl Wanted {
    /// All Pods that the Service matches, or only those that changed.
    pub fn new(complete: bool, hints_apart: bool) -> Self {
        Self {
            complete,
            hints_apart,
            ..Self::default()
        }
    }

    /// Says what is wanted of one Pod: the result of [`super::Desired::endpoint`], or `None` for one that is gone or not listed.
    pub fn say(&mut self, pod: PodName, listed: Option<(Group, PodEndpoint)>) {
        let listed = listed.map(|(group, endpoint)| Listed {
            group,
            endpoint,
            placed: false,
            home: None,
        });
        self.pods.insert(pod, listed);
    }

    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Which of the slices, by their places, hold a Pod of which something is said. The others stand as they are.
    pub(super) fn touched(&self, slices: &[Existing]) -> Vec<bool> {
        let mut touched = vec![self.complete; slices.len()];
        if self.complete {
            return touched;
        }
        let names: Vec<&PodName> = self.pods.keys().collect();
        // Names are shared: most often that one is found without looking at the text of thousands of others, which lie all over the memory.
        let found = mark(&mut touched, slices, &names, Arc::ptr_eq);
        let rest = names
            .into_iter()
            .zip(found)
            .filter_map(|(name, found)| (!found).then_some(name));
        mark(&mut touched, slices, &rest.collect::<Vec<_>>(), PartialEq::eq);
        touched
    }

    /// What becomes of an endpoint that `slice`, at this place of the list, holds. The first slice that may keep a Pod does.
    pub(super) fn judge(&mut self, stored: &Endpoint, slice: &Slice, place: usize) -> Verdict {
        let Endpoint::Pod(stored) = stored else {
            return Verdict::Dropped;
        };
        let listed = match self.pods.get_mut(&stored.name) {
            None if self.complete => return Verdict::Dropped,
            None => return Verdict::Same,
            Some(None) => return Verdict::Dropped,
            Some(Some(listed)) => listed,
        };
        if listed.placed {
            return Verdict::Dropped;
        }
        if listed.group != slice.content.ports {
            listed.home.get_or_insert(place);
            return Verdict::Dropped;
        }
        listed.placed = true;
        if listed.endpoint == *stored || (self.hints_apart && is_same_but_for_hints(&listed.endpoint, stored)) {
            return Verdict::Same;
        }
        Verdict::Replaced(listed.endpoint.clone())
    }

    /// The slice at this place has no room for it after all.
    pub(super) fn evict(&mut self, pod: &PodName, place: usize) {
        if let Some(Some(listed)) = self.pods.get_mut(pod) {
            listed.placed = false;
            listed.home = Some(place);
        }
    }

    /// Those that no slice has, by group and in the order of their names.
    pub(super) fn homeless(self) -> BTreeMap<Group, Vec<Homeless>> {
        let mut groups: BTreeMap<Group, Vec<Homeless>> = BTreeMap::new();
        for listed in self.pods.into_values().flatten().filter(|listed| !listed.placed) {
            let Listed {
                group, endpoint, home, ..
            } = listed;
            groups.entry(group).or_default().push(Homeless { endpoint, home });
        }
        for pods in groups.values_mut() {
            pods.sort_unstable_by(|one, other| one.endpoint.name.cmp(&other.endpoint.name));
        }
        groups
    }
}

/// Marks the slices that hold one of these Pods, and says which of them were found.
fn mark(
    touched: &mut [bool],
    slices: &[Existing],
    names: &[&PodName],
    is_same: impl Fn(&PodName, &PodName) -> bool,
) -> Vec<bool> {
    let mut found = vec![false; names.len()];
    if names.is_empty() {
        return found;
    }
    for (existing, touched) in slices.iter().zip(touched) {
        for pod in existing.slice.content.endpoints.iter().filter_map(Endpoint::as_pod) {
            for (name, found) in names.iter().zip(&mut found) {
                if is_same(name, &pod.name) {
                    (*touched, *found) = (true, true);
                }
            }
        }
    }
    found
}

fn is_same_but_for_hints(wanted: &PodEndpoint, stored: &PodEndpoint) -> bool {
    let Some(extra) = &stored.extra else { return false };
    let bare = Extra {
        hints: Hints::default(),
        ..(**extra).clone()
    };
    let bare = PodEndpoint {
        extra: boxed(bare),
        ..stored.clone()
    };
    *wanted == bare
}
