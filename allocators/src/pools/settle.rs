//! Two pools that name one value: the older has it.

use std::sync::Arc;

use super::{Holdings, Mode, PoolTerms};
use crate::interval::Segments;
use crate::value::Value;

/// What is left of a pool beside the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled<V> {
    /// What it names and no older pool does.
    pub owned: Segments<V>,
    /// The pools that name a value of its too, by name, and whether they are older and so have it.
    pub conflicts: Vec<(Arc<str>, bool)>,
}

/// Gives each value to the oldest pool that names it (by creation, then name), so that the younger pool goes on with what is left. Disabled
/// pools have nothing. In the order of `pools`.
pub fn settle<'a, V: Value>(pools: impl IntoIterator<Item = (&'a PoolTerms, &'a Holdings<V>)>) -> Vec<Settled<V>> {
    let pools: Vec<_> = pools.into_iter().collect();
    let age = |terms: &'a PoolTerms| (terms.created, &terms.name);
    let enabled = |terms: &PoolTerms| terms.mode != Mode::Disabled;
    let settle = |(terms, holdings): &(&'a PoolTerms, &'a Holdings<V>)| {
        let (mut owned, mut conflicts) = (holdings.values.clone(), Vec::new());
        if !enabled(terms) {
            owned = Segments::default();
        }
        let others = pools
            .iter()
            .filter(|(other, _)| other.name != terms.name && enabled(other) && enabled(terms));
        for (other, theirs) in others {
            if holdings.values.intersection(&theirs.values).is_empty() {
                continue;
            }
            let older = age(other) < age(terms);
            conflicts.push((Arc::clone(&other.name), older));
            if older {
                owned = owned.minus(&theirs.values);
            }
        }
        conflicts.sort();
        Settled { owned, conflicts }
    };
    pools.iter().map(settle).collect()
}
