//! What the apiserver does to a Service before its rules are asked: defaults, carry-over from the old object, families,
//! addresses, ports, and what is wiped when the type changes (allocation.md 1.8, 2). What it will choose itself has a
//! stand-in here, which breaks no rule.

use ahash::{AHashMap, AHashSet};

use crate::address::Written;
use crate::service::{EXTERNAL_NAME, HEADLESS, Spec, TargetPort};

/// Stands for a port that the apiserver will choose; each further one is smaller. No value of the API is so small.
const FIRST_CHOSEN_PORT: i64 = i64::MIN;

/// Does this value stand for one that the apiserver will choose?
pub(super) fn is_chosen(port: i64) -> bool {
    port < i64::from(i32::MIN)
}

/// v1 defaulting (validation.md 2), as far as rules look at its fields.
pub(super) fn default(spec: &mut Spec) {
    let set = |field: &mut String, value: &str| {
        if field.is_empty() {
            value.clone_into(field);
        }
    };
    set(&mut spec.session_affinity, "None");
    set(&mut spec.service_type, "ClusterIP");
    for port in &mut spec.ports {
        set(&mut port.protocol, "TCP");
        if matches!(&port.target_port, TargetPort::Number(0)) || port.target_port == TargetPort::Name(String::new()) {
            port.target_port = TargetPort::Number(port.port);
        }
    }
    if spec.is_externally_accessible() {
        set(&mut spec.external_traffic_policy, "Cluster");
    }
}

/// A stored Service as the apiserver compares with it: one from before `clusterIPs` and `ipFamilies` gets them.
pub(super) fn as_read(stored: &Spec) -> Spec {
    let mut spec = stored.clone();
    default(&mut spec);
    synchronise(&mut spec, None);
    if !spec.is(EXTERNAL_NAME) && spec.ip_families.is_empty() && spec.cluster_ip != HEADLESS {
        spec.ip_families = spec.cluster_ips.iter().map(|ip| family_of(ip).to_owned()).collect();
        let policy = match spec.ip_families.len() {
            1 => Some("SingleStack"),
            2 => Some("RequireDualStack"),
            _ => None,
        };
        spec.ip_family_policy = policy.map(str::to_owned).or(spec.ip_family_policy);
    }
    spec
}

/// What a client left out of an update keeps its old value (`patchAllocatedValues`).
pub(super) fn carry_over(new: &mut Spec, old: &Spec) {
    if !new.is(EXTERNAL_NAME) && !old.is(EXTERNAL_NAME) {
        if new.cluster_ip.is_empty() {
            new.cluster_ip.clone_from(&old.cluster_ip);
        }
        if new.cluster_ips.is_empty() {
            new.cluster_ips.clone_from(&old.cluster_ips);
        }
    }
    if gets_node_ports(new) && gets_node_ports(old) {
        let given: AHashSet<i64> = new.ports.iter().map(|port| port.node_port).collect();
        let kept: AHashSet<i64> = old
            .ports
            .iter()
            .map(|port| port.node_port)
            .filter(|port| given.contains(port))
            .collect();
        let by_name: AHashMap<&str, i64> = old
            .ports
            .iter()
            .map(|port| (port.name.as_str(), port.node_port))
            .collect();
        for port in new.ports.iter_mut().filter(|port| port.node_port == 0) {
            match by_name.get(port.name.as_str()) {
                Some(value) if !kept.contains(value) => port.node_port = *value,
                _ => {}
            }
        }
    }
    if new.needs_health_check() && old.needs_health_check() && new.health_check_node_port == 0 {
        new.health_check_node_port = old.health_check_node_port;
    }
}

/// Brings `clusterIP` and `clusterIPs` together where a client changed only one of them (`normalizeClusterIPs`).
pub(super) fn synchronise(new: &mut Spec, old: Option<&Spec>) {
    let Some(old) = old else {
        if !new.cluster_ip.is_empty() && new.cluster_ips.is_empty() {
            new.cluster_ips = vec![new.cluster_ip.clone()];
        }
        return;
    };
    let same = old.cluster_ip == new.cluster_ip;
    if new.cluster_ips.is_empty() && same {
        new.cluster_ips.clone_from(&old.cluster_ips);
    }
    if !same && new.cluster_ips == old.cluster_ips {
        if !old.cluster_ip.is_empty() && new.cluster_ip.is_empty() {
            new.cluster_ips.clear();
        } else {
            new.cluster_ips = vec![new.cluster_ip.clone()];
        }
    }
}

