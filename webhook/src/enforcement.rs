//! Our own rules about values, on the final object: which pool a value is from, and whom it is kept for. On an update, only values that
//! have changed.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use svcplane_allocators::books::Refusal;
use svcplane_allocators::interval::{Interval, Segments};
use svcplane_allocators::service::{Field, ServiceKey};
use svcplane_allocators::value::NodePort;

use crate::address::Written;
use crate::cause::{Cause, Reason};
use crate::filling::{Asker, port_field};
use crate::ledger::{Ledger, NEW_NAMESPACE};
use crate::service::{Port, Service, Spec, port_number};

/// The user that kube-apiserver is to itself: it may not be kept from making `default/kubernetes`.
const APISERVER: &str = "system:apiserver";

/// Ranges of nodePorts that one message names.
const MOST_VALUES: usize = 10;

/// What is to be said about the values of a Service.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Values that it may not have.
    pub refused: Vec<Cause>,
    /// What the user is told beside.
    pub warnings: Vec<String>,
    /// Values that it may not have, as far as is known, and too little is known to refuse them.
    pub doubted: Vec<Cause>,
}

/// As [`Ledger::judge_node_port`] says it.
type Judged = Result<Option<Arc<str>>, Refusal>;

/// A value that is new in a Service.
struct Fresh<V> {
    /// Where it is.
    path: String,
    /// What it is for.
    field: Field,
    value: V,
}

/// Whether `new` may have its values. `keeps`: those of one that may are kept for it from now on.
pub(crate) fn enforce(
    ledger: &mut Ledger,
    asker: &Asker,
    user: &str,
    (new, old): (&Service, Option<&Service>),
    keeps: bool,
    now: Instant,
) -> Verdict {
    let mut verdict = Verdict::default();
    let addresses = fresh_addresses(&new.spec, old.map(|old| &old.spec));
    let ports = fresh_ports(&new.spec, old.map(|old| &old.spec));
    if user != APISERVER {
        let service = ServiceKey::new(asker.namespace(), new.metadata.name.as_str());
        let labels = &new.metadata.labels;
        let known = Acquaintance::of(ledger, asker.namespace(), now);
        for fresh in &addresses {
            let judged = ledger.judge_cluster_ip(&service, labels, fresh.value);
            verdict.note(&fresh.path, &fresh.value.to_string(), judged, known);
        }
        for (judged, fresh) in by_judgement(&ports, |port| ledger.judge_node_port(&service, labels, port)) {
            let Some(first) = fresh.first() else { continue };
            let values: Segments<NodePort> = fresh.iter().map(|it| Interval::single(it.value)).collect();
            verdict.note(&first.path, &values.abridged(MOST_VALUES), judged, known);
        }
    }
    if keeps && verdict.refused.is_empty() {
        for fresh in addresses {
            ledger.cluster_ips.confirm(&asker.key(fresh.field), fresh.value, now);
        }
        for fresh in ports {
            ledger.node_ports.confirm(&asker.key(fresh.field), fresh.value, now);
        }
    }
    verdict
}

impl Verdict {
    /// What becomes of these values, the first of which is at this path.
    fn note(&mut self, path: &str, values: &str, judged: Result<Option<Arc<str>>, Refusal>, namespace: Acquaintance) {
        match judged {
            Ok(None) => {}
            Ok(Some(pool)) => {
                let warning = format!("{path}: {values} is from pool {pool:?}, which is being drained");
                self.warnings.push(warning);
            }
            Err(refusal) => {
                let cause = Cause {
                    field: path.to_owned(),
                    reason: Reason::Forbidden,
                    message: format!("{values} {refusal}; choose another, or leave the field empty"),
                };
                let is_sure = match refusal {
                    Refusal::Reserved { .. } => namespace >= Acquaintance::None,
                    Refusal::Fenced { .. } => namespace >= Acquaintance::New,
                    Refusal::OutsidePools { .. } => namespace >= Acquaintance::Old,
                };
                let list = if is_sure { &mut self.refused } else { &mut self.doubted };
                list.push(cause);
            }
        }
    }
}

/// What is said of the values of a Service, each thing once: a Service may have thousands of ports.
fn by_judgement<V: Copy>(fresh: &[Fresh<V>], judge: impl Fn(V) -> Judged) -> Vec<(Judged, Vec<&Fresh<V>>)> {
    let mut groups: Vec<(_, Vec<&Fresh<V>>)> = Vec::new();
    for fresh in fresh {
        let judged = judge(fresh.value);
        match groups.iter_mut().find(|(known, _)| *known == judged) {
            Some((_, group)) => group.push(fresh),
            None => groups.push((judged, vec![fresh])),
        }
    }
    groups
}

