//! Fills in what the apiserver would allocate: `clusterIPs` and `nodePorts`, where the cluster's owner wants svcplane to choose them.
//!
//! What the user chose never changes, and what was filled in before (a further round of admission) is such a choice by then. The apiserver
//! remains the arbiter: it reserves what is chosen here, or refuses.

mod addresses;
mod asker;
mod ports;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use svcplane_allocators::books::{Book, Governance, NotChosen, RequestError, Source};
use svcplane_allocators::pools::PoolVerdict;
use svcplane_allocators::service::ChoiceKey;
use svcplane_allocators::value::Value;

pub(crate) use self::asker::{Asker, namespace_of};
pub(crate) use self::ports::field as port_field;

use crate::cause::{Cause, Reason, quoted};
use crate::ledger::Ledger;
use crate::review::PatchOperation;
use crate::service::Service;

/// Where svcplane chooses (`--allocate`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Allocate {
    /// Nowhere: the apiserver allocates everything.
    Off,
    /// Where a pool governs the Service. Elsewhere choosing adds risk and no value.
    #[default]
    Pooled,
    /// Everywhere in the cluster's ranges.
    All,
}

/// Labelled with any value, a Service gets no value from svcplane. An enforced pool binds it all the same.
pub const SKIP_LABEL: &str = "svcplane.io/skip";

/// Names the ClusterIPPool that a Service wants.
pub const CLUSTER_IP_POOL: &str = "svcplane.io/cluster-ip-pool";

/// Names the NodePortPool that a Service wants.
pub const NODE_PORT_POOL: &str = "svcplane.io/node-port-pool";

/// The pool that an annotation names. An empty text asks for none, as everywhere.
pub fn requested_pool<'a>(annotations: &'a BTreeMap<String, String>, annotation: &str) -> Option<&'a str> {
    let text = annotations.get(annotation)?.trim();
    (!text.is_empty()).then_some(text)
}

/// What is done with the fields of one Service.
#[derive(Debug, Default)]
pub(crate) struct Filled {
    /// The chosen values.
    pub patch: Vec<PatchOperation>,
    /// How many addresses and nodePorts were chosen.
    pub addresses: usize,
    pub ports: usize,
    /// Why it must be refused: its pool is enforced and gives nothing.
    pub refused: Vec<Cause>,
    /// An enforced pool governs, and could not be asked.
    pub bypassed: bool,
}

/// What filling depends on beside the ledger.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub allocate: Allocate,
    /// All that choices rest on is known.
    pub is_live: bool,
    /// A stored Service is changed.
    pub is_update: bool,
    /// Nothing will be stored, so nothing is kept.
    pub dry_run: bool,
    /// Uniform over all of `u64`.
    pub random: u64,
    pub now: Instant,
}

/// Chooses what `new` needs.
pub(crate) fn fill(ledger: &mut Ledger, asker: &Asker, new: &Service, old: Option<&Service>, terms: Terms) -> Filled {
    let mut filled = Filled::default();
    if terms.allocate == Allocate::Off || new.metadata.labels.contains_key(SKIP_LABEL) {
        return filled;
    }
    let addresses = addresses::fill(ledger, asker, new, old, terms, &mut filled);
    let ports = ports::fill(ledger, asker, new, old, terms, &mut filled);
    if filled.refused.is_empty() {
        (filled.addresses, filled.ports) = (addresses.len(), ports.len());
    } else {
        filled.patch.clear();
        addresses::withdraw(ledger, asker, &addresses, terms.now);
        ports::withdraw(ledger, asker, &ports, terms.now);
    }
    filled
}

/// What became of one field.
enum Outcome<V> {
    Chosen(V),
    /// The apiserver allocates.
    LeftEmpty,
    /// As before, although an enforced pool governs: what it depends on is not known.
    Bypassed,
    /// It must not be stored without a value of an enforced pool, or with another than that of the pool that it asks for.
    Refused(String),
}

impl<V> Outcome<V> {
    fn map<W>(self, change: impl FnOnce(V) -> W) -> Outcome<W> {
        match self {
            Self::Chosen(value) => Outcome::Chosen(change(value)),
            Self::LeftEmpty => Outcome::LeftEmpty,
            Self::Bypassed => Outcome::Bypassed,
            Self::Refused(message) => Outcome::Refused(message),
        }
    }
}

/// As [`Book::govern`] says it.
type Governed = Result<Governance, RequestError>;

/// One field that needs a value.
struct Wish<'a> {
    key: &'a ChoiceKey,
    /// The annotation that asks for a pool.
    annotation: &'static str,
    /// Which pools serve the Service.
    governance: &'a Governed,
    terms: Terms,
    /// What a value further on in the same list needs: it can only be given if this one is.
    later: Urgency,
}

