//! Rules on load balancers and traffic policies (validation.md 4.8, 4.9, 5).

use super::ports::is_port;
use super::{Case, Rule, prepare};
use crate::cause::{Findings, quoted};
use crate::names::qualified_name;

const POLICIES: [&str; 2] = ["Cluster", "Local"];
const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameNode", "PreferSameZone"];
const HEALTH_CHECK: &str = "spec.healthCheckNodePort";

pub(super) const UPDATE: &[Rule] = &[
    Rule::new("spec.loadBalancerClass", "a class that stays", class_stays),
    Rule::new("spec.healthCheckNodePort", "a port that stays", health_check_stays),
];

pub(super) const RULES: &[Rule] = &[
    Rule::new("spec.allocateLoadBalancerNodePorts", "type LoadBalancer", allocate_type),
    Rule::new("spec.loadBalancerClass", "type LoadBalancer", class_type),
    Rule::new("spec.loadBalancerClass", "a qualified name", class),
    Rule::new("spec.externalTrafficPolicy", "a way in from outside", external_type),
    Rule::new("spec.externalTrafficPolicy", "Cluster or Local", external),
    Rule::new("spec.healthCheckNodePort", "LoadBalancer and Local", health_check_type),
    Rule::new("spec.healthCheckNodePort", "1 to 65535", health_check),
    Rule::new("spec.internalTrafficPolicy", "Cluster or Local", internal),
    Rule::new("spec.trafficDistribution", "a known distribution", distribution),
];

fn class_stays(case: &Case<'_>, found: &mut Findings) {
    if let Some(old) = case.old
        && old.is("LoadBalancer")
        && case.spec.is("LoadBalancer")
        && old.load_balancer_class != case.spec.load_balancer_class
    {
        let was = old.load_balancer_class.as_deref().map_or("unset".to_owned(), quoted);
        let message = format!("it was {was} and cannot be changed; delete and create the Service, or change its type");
        found.invalid("spec.loadBalancerClass", message);
    }
}

fn health_check_stays(case: &Case<'_>, found: &mut Findings) {
    if let Some(old) = case.old
        && old.needs_health_check()
        && case.spec.needs_health_check()
        && old.health_check_node_port != case.spec.health_check_node_port
    {
        let message = format!(
            "it cannot be changed; leave it out, or set {}",
            old.health_check_node_port
        );
        found.forbidden(HEALTH_CHECK, message);
    }
}

fn allocate_type(case: &Case<'_>, found: &mut Findings) {
    if case.spec.allocate_load_balancer_node_ports.is_some() && !case.spec.is("LoadBalancer") {
        found.forbidden(
            "spec.allocateLoadBalancerNodePorts",
            "it is for type LoadBalancer only; leave it out",
        );
    }
}

fn class_type(case: &Case<'_>, found: &mut Findings) {
    if case.spec.load_balancer_class.is_some() && !case.spec.is("LoadBalancer") {
        found.forbidden(
            "spec.loadBalancerClass",
            "it is for type LoadBalancer only; leave it out",
        );
    }
}

fn class(case: &Case<'_>, found: &mut Findings) {
    if let Some(class) = case
        .spec
        .load_balancer_class
        .as_deref()
        .filter(|_| case.spec.is("LoadBalancer"))
    {
        for fault in qualified_name(class) {
            found.invalid("spec.loadBalancerClass", format!("{}: {fault}", quoted(class)));
        }
    }
}

fn external_type(case: &Case<'_>, found: &mut Findings) {
    if !case.spec.is_externally_accessible() && !case.spec.external_traffic_policy.is_empty() {
        let message = "it is for Services that can be reached from outside: type NodePort or LoadBalancer, or externalIPs; \
                       leave it out";
        found.invalid("spec.externalTrafficPolicy", message);
    }
}

fn external(case: &Case<'_>, found: &mut Findings) {
    let policy = &case.spec.external_traffic_policy;
    if case.spec.is_externally_accessible() && !POLICIES.contains(&policy.as_str()) {
        found.not_supported("spec.externalTrafficPolicy", policy, &POLICIES);
    }
}

fn health_check_type(case: &Case<'_>, found: &mut Findings) {
    if !case.spec.needs_health_check() && case.spec.health_check_node_port != 0 {
        let message = "it is for type LoadBalancer with externalTrafficPolicy Local; leave it out";
        found.invalid(HEALTH_CHECK, message);
    }
}

fn health_check(case: &Case<'_>, found: &mut Findings) {
    let port = case.spec.health_check_node_port;
    if case.spec.needs_health_check() && !prepare::is_chosen(port) && !is_port(port) {
        found.invalid(
            HEALTH_CHECK,
            format!("{port}: use a port of the nodePort range, or leave it out"),
        );
    }
}

fn internal(case: &Case<'_>, found: &mut Findings) {
    if let Some(policy) = &case.spec.internal_traffic_policy
        && !POLICIES.contains(&policy.as_str())
    {
        found.not_supported("spec.internalTrafficPolicy", policy, &POLICIES);
    }
}

fn distribution(case: &Case<'_>, found: &mut Findings) {
    if let Some(distribution) = &case.spec.traffic_distribution
        && !DISTRIBUTIONS.contains(&distribution.as_str())
    {
        found.not_supported("spec.trafficDistribution", distribution, &DISTRIBUTIONS);
    }
}
