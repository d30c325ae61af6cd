//! Would the apiserver take this Service? The rules of kube-apiserver's `pkg/apis/core/validation`, `pkg/registry/core/service`
//! and `api/validation`, for a Service as a mutating webhook sees it: with defaults, before addresses and ports are allocated.
//!
//! ```text
//! new, old ─► prepare (carry over, normalise) ─► families ─► prepare (infer, allocate, wipe) ─► all other rules ─► findings
//! ```
//!
//! The steps of the pipeline are the apiserver's, since it answers where the first one fails: a wrong `clusterIPs` is told
//! alone. A rule is one line of a table, with the field it looks at. Only what no state and no flag of the apiserver can
//! change is here: which families there are, whether a value is free or in range, is not. Rules that depend on the apiserver's
//! version or gates have their laxer form: names as since 1.36, three traffic distributions, addresses with leading
//! zeros only doubted.
//!
//! No rule looks for what defaulting makes impossible: an empty type, protocol, affinity or traffic policy, a missing
//! `allocateLoadBalancerNodePorts`.

mod external;
mod families;
mod kind;
mod metadata;
mod ports;
mod prepare;
mod traffic;

use crate::cause::Findings;
use crate::service::{EXTERNAL_NAME, HEADLESS, Metadata, Service, Spec};

/// One rule: a line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The field that must be there for the rule to have something to say; `[]` is any entry.
    pub field: &'static str,
    /// What it demands.
    pub demand: &'static str,
    check: fn(&Case<'_>, &mut Findings),
}

impl Rule {
    const fn new(field: &'static str, demand: &'static str, check: fn(&Case<'_>, &mut Findings)) -> Self {
        Self { field, demand, check }
    }
}

/// What a rule looks at: the Service as the apiserver has it when its own rule is asked.
struct Case<'a> {
    metadata: &'a Metadata,
    spec: &'a Spec,
    old: Option<&'a Spec>,
    old_metadata: Option<&'a Metadata>,
}

/// The tables, in the order in which they are asked.
const TABLES: &[&[Rule]] = &[
    families::RULES,
    families::POLICY,
    ports::ALLOCATION,
    metadata::CREATE,
    metadata::UPDATE,
    metadata::ALWAYS,
    families::UPDATE,
    traffic::UPDATE,
    kind::RULES,
    ports::RULES,
    external::RULES,
    traffic::RULES,
];

/// Every rule there is.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    TABLES.iter().flat_map(|table| table.iter())
}

/// Judges a Service that is created, or changed from `old`. An old one that is being deleted can be changed in any way:
/// what heals must not be blocked.
pub fn judge(new: &Service, old: Option<&Service>) -> Findings {
    trace(new, old, &mut |_, _| {})
}

/// As [`judge`]; `seen` hears of every rule that was asked and whether it was broken.
pub fn trace(new: &Service, old: Option<&Service>, seen: &mut dyn FnMut(&'static Rule, bool)) -> Findings {
    let mut found = Findings::default();
    if old.is_some_and(Service::is_being_deleted) {
        return found;
    }
    let old_spec = old.map(|old| prepare::as_read(&old.spec));
    let mut pipeline = Pipeline {
        metadata: &new.metadata,
        old_metadata: old.map(|old| &old.metadata),
        spec: new.spec.clone(),
        old: old_spec,
        found: &mut found,
        seen,
    };
    pipeline.run();
    found
}

/// A Service as the apiserver has it when it allocates addresses; `None` if that is not done for it: it has none, or keeps those that it
/// has.
pub(crate) fn before_allocation(new: &Service, old: Option<&Service>) -> Option<Spec> {
    let (mut spec, old) = (new.spec.clone(), old.map(|old| prepare::as_read(&old.spec)));
    let old = old.as_ref();
    prepare::default(&mut spec);
    if let Some(old) = old {
        prepare::carry_over(&mut spec, old);
    }
    prepare::synchronise(&mut spec, old);
    if spec.is(EXTERNAL_NAME) || old.is_some_and(|old| prepare::stays_dual(&spec, old)) {
        return None;
    }
    prepare::choose_policy(&mut spec, old);
    prepare::release_second(&mut spec, old);
    let is_headless = spec.cluster_ip == HEADLESS || spec.cluster_ips.first().is_some_and(|ip| ip == HEADLESS);
    (!is_headless).then_some(spec)
}

struct Pipeline<'a> {
    metadata: &'a Metadata,
    old_metadata: Option<&'a Metadata>,
    spec: Spec,
    old: Option<Spec>,
    found: &'a mut Findings,
    seen: &'a mut dyn FnMut(&'static Rule, bool),
}

impl Pipeline<'_> {
    fn run(&mut self) {
        prepare::default(&mut self.spec);
        let old = self.old.as_ref();
        if let Some(old) = old {
            prepare::carry_over(&mut self.spec, old);
        }
        prepare::synchronise(&mut self.spec, old);
        if !self.spec.is(EXTERNAL_NAME) && !old.is_some_and(|old| prepare::stays_dual(&self.spec, old)) {
            prepare::choose_policy(&mut self.spec, old);
            if self.ask(families::RULES) {
                return;
            }
            prepare::release_second(&mut self.spec, self.old.as_ref());
            if self.ask(families::POLICY) {
                return;
            }
            prepare::infer_families(&mut self.spec);
            prepare::allocate_addresses(&mut self.spec, self.old.as_ref());
        }
        if self.ask(ports::ALLOCATION) {
            return;
        }
        prepare::allocate_ports(&mut self.spec, self.old.is_none());
        if let Some(old) = &self.old {
            prepare::wipe(&mut self.spec, old);
            self.ask(metadata::UPDATE);
        } else {
            self.ask(metadata::CREATE);
        }
        self.ask(metadata::ALWAYS);
        if self.old.is_some() {
            self.ask(families::UPDATE);
            self.ask(traffic::UPDATE);
        }
        self.ask(kind::RULES);
        self.ask(ports::RULES);
        if !self.spec.is(EXTERNAL_NAME) {
            self.ask(families::RULES);
        }
        self.ask(external::RULES);
        self.ask(traffic::RULES);
    }

    /// Asks the rules of a table; was one broken?
    fn ask(&mut self, table: &'static [Rule]) -> bool {
        let case = Case {
            metadata: self.metadata,
            spec: &self.spec,
            old: self.old.as_ref(),
            old_metadata: self.old_metadata,
        };
        let mut any = false;
        for rule in table {
            let before = self.found.count();
            (rule.check)(&case, self.found);
            let broken = self.found.count() > before;
            (self.seen)(rule, broken);
            any |= broken;
        }
        any
    }
}

#[cfg(test)]
mod tests;
