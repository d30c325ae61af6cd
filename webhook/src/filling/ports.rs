//! `spec.ports[].nodePort` (spec/allocation.md 2.2 and 2.3). Health check ports are left to the apiserver.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use svcplane_allocators::books::Book;
use svcplane_allocators::node_ports::{Need, NodePorts, Protocol, ServicePort, needs_on_create, needs_on_update};
use svcplane_allocators::service::Field;
use svcplane_allocators::value::NodePort;

use super::{
    Asker, Filled, Governed, NODE_PORT_POOL, Outcome, Terms, Urgency, Wish, annotation_field, choose, refusal,
    requested_pool,
};
use crate::ledger::{Ledger, selects};
use crate::review::PatchOperation;
use crate::service::{Port, Service, Spec, port_number};

/// A choice, and the field that it was made for.
pub(super) type Chosen = (Field, NodePort);

/// Chooses them; returns those that must be withdrawn if the Service is refused.
pub(super) fn fill(
    ledger: &mut Ledger,
    asker: &Asker,
    new: &Service,
    old: Option<&Service>,
    terms: Terms,
    filled: &mut Filled,
) -> Vec<Chosen> {
    let Some(needs) = needs(&new.spec, old.map(|old| &old.spec)) else {
        return Vec::new();
    };
    let Ledger {
        node_ports,
        node_port_pools,
        namespaces,
        ..
    } = ledger;
    let labels = &new.metadata.labels;
    let selects = |name: &str| selects(namespaces, node_port_pools.get(name), asker.namespace(), labels);
    let requested = requested_pool(&new.metadata.annotations, NODE_PORT_POOL);
    // Once for all ports.
    let governance = node_ports.govern(selects, requested);
    let chosen = node_ports.apart_from(&named(&new.spec), terms.now, |book| {
        choose_each(book, asker, new, &needs, &governance, terms, filled)
    });
    if terms.dry_run { Vec::new() } else { chosen }
}

/// The numbers that the Service names itself. Those that it does not hold yet are free for all that the book knows.
fn named(spec: &Spec) -> BTreeSet<NodePort> {
    let ports = spec.ports.iter().map(|port| port.node_port);
    ports
        .chain([spec.health_check_node_port])
        .filter_map(port_number)
        .collect()
}

fn choose_each(
    book: &mut Book<NodePort>,
    asker: &Asker,
    new: &Service,
    needs: &[Need],
    governance: &Governed,
    terms: Terms,
    filled: &mut Filled,
) -> Vec<Chosen> {
    let requested = requested_pool(&new.metadata.annotations, NODE_PORT_POOL).is_some();
    let mut chosen: BTreeMap<usize, Chosen> = BTreeMap::new();
    for (index, (need, port)) in needs.iter().zip(&new.spec.ports).enumerate() {
        let number = match need {
            Need::Nothing | Need::Keep(_) | Need::Given(_) => continue,
            Need::SameAs(first) => match chosen.get(first) {
                Some((_, number)) => *number,
                None => continue,
            },
            Need::Choose => {
                let Some(field) = field(port) else { continue };
                let key = asker.key(field);
                let wish = Wish {
                    key: &key,
                    annotation: NODE_PORT_POOL,
                    governance,
                    terms: Terms {
                        // Ports of one Service are not to lie side by side.
                        random: terms.random.rotate_left(u32::try_from(index % 64).unwrap_or_default()),
                        ..terms
                    },
                    later: Urgency::default(),
                };
                match choose(book, &wish) {
                    // A dry run keeps nothing, so two of its ports may get one number.
                    Outcome::Chosen(number) if chosen.values().any(|(_, taken)| *taken == number) => continue,
                    Outcome::Chosen(number) => {
                        chosen.insert(index, (field, number));
                        number
                    }
                    Outcome::LeftEmpty => continue,
                    Outcome::Bypassed => {
                        filled.bypassed = true;
                        break;
                    }
                    Outcome::Refused(message) => {
                        let field = if requested {
                            annotation_field(NODE_PORT_POOL)
                        } else {
                            format!("spec.ports[{index}].nodePort")
                        };
                        filled.refused.push(refusal(field, message));
                        break;
                    }
                }
            }
        };
        filled.patch.push(PatchOperation::Add {
            path: format!("/spec/ports/{index}/nodePort"),
            value: number.get().into(),
        });
    }
    chosen.into_values().collect()
}

/// Takes back what was chosen for a Service that is refused.
pub(super) fn withdraw(ledger: &mut Ledger, asker: &Asker, chosen: &[Chosen], now: Instant) {
    for (field, number) in chosen {
        ledger.node_ports.withdraw(&asker.key(*field), *number, now);
    }
}

/// What each port needs; `None` if one of them is no port, which the apiserver refuses.
fn needs(new: &Spec, old: Option<&Spec>) -> Option<Vec<Need>> {
    let ports = entries(new)?;
    let Some(old) = old else {
        return Some(needs_on_create(uses(new), &ports));
    };
    let old_ports = entries(old)?;
    Some(needs_on_update((uses(old), &old_ports), (uses(new), &ports)))
}

fn uses(spec: &Spec) -> NodePorts {
    match (spec.service_type.as_str(), spec.allocate_load_balancer_node_ports) {
        ("LoadBalancer", Some(false)) => NodePorts::OnRequest,
        ("NodePort" | "LoadBalancer", _) => NodePorts::Automatic,
        _ => NodePorts::Unused,
    }
}

fn entries(spec: &Spec) -> Option<Vec<ServicePort<'_>>> {
    let entries = spec.ports.iter().map(|entry| {
        Some(ServicePort {
            name: &entry.name,
            port: u16::try_from(entry.port).ok()?,
            node_port: NodePort::new(u16::try_from(entry.node_port).ok()?),
        })
    });
    entries.collect()
}

/// The field of this entry, as long as the apiserver could take it.
pub(crate) fn field(port: &Port) -> Option<Field> {
    let protocol = match port.protocol.as_str() {
        "TCP" | "" => Protocol::Tcp,
        "UDP" => Protocol::Udp,
        "SCTP" => Protocol::Sctp,
        _ => return None,
    };
    let port = u16::try_from(port.port).ok()?;
    Some(Field::NodePort { port, protocol })
}
