//! Rules on `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy` (validation.md 4.4, 5, 7).

use ahash::AHashSet;

use super::prepare::{is_ipv6, is_single_stack};
use super::{Case, Rule};
use crate::address::Written;
use crate::cause::{Findings, quoted};
use crate::service::{EXTERNAL_NAME, HEADLESS, Spec};

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];

/// `ValidateServiceClusterIPsRelatedFields`: before allocation, where the apiserver looks no further, and again after it.
pub(super) const RULES: &[Rule] = &[
    Rule::new("spec.clusterIP", "the first of clusterIPs", same_first),
    Rule::new(
        "spec.clusterIPs[]",
        "clusterIP when clusterIPs is there",
        cluster_ip_present,
    ),
    Rule::new("spec.ipFamilies[]", "IPv4 or IPv6", known_family),
    Rule::new("spec.ipFamilies[]", "each once", family_twice),
    Rule::new("spec.ipFamilyPolicy", "a known policy", known_policy),
    Rule::new("spec.clusterIPs[]", "None alone", none_alone),
    Rule::new("spec.clusterIPs[]", "addresses", addresses),
    Rule::new("spec.clusterIPs[]", "at most two", at_most_two),
    Rule::new("spec.clusterIPs[]", "one of each family", one_per_family),
    Rule::new("spec.clusterIPs[]", "the families of ipFamilies", family_matches),
];

/// What the apiserver's allocator checks of the policy; no state and no flag is asked for it.
pub(super) const POLICY: &[Rule] = &[
    Rule::new(
        "spec.ipFamilyPolicy",
        "SingleStack to give up a second address",
        second_address_released,
    ),
    Rule::new(
        "spec.ipFamilyPolicy",
        "SingleStack to give up a second family",
        second_family_released,
    ),
    Rule::new(
        "spec.ipFamilyPolicy",
        "a dual-stack policy for two addresses or families",
        two_on_single_stack,
    ),
];

pub(super) const UPDATE: &[Rule] = &[
    Rule::new("spec.clusterIPs[]", "addresses that stay", addresses_stay),
    Rule::new("spec.ipFamilies[]", "families that stay", families_stay),
];

fn same_first(case: &Case<'_>, found: &mut Findings) {
    let spec = case.spec;
    // An empty list was filled from clusterIP before this is asked.
    if let Some(first) = spec.cluster_ips.first()
        && !spec.cluster_ip.is_empty()
        && *first != spec.cluster_ip
    {
        let message = format!(
            "the first value must be that of clusterIP, {}",
            quoted(&spec.cluster_ip)
        );
        found.invalid("spec.clusterIPs", message);
    }
}

fn cluster_ip_present(case: &Case<'_>, found: &mut Findings) {
    let spec = case.spec;
    if let Some(first) = spec.cluster_ips.first()
        && spec.cluster_ip.is_empty()
    {
        found.invalid(
            "spec.clusterIPs",
            format!("set clusterIP too, to the first value, {}", quoted(first)),
        );
    }
}

fn known_family(case: &Case<'_>, found: &mut Findings) {
    for (i, family) in case.spec.ip_families.iter().enumerate() {
        if !FAMILIES.contains(&family.as_str()) {
            found.not_supported(format!("spec.ipFamilies[{i}]"), family, &FAMILIES);
        }
    }
}

fn family_twice(case: &Case<'_>, found: &mut Findings) {
    let mut seen = AHashSet::new();
    for (i, family) in case.spec.ip_families.iter().enumerate() {
        if !seen.insert(family) {
            let message = format!("{} is there already; name each family once", quoted(family));
            found.duplicate(format!("spec.ipFamilies[{i}]"), message);
        }
    }
}

fn known_policy(case: &Case<'_>, found: &mut Findings) {
    if let Some(policy) = &case.spec.ip_family_policy
        && !POLICIES.contains(&policy.as_str())
    {
        found.not_supported("spec.ipFamilyPolicy", policy, &POLICIES);
    }
}

fn is_misplaced_none(spec: &Spec) -> bool {
    matches!(spec.cluster_ips.as_slice(), [first, _, ..] if first == HEADLESS)
}

fn none_alone(case: &Case<'_>, found: &mut Findings) {
    if is_misplaced_none(case.spec) {
        found.invalid("spec.clusterIPs", "None must be the only value");
    }
}

/// Entries that are no address for any apiserver and were not stored before.
fn unreadable<'a>(case: &'a Case<'_>) -> impl Iterator<Item = (usize, &'a String)> {
    let stored = stored(case.old.map(|old| old.cluster_ips.as_slice()));
    let is_fine = move |i: usize, text: &str| (i == 0 && text == HEADLESS) || stored.contains(text);
    let new = case.spec.cluster_ips.iter().enumerate();
    new.filter(move |(i, text)| !is_fine(*i, text) && Written::parse(text).is_none())
}

/// What was stored before is accepted again.
pub(super) fn stored(old: Option<&[String]>) -> AHashSet<&str> {
    old.unwrap_or_default().iter().map(String::as_str).collect()
}

