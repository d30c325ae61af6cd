//! Hints of topology mode `Auto` (KEP-2433): every zone gets endpoints in proportion to its CPUs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::pack::{Batch, Existing, Fate, Packing};
use crate::model::{Extra, Hints, Node, NodeTable, PodEndpoint, boxed};

/// By how much a zone may be overloaded.
const OVERLOAD: f64 = 0.2;

/// The share of each zone in the CPUs of all Nodes that count.
#[derive(Clone, Debug, PartialEq)]
pub struct Zones(BTreeMap<Arc<str>, f64>);

impl Zones {
    /// `None` if a Node that counts has no zone or no CPU, or if there are fewer than two zones.
    pub fn of(nodes: &NodeTable) -> Option<Self> {
        let mut cpus: BTreeMap<Arc<str>, u64> = BTreeMap::new();
        for (node, cpu) in counting(nodes) {
            let zone = node.zone.as_ref().filter(|_| cpu > 0)?;
            let sum = cpus.entry(Arc::clone(zone)).or_default();
            *sum = sum.saturating_add(cpu);
        }
        let total = cpus.values().fold(0, |total: u64, cpu| total.saturating_add(*cpu));
        #[expect(clippy::cast_precision_loss, reason = "thousandths of CPUs")]
        let share = |cpu: u64| cpu as f64 / total as f64;
        (cpus.len() >= 2).then(|| Self(cpus.into_iter().map(|(zone, cpu)| (zone, share(cpu))).collect()))
    }

    /// The Nodes that count and have no zone or no CPU, by name, with what they lack.
    pub fn lacking(nodes: &NodeTable) -> Vec<String> {
        let lack = |(node, cpu): (&Node, u64)| {
            let what = match (&node.zone, cpu) {
                (None, _) => "zone",
                (Some(_), 0) => "allocatable CPU",
                _ => return None,
            };
            Some(format!("Node {} has no {what}", node.name))
        };
        let mut all: Vec<String> = counting(nodes).filter_map(lack).collect();
        all.sort_unstable();
        all
    }
}

fn counting(nodes: &NodeTable) -> impl Iterator<Item = (&Node, u64)> {
    nodes.values().filter_map(|node| Some((node, node.cpu?)))
}

/// Why there are no hints although they are asked for. The words are upstream's: people search for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// See [`Zones::of`].
    InsufficientNodeInfo,
    /// Fewer ready endpoints than zones.
    TooFewEndpoints {
        /// Ready endpoints.
        endpoints: usize,
        /// Zones.
        zones: usize,
    },
    /// The zones' smallest shares add up to more than there is.
    Overload {
        /// Ready endpoints.
        endpoints: usize,
        /// Zones.
        zones: usize,
    },
    /// A ready endpoint has no zone.
    NoZone,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InsufficientNodeInfo => {
                f.write_str("Insufficient Node information: allocatable CPU or zone not specified on one or more nodes")
            }
            Self::TooFewEndpoints { endpoints, zones } => {
                write!(
                    f,
                    "Insufficient number of endpoints ({endpoints} endpoints, {zones} zones)"
                )
            }
            Self::Overload { endpoints, zones } => write!(
                f,
                "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold ({endpoints} endpoints, {zones} zones)"
            ),
            Self::NoZone => f.write_str("One or more endpoints do not have a zone specified"),
        }
    }
}

/// What a zone should get.
struct Share {
    desired: f64,
    maximum: usize,
}

/// Gives every ready endpoint of what is to be written a zone, and leaves slices alone whose hints are good enough; or takes all hints away,
/// and says why.
pub fn assign(packing: &mut Packing, existing: &[Existing], zones: Option<&Zones>) -> Result<(), Refusal> {
    let given = shares(packing, existing, zones).and_then(|shares| hint(packing, existing, &shares));
    if given.is_err() {
        remove(packing, existing);
    }
    given
}

