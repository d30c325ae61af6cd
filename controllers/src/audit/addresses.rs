//! ClusterIPs and IPAddresses: the findings of kube-apiserver's repair (spec/allocation.md 3), and pools that were bypassed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::api::networking::v1::IPAddress;
use kube::ResourceExt as _;
use svcplane_allocators::books::Book;
use svcplane_allocators::service::ServiceKey;
use svcplane_allocators::value::Value;
use svcplane_webhook::address::Written;
use svcplane_webhook::service::{EXTERNAL_NAME, HEADLESS, Spec};

use super::gather::{Known, Stored};
use super::report::{Finding, Subject};
use crate::books::Booked as _;

const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
const FAMILY: &str = "ipaddress.kubernetes.io/ip-family";
const ALLOCATOR: &str = "ipallocator.k8s.io";

/// How old an IPAddress is before its Service must be there and list it. The apiserver makes it first, and may take that long for the rest.
const SETTLED_AGE: i64 = 60;

/// Everything that is wrong with them.
pub fn findings(stored: &Stored) -> Vec<Finding> {
    let books = stored.ledger.cluster_ips();
    let (rule, field) = ("ClusterIPAlreadyAllocated", "spec.clusterIPs");
    let mut findings = conflicts(&books.ipv4, rule, field);
    findings.extend(conflicts(&books.ipv6, rule, field));
    let listed = stored.services.iter().map(|known| {
        let texts = texts(&known.service.spec).into_iter().collect();
        (known.holder.owner.service.clone(), texts)
    });
    let view = View {
        stored,
        objects: stored.addresses.as_deref().map(by_name),
        listed: listed.collect(),
    };
    findings.extend(stored.services.iter().flat_map(|known| view.of_service(known)));
    findings.extend(
        stored
            .addresses
            .iter()
            .flatten()
            .filter_map(|address| view.of_object(address)),
    );
    findings
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
            findings.push(Finding::error(
                rule,
                Subject::Service(other.service.clone()),
                field,
                message,
            ));
        }
    }
    findings
}

fn by_name(objects: &[IPAddress]) -> BTreeMap<String, &IPAddress> {
    objects.iter().map(|object| (object.name_any(), object)).collect()
}

/// All that the rules look at.
struct View<'a> {
    stored: &'a Stored,
    /// `None`: the server has none.
    objects: Option<BTreeMap<String, &'a IPAddress>>,
    /// What each Service lists.
    listed: BTreeMap<ServiceKey, BTreeSet<&'a str>>,
}

impl View<'_> {
    fn of_service(&self, known: &Known) -> Vec<Finding> {
        let service = &known.holder.owner.service;
        let mut findings = Vec::new();
        for (index, text) in texts(&known.service.spec).into_iter().enumerate() {
            let field = format!("spec.clusterIPs[{index}]");
            let found = self.of_address(known, text).into_iter();
            findings.extend(
                found.map(|(rule, message)| Finding::error(rule, Subject::Service(service.clone()), &field, message)),
            );
        }
        findings
    }

    fn of_address(&self, known: &Known, text: &str) -> Vec<(&'static str, String)> {
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
        let books = self.stored.ledger.cluster_ips();
        let in_range = match address {
            IpAddr::V4(v4) => books.ipv4.is_in_any_range(v4),
            IpAddr::V6(v6) => books.ipv6.is_in_any_range(v6),
        };
        if !in_range {
            found.push(("ClusterIPOutOfRange", format!("{address} lies in no ServiceCIDR")));
        }
        let service = &known.holder.owner.service;
        found.extend(self.of_its_object(service, address));
        let labels = &known.service.metadata.labels;
        if let Err(refusal) = self.stored.ledger.judge_cluster_ip(service, labels, address) {
            found.push(("PoolBypassed", format!("{address} {refusal}")));
        }
        found
    }

    /// What is wrong with the IPAddress of an address that this Service lists.
    fn of_its_object(&self, service: &ServiceKey, address: IpAddr) -> Option<(&'static str, String)> {
        let name = address.to_string();
        let not_allocated = |message| Some(("ClusterIPNotAllocated", message));
        let Some(object) = self.objects.as_ref()?.get(&name) else {
            return not_allocated(format!("there is no IPAddress {address}"));
        };
        let Some((_, Some(parent))) = object.fact() else {
            return not_allocated(format!("IPAddress {address} is of something that is no Service"));
        };
        match self.listed.get(&parent) {
            _ if parent == *service => has_wrong_labels(object, address).then(|| {
                let message = format!(
                    "IPAddress {address} has not the labels of the apiserver's allocator: {FAMILY} and {MANAGED_BY}={ALLOCATOR}"
                );
                ("IPAddressWrongLabels", message)
            }),
            None => not_allocated(format!(
                "IPAddress {address} is of Service {parent}, which does not exist"
            )),
            // Of two that list it the younger has a finding already; of one that does not, the IPAddress has one.
            Some(_) => None,
        }
    }

    /// Only those that the apiserver made: it deletes what is found here.
    fn of_object(&self, address: &IPAddress) -> Option<Finding> {
        if !is_allocators(address) {
            return None;
        }
        let name = address.name_any();
        let created = address
            .metadata
            .creation_timestamp
            .as_ref()
            .map_or(0, |time| time.0.as_second());
        let is_settled = self.stored.now.saturating_sub(created) > SETTLED_AGE;
        let found = |rule, message| {
            let subject = Subject::IpAddress(address.name_any());
            Some(Finding::error(rule, subject, "spec.parentRef", message))
        };
        let Some((_, Some(service))) = address.fact() else {
            return found("IPAddressNotAllocated", "names no Service".into());
        };
        match self.listed.get(&service) {
            None if is_settled => found("IPAddressNotAllocated", format!("there is no Service {service}")),
            Some(listed) if is_settled && !listed.contains(&*name) => {
                found("IPAddressWrongReference", format!("Service {service} does not list it"))
            }
            _ => None,
        }
    }
}

fn is_allocators(object: &IPAddress) -> bool {
    object.labels().get(MANAGED_BY).is_some_and(|by| by == ALLOCATOR)
}

/// The apiserver makes one anew that does not have its labels.
fn has_wrong_labels(object: &IPAddress, address: IpAddr) -> bool {
    let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    !is_allocators(object) || object.labels().get(FAMILY).is_none_or(|text| text != family)
}
