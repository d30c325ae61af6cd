//! Hints of topology mode `Auto` (KEP-2433), by rule: which endpoint is meant for which zone is a matter of chance, how many are is not.

use std::collections::BTreeMap;

use super::super::model::World;
use super::super::ops::Node;
use super::super::snapshot::{Listed, SlicesContent};

/// By how much a zone may be overloaded.
const OVERLOAD: f64 = 0.2;

/// What is wrong with the hints of a Service that asks for them.
pub fn fault(world: &World, content: &SlicesContent) -> Option<&'static str> {
    let shares = shares(world.nodes.values());
    ["IPv4", "IPv6"].into_iter().find_map(|family| {
        let listed: Vec<&Listed> = content.of_family(family).collect();
        fault_of_family(shares.as_ref(), &listed)
    })
}

/// Whether a ready endpoint is in no zone whose Nodes count: the reference never has its hint for good.
pub fn is_outside_zones(world: &World, content: &SlicesContent) -> bool {
    let shares = shares(world.nodes.values());
    let counts = |zone: &String| shares.as_ref().is_some_and(|shares| shares.contains_key(zone.as_str()));
    let mut ready = content.endpoints().filter(|it| it.ready == Some(true));
    shares.is_some() && ready.any(|it| !it.zone.as_ref().is_some_and(counts))
}

/// The share of each zone in the CPUs of the Nodes that count; `None` if one of them lacks a zone or CPUs, or if there are
/// fewer than two zones.
fn shares<'a>(nodes: impl Iterator<Item = &'a Node>) -> Option<BTreeMap<&'a str, f64>> {
    let mut cpus: BTreeMap<&str, u32> = BTreeMap::new();
    for node in nodes.filter(|node| node.ready && !node.control_plane) {
        let zone = node.zone.as_deref().filter(|_| node.cpus > 0)?;
        *cpus.entry(zone).or_default() += node.cpus;
    }
    let total = f64::from(cpus.values().sum::<u32>());
    (cpus.len() > 1).then(|| {
        cpus.into_iter()
            .map(|(zone, cpus)| (zone, f64::from(cpus) / total))
            .collect()
    })
}

fn fault_of_family(shares: Option<&BTreeMap<&str, f64>>, listed: &[&Listed]) -> Option<&'static str> {
    let (ready, others): (Vec<&Listed>, Vec<&Listed>) = listed.iter().copied().partition(|it| it.ready == Some(true));
    if others.iter().any(|it| !it.for_zones.is_empty()) {
        return Some("svcplane's: an endpoint that is not ready has a hint");
    }
    let most = shares.filter(|_| ready.iter().all(|it| it.zone.is_some()));
    let Some(most) = most.and_then(|shares| most_of(shares, ready.len())) else {
        let hinted = ready.iter().any(|it| !it.for_zones.is_empty());
        return hinted.then_some("svcplane's: there are hints where there should be none");
    };
    let mut counts: BTreeMap<&str, f64> = BTreeMap::new();
    for endpoint in ready {
        let [zone] = endpoint.for_zones.as_slice() else {
            return Some("svcplane's: a ready endpoint has not just one hint");
        };
        // A zone without a Node that counts takes no part: it keeps its own.
        if most.contains_key(zone.as_str()) || endpoint.zone.as_ref() != Some(zone) {
            *counts.entry(zone).or_default() += 1.0;
        }
    }
    let fits = |(zone, count): (&&str, &f64)| most.get(*zone).is_some_and(|most| count <= most);
    (!counts.iter().all(fits)).then_some("svcplane's: a zone is meant to get more endpoints than it should")
}

/// How many of so many ready endpoints each zone may get at most; `None` if there can be no hints.
fn most_of<'a>(shares: &BTreeMap<&'a str, f64>, ready: usize) -> Option<BTreeMap<&'a str, f64>> {
    #[expect(clippy::cast_precision_loss, reason = "a number of Pods")]
    let all = ready as f64;
    let least = |share: f64| (share * all / (1.0 + OVERLOAD)).ceil();
    let spare = all - shares.values().map(|share| least(*share)).sum::<f64>();
    // What was hinted before may stay up to the least and all that is to spare; what is hinted anew stops within one of the share.
    let most = |share: f64| (least(share) + spare).max((share * all).max(least(share)) + 1.0);
    (shares.len() <= ready && spare >= 0.0).then(|| shares.iter().map(|(zone, share)| (*zone, most(*share))).collect())
}

#[cfg(test)]
mod tests;
