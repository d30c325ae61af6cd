//! Rules on addresses of the outside: `externalIPs` and source ranges (validation.md 4.5, 4.7, 11.3).

use std::net::IpAddr;

use super::families::stored;
use super::{Case, Rule};
use crate::address::{Written, WrittenRange};
use crate::cause::{Findings, quoted};

/// Source ranges of before there was a field. Only looked at where the field is empty.
const ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

/// The apiserver writes it with a capital L.
const FIELD: &str = "spec.LoadBalancerSourceRanges";

pub(super) const RULES: &[Rule] = &[
    Rule::new("spec.externalIPs[]", "addresses", external_ips),
    Rule::new(
        "spec.externalIPs[]",
        "addresses that can be routed",
        special_external_ips,
    ),
    Rule::new("spec.loadBalancerSourceRanges[]", "type LoadBalancer", ranges_type),
    Rule::new("spec.loadBalancerSourceRanges[]", "CIDRs", ranges),
    Rule::new(
        "metadata.annotations",
        "source ranges on LoadBalancer only",
        annotation_type,
    ),
    Rule::new(
        "metadata.annotations",
        "source ranges that are CIDRs",
        annotation_ranges,
    ),
];

/// An old value that cannot be read is refused again, other than in `clusterIPs`.
fn external_ips(case: &Case<'_>, found: &mut Findings) {
    let stored = stored(case.old.map(|old| old.external_ips.as_slice()));
    for (i, text) in case.spec.external_ips.iter().enumerate() {
        let field = || format!("spec.externalIPs[{i}]");
        match Written::parse(text) {
            None => {
                let message = format!(
                    "{} is no address; use one like 10.9.8.7 or 2001:db8::ffff",
                    quoted(text)
                );
                found.invalid(field(), message);
            }
            Some(ip) => {
                if let Some(doubt) = ip.doubt(text)
                    && !stored.contains(text.as_str())
                {
                    found.doubted(field(), format!("{}: {doubt}", quoted(text)));
                }
            }
        }
    }
}

fn special_external_ips(case: &Case<'_>, found: &mut Findings) {
    for (i, text) in case.spec.external_ips.iter().enumerate() {
        if let Some(what) = Written::parse(text).and_then(|ip| special(ip.address)) {
            let message = format!("{} is {what}; use an address that clients can reach", quoted(text));
            found.invalid(format!("spec.externalIPs[{i}]"), message);
        }
    }
}

/// What keeps an address from being an external one.
fn special(address: IpAddr) -> Option<&'static str> {
    let link_local_multicast = match address {
        IpAddr::V4(ip) => matches!(ip.octets(), [224, 0, 0, _]),
        IpAddr::V6(ip) => matches!(ip.segments(), [first, ..] if first & 0xff0f == 0xff02),
    };
    let link_local = match address {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    if address.is_unspecified() {
        Some("the unspecified address")
    } else if address.is_loopback() {
        Some("a loopback address")
    } else if link_local {
        Some("a link-local address")
    } else if link_local_multicast {
        Some("a link-local multicast address")
    } else {
        None
    }
}

fn ranges_type(case: &Case<'_>, found: &mut Findings) {
    if !case.spec.load_balancer_source_ranges.is_empty() && !case.spec.is("LoadBalancer") {
        found.forbidden(FIELD, "source ranges are for type LoadBalancer only; remove them");
    }
}

fn ranges(case: &Case<'_>, found: &mut Findings) {
    let old = case
        .old
        .map(|old| old.load_balancer_source_ranges.as_slice())
        .unwrap_or_default();
    let stored: ahash::AHashSet<&str> = old.iter().map(|range| range.trim()).collect();
    for (i, text) in case.spec.load_balancer_source_ranges.iter().enumerate() {
        let text = text.trim();
        if !stored.contains(text) {
            range(&format!("{FIELD}[{i}]"), text, found);
        }
    }
}

fn range(field: &str, text: &str, found: &mut Findings) {
    match WrittenRange::parse(text) {
        None => found.invalid(
            field,
            format!("{} is no CIDR; use one like 10.9.8.0/24 or 2001:db8::/64", quoted(text)),
        ),
        Some(range) => {
            if let Some(doubt) = range.doubt(text) {
                found.doubted(field, format!("{}: {doubt}", quoted(text)));
            }
        }
    }
}

fn annotation<'a>(case: &Case<'a>) -> Option<&'a String> {
    let annotation = case.metadata.annotations.get(ANNOTATION);
    annotation.filter(|_| case.spec.load_balancer_source_ranges.is_empty())
}

fn annotation_field() -> String {
    format!("metadata.annotations[{ANNOTATION}]")
}

fn annotation_type(case: &Case<'_>, found: &mut Findings) {
    if annotation(case).is_some() && !case.spec.is("LoadBalancer") {
        found.forbidden(
            annotation_field(),
            "source ranges are for type LoadBalancer only; remove the annotation",
        );
    }
}

fn annotation_ranges(case: &Case<'_>, found: &mut Findings) {
    let old = case.old_metadata.and_then(|old| old.annotations.get(ANNOTATION));
    let Some(text) = annotation(case).filter(|text| old != Some(text)) else {
        return;
    };
    if !text.trim().is_empty() {
        for piece in text.split(',') {
            range(&annotation_field(), piece.trim(), found);
        }
    }
}
