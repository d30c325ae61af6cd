//! How many objects differ from what would be stored, as the last look at each Service found.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::controller::Controller;
use crate::model::ObjectKey;

/// `reason` of objects that active mode could not write; they are tried again.
pub const WRITE_FAILED: &str = "write_failed";

/// One object that differs: whose it is, and why. Reasons are from a closed set.
pub type Difference = (Controller, &'static str);

/// What each Service's last look found. Services that are in order are not in it.
#[derive(Debug, Default)]
pub struct Drift(Mutex<HashMap<ObjectKey, Box<[Difference]>, ahash::RandomState>>);

impl Drift {
    /// A look at `key` is over and found these. `add` hears of each change of the sums, while no other look is noted. What is found when
    /// this process no longer `leads` is not noted: [`forget`](Self::forget) has been or will be, and nobody would take it back.
    pub fn note(
        &self,
        key: &ObjectKey,
        found: Vec<Difference>,
        leads: impl FnOnce() -> bool,
        mut add: impl FnMut(Difference, i64),
    ) {
        let mut known = self.0.lock();
        if !leads() {
            return;
        }
        let before = if found.is_empty() {
            known.remove(key)
        } else {
            for difference in &found {
                add(*difference, 1);
            }
            known.insert(key.clone(), found.into())
        };
        for difference in before.into_iter().flatten() {
            add(difference, -1);
        }
    }

    /// Somebody else leads: what is known here grows stale.
    pub fn forget(&self, mut add: impl FnMut(Difference, i64)) {
        for difference in self.0.lock().drain().flat_map(|(_, found)| found) {
            add(difference, -1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Sums = BTreeMap<Difference, i64>;

    fn add(sums: &mut Sums) -> impl FnMut(Difference, i64) + '_ {
        |difference, by| *sums.entry(difference).or_default() += by
    }

    fn key(number: u8) -> ObjectKey {
        ObjectKey::new("marsh", format!("web-{number}"))
    }

    #[test]
    fn the_sums_rise_with_what_is_found_and_fall_when_it_agrees() {
        let (drift, mut sums) = (Drift::default(), Sums::new());
        let (endpoints, slice) = ((Controller::Endpoints, "labels"), (Controller::Slices, "content"));
        drift.note(&key(1), vec![endpoints, slice, slice], || true, add(&mut sums));
        drift.note(&key(2), vec![slice], || true, add(&mut sums));
        assert_eq!(sums, Sums::from([(endpoints, 1), (slice, 3)]));
        drift.note(&key(1), vec![slice], || true, add(&mut sums));
        assert_eq!(sums, Sums::from([(endpoints, 0), (slice, 2)]));
        drift.note(&key(1), Vec::new(), || true, add(&mut sums));
        drift.note(&key(1), Vec::new(), || true, add(&mut sums));
        assert_eq!(sums, Sums::from([(endpoints, 0), (slice, 1)]));
        drift.forget(add(&mut sums));
        assert_eq!(sums, Sums::from([(endpoints, 0), (slice, 0)]));
    }

    /// A write that was under way when the term ended fails after everything was forgotten.
    #[test]
    fn what_is_found_after_the_term_is_not_noted() {
        let (drift, mut sums) = (Drift::default(), Sums::new());
        let failed = (Controller::Endpoints, WRITE_FAILED);
        drift.note(&key(1), vec![failed], || true, add(&mut sums));
        drift.forget(add(&mut sums));
        drift.note(&key(1), vec![failed], || false, add(&mut sums));
        assert_eq!(sums, Sums::from([(failed, 0)]));
        drift.note(&key(1), vec![failed], || true, add(&mut sums));
        assert_eq!(sums, Sums::from([(failed, 1)]), "the next term begins from nothing");
    }

    fn difference() -> impl Strategy<Value = Difference> {
        let reason = prop_oneof![Just("missing"), Just("content"), Just(WRITE_FAILED)];
        (prop::sample::select(&Controller::OF_ENDPOINTS[..]), reason)
    }

    proptest! {
        /// Whatever the order of looks: the sums are those of each key's last look, and nothing else stays.
        #[test]
        fn the_sums_are_those_of_the_last_looks(
            looks in prop::collection::vec((0_u8..5, prop::collection::vec(difference(), 0..4)), 0..40)
        ) {
            let (drift, mut sums) = (Drift::default(), Sums::new());
            let mut last: BTreeMap<u8, Vec<Difference>> = BTreeMap::new();
            for (number, found) in looks {
                drift.note(&key(number), found.clone(), || true, add(&mut sums));
                last.insert(number, found);
                let mut want = Sums::new();
                for found in last.values().flatten() {
                    *want.entry(*found).or_default() += 1;
                }
                sums.retain(|_, sum| *sum != 0);
                prop_assert_eq!(&sums, &want);
            }
            drift.forget(add(&mut sums));
            prop_assert!(sums.values().all(|sum| *sum == 0));
        }
    }
}