/// How well the cluster and the namespace of a Service are known, and so how sure a refusal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Acquaintance {
    /// The watches lag: nothing is sure.
    Lagging,
    /// The namespace is not known, so neither are its labels.
    None,
    /// It is known, and may not have been known to the replica that had the mutating call and would have chosen.
    New,
    /// Well.
    Old,
}

impl Acquaintance {
    fn of(ledger: &Ledger, namespace: &str, now: Instant) -> Self {
        match ledger.namespaces.get(namespace) {
            _ if ledger.waits_for(now).is_some() => Self::Lagging,
            None => Self::None,
            Some(known) if now.saturating_duration_since(known.since) < NEW_NAMESPACE => Self::New,
            Some(_) => Self::Old,
        }
    }
}

fn fresh_addresses(new: &Spec, old: Option<&Spec>) -> Vec<Fresh<IpAddr>> {
    let had = |ip: &String| old.is_some_and(|old| old.cluster_ips.contains(ip));
    // No Service has more: what else is there the apiserver has refused, or never seen.
    let listed = new
        .listed_cluster_ips()
        .iter()
        .take(2)
        .enumerate()
        .filter(|(_, ip)| !had(ip));
    let fresh = listed.filter_map(|(index, ip)| {
        Some(Fresh {
            path: format!("spec.clusterIPs[{index}]"),
            field: Field::ClusterIp,
            value: Written::parse(ip)?.address,
        })
    });
    fresh.collect()
}

/// Each number once. Health check ports are the apiserver's choice.
fn fresh_ports(new: &Spec, old: Option<&Spec>) -> Vec<Fresh<NodePort>> {
    let mut seen: BTreeSet<NodePort> = old.into_iter().flat_map(|old| &old.ports).filter_map(number).collect();
    let listed = new.ports.iter().enumerate();
    let fresh = listed.filter_map(|(index, port)| {
        let value = number(port).filter(|value| seen.insert(*value))?;
        Some(Fresh {
            path: format!("spec.ports[{index}].nodePort"),
            field: port_field(port)?,
            value,
        })
    });
    fresh.collect()
}

fn number(port: &Port) -> Option<NodePort> {
    port_number(port.node_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    use Acquaintance::{Lagging, New, None as Unknown, Old};

    fn refused(refusal: Refusal, namespace: Acquaintance) -> bool {
        let mut verdict = Verdict::default();
        verdict.note("spec.clusterIPs[0]", "10.96.0.7", Err(refusal), namespace);
        assert_eq!(verdict.refused.len() + verdict.doubted.len(), 1);
        !verdict.refused.is_empty()
    }

    /// A refusal that nobody caused is worse than a value that the audit finds.
    #[test]
    fn a_refusal_is_as_sure_as_what_it_rests_on() {
        let outside = || Refusal::OutsidePools {
            pools: vec!["front".into()],
        };
        let fenced = || Refusal::Fenced { pool: "front".into() };
        let reserved = || Refusal::Reserved {
            service: ServiceKey::new("shop", "web"),
            pool: "front".into(),
        };
        let by_namespace =
            |refusal: &dyn Fn() -> Refusal| [Lagging, Unknown, New, Old].map(|known| refused(refusal(), known));
        assert_eq!(by_namespace(&outside), [false, false, false, true]);
        assert_eq!(by_namespace(&fenced), [false, false, true, true]);
        assert_eq!(by_namespace(&reserved), [false, true, true, true]);
    }

    #[test]
    fn thousands_of_ports_are_refused_in_a_few_words() {
        let ports: Vec<Fresh<NodePort>> = (0..2_000_u16)
            .map(|index| Fresh {
                path: format!("spec.ports[{index}].nodePort"),
                field: Field::ClusterIp,
                value: NodePort::new(30_000 + index).unwrap(),
            })
            .collect();
        let fenced = |port: NodePort| {
            let of_others = port.get() % 100 < 2;
            of_others
                .then(|| Refusal::Fenced { pool: "front".into() })
                .map_or(Ok(None), Err)
        };
        let mut verdict = Verdict::default();
        for (judged, fresh) in by_judgement(&ports, fenced) {
            let values: Segments<NodePort> = fresh.iter().map(|it| Interval::single(it.value)).collect();
            verdict.note(&fresh[0].path, &values.abridged(MOST_VALUES), judged, Old);
        }
        let told: Vec<String> = verdict.refused.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "spec.ports[0].nodePort: 30000-30001, 30100-30101, 30200-30201, 30300-30301, 30400-30401, 30500-30501, 30600-30601, \
                 30700-30701, 30800-30801, 30900-30901 and 20 more belongs to pool \"front\", which is enforced and does not select \
                 this Service; choose another, or leave the field empty"
            ]
        );
    }
}
