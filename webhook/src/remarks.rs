//! Values that a user has chosen and the apiserver will refuse, as far as the books tell: a Warning that says who has them and what is
//! free, above the apiserver's own refusal. Books may lag, so this never refuses.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::net::IpAddr;

use svcplane_allocators::books::{Book, State};
use svcplane_allocators::service::ServiceKey;
use svcplane_allocators::value::{NodePort, Value};

use crate::address::Written;
use crate::cause::MOST_CAUSES;
use crate::filling::Asker;
use crate::ledger::Ledger;
use crate::service::{HEADLESS, Service, port_number};

/// How many free values are suggested.
const SUGGESTIONS: usize = 3;

/// How many are looked at for that.
const CANDIDATES: usize = 64;

/// About the values of `new` that `old` did not have; `service` is its name, if that is known.
pub(crate) fn remarks(ledger: &Ledger, asker: &Asker, new: &Service, old: Option<&Service>) -> Vec<String> {
    let mut remarks = Vec::new();
    let (own, labels) = (asker.service(), &new.metadata.labels);
    // One whose name is still to be made has no reservation.
    let service = own.clone().unwrap_or_else(|| ServiceKey::new(asker.namespace(), ""));
    let address = |ip: IpAddr| ledger.judge_cluster_ip(&service, labels, ip).is_ok();
    let field = if new.spec.cluster_ips.is_empty() {
        "spec.clusterIP"
    } else {
        "spec.clusterIPs"
    };
    let had = |ip: &str| {
        old.is_some_and(|old| old.spec.cluster_ip == ip || old.spec.cluster_ips.iter().any(|other| other == ip))
    };
    let given = new.spec.listed_cluster_ips().iter();
    for ip in given.filter(|ip| *ip != HEADLESS && !had(ip)) {
        let remark = match Written::parse(ip).map(|written| written.address) {
            Some(IpAddr::V4(ip)) => remark(&ledger.cluster_ips().ipv4, ip, own.as_ref(), |ip| address(ip.into())),
            Some(IpAddr::V6(ip)) => remark(&ledger.cluster_ips().ipv6, ip, own.as_ref(), |ip| address(ip.into())),
            None => None,
        };
        remarks.extend(remark.map(|words| format!("{field}: {words}")));
    }
    let port = |port: NodePort| ledger.judge_node_port(&service, labels, port).is_ok();
    let had: BTreeSet<i64> = old
        .into_iter()
        .flat_map(|old| &old.spec.ports)
        .map(|port| port.node_port)
        .collect();
    let entries = new.spec.ports.iter().enumerate();
    let of_ports = entries
        .filter(|(_, entry)| !had.contains(&entry.node_port))
        .filter_map(|(index, entry)| {
            let words = remark(ledger.node_ports(), port_number(entry.node_port)?, own.as_ref(), port)?;
            Some(format!("spec.ports[{index}].nodePort: {words}"))
        });
    remarks.extend(of_ports.take(MOST_CAUSES));
    remarks.truncate(MOST_CAUSES);
    remarks
}

/// `may`: the Service may have this value.
fn remark<V: Value>(book: &Book<V>, value: V, service: Option<&ServiceKey>, may: impl Fn(V) -> bool) -> Option<String> {
    if !book.is_in_range(value) {
        let ranges = book.ready_ranges();
        let list = ranges.join(", ");
        return (!ranges.is_empty())
            .then(|| format!("{value} is no value that is given in this cluster: its ranges are {list}"));
    }
    let holding = book.holding(value);
    if holding.state != State::Used {
        return None;
    }
    let holder = holding.owners.first().map(|owner| &owner.service);
    let by = match holder.or(holding.parent.as_ref()) {
        Some(holder) if Some(holder) == service => return None,
        Some(holder) => format!("by Service {holder}"),
        None => "already".to_owned(),
    };
    let near = book.free_near(value, CANDIDATES).into_iter();
    let free: Vec<V> = near.filter(|value| may(*value)).take(SUGGESTIONS).collect();
    Some(format!("{value} is taken {by}{}", suggestion(&free)))
}

fn suggestion(free: &[impl Display]) -> String {
    let free: Vec<String> = free.iter().map(ToString::to_string).collect();
    if free.is_empty() {
        "; leave the field empty for one that is free".to_owned()
    } else {
        format!("; free near it: {}", free.join(", "))
    }
}
