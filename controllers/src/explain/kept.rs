//! The Endpoints and slices that should be, beside those that are stored.

use std::sync::Arc;

use k8s_openapi::api::discovery::v1 as discovery;
use serde::Serialize;

use super::Limits;
use super::kept_slices::{compare, foreign, left_alone};
use super::listing::Listing;
use super::objects::Objects;
use crate::endpoints::{Operation as Write, Reason, decide};
use crate::endpointslice::{Matched, Terms, plan_all};
use crate::mirroring;
use crate::model::{EndpointsObject, Manager, ServiceType, Slice, SliceContent, Subset};

/// Differences named of one object.
const NAMED: usize = 8;

/// One object as it should be, beside what is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Compared {
    /// `Endpoints` or `EndpointSlice`.
    pub kind: &'static str,
    /// Its name; none if it is yet to be made and gets its name then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `addressType` of a slice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<&'static str>,
    /// How the two compare.
    #[serde(flatten)]
    pub state: State,
    /// What should be listed.
    pub expected: Vec<Listing>,
    /// What is.
    pub stored: Vec<Listing>,
}

/// How an object that should be compares with the one that is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", content = "why", rename_all = "camelCase")]
pub enum State {
    /// They say the same.
    Same,
    /// They do not, in these points.
    Differs(Vec<String>),
    /// It is somebody else's to keep.
    LeftAlone(String),
}

/// What is expected of one Service. `None` = not known, because something that it depends on may not be read.
#[derive(Debug)]
pub struct Kept {
    /// The Endpoints object, if there is one or should be one.
    pub endpoints: Option<Vec<Compared>>,
    /// The slices.
    pub slices: Option<Vec<Compared>>,
    /// What the Endpoints should list.
    pub subsets: Vec<Subset>,
    /// What the slices made from the selector should hold.
    pub contents: Vec<SliceContent>,
    /// What the mirroring controller has to say.
    pub mirroring: Vec<String>,
    /// Why topology mode `Auto` gives no hints although they are asked for.
    pub topology: Option<String>,
}

impl Kept {
    /// By the rules of the reconcilers.
    pub fn of(objects: &Objects, limits: &Limits) -> Self {
        let mut kept = Self {
            endpoints: None,
            slices: None,
            subsets: Vec::new(),
            contents: Vec::new(),
            mirroring: Vec::new(),
            topology: None,
        };
        let followed = objects.service.is_followed();
        if objects.endpoints_read && (objects.pods.is_some() || !followed) {
            kept.compare_endpoints(objects);
        }
        let pods_known = objects.pods.is_some() && objects.nodes_read;
        let known = if followed { pods_known } else { objects.endpoints_read };
        if let Some(all) = &objects.slices
            && known
        {
            kept.compare_slices(objects, all, limits);
        }
        kept
    }

    fn compare_endpoints(&mut self, objects: &Objects) {
        let (service, snapshot) = (&objects.service, &objects.snapshot);
        let stored = snapshot.endpoints.as_deref();
        let listings = |subsets: &[Subset]| subsets.iter().map(Listing::of_subset).collect::<Vec<_>>();
        let stored_listings = stored.map(|it| listings(&it.subsets)).unwrap_or_default();
        let (state, subsets) = match not_kept(objects) {
            Some(why) => (State::LeftAlone(why), Vec::new()),
            None => match decide(service, &snapshot.pods, stored, None).operation {
                None => (State::Same, stored.map(|it| it.subsets.clone()).unwrap_or_default()),
                Some(write) => {
                    let differs = endpoints_differences(&write, stored, &stored_listings);
                    (State::Differs(differs), write.content.subsets)
                }
            },
        };
        let shown = stored.is_some() || !matches!(state, State::LeftAlone(_));
        let compared = shown.then(|| Compared {
            kind: "Endpoints",
            name: Some(objects.key.name.to_string()),
            family: None,
            state,
            expected: listings(&subsets),
            stored: stored_listings,
        });
        self.endpoints = Some(compared.into_iter().collect());
        self.subsets = subsets;
    }

