//! The Endpoints as they should be, beside those that are stored.

use super::kept::{APISERVERS, CANARYS, Compared, State, unknown};
use super::objects::{LIST_PODS, Objects};
use crate::endpoints::{TRIGGER_TIME_ANNOTATION, decide, is_managed};
use crate::listing::{self, Listing};
use crate::model::{EndpointsObject, Subset};

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
                let differs = stored.map_or_else(
                    || vec!["there is none".to_owned()],
                    |stored| listing::of_endpoints(stored, &write.content),
                );
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
    let stored = objects.snapshot.endpoints.as_deref();
    let why = if objects.key.is_apiservers_own() {
        APISERVERS
    } else if service.is_canary() {
        CANARYS
    } else if service.is_followed() {
        return None;
    } else {
        match (stored.is_some_and(is_made_by_controller), &service.selector) {
            (true, None) => {
                "made by a controller from a selector that the Service no longer has; nobody changes it now, and its addresses stay as they are"
            }
            (true, Some(_)) => {
                "made by a controller before the Service became an ExternalName Service; nobody changes or removes it"
            }
            (false, None) => "made by hand: the Service has no selector",
            (false, Some(_)) => "made by hand: nobody keeps Endpoints of an ExternalName Service",
        }
    };
    Some(why.to_owned())
}

/// Bears the mark of an endpoints controller, or, from before there was one, the time of the change that it published.
pub(super) fn is_made_by_controller(endpoints: &EndpointsObject) -> bool {
    is_managed(&endpoints.labels) || endpoints.annotations.contains_key(TRIGGER_TIME_ANNOTATION)
}