fn addresses(case: &Case<'_>, found: &mut Findings) {
    for (i, text) in unreadable(case) {
        let message = format!(
            "{} is no address; use one like 10.9.8.7 or 2001:db8::ffff, or leave it out",
            quoted(text)
        );
        found.invalid(format!("spec.clusterIPs[{i}]"), message);
    }
    let stored = stored(case.old.map(|old| old.cluster_ips.as_slice()));
    for (i, text) in case.spec.cluster_ips.iter().enumerate() {
        if !stored.contains(text.as_str())
            && let Some(doubt) = Written::parse(text).and_then(|ip| ip.doubt(text))
        {
            found.doubted(format!("spec.clusterIPs[{i}]"), format!("{}: {doubt}", quoted(text)));
        }
    }
}

fn at_most_two(case: &Case<'_>, found: &mut Findings) {
    if case.spec.cluster_ips.len() > 2 {
        let message = format!(
            "{} addresses; use at most two, one of each family",
            case.spec.cluster_ips.len()
        );
        found.invalid("spec.clusterIPs", message);
    }
}

/// After a misplaced None or an entry that is no address, the apiserver looks no further.
fn can_compare(case: &Case<'_>) -> bool {
    !is_misplaced_none(case.spec) && unreadable(case).next().is_none()
}

fn one_per_family(case: &Case<'_>, found: &mut Findings) {
    let ips = &case.spec.cluster_ips;
    if ips.len() > 1 && can_compare(case) {
        let sixes = ips.iter().filter(|ip| is_ipv6(ip)).count();
        if sixes == 0 || sixes == ips.len() {
            found.invalid(
                "spec.clusterIPs",
                "the addresses are of one family; use one IPv4 and one IPv6 address",
            );
        }
    }
}

fn family_matches(case: &Case<'_>, found: &mut Findings) {
    let spec = case.spec;
    if spec.is_headless() || !can_compare(case) {
        return;
    }
    for (i, (ip, family)) in spec.cluster_ips.iter().zip(&spec.ip_families).enumerate() {
        if (family == "IPv4" && is_ipv6(ip)) || (family == "IPv6" && !is_ipv6(ip)) {
            let message = format!(
                "{} is not {family}, which ipFamilies[{i}] says; change one of them",
                quoted(ip)
            );
            found.invalid(format!("spec.clusterIPs[{i}]"), message);
        }
    }
}

fn second_address_released(case: &Case<'_>, found: &mut Findings) {
    if let Some(old) = case.old
        && !is_single_stack(case.spec)
        && !case.spec.cluster_ips.is_empty()
        && case.spec.cluster_ips.len() < old.cluster_ips.len()
    {
        found.invalid("spec.ipFamilyPolicy", "to give up the second address, set SingleStack");
    }
}

fn second_family_released(case: &Case<'_>, found: &mut Findings) {
    if let Some(old) = case.old
        && !is_single_stack(case.spec)
        && !case.spec.ip_families.is_empty()
        && case.spec.ip_families.len() < old.ip_families.len()
    {
        found.invalid("spec.ipFamilyPolicy", "to give up the second family, set SingleStack");
    }
}

fn two_on_single_stack(case: &Case<'_>, found: &mut Findings) {
    let spec = case.spec;
    if is_single_stack(spec) && (spec.cluster_ips.len() == 2 || spec.ip_families.len() == 2) {
        let message = "SingleStack has one address and one family; set PreferDualStack or RequireDualStack, or leave \
                       the second one out";
        found.invalid("spec.ipFamilyPolicy", message);
    }
}

/// The old object, unless a change from or to ExternalName makes all comparison void.
fn compared<'a>(case: &Case<'a>) -> Option<&'a Spec> {
    case.old
        .filter(|old| !old.is(EXTERNAL_NAME) && !case.spec.is(EXTERNAL_NAME))
}

fn addresses_stay(case: &Case<'_>, found: &mut Findings) {
    let Some(old) = compared(case) else {
        return;
    };
    let (old_ips, new_ips) = (&old.cluster_ips, &case.spec.cluster_ips);
    if old.is_headless() && case.spec.is_headless() {
        return;
    }
    let mut changed = |i: usize, old: &str| {
        let message = format!(
            "{} cannot be changed; to get another address, delete and create the Service",
            quoted(old)
        );
        found.invalid(format!("spec.clusterIPs[{i}]"), message);
    };
    // Where one is added or given up, the first one alone must stay.
    let compared = if old_ips.len() == new_ips.len() {
        old_ips.len()
    } else {
        1
    };
    for (i, (old, new)) in old_ips.iter().zip(new_ips).take(compared).enumerate() {
        if old != new {
            changed(i, old);
        }
    }
}

/// The apiserver names `ipFamilies[0]` whichever differs.
fn families_stay(case: &Case<'_>, found: &mut Findings) {
    let Some(old) = compared(case) else {
        return;
    };
    if old.is_headless() || case.spec.is_headless() {
        return;
    }
    let (old_families, new_families) = (&old.ip_families, &case.spec.ip_families);
    let compared = if old_families.len() == new_families.len() {
        old_families.len()
    } else {
        1
    };
    if old_families
        .iter()
        .zip(new_families)
        .take(compared)
        .any(|(old, new)| old != new)
    {
        let message = format!(
            "the families stay {} once set; one can be added after them",
            old_families.join(", ")
        );
        found.invalid("spec.ipFamilies[0]", message);
    }
}