/// Takes all hints away.
pub fn remove(packing: &mut Packing, existing: &[Existing]) {
    let has_hints = |endpoint: &PodEndpoint| endpoint.extra.as_ref().is_some_and(|it| it.hints != Hints::default());
    rewrite_if(packing, existing, |endpoints| endpoints.into_iter().any(has_hints));
    for endpoint in written(packing) {
        set_hint(endpoint, None);
    }
}

fn shares(
    packing: &Packing,
    existing: &[Existing],
    zones: Option<&Zones>,
) -> Result<BTreeMap<Arc<str>, Share>, Refusal> {
    let zones = &zones.ok_or(Refusal::InsufficientNodeInfo)?.0;
    let stays = packing
        .fates
        .iter()
        .zip(existing)
        .filter(|(fate, _)| **fate == Fate::Stays);
    let stored = stays.flat_map(|(_, existing)| pods(existing));
    let becomes = batches(packing).flat_map(|batch| &batch.endpoints);
    let endpoints = stored.chain(becomes).filter(|it| it.conditions.ready).count();
    if zones.len() > endpoints {
        let zones = zones.len();
        return Err(Refusal::TooFewEndpoints { endpoints, zones });
    }
    #[expect(clippy::cast_precision_loss, reason = "a number of Pods")]
    let (all, mut minimum_of_all) = (endpoints as f64, 0);
    let minimum = |share: f64| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 to a number of Pods"
        )]
        let minimum = (share * all * (1.0 / (1.0 + OVERLOAD))).ceil() as usize;
        minimum
    };
    for share in zones.values() {
        minimum_of_all += minimum(*share);
    }
    let Some(spare) = endpoints.checked_sub(minimum_of_all) else {
        let zones = zones.len();
        return Err(Refusal::Overload { endpoints, zones });
    };
    let share_of = |share: f64| {
        let minimum = minimum(share);
        #[expect(clippy::cast_precision_loss, reason = "a number of Pods")]
        let desired = (share * all).max(minimum as f64);
        let maximum = minimum + spare;
        Share { desired, maximum }
    };
    Ok(zones
        .iter()
        .map(|(zone, share)| (Arc::clone(zone), share_of(*share)))
        .collect())
}

fn hint(packing: &mut Packing, existing: &[Existing], shares: &BTreeMap<Arc<str>, Share>) -> Result<(), Refusal> {
    let mut allocated: BTreeMap<Arc<str>, usize> = BTreeMap::new();
    rewrite_if(packing, existing, |endpoints| {
        !count_hints(endpoints, &mut allocated, shares)
    });
    for endpoint in written(packing) {
        let zone = match &endpoint.zone {
            _ if !endpoint.conditions.ready => None,
            None => return Err(Refusal::NoZone),
            Some(zone) => {
                *allocated.entry(Arc::clone(zone)).or_default() += 1;
                Some(Arc::clone(zone))
            }
        };
        set_hint(endpoint, zone);
    }
    let (mut giving, mut receiving) = transfers(shares, &allocated);
    for endpoint in written(packing).filter(|endpoint| endpoint.conditions.ready) {
        let Some(gives) = endpoint.zone.as_ref().and_then(|zone| giving.get_mut(zone)) else {
            continue;
        };
        let Some((receiver, receives)) = receiving.iter_mut().find(|(_, left)| **left > 0) else {
            break;
        };
        if *gives > 0 {
            *gives -= 1;
            *receives -= 1;
            set_hint(endpoint, Some(Arc::clone(receiver)));
        }
    }
    Ok(())
}

/// Adds the hints of a slice that nothing else changes to `allocated`; `false` = it cannot stay like this.
fn count_hints(
    endpoints: Vec<&PodEndpoint>,
    allocated: &mut BTreeMap<Arc<str>, usize>,
    shares: &BTreeMap<Arc<str>, Share>,
) -> bool {
    let mut counts: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
    for endpoint in endpoints {
        let zones = endpoint.extra.as_ref().map_or(&[][..], |extra| &extra.hints.zones);
        if !endpoint.conditions.ready {
            continue;
        }
        if zones.is_empty() {
            return false;
        }
        for zone in zones {
            *counts.entry(zone).or_default() += 1;
        }
    }
    let fits = |(zone, count): (&&Arc<str>, &usize)| {
        let before = allocated.get(*zone).copied().unwrap_or(0);
        shares.get(*zone).is_some_and(|share| before + count <= share.maximum)
    };
    if !counts.iter().all(fits) {
        return false;
    }
    for (zone, count) in counts {
        *allocated.entry(Arc::clone(zone)).or_default() += count;
    }
    true
}

