//! The Endpoints and slices that should be, beside those that are stored.

use std::sync::Arc;

use serde::Serialize;

use super::Limits;
use super::kept_endpoints::{self, is_made_by_controller};
use super::kept_slices::{compare, foreign, left_alone, not_known};
use super::objects::{GET_ENDPOINTS, LIST_NODES, LIST_PODS, Objects, no_permission};
use crate::endpointslice::{Matched, Refusal, Terms, Zones, plan_all};
use crate::listing::{Listing, limited};
use crate::mirroring;
use crate::model::{Manager, ServiceType, Slice, SliceContent, Subset};

/// Why nobody else keeps what the apiserver writes for `default/kubernetes`.
pub(super) const APISERVERS: &str = "the apiserver keeps it itself";
/// Of slices that a controller once made for `default/kubernetes`.
pub(super) const CANARYS: &str = "made for a canary: a built-in controller lives, or did";
const NOBODYS: &str = "the apiserver keeps another one for this Service; nobody removes this one";
/// Of what is missing in a namespace that is being deleted.
const ENDING: &str = "there is none, and none can be made: the namespace is being deleted";

/// One object as it should be, beside what is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Compared {
    /// `Endpoints` or `EndpointSlice`.
    pub kind: &'static str,
    /// Its name; none if it is yet to be made and gets its name then, or if none is stored and it is not known whether one should be.
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
    /// What should be stored is not known.
    NotKnown(String),
}

impl State {
    /// What is stored is not what should be.
    pub fn differs(&self) -> bool {
        matches!(self, Self::Differs(_))
    }
}

/// What is expected of one Service. `None` = what is stored may not be read.
#[derive(Debug)]
pub struct Kept {
    /// The Endpoints object, if there is one or should be one, or if that is not known.
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
        let (endpoints, subsets) = kept_endpoints::compare(objects);
        let mut kept = Self {
            endpoints,
            slices: None,
            subsets,
            contents: Vec::new(),
            mirroring: Vec::new(),
            topology: None,
        };
        let mut slices = kept.selected(objects, limits);
        slices.extend(kept.mirrored(objects, limits));
        kept.slices = objects.slices.as_deref().map(|all| {
            slices.extend(all.iter().filter_map(|slice| foreign(slice, &objects.key)));
            slices
        });
        if objects.namespace_ends {
            let all = kept.endpoints.iter_mut().chain(&mut kept.slices).flatten();
            for missing in all.filter(|it| it.stored.is_empty() && it.state.differs()) {
                missing.state = State::LeftAlone(ENDING.to_owned());
            }
        }
        kept
    }

    /// The slices that the Pods are listed in.
    fn selected(&mut self, objects: &Objects, limits: &Limits) -> Vec<Compared> {
        let (service, snapshot) = (&objects.service, &objects.snapshot);
        let stored = stored(objects, Manager::Selector);
        if objects.key.is_apiservers_own() {
            return left_alone(&stored, NOBODYS);
        }
        if service.is_canary() {
            return left_alone(&stored, CANARYS);
        }
        if !service.is_followed() {
            let why = if service.selector.is_none() {
                "made from a selector that the Service no longer has; nobody changes or removes it"
            } else {
                "made before the Service became an ExternalName Service; nobody changes or removes it"
            };
            return left_alone(&stored, why);
        }
        let needed = [(objects.pods.is_some(), LIST_PODS), (objects.nodes_read, LIST_NODES)];
        if let Some(why) = unknown(&needed) {
            return not_known(&stored, &why);
        }
        let terms = Terms {
            manager: Manager::Selector,
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
        self.topology = plan.refusal.map(|refusal| refused(refusal, objects));
        let (compared, contents) = compare(&stored, plan);
        self.contents = contents;
        compared
    }

    /// The slices that Endpoints made by hand are mirrored into.
    fn mirrored(&mut self, objects: &Objects, limits: &Limits) -> Vec<Compared> {
        let (service, snapshot) = (&objects.service, &objects.snapshot);
        let stored = stored(objects, Manager::Mirroring);
        if objects.key.is_apiservers_own() {
            return left_alone(&stored, NOBODYS);
        }
        // With a selector nothing is mirrored, whatever the Endpoints say.
        let known = objects.endpoints_read || service.selector.is_some();
        if let Some(why) = unknown(&[(known, GET_ENDPOINTS)]) {
            return not_known(&stored, &why);
        }
        let (endpoints, max) = (snapshot.endpoints.as_deref(), limits.mirroring_max_endpoints_per_subset);
        let (plan, skipped) = mirroring::plan_all(Some(service), endpoints, &snapshot.slices, max);
        let is_asked_for = endpoints.is_some() || service.kind != ServiceType::ExternalName;
        if service.selector.is_none() && is_asked_for {
            self.mirroring = mirroring_words(objects, skipped.as_ref(), max);
        }
        let (compared, _) = compare(&stored, plan);
        compared
    }
}

/// Those of one manager that are not being deleted, by name.
fn stored(objects: &Objects, manager: Manager) -> Vec<&Arc<Slice>> {
    let mut slices: Vec<&Arc<Slice>> = objects.snapshot.slices.iter().collect();
    slices.retain(|slice| slice.content.manager == manager && !slice.terminating);
    slices.sort_unstable_by(|one, other| one.key.name.cmp(&other.key.name));
    slices
}

/// Why it is not known what should be stored, if it is not. `needed`: whether something could be read, and the right to read it.
pub(super) fn unknown(needed: &[(bool, &str)]) -> Option<String> {
    let missing: Vec<&str> = needed
        .iter()
        .filter(|(read, _)| !read)
        .map(|(_, right)| *right)
        .collect();
    (!missing.is_empty()).then(|| no_permission(&missing.join(" and ")))
}

/// The words of upstream, and the Nodes that are to blame.
fn refused(refusal: Refusal, objects: &Objects) -> String {
    if refusal != Refusal::InsufficientNodeInfo {
        return refusal.to_string();
    }
    let lacking = Zones::lacking(&objects.snapshot.nodes);
    if lacking.is_empty() {
        return format!("{refusal} (Nodes that count are in fewer than two zones)");
    }
    format!("{refusal} ({})", limited(lacking).join(", "))
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
        None if is_made_by_controller(endpoints) => {
            "the Endpoints that a controller has made are mirrored into EndpointSlices: without a selector their addresses stay as they are"
                .to_owned()
        }
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

#[cfg(test)]
mod tests;
