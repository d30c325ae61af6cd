//! Values that a user has chosen and the apiserver will refuse, as far as the books tell: a Warning that says who has them and what is
//! free, above the apiserver's own refusal. Books may lag, so this never refuses.

use std::fmt::Display;
use std::net::IpAddr;

use svcplane_allocators::books::{Book, State};
use svcplane_allocators::service::ServiceKey;
use svcplane_allocators::value::{NodePort, Value};

use crate::address::Written;
use crate::ledger::Ledger;
use crate::service::{HEADLESS, Service};

/// How many free values are suggested.
const SUGGESTIONS: usize = 3;

/// About the values of `new` that `old` did not have; `service` is its name, if that is known.
pub(crate) fn remarks(
    ledger: &Ledger,
    new: &Service,
    old: Option<&Service>,
    service: Option<&ServiceKey>,
) -> Vec<String> {
    let mut remarks = Vec::new();
    let (given, field) = if new.spec.cluster_ips.is_empty() {
        (std::slice::from_ref(&new.spec.cluster_ip), "spec.clusterIP")
    } else {
        (new.spec.cluster_ips.as_slice(), "spec.clusterIPs")
    };
    let had = |ip: &str| {
        old.is_some_and(|old| old.spec.cluster_ip == ip || old.spec.cluster_ips.iter().any(|other| other == ip))
    };
    for ip in given.iter().filter(|ip| *ip != HEADLESS && !had(ip)) {
        let remark = match Written::parse(ip).map(|written| written.address) {
            Some(IpAddr::V4(ip)) => remark(&ledger.cluster_ips().ipv4, ip, service),
            Some(IpAddr::V6(ip)) => remark(&ledger.cluster_ips().ipv6, ip, service),
            None => None,
        };
        remarks.extend(remark.map(|words| format!("{field}: {words}")));
    }
    let had = |number: i64| old.is_some_and(|old| old.spec.ports.iter().any(|port| port.node_port == number));
    for (index, port) in new
        .spec
        .ports
        .iter()
        .enumerate()
        .filter(|(_, port)| !had(port.node_port))
    {
        let number = u16::try_from(port.node_port).ok().and_then(NodePort::new);
        let remark = number.and_then(|number| remark(ledger.node_ports(), number, service));
        remarks.extend(remark.map(|words| format!("spec.ports[{index}].nodePort: {words}")));
    }
    remarks
}

fn remark<V: Value>(book: &Book<V>, value: V, service: Option<&ServiceKey>) -> Option<String> {
    if !book.is_in_range(value) {
        let ranges: Vec<_> = book.ready_ranges();
        return (!ranges.is_empty())
            .then(|| format!("{value} lies in no range of this cluster: {}", ranges.join(", ")));
    }
    let holding = book.holding(value);
    if holding.state != State::Used {
        return None;
    }
    let holder = holding
        .owners
        .first()
        .map(|owner| &owner.service)
        .or(holding.parent.as_ref());
    let by = match holder {
        Some(holder) if Some(holder) == service => return None,
        Some(holder) => format!("by Service {holder}"),
        None => "already".to_owned(),
    };
    Some(format!(
        "{value} is taken {by}{}",
        suggestion(&book.free_near(value, SUGGESTIONS))
    ))
}

fn suggestion(free: &[impl Display]) -> String {
    let free: Vec<String> = free.iter().map(ToString::to_string).collect();
    if free.is_empty() {
        "; no value of its range is free".to_owned()
    } else {
        format!("; free near it: {}", free.join(", "))
    }
}