type Transfers = BTreeMap<Arc<str>, usize>;

/// How many endpoints each zone gives to others, and how many each receives: one at a time from the zone with the most too many to the one
/// with the most too few, until that would make it worse.
fn transfers(shares: &BTreeMap<Arc<str>, Share>, allocated: &BTreeMap<Arc<str>, usize>) -> (Transfers, Transfers) {
    let (mut surplus, mut lack) = (Vec::new(), Vec::new());
    for (zone, share) in shares {
        #[expect(clippy::cast_precision_loss, reason = "a number of Pods")]
        let over = allocated.get(zone).copied().unwrap_or(0) as f64 - share.desired;
        if over > 0.0 {
            surplus.push((zone, over));
        } else if over < 0.0 {
            lack.push((zone, -over));
        }
    }
    let (mut giving, mut receiving) = (Transfers::new(), Transfers::new());
    while let (Some((giver, gives)), Some((receiver, receives))) = (most(&mut surplus), most(&mut lack)) {
        if (*gives < 1.0 && *receives < 1.0) || *gives < 0.5 || *receives < 0.5 {
            break;
        }
        *gives -= 1.0;
        *receives -= 1.0;
        *giving.entry(Arc::clone(giver)).or_default() += 1;
        *receiving.entry(Arc::clone(receiver)).or_default() += 1;
    }
    (giving, receiving)
}

fn most<Z>(zones: &mut [(Z, f64)]) -> Option<&mut (Z, f64)> {
    zones.iter_mut().max_by(|one, other| one.1.total_cmp(&other.1))
}

fn pods(existing: &Existing) -> impl Iterator<Item = &PodEndpoint> {
    existing.slice.content.endpoints.iter().filter_map(|it| it.as_pod())
}

/// Slices that nothing else changes are written too if `due` says so of their endpoints.
fn rewrite_if(packing: &mut Packing, existing: &[Existing], mut due: impl FnMut(Vec<&PodEndpoint>) -> bool) {
    for (fate, existing) in packing.fates.iter_mut().zip(existing) {
        if *fate == Fate::Stays && due(pods(existing).collect()) {
            *fate = Fate::Becomes(Batch {
                ports: Arc::clone(&existing.slice.content.ports),
                endpoints: pods(existing).cloned().collect(),
            });
        }
    }
}

fn batches(packing: &Packing) -> impl Iterator<Item = &Batch> {
    let updates = packing.fates.iter().filter_map(|fate| match fate {
        Fate::Becomes(batch) => Some(batch),
        Fate::Stays | Fate::Goes => None,
    });
    packing.creates.iter().chain(updates)
}

/// Every endpoint that is to be written.
fn written(packing: &mut Packing) -> impl Iterator<Item = &mut PodEndpoint> {
    let updates = packing.fates.iter_mut().filter_map(|fate| match fate {
        Fate::Becomes(batch) => Some(batch),
        Fate::Stays | Fate::Goes => None,
    });
    let all = packing.creates.iter_mut().chain(updates);
    all.flat_map(|batch| &mut batch.endpoints)
}

fn set_hint(endpoint: &mut PodEndpoint, zone: Option<Arc<str>>) {
    let extra = Extra {
        hints: Hints {
            zones: zone.into_iter().collect(),
            nodes: Box::default(),
        },
        ..endpoint.extra.take().map_or_else(Extra::default, |extra| *extra)
    };
    endpoint.extra = boxed(extra);
}

#[cfg(test)]
mod tests;