/// How much it matters that svcplane chooses a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    /// The apiserver may as well.
    #[default]
    Indifferent,
    /// The cluster's owner wants it.
    Wanted,
    /// Left to itself, the apiserver would give what pools keep for others, and the Service would be refused.
    Certain,
    /// An enforced pool governs.
    Enforced,
}

fn urgency<V: Value>(book: &Book<V>, governance: &Governance, allocate: Allocate) -> Urgency {
    if governance.enforced {
        Urgency::Enforced
    } else if book.keeps_values_for_some() {
        Urgency::Certain
    } else if allocate == Allocate::All || governance.source().is_some() {
        Urgency::Wanted
    } else {
        Urgency::Indifferent
    }
}

fn choose<V: Value>(book: &mut Book<V>, wish: &Wish<'_>) -> Outcome<V> {
    let Terms {
        allocate,
        is_live,
        is_update,
        dry_run,
        random,
        now,
    } = wish.terms;
    let governance = match wish.governance {
        Ok(governance) => governance,
        Err(error) if is_live => return Outcome::Refused(error.to_string()),
        Err(_) => return Outcome::LeftEmpty,
    };
    let urgency = urgency(book, governance, allocate).max(wish.later);
    if !is_live {
        return if urgency == Urgency::Enforced {
            Outcome::Bypassed
        } else {
            Outcome::LeftEmpty
        };
    }
    if governance.enforced && governance.pools.is_empty() {
        return Outcome::Refused(unserved(governance, wish.annotation));
    }
    let certain = urgency >= Urgency::Certain;
    let pools = (!governance.pools.is_empty()).then_some(Source::Pools {
        names: &governance.pools,
        enforced: certain,
    });
    // A pool that is not enforced may be full.
    let elsewhere = match urgency {
        Urgency::Indifferent => None,
        _ if governance.enforced => None,
        Urgency::Wanted if pools.is_some() => None,
        Urgency::Wanted => Some(Source::Ranges),
        Urgency::Certain | Urgency::Enforced => Some(Source::Outside),
    };
    if is_update && !dry_run {
        book.renounce(wish.key, now);
    }
    let mut why = None;
    for source in pools.into_iter().chain(elsewhere) {
        let choice = if dry_run {
            book.peek(wish.key, source, random, now)
        } else {
            book.choose(wish.key, source, random, now)
        };
        match choice {
            Ok(choice) => return Outcome::Chosen(choice.value),
            Err(reason) => why = Some(reason),
        }
    }
    match why {
        Some(reason) if governance.enforced => Outcome::Refused(exhausted(book, &governance.pools, reason)),
        _ => Outcome::LeftEmpty,
    }
}

/// Why enforced pools that select a Service give it nothing without being asked, and how to ask.
fn unserved(governance: &Governance, annotation: &str) -> String {
    let on_request = governance
        .verdicts
        .iter()
        .filter(|(_, verdict)| *verdict == PoolVerdict::NotAutomatic);
    let names: Vec<&str> = on_request.map(|(name, _)| &**name).collect();
    if names.is_empty() {
        "no pool that is enforced for this Service gives values now; see kubectl get clusterippools,nodeportpools"
            .to_owned()
    } else {
        let names = names.join(" or ");
        format!(
            "a pool is enforced for this Service that gives values on request: add the annotation {annotation}: {names}"
        )
    }
}

fn exhausted<V: Value>(book: &Book<V>, pools: &[Arc<str>], reason: NotChosen) -> String {
    let names: Vec<String> = pools.iter().map(|pool| quoted(pool)).collect();
    let word = if names.len() == 1 { "pool" } else { "pools" };
    let names = format!("{word} {}, enforced for this Service", names.join(", "));
    let parts = book.pools().filter(|part| pools.contains(&part.name));
    let resting: u64 = parts.map(|part| part.counts.pending + part.counts.quarantined).sum();
    match reason {
        NotChosen::Full if resting > 0 => {
            format!(
                "no value is free in {names}; {resting} are about to be used or rest after use: try again, or enlarge it"
            )
        }
        NotChosen::Full => format!("no value is free in {names}; enlarge it or delete a Service that holds one"),
        NotChosen::NoRange => format!(
            "no value of {names}, lies in a range that has been ready for 10 s; if the ServiceCIDR is new try again, else edit the pool"
        ),
        reason => format!("{names}: {reason}; try again"),
    }
}

fn refusal(field: String, message: String) -> Cause {
    Cause {
        field,
        reason: Reason::Forbidden,
        message,
    }
}

/// The field that an annotation of this name is in.
fn annotation_field(name: &str) -> String {
    format!("metadata.annotations[{name}]")
}
