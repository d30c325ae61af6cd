//! `spec.clusterIPs` of a Service that gets addresses: one that is new or was an ExternalName, or one that becomes dual-stack
//! (spec/allocation.md 1.7 and 1.8).

use std::net::IpAddr;
use std::time::Instant;

use serde_json::Value as Json;
use svcplane_allocators::books::Book;
use svcplane_allocators::cluster_ips::IpFamily;
use svcplane_allocators::service::Field;
use svcplane_allocators::value::Value;

use super::{
    Asker, CLUSTER_IP_POOL, Filled, Governed, Outcome, Terms, Urgency, Wish, annotation_field, choose, refusal,
    requested_pool, urgency,
};
use crate::address::Written;
use crate::judge::before_allocation;
use crate::ledger::{Families, Ledger, selects};
use crate::review::PatchOperation;
use crate::service::{EXTERNAL_NAME, Service, Spec};

/// Addresses that a Service has, and the families that it needs more of.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub given: Vec<String>,
    pub families: Vec<IpFamily>,
}

/// Chooses them; returns those that must be withdrawn if the Service is refused.
pub(super) fn fill(
    ledger: &mut Ledger,
    asker: &Asker,
    new: &Service,
    old: Option<&Service>,
    terms: Terms,
    filled: &mut Filled,
) -> Vec<IpAddr> {
    let Some(families) = ledger.families() else {
        return Vec::new();
    };
    let Some(Missing { mut given, families }) = missing(new, old, families) else {
        return Vec::new();
    };
    let key = asker.key(Field::ClusterIp);
    let requested = requested_pool(&new.metadata.annotations, CLUSTER_IP_POOL);
    let pool = |name: &str| ledger.cluster_ip_pools.get(name);
    let selects = |name: &str| selects(&ledger.namespaces, pool(name), asker.namespace(), &new.metadata.labels);
    let needs: Vec<_> = families
        .into_iter()
        .map(|family| match family {
            IpFamily::IPv4 => (family, need(&ledger.cluster_ips.ipv4, selects, requested, terms)),
            IpFamily::IPv6 => (family, need(&ledger.cluster_ips.ipv6, selects, requested, terms)),
        })
        .collect();
    let mut chosen = Vec::new();
    for (place, (family, (governance, _))) in needs.iter().enumerate() {
        // The list has no gaps: a second address is chosen only after a first.
        let later = needs.iter().skip(place + 1).map(|(_, (_, urgency))| *urgency).max();
        let wish = Wish {
            key: &key,
            annotation: CLUSTER_IP_POOL,
            governance,
            terms,
            later: later.unwrap_or_default(),
        };
        let outcome = match family {
            IpFamily::IPv4 => choose(&mut ledger.cluster_ips.ipv4, &wish).map(IpAddr::V4),
            IpFamily::IPv6 => choose(&mut ledger.cluster_ips.ipv6, &wish).map(IpAddr::V6),
        };
        match outcome {
            // Without the right CIDR an apiserver refuses a dry run's address (validation.md 11.13).
            Outcome::Chosen(_) if terms.dry_run && ledger.ranges_of(*family, terms.now) != 1 => break,
            Outcome::Chosen(address) => {
                given.push(address.to_string());
                chosen.push(address);
            }
            // The apiserver allocates what comes after.
            Outcome::LeftEmpty => break,
            Outcome::Bypassed => {
                filled.bypassed = true;
                break;
            }
            Outcome::Refused(message) => {
                let field = match requested {
                    Some(_) => annotation_field(CLUSTER_IP_POOL),
                    None => "spec.clusterIPs".into(),
                };
                filled.refused.push(refusal(field, message));
                break;
            }
        }
    }
    if !chosen.is_empty() {
        let set = |field: &str, value: Json| PatchOperation::Add {
            path: format!("/spec/{field}"),
            value,
        };
        if let Some(first) = given.first().filter(|_| new.spec.cluster_ip.is_empty()) {
            filled.patch.push(set("clusterIP", first.clone().into()));
        }
        filled.patch.push(set("clusterIPs", given.into()));
    }
    if terms.dry_run { Vec::new() } else { chosen }
}

/// Which pools serve the Service in a family, and how much it needs a choice; not at all if it asks for a pool that does not serve it, which
/// is told where that family is asked for.
fn need<V: Value>(
    book: &Book<V>,
    selects: impl Fn(&str) -> bool,
    requested: Option<&str>,
    terms: Terms,
) -> (Governed, Urgency) {
    let governed = book.govern(selects, requested);
    let urgency = governed
        .as_ref()
        .map(|governance| urgency(book, governance, terms.allocate));
    let urgency = urgency.unwrap_or_default();
    (governed, urgency)
}

/// Takes back what was chosen for a Service that is refused.
pub(super) fn withdraw(ledger: &mut Ledger, asker: &Asker, chosen: &[IpAddr], now: Instant) {
    let key = asker.key(Field::ClusterIp);
    for address in chosen {
        ledger.cluster_ips.withdraw(&key, *address, now);
    }
}

/// What the apiserver would allocate. Where it would refuse, nothing.
pub(super) fn missing(new: &Service, old: Option<&Service>, cluster: Families) -> Option<Missing> {
    let spec = before_allocation(new, old)?;
    let mut families = families(&spec.ip_families)?;
    for given in spec.cluster_ips.iter().skip(families.len()) {
        families.push(IpFamily::of(Written::parse(given)?.address));
    }
    let is_single = spec.ip_family_policy.as_deref() == Some("SingleStack");
    if spec.ip_family_policy.as_deref() == Some("RequireDualStack") && !cluster.dual {
        return None;
    }
    if families.is_empty() {
        families.push(cluster.primary);
    }
    if let [only] = families.as_slice()
        && !is_single
        && cluster.dual
    {
        let other = other(*only);
        families.push(other);
    }
    let is_known = |family: &IpFamily| cluster.dual || *family == cluster.primary;
    let allocates = old.is_none_or(|old| old.spec.is(EXTERNAL_NAME) || gains_a_family(&spec, old, families.len()));
    let families: Vec<IpFamily> = families.split_off(spec.cluster_ips.len().min(families.len()));
    (allocates && !families.is_empty() && families.iter().all(is_known)).then_some(Missing {
        given: spec.cluster_ips,
        families,
    })
}

/// One address, and now there are to be two.
fn gains_a_family(spec: &Spec, old: &Service, families: usize) -> bool {
    !old.spec.is_headless() && spec.cluster_ips.len() == 1 && families == 2
}

fn families(names: &[String]) -> Option<Vec<IpFamily>> {
    let family = |name: &String| match name.as_str() {
        "IPv4" => Some(IpFamily::IPv4),
        "IPv6" => Some(IpFamily::IPv6),
        _ => None,
    };
    names.iter().map(family).collect()
}

fn other(family: IpFamily) -> IpFamily {
    match family {
        IpFamily::IPv4 => IpFamily::IPv6,
        IpFamily::IPv6 => IpFamily::IPv4,
    }
}