    fn compare_slices(&mut self, objects: &Objects, all: &[discovery::EndpointSlice], limits: &Limits) {
        let (service, snapshot) = (&objects.service, &objects.snapshot);
        let mut compared = Vec::new();
        let of = |manager: Manager| {
            let mut slices: Vec<&Arc<Slice>> = snapshot.slices.iter().collect();
            slices.retain(|slice| slice.content.manager == manager && !slice.terminating);
            slices.sort_unstable_by(|one, other| one.key.name.cmp(&other.key.name));
            slices
        };
        let ours = !objects.key.is_apiservers_own();
        if service.is_followed() && ours {
            let terms = Terms {
                max: limits.max_endpoints_per_slice,
                trigger: None,
                zones: snapshot.zones.as_deref(),
            };
            let plans = plan_all(
                service,
                Matched::All(&snapshot.pods),
                &snapshot.slices,
                &snapshot.nodes,
                terms,
            );
            let mut plan = plans.others;
            for (_, family) in plans.families {
                plan.merge(family);
            }
            self.topology = plan.refusal.map(|refusal| refusal.to_string());
            self.contents = compare(&of(Manager::Selector), plan, &mut compared);
        } else {
            let why = "made from a selector that the Service no longer has; nobody removes it";
            compared.extend(of(Manager::Selector).into_iter().map(|it| left_alone(it, why)));
        }
        let (endpoints, max) = (snapshot.endpoints.as_deref(), limits.mirroring_max_endpoints_per_subset);
        if ours && objects.endpoints_read {
            let (plan, skipped) = mirroring::plan_all(Some(service), endpoints, &snapshot.slices, max);
            compare(&of(Manager::Mirroring), plan, &mut compared);
            let is_asked_for = endpoints.is_some() || service.kind != ServiceType::ExternalName;
            if service.selector.is_none() && is_asked_for {
                self.mirroring = mirroring_words(objects, skipped.as_ref(), max);
            }
        }
        compared.extend(all.iter().filter_map(foreign));
        self.slices = Some(compared);
    }
}

/// Why the Endpoints of this Service are not kept.
fn not_kept(objects: &Objects) -> Option<String> {
    let service = &objects.service;
    let why = if objects.key.is_apiservers_own() {
        "the apiserver keeps it itself"
    } else if service.kind == ServiceType::ExternalName {
        "an ExternalName Service has no endpoints"
    } else if service.selector.is_none() {
        "made by hand: the Service has no selector"
    } else {
        return None;
    };
    Some(why.to_owned())
}

fn endpoints_differences(write: &Write, stored: Option<&EndpointsObject>, before: &[Listing]) -> Vec<String> {
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

/// The first few of them, and how many more.
pub(super) fn limited(mut words: Vec<String>) -> Vec<String> {
    let more = words.len().saturating_sub(NAMED);
    words.truncate(NAMED);
    if more > 0 {
        words.push(format!("and {more} more"));
    }
    words
}

fn mirroring_words(objects: &Objects, skipped: Option<&mirroring::Skipped>, max: usize) -> Vec<String> {
    let Some(endpoints) = objects.snapshot.endpoints.as_deref() else {
        let name = &objects.key.name;
        return vec![format!("nothing to mirror: there are no Endpoints named {name}")];
    };
    let why = mirroring::unmirrored(&objects.service, endpoints).map(|why| match why {
        mirroring::Unmirrored::Selector => "the Service has a selector".to_owned(),
        mirroring::Unmirrored::SkipLabel => format!("label {}=true on the Endpoints", mirroring::SKIP_LABEL),
        mirroring::Unmirrored::LeaderAnnotation => {
            format!("annotation {} on the Endpoints", mirroring::LEADER_ANNOTATION)
        }
    });
    let mut words = vec![match why {
        Some(why) => format!("the Endpoints are not mirrored: {why}"),
        None => "the Endpoints made by hand are mirrored into EndpointSlices".to_owned(),
    }];
    let Some(skipped) = skipped else { return words };
    if skipped.invalid > 0 {
        words.push(format!("{} addresses are left out: not IP addresses", skipped.invalid));
    }
    if skipped.over_limit > 0 {
        words.push(format!(
            "{} addresses are left out: more than {max} in a subset",
            skipped.over_limit
        ));
    }
    for name in &skipped.doubled_ports {
        words.push(format!("a subset is left out: port name {name:?} stands in it twice"));
    }
    words
}
