//! Where the ClusterIPs and nodePorts of a Service are from, as far as what is stored tells, and what each pool is to it.
//!
//! What is stored tells two things. `managedFields` name those whose requests had a value in them: they are written before admission webhooks
//! and the allocator have their turn, so a value that no request names was chosen by one of these. And the pools, as they are now, say
//! whether it is one that svcplane would give. Nothing says which of several choosers it was, so neither is that said here.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1 as core;
use serde::Serialize;
use svcplane_allocators::books::{Book, Governance, RequestError};
use svcplane_allocators::cluster_ips::IpFamily;
use svcplane_allocators::pools::PoolVerdict;
use svcplane_allocators::service::ServiceKey;
use svcplane_allocators::value::{NodePort, Value};
use svcplane_webhook::address::Written;
use svcplane_webhook::filling::{CLUSTER_IP_POOL, NODE_PORT_POOL, SKIP_LABEL, requested_pool};
use svcplane_webhook::ledger::Ledger;

use super::writers::Writers;

/// What there is to say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Allocation {
    /// Each address, then each nodePort.
    pub values: Vec<Origin>,
    /// Each pool of values that it has a use for.
    pub pools: Vec<PoolSaid>,
    /// What else there is to know.
    pub notes: Vec<String>,
}

/// Where one value is from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// Its field.
    pub field: String,
    /// Itself.
    pub value: String,
    /// The pool or range that it lies in.
    pub place: String,
    /// Whether a request names it, and whose.
    pub written: String,
}

/// What one pool is to the Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolSaid {
    /// Its kind.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// `IPv4`, `IPv6` or `nodePort`.
    pub values: &'static str,
    /// Whether it serves the Service, or why not.
    pub said: String,
}

impl Allocation {
    /// By these books.
    pub fn of(ledger: &Ledger, service: &core::Service) -> Self {
        let mut all = Self::default();
        let spec = service.spec.clone().unwrap_or_default();
        let kind = spec.type_.as_deref().unwrap_or("ClusterIP");
        if kind == "ExternalName" {
            return all;
        }
        let name = |text: &Option<String>| text.as_deref().unwrap_or_default().to_owned();
        let none = BTreeMap::new();
        let asker = Asker {
            ledger,
            service: ServiceKey::new(name(&service.metadata.namespace), name(&service.metadata.name)),
            labels: service.metadata.labels.as_ref().unwrap_or(&none),
            annotations: service.metadata.annotations.as_ref().unwrap_or(&none),
        };
        if asker.labels.contains_key(SKIP_LABEL) {
            all.notes.push(format!(
                "it has the label {SKIP_LABEL}: svcplane chooses nothing for it"
            ));
        }
        let writers = Writers::of(&service.metadata);
        let addresses = spec.cluster_ips.filter(|all| !all.is_empty());
        let addresses = addresses.unwrap_or_else(|| spec.cluster_ip.into_iter().collect());
        for (index, text) in addresses.iter().enumerate() {
            let Some(written) = Written::parse(text) else { continue };
            let field = format!("spec.clusterIPs[{index}]");
            let origin = (field, writers.of_cluster_ip(index));
            let books = ledger.cluster_ips();
            let family = IpFamily::of(written.address);
            let governance =
                |requested: Option<&str>| ledger.govern_cluster_ips(family, &asker.service, asker.labels, requested);
            match written.address {
                IpAddr::V4(address) => all.tell(&asker, &books.ipv4, &IPV4, governance, [(address, origin)]),
                IpAddr::V6(address) => all.tell(&asker, &books.ipv6, &IPV6, governance, [(address, origin)]),
            }
        }
        if matches!(kind, "NodePort" | "LoadBalancer") {
            let ports = spec.ports.iter().flatten().enumerate().filter_map(|(index, port)| {
                let number = NodePort::new(u16::try_from(port.node_port?).ok()?)?;
                let field = format!("spec.ports[{index}].nodePort");
                Some((number, (field, writers.of_node_port(port))))
            });
            let governance =
                |requested: Option<&str>| ledger.govern_node_ports(&asker.service, asker.labels, requested);
            all.tell(&asker, ledger.node_ports(), &PORTS, governance, ports);
        }
        all
    }

    /// Of one kind of value.
    fn tell<V: Value>(
        &mut self,
        asker: &Asker<'_>,
        book: &Book<V>,
        sort: &Sort,
        govern: impl Fn(Option<&str>) -> Result<Governance, RequestError>,
        values: impl IntoIterator<Item = (V, (String, String))>,
    ) {
        let requested = requested_pool(asker.annotations, sort.annotation);
        let governance = govern(requested).unwrap_or_else(|error| {
            self.notes.push(format!("annotation {}: {error}", sort.annotation));
            // As it is to a Service that does not ask.
            let without = govern(None).unwrap_or_default();
            Governance {
                pools: Vec::new(),
                ..without
            }
        });
        for (value, (field, written)) in values {
            self.values.push(Origin {
                field,
                value: value.to_string(),
                place: place(book, value, &asker.service, &governance),
                written,
            });
        }
        for (name, verdict) in &governance.verdicts {
            let mismatch = (sort.mismatch)(asker, name);
            self.pools.push(PoolSaid {
                kind: sort.kind,
                name: name.to_string(),
                values: sort.values,
                said: said(book, &governance, name, verdict, (mismatch, sort.annotation, requested)),
            });
        }
    }
}

