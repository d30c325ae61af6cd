//! The Endpoints as they should be, beside those that are stored.

use super::kept::{APISERVERS, CANARYS, Compared, State, limited, unknown};
use super::listing::Listing;
use super::objects::{LIST_PODS, Objects};
use crate::endpoints::{Operation as Write, Reason, decide};
use crate::model::{EndpointsObject, ServiceType, Subset};

/// The object, if there is one or should be one, or if that is not known; and what it should list. `None` = it may not be read.
pub fn compare(objects: &Objects) -> (Option<Vec<Compared>>, Vec<Subset>) {
    let (service, snapshot) = (&objects.service, &objects.snapshot);
    let stored = snapshot.endpoints.as_deref();
    let listings = |subsets: &[Subset]| subsets.iter().map(Listing::of_subset).collect::<Vec<_>>();
    let stored_listings = stored.map(|it| listings(&it.subsets)).unwrap_or_default();
    let (state, subsets) = if let Some(why) = not_kept(objects) {
        (State::LeftAlone(why), Vec::new())
    } else if let Some(why) = unknown(&[(objects.pods.is_some(), LIST_PODS)]) {
        (State::NotKnown(why), Vec::new())
    } else {
        match decide(service, &snapshot.pods, stored, None).operation {
            None => (State::Same, stored.map(|it| it.subsets.clone()).unwrap_or_default()),
            Some(write) => {
                let differs = differences(&write, stored, &stored_listings);
                (State::Differs(differs), write.content.subsets)
            }
        }
    };
    let shown = stored.is_some() || !matches!(state, State::LeftAlone(_));
    let is_named = stored.is_some() || !matches!(state, State::NotKnown(_));
    let compared = shown.then(|| Compared {
        kind: "Endpoints",
        name: is_named.then(|| objects.key.name.to_string()),
        family: None,
        state,
        expected: listings(&subsets),
        stored: stored_listings,
    });
    let read = objects.endpoints_read;
    (read.then(|| compared.into_iter().collect()), subsets)
}

/// Why the Endpoints of this Service are not kept.
fn not_kept(objects: &Objects) -> Option<String> {
    let service = &objects.service;
    let why = if objects.key.is_apiservers_own() {
        APISERVERS
    } else if service.is_canary() {
        CANARYS
    } else if service.kind == ServiceType::ExternalName {
        "an ExternalName Service has no endpoints"
    } else if service.selector.is_none() {
        "made by hand: the Service has no selector"
    } else {
        return None;
    };
    Some(why.to_owned())
}

fn differences(write: &Write, stored: Option<&EndpointsObject>, before: &[Listing]) -> Vec<String> {
    match (write.reason, stored) {
        (Reason::Missing, _) | (_, None) => vec!["there is none".to_owned()],
        (Reason::Labels, _) => vec!["labels are not those of the Service".to_owned()],
        (Reason::Capacity, _) => vec!["lists too many addresses, or its over-capacity annotation is wrong".to_owned()],
        (Reason::Subsets, _) => {
            let after: Vec<Listing> = write.content.subsets.iter().map(Listing::of_subset).collect();
            let none = Listing::default();
            let pair = |after: &Listing| {
                let same = before.iter().find(|before| before.ports == after.ports);
                same.unwrap_or(&none).differences(after)
            };
            let gone = before
                .iter()
                .filter(|it| after.iter().all(|after| after.ports != it.ports));
            let gone = gone.map(|it| {
                format!(
                    "-{}",
                    if it.ports.is_empty() {
                        "no ports".to_owned()
                    } else {
                        it.ports.join(" ")
                    }
                )
            });
            limited(after.iter().flat_map(pair).chain(gone).collect())
        }
    }
}