/// A PreferDualStack Service that keeps addresses and families is left alone, whatever the cluster has become
/// (`isMatchingPreferDualStackClusterIPFields`).
pub(super) fn stays_dual(new: &Spec, old: &Spec) -> bool {
    const PREFER: &str = "PreferDualStack";
    new.service_type == old.service_type
        && matches!(new.service_type.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer")
        && new.ip_family_policy.as_deref() == Some(PREFER)
        && old.ip_family_policy.as_deref().is_none_or(|policy| policy == PREFER)
        && new.cluster_ips == old.cluster_ips
        && new.ip_families == old.ip_families
}

/// The policy of a Service that names none.
pub(super) fn choose_policy(new: &mut Spec, old: Option<&Spec>) {
    if new.ip_family_policy.is_none() {
        let default = if asks_for_any_family(new) {
            "RequireDualStack"
        } else {
            "SingleStack"
        };
        new.ip_family_policy = old
            .and_then(|old| old.ip_family_policy.clone())
            .or_else(|| Some(default.to_owned()));
    }
}

/// SingleStack on an update that changes neither list means: the first of each.
pub(super) fn release_second(new: &mut Spec, old: Option<&Spec>) {
    let Some(old) = old.filter(|_| is_single_stack(new)) else {
        return;
    };
    if new.cluster_ips == old.cluster_ips {
        new.cluster_ips.truncate(1);
    }
    if new.ip_families == old.ip_families {
        new.ip_families.truncate(1);
    }
}

/// Families that follow from the addresses, and the second one of a dual-stack Service. The cluster is taken for a
/// dual-stack one: where it is not, the apiserver refuses or adds nothing.
pub(super) fn infer_families(new: &mut Spec) {
    if new.cluster_ips.first().is_none_or(|ip| ip != HEADLESS) {
        let missing = new.cluster_ips.iter().skip(new.ip_families.len());
        let inferred: Vec<_> = missing.map(|ip| family_of(ip).to_owned()).collect();
        new.ip_families.extend(inferred);
    }
    if let [only] = new.ip_families.as_slice()
        && !is_single_stack(new)
    {
        let other = if only == "IPv4" { "IPv6" } else { "IPv4" };
        new.ip_families.push(other.to_owned());
    }
}

/// A second address to be chosen, where a rule can see that there will be one: beside `None`, too.
pub(super) fn allocate_addresses(new: &mut Spec, old: Option<&Spec>) {
    let Some(old) = old else {
        return;
    };
    let was_headless = old.cluster_ips.first().is_some_and(|ip| ip == HEADLESS);
    // Without families it gets the cluster's, both of them.
    let gets_two = new.ip_families.len() == 2 || (new.ip_families.is_empty() && !is_single_stack(new));
    let upgraded = old.ip_families.len() == 1 && gets_two;
    if old.is(EXTERNAL_NAME) || was_headless || !upgraded || new.cluster_ips.len() != 1 {
        return;
    }
    let chosen = if new.ip_families.last().is_some_and(|family| family == "IPv4") {
        "0.0.0.0"
    } else {
        "::"
    };
    new.cluster_ips.push(chosen.to_owned());
}

/// Ports to be chosen. On create, entries with one `port` share a nodePort; on update they do not.
pub(super) fn allocate_ports(spec: &mut Spec, created: bool) {
    let mut next = FIRST_CHOSEN_PORT;
    let mut choose = || {
        next += 1;
        next
    };
    if spec.needs_health_check() && spec.health_check_node_port == 0 {
        spec.health_check_node_port = choose();
    }
    if !gets_node_ports(spec) {
        return;
    }
    let mut shared: AHashMap<i64, i64> = AHashMap::new();
    if created {
        for port in spec.ports.iter().filter(|port| port.node_port != 0) {
            shared.entry(port.port).or_insert(port.node_port);
        }
    }
    for port in spec.ports.iter_mut().filter(|port| port.node_port == 0) {
        port.node_port = if created {
            *shared.entry(port.port).or_insert_with(&mut choose)
        } else {
            choose()
        };
    }
}

/// What no longer applies after a change of type and was not changed itself goes (`dropTypeDependentFields`).
pub(super) fn wipe(new: &mut Spec, old: &Spec) {
    if !old.is(EXTERNAL_NAME) && new.is(EXTERNAL_NAME) {
        if new.cluster_ip == old.cluster_ip && new.cluster_ips == old.cluster_ips {
            new.cluster_ip.clear();
            new.cluster_ips.clear();
        }
        if new.ip_families == old.ip_families {
            new.ip_families.clear();
        }
        if new.ip_family_policy == old.ip_family_policy {
            new.ip_family_policy = None;
        }
    }
    let has_node_ports = |spec: &Spec| spec.is("NodePort") || spec.is("LoadBalancer");
    if has_node_ports(old) && !has_node_ports(new) {
        let old_ports: AHashSet<i64> = old.ports.iter().map(|port| port.node_port).collect();
        if new
            .ports
            .iter()
            .all(|port| port.node_port == 0 || old_ports.contains(&port.node_port))
        {
            for port in &mut new.ports {
                port.node_port = 0;
            }
        }
    }
    if old.needs_health_check() && !new.needs_health_check() && new.health_check_node_port == old.health_check_node_port
    {
        new.health_check_node_port = 0;
    }
    if old.is("LoadBalancer") && !new.is("LoadBalancer") {
        if new.allocate_load_balancer_node_ports == old.allocate_load_balancer_node_ports {
            new.allocate_load_balancer_node_ports = None;
        }
        if new.load_balancer_class == old.load_balancer_class {
            new.load_balancer_class = None;
        }
    }
    if old.is_externally_accessible()
        && !new.is_externally_accessible()
        && new.external_traffic_policy == old.external_traffic_policy
    {
        new.external_traffic_policy.clear();
    }
}

/// Will the apiserver fill empty nodePorts?
pub(super) fn gets_node_ports(spec: &Spec) -> bool {
    // Defaulting sets the field of a LoadBalancer.
    spec.is("NodePort") || (spec.is("LoadBalancer") && spec.allocate_load_balancer_node_ports != Some(false))
}

/// Headless without a selector: any family is right.
fn asks_for_any_family(spec: &Spec) -> bool {
    spec.cluster_ip == HEADLESS && spec.selector.is_empty()
}

pub(super) fn is_single_stack(spec: &Spec) -> bool {
    spec.ip_family_policy.as_deref() == Some("SingleStack")
}

/// The family of an address, as the apiserver sees it.
pub(super) fn family_of(text: &str) -> &'static str {
    if is_ipv6(text) { "IPv6" } else { "IPv4" }
}

pub(super) fn is_ipv6(text: &str) -> bool {
    Written::parse(text).is_some_and(|ip| ip.address.is_ipv6())
}
