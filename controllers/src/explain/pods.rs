//! Which of the Pods that a Service matches are in, which are out, and why.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use serde::Serialize;

use super::kept::Kept;
use super::named_ports::NamedPorts;
use super::objects::{LIST_NODES, Objects, no_permission};
use super::pod_words::{notes, why};
use crate::endpoints::{self, Unlisted};
use crate::endpointslice::Desired;
use crate::listing::{Listed, Listing};
use crate::model::{IpFamily, Pod};

/// How a Pod stands where that cannot be told.
pub const NOT_KNOWN: &str = "not known";

/// A Pod that the Service matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SeenAs {
    /// `metadata.name`.
    pub name: String,
    /// `status.podIPs`.
    pub addresses: Vec<String>,
    /// `spec.nodeName`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// All in all.
    pub mark: Mark,
    /// Where it stands, and how.
    pub verdicts: Vec<Verdict>,
    /// What explains it.
    pub notes: Vec<String>,
}

/// Whether clients are sent to a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Mark {
    /// It is ready wherever it could be.
    In,
    /// Ready in one place and not in another.
    Partly,
    /// Nowhere ready.
    Out,
    /// What decides it may not be read.
    NotKnown,
}

impl Mark {
    fn of(verdicts: &[Verdict]) -> Self {
        let ready = verdicts.iter().filter(|verdict| verdict.ready).count();
        if verdicts.iter().any(|verdict| verdict.standing == NOT_KNOWN) {
            Self::NotKnown
        } else if ready == 0 {
            Self::Out
        } else if ready == verdicts.len() {
            Self::In
        } else {
            Self::Partly
        }
    }
}

/// How a Pod stands in one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// `Endpoints`, `IPv4 slices` or `IPv6 slices`.
    pub place: &'static str,
    /// See [`Listed::standing`]; `out` if it is not listed, `not known` if that hangs on what may not be read.
    pub standing: &'static str,
    /// Ready there.
    pub ready: bool,
    /// The ports that lead to it.
    pub ports: Vec<String>,
    /// Why it is not listed, or not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The Pods that the Service matches, by name; `ports`: its named ports. `None` = Pods may not be read.
pub fn seen(objects: &Objects, ports: &NamedPorts<'_>, kept: &Kept) -> Option<Vec<SeenAs>> {
    let seen = objects.pods.as_ref()?;
    if !objects.service.is_followed() {
        return Some(Vec::new());
    }
    let mut pods: Vec<&Arc<Pod>> = objects.snapshot.pods.iter().collect();
    pods.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    let places = Places::of(objects, kept);
    let mut all = Vec::new();
    for pod in pods {
        let Some(full) = seen.get(&pod.name).map(|seen| &seen.full) else {
            continue;
        };
        let verdicts: Vec<Verdict> = places
            .verdicts(objects, pod)
            .into_iter()
            .map(|judged| worded(pod, full, judged))
            .collect();
        all.push(SeenAs {
            name: pod.name.to_string(),
            addresses: pod.ips.iter().map(ToString::to_string).collect(),
            node: pod.node_name.as_deref().map(Into::into),
            mark: Mark::of(&verdicts),
            notes: notes(&objects.service, ports, pod, full),
            verdicts,
        });
    }
    Some(all)
}

/// Ports and state under which a Pod is to be listed.
type Found<'a> = &'a (Vec<String>, Listed);

/// A place, the family that counts there, and how the Pod is listed or why it is not; `None` = not known.
type Judged<'a> = (
    &'static str,
    Option<IpFamily>,
    Option<Result<Found<'a>, Option<Unlisted>>>,
);

/// What is to be listed, by target.
type Table = HashMap<String, (Vec<String>, Listed)>;

struct Places {
    endpoints: Table,
    slices: Vec<(IpFamily, Table)>,
}

impl Places {
    fn of(objects: &Objects, kept: &Kept) -> Self {
        let of_family = |family| {
            let contents = kept.contents.iter().filter(move |it| it.family == Some(family));
            table(contents.map(Listing::of_slice))
        };
        let families = objects.service.families();
        Self {
            endpoints: table(kept.subsets.iter().map(Listing::of_subset)),
            slices: families.map(|family| (family, of_family(family))).collect(),
        }
    }

    fn verdicts(&self, objects: &Objects, pod: &Pod) -> Vec<Judged<'_>> {
        let service = &objects.service;
        let target = format!("Pod {}", pod.name);
        // One that should be listed and is not has found no room.
        let why = || endpoints::verdict(service, pod).err();
        let found = self.endpoints.get(&target).ok_or_else(why);
        let mut verdicts = vec![("Endpoints", service.family, Some(found))];
        for (family, table) in &self.slices {
            let why = || {
                Desired::new(service, *family, &objects.snapshot.nodes)
                    .verdict(pod)
                    .err()
            };
            let place = match family {
                IpFamily::V4 => "IPv4 slices",
                IpFamily::V6 => "IPv6 slices",
            };
            let found = objects.nodes_read.then(|| table.get(&target).ok_or_else(why));
            verdicts.push((place, Some(*family), found));
        }
        verdicts
    }
}

/// A Pod that stands in several subsets has the ports of all.
fn table(listings: impl Iterator<Item = Listing>) -> Table {
    let mut table = Table::new();
    for listing in listings {
        for listed in listing.endpoints {
            let Some(target) = listed.target.clone() else { continue };
            let (ports, _) = table.entry(target).or_insert_with(|| (Vec::new(), listed));
            ports.extend(listing.ports.iter().cloned());
            ports.sort();
        }
    }
    table
}

fn worded(pod: &Pod, full: &core::Pod, (place, family, verdict): Judged<'_>) -> Verdict {
    let unlisted = |standing, why| Verdict {
        place,
        standing,
        ready: false,
        ports: Vec::new(),
        why: Some(why),
    };
    match verdict {
        Some(Ok((ports, listed))) => Verdict {
            place,
            standing: listed.standing(),
            ready: listed.ready,
            ports: ports.clone(),
            why: None,
        },
        Some(Err(cause)) => unlisted("out", why(cause, family, pod, full)),
        // Pods are known, or there would be none to speak of.
        None => unlisted(NOT_KNOWN, no_permission(LIST_NODES)),
    }
}
