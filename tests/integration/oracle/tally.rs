//! What came out, in numbers.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;
use svcplane_webhook::judge::{self, Rule};

use super::compare::{Compared, Outcome};

/// How many examples of each outcome that is worth a look are kept.
const EXAMPLES: usize = 12;

/// A rule, by what it says.
type Key = (&'static str, &'static str);

/// The numbers.
#[derive(Default)]
pub struct Tally {
    outcomes: BTreeMap<Outcome, usize>,
    rules: BTreeMap<Key, Hits>,
    examples: BTreeMap<Outcome, Vec<String>>,
    not_asked: usize,
}

#[derive(Clone, Copy, Default)]
struct Hits {
    /// It was broken, and the apiserver said the same.
    refused: usize,
    /// It was asked about a field that was there, and the apiserver accepted.
    accepted: usize,
}

impl Tally {
    pub(super) fn not_asked(&mut self) {
        self.not_asked += 1;
    }

    pub(super) fn add(&mut self, compared: Compared) {
        *self.outcomes.entry(compared.outcome).or_default() += 1;
        match compared.outcome {
            Outcome::Same => {
                for (rule, _) in compared.rules.iter().filter(|(_, broken)| *broken) {
                    self.hits(rule).refused += 1;
                }
            }
            Outcome::Accepted => {
                for (rule, _) in &compared.rules {
                    if is_there(&compared.object, rule.field) {
                        self.hits(rule).accepted += 1;
                    }
                }
            }
            Outcome::Allocation | Outcome::Gate | Outcome::BeingDeleted => {}
            noted => {
                let examples = self.examples.entry(noted).or_default();
                if examples.len() < EXAMPLES {
                    examples.push(compared.words);
                }
            }
        }
    }

    fn hits(&mut self, rule: &Rule) -> &mut Hits {
        self.rules.entry((rule.field, rule.demand)).or_default()
    }

    fn count(&self, outcome: Outcome) -> usize {
        self.outcomes.get(&outcome).copied().unwrap_or_default()
    }

    /// How often we refused or doubted what the apiserver accepts.
    pub fn false_refusals(&self) -> usize {
        self.count(Outcome::FalseRefusal) + self.count(Outcome::FalseDoubt)
    }

    /// The share of the apiserver's refusals that depend on nothing but the request, which we refuse for the same fields and
    /// reasons.
    pub fn agreement(&self) -> f64 {
        let same = self.count(Outcome::Same);
        let all = same + self.count(Outcome::Different) + self.count(Outcome::Missed);
        #[allow(clippy::cast_precision_loss, reason = "counts of requests")]
        let share = same as f64 / all.max(1) as f64;
        share
    }

    /// Rules that were not hit so often both ways, in words.
    pub fn seldom(&self, times: usize) -> Vec<String> {
        let rules = judge::rules().filter_map(|rule| {
            let hits = self.rules.get(&(rule.field, rule.demand)).copied().unwrap_or_default();
            (hits.refused < times || hits.accepted < times).then(|| {
                format!(
                    "{}: {} (refused {}, accepted {})",
                    rule.field, rule.demand, hits.refused, hits.accepted
                )
            })
        });
        rules.collect()
    }
}

/// Is there a value at this path? `[]` is any entry.
fn is_there(object: &Value, path: &str) -> bool {
    let Some((first, rest)) = path.split_once('.') else {
        return match path.strip_suffix("[]") {
            Some(list) => object[list].as_array().is_some_and(|list| !list.is_empty()),
            None => !object[path].is_null(),
        };
    };
    match first.strip_suffix("[]") {
        Some(list) => object[list]
            .as_array()
            .is_some_and(|list| list.iter().any(|entry| is_there(entry, rest))),
        None => is_there(&object[first], rest),
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total: usize = self.outcomes.values().sum();
        writeln!(
            f,
            "{total} requests judged, {} never reached the webhook",
            self.not_asked
        )?;
        for (outcome, count) in &self.outcomes {
            writeln!(f, "{count:>8}  {outcome:?}")?;
        }
        writeln!(f, "  agreement {:.2} %", self.agreement() * 100.0)?;
        writeln!(f, " refused accepted  rule")?;
        for ((field, demand), hits) in &self.rules {
            writeln!(f, "{:>8} {:>8}  {field}: {demand}", hits.refused, hits.accepted)?;
        }
        for (outcome, examples) in &self.examples {
            for example in examples {
                writeln!(f, "{outcome:?}: {example}")?;
            }
        }
        Ok(())
    }
}
