//! ClusterIPs and IPAddresses: the findings of kube-apiserver's repair (spec/allocation.md 3), and pools that were bypassed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::api::networking::v1::IPAddress;
use kube::ResourceExt as _;
use svcplane_allocators::address::parse_address;
use svcplane_allocators::books::Book;
use svcplane_allocators::service::ServiceKey;
use svcplane_allocators::value::Value;
use svcplane_webhook::address::Written;
use svcplane_webhook::ledger::Ledger;
use svcplane_webhook::service::{EXTERNAL_NAME, HEADLESS, Spec};

use super::gather::Stored;
use super::report::Finding;
use crate::books::Booked as _;

const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
const ALLOCATOR: &str = "ipallocator.k8s.io";

/// How old an IPAddress is before its Service must be there; the apiserver makes it first.
const ORPHAN_AGE: i64 = 60;

/// How old it is before its Service must list it.
const WRONG_AGE: i64 = 5;

/// Everything that is wrong with them.
pub fn findings(stored: &Stored) -> Vec<Finding> {
    let books = stored.ledger.cluster_ips();
    let (rule, field) = ("ClusterIPAlreadyAllocated", "spec.clusterIPs");
    let mut findings = conflicts(&books.ipv4, rule, field);
    findings.extend(conflicts(&books.ipv6, rule, field));
    let objects: Option<BTreeSet<IpAddr>> = stored.addresses.as_ref().map(|objects| {
        let named = objects
            .iter()
            .filter_map(|object| parse_address(&object.name_any()).ok());
        named.collect()
    });
    let mut listed: BTreeMap<ServiceKey, BTreeSet<String>> = BTreeMap::new();
    for known in &stored.services {
        let Some(holder) = known.wire.fact() else { continue };
        let service = holder.owner.service;
        let texts = texts(&known.service.spec);
        for (index, text) in texts.iter().enumerate() {
            let field = format!("spec.clusterIPs[{index}]");
            let labels = &known.service.metadata.labels;
            let found = of_address(&stored.ledger, objects.as_ref(), &service, labels, text);
            findings.extend(
                found
                    .into_iter()
                    .map(|(rule, message)| Finding::error(rule, object(&service), &field, message)),
            );
        }
        listed.insert(service, texts.into_iter().map(str::to_owned).collect());
    }
    for address in stored.addresses.iter().flatten() {
        findings.extend(of_object(address, &listed, stored.now));
    }
    findings
}

/// How a Service is named in a finding.
pub(super) fn object(service: &ServiceKey) -> String {
    format!("Service {service}")
}

/// Addresses as they are stored; of an ExternalName Service they mean nothing.
fn texts(spec: &Spec) -> Vec<&str> {
    if spec.is(EXTERNAL_NAME) {
        return Vec::new();
    }
    let all = spec.listed_cluster_ips().iter().map(String::as_str);
    all.filter(|text| !text.is_empty() && *text != HEADLESS).collect()
}

/// Values that several Services list: a finding for each but the oldest.
pub(super) fn conflicts<V: Value>(book: &Book<V>, rule: &'static str, field: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (value, owners) in book.conflicts() {
        let Some((first, others)) = owners.split_first() else {
            continue;
        };
        for other in others {
            let message = format!("{value} is also that of Service {}, which is older", first.service);
            findings.push(Finding::error(rule, object(&other.service), field, message));
        }
    }
    findings
}

fn of_address(
    ledger: &Ledger,
    objects: Option<&BTreeSet<IpAddr>>,
    service: &ServiceKey,
    labels: &BTreeMap<String, String>,
    text: &str,
) -> Vec<(&'static str, String)> {
    let Some(written) = Written::parse(text) else {
        return vec![("ClusterIPNotValid", format!("{text:?} is no address"))];
    };
    let (address, mut found) = (written.address, Vec::new());
    if text != address.to_string() {
        let message = format!(
            "{text:?} is not how the apiserver writes {address}: it makes and deletes the IPAddress again and again"
        );
        found.push(("ClusterIPNotCanonical", message));
    }
    let books = ledger.cluster_ips();
    let in_range = match address {
        IpAddr::V4(v4) => books.ipv4.is_in_any_range(v4),
        IpAddr::V6(v6) => books.ipv6.is_in_any_range(v6),
    };
    if !in_range {
        found.push(("ClusterIPOutOfRange", format!("{address} lies in no ServiceCIDR")));
    }
    if objects.is_some_and(|objects| !objects.contains(&address)) {
        found.push(("ClusterIPNotAllocated", format!("there is no IPAddress {address}")));
    }
    if let Err(refusal) = ledger.judge_cluster_ip(service, labels, address) {
        found.push(("PoolBypassed", format!("{address} {refusal}")));
    }
    found
}

/// Only those that the apiserver made: it deletes what is found here.
fn of_object(address: &IPAddress, listed: &BTreeMap<ServiceKey, BTreeSet<String>>, now: i64) -> Option<Finding> {
    if address.labels().get(MANAGED_BY).is_none_or(|by| by != ALLOCATOR) {
        return None;
    }
    let name = address.name_any();
    let created = address
        .metadata
        .creation_timestamp
        .as_ref()
        .map_or(0, |time| time.0.as_second());
    let age = now.saturating_sub(created);
    let found = |rule, message| {
        Some(Finding::error(
            rule,
            format!("IPAddress {name}"),
            "spec.parentRef",
            message,
        ))
    };
    let Some((_, Some(service))) = address.fact() else {
        return found("IPAddressNotAllocated", "names no Service".into());
    };
    match listed.get(&service) {
        None if age > ORPHAN_AGE => found("IPAddressNotAllocated", format!("there is no Service {service}")),
        Some(listed) if age > WRONG_AGE && !listed.contains(&name) => {
            found("IPAddressWrongReference", format!("Service {service} does not list it"))
        }
        _ => None,
    }
}