/// The Service, to the pools.
struct Asker<'a> {
    ledger: &'a Ledger,
    service: ServiceKey,
    labels: &'a BTreeMap<String, String>,
    annotations: &'a BTreeMap<String, String>,
}

/// A kind of value.
struct Sort {
    values: &'static str,
    kind: &'static str,
    annotation: &'static str,
    /// Which part of a pool's selector does not match.
    mismatch: fn(&Asker<'_>, &str) -> Option<&'static str>,
}

const IPV4: Sort = Sort {
    values: "IPv4",
    kind: "ClusterIPPool",
    annotation: CLUSTER_IP_POOL,
    mismatch: of_cluster_ip_pool,
};
const IPV6: Sort = Sort { values: "IPv6", ..IPV4 };
const PORTS: Sort = Sort {
    values: "nodePort",
    kind: "NodePortPool",
    annotation: NODE_PORT_POOL,
    mismatch: |asker, pool| {
        let of_service = (&*asker.service.namespace, asker.labels);
        asker.ledger.mismatch_of_node_port_pool(pool, of_service)
    },
};

fn of_cluster_ip_pool(asker: &Asker<'_>, pool: &str) -> Option<&'static str> {
    let of_service = (&*asker.service.namespace, asker.labels);
    asker.ledger.mismatch_of_cluster_ip_pool(pool, of_service)
}

fn place<V: Value>(book: &Book<V>, value: V, service: &ServiceKey, governance: &Governance) -> String {
    let Some((range, is_upper)) = book.band_of(value) else {
        return "in no range of this cluster".to_owned();
    };
    let holding = book.holding(value);
    let Some(pool) = holding.pool else {
        let band = if is_upper { "upper" } else { "lower" };
        let place = format!("in no pool, in the {band} band of {range}");
        if governance.pools.is_empty() {
            return place;
        }
        let pools = governance.pools.join(", ");
        return format!(
            "{place}; outside of what governs this Service ({pools}): written by hand, from before the pool, or while the pool was full or svcplane away"
        );
    };
    if holding.reserved_for.as_ref() == Some(service) {
        return format!("in pool {pool}, which reserves it for this Service");
    }
    if governance.pools.contains(&pool) {
        format!("in pool {pool}, which governs this Service")
    } else {
        format!("in pool {pool}, which does not serve this Service now")
    }
}

fn said<V: Value>(
    book: &Book<V>,
    governance: &Governance,
    name: &str,
    verdict: &PoolVerdict,
    (mismatch, annotation, requested): (Option<&str>, &str, Option<&str>),
) -> String {
    match verdict {
        PoolVerdict::Offered | PoolVerdict::Full => offered(book, governance, name),
        PoolVerdict::NotSelected => {
            let part = mismatch.unwrap_or("spec.selector");
            format!("does not select it: {part} does not match")
        }
        PoolVerdict::NotAutomatic => {
            format!("autoAssign is false, and the Service does not ask for it: annotation {annotation}: {name}")
        }
        PoolVerdict::NotRequested => {
            let requested = requested.unwrap_or_default();
            format!("the Service asks for another one: annotation {annotation}: {requested}")
        }
        PoolVerdict::Overruled(by) => format!("pool {by} is enforced for the Service, this one is not"),
        PoolVerdict::Draining => "mode is Drain: it gives nothing new".to_owned(),
        PoolVerdict::Disabled => "mode is Disabled".to_owned(),
        PoolVerdict::NoValues => "has no such values, or older pools have them all".to_owned(),
    }
}

/// When it is tried, and whether it has something.
fn offered<V: Value>(book: &Book<V>, governance: &Governance, name: &str) -> String {
    let before: Vec<&str> = governance
        .pools
        .iter()
        .map(|pool| &**pool)
        .take_while(|pool| *pool != name)
        .collect();
    let turn = match before.as_slice() {
        // The Service asks for a pool that it does not get.
        _ if governance.pools.is_empty() => "would serve it without the annotation".to_owned(),
        [] => "serves it, before all others".to_owned(),
        before => format!("serves it, after {} (priority, then name)", before.join(", ")),
    };
    let status = book.pools().find(|pool| &*pool.name == name).map(|pool| pool.status());
    let status = status.unwrap_or_default();
    let (total, available) = (status.total, status.available);
    match (total, available) {
        (0, _) => format!("{turn}; none of its values can be given"),
        (_, 0) => format!("{turn}; it is exhausted"),
        _ => format!("{turn}; {available} of {total} free"),
    }
}

#[cfg(test)]
mod tests;
