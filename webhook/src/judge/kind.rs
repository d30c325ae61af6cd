//! What goes with which type, selector and affinity (validation.md 4.1, 4.3, 4.6).

use super::{Case, Rule, metadata};
use crate::cause::{Findings, quoted};
use crate::names::dns_subdomain;
use crate::service::EXTERNAL_NAME;

/// The longest session affinity: a day.
const LONGEST_AFFINITY: i64 = 86_400;

pub(super) const RULES: &[Rule] = &[
    Rule::new("spec.type", "a known type", service_type),
    Rule::new("spec", "ports, unless headless or ExternalName", ports_present),
    Rule::new("spec.type", "no None where an address is needed", headless),
    Rule::new("spec.type", "no addresses on ExternalName", external_name_addresses),
    Rule::new("spec.type", "no families on ExternalName", external_name_families),
    Rule::new("spec.type", "no family policy on ExternalName", external_name_policy),
    Rule::new("spec.type", "an externalName on ExternalName", external_name_present),
    Rule::new("spec.externalName", "a DNS name", external_name),
    Rule::new("spec.selector", "legal keys and values", selector),
    Rule::new("spec.sessionAffinity", "None or ClientIP", affinity),
    Rule::new("spec.sessionAffinityConfig", "1 to 86400 seconds", affinity_timeout),
];

fn service_type(case: &Case<'_>, found: &mut Findings) {
    const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !TYPES.contains(&case.spec.service_type.as_str()) {
        found.not_supported("spec.type", &case.spec.service_type, &TYPES);
    }
}

fn ports_present(case: &Case<'_>, found: &mut Findings) {
    let spec = case.spec;
    if spec.ports.is_empty() && !spec.is_headless() && !spec.is(EXTERNAL_NAME) {
        let message = "give at least one port; only a headless Service (clusterIP: None) or an ExternalName has none";
        found.required("spec.ports", message);
    }
}

fn headless(case: &Case<'_>, found: &mut Findings) {
    let spec = case.spec;
    if spec.is_headless() && (spec.is("LoadBalancer") || spec.is("NodePort")) {
        let message = format!(
            "a {} needs an address; leave clusterIP empty, or use type ClusterIP",
            spec.service_type
        );
        found.invalid("spec.clusterIPs[0]", message);
    }
}

fn external_name_addresses(case: &Case<'_>, found: &mut Findings) {
    if case.spec.is(EXTERNAL_NAME) && !case.spec.cluster_ips.is_empty() {
        found.forbidden(
            "spec.clusterIPs",
            "an ExternalName has no address; leave clusterIP and clusterIPs empty",
        );
    }
}

fn external_name_families(case: &Case<'_>, found: &mut Findings) {
    if case.spec.is(EXTERNAL_NAME) && !case.spec.ip_families.is_empty() {
        found.forbidden(
            "spec.ipFamilies",
            "an ExternalName has no address; leave ipFamilies empty",
        );
    }
}

fn external_name_policy(case: &Case<'_>, found: &mut Findings) {
    if case.spec.is(EXTERNAL_NAME) && case.spec.ip_family_policy.is_some() {
        found.forbidden(
            "spec.ipFamilyPolicy",
            "an ExternalName has no address; leave ipFamilyPolicy out",
        );
    }
}

/// One dot at the end says that the name is complete.
fn without_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

fn external_name_present(case: &Case<'_>, found: &mut Findings) {
    if case.spec.is(EXTERNAL_NAME) && without_dot(&case.spec.external_name).is_empty() {
        found.required("spec.externalName", "give the DNS name that this Service stands for");
    }
}

fn external_name(case: &Case<'_>, found: &mut Findings) {
    let name = without_dot(&case.spec.external_name);
    if case.spec.is(EXTERNAL_NAME) && !name.is_empty() {
        for fault in dns_subdomain(name) {
            found.invalid("spec.externalName", format!("{}: {fault}", quoted(name)));
        }
    }
}

fn selector(case: &Case<'_>, found: &mut Findings) {
    metadata::pairs("spec.selector", &case.spec.selector, found);
}

fn affinity(case: &Case<'_>, found: &mut Findings) {
    const KNOWN: [&str; 2] = ["ClientIP", "None"];
    if !KNOWN.contains(&case.spec.session_affinity.as_str()) {
        found.not_supported("spec.sessionAffinity", &case.spec.session_affinity, &KNOWN);
    }
}

fn affinity_timeout(case: &Case<'_>, found: &mut Findings) {
    let config = case.spec.session_affinity_config.as_ref();
    let seconds = config.and_then(|config| config.client_ip.as_ref()?.timeout_seconds);
    if let Some(seconds) = seconds
        && case.spec.session_affinity == "ClientIP"
        && !(1..=LONGEST_AFFINITY).contains(&seconds)
    {
        let message = format!("{seconds}: use 1 to {LONGEST_AFFINITY} seconds");
        found.invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", message);
    }
}
