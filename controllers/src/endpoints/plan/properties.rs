//! Whatever was stored before, one write is enough.

use proptest::prelude::*;
use proptest::sample::subsequence;

use super::super::compute::properties::{some_pods, some_service};
use super::super::repack::tests::some_subsets;
use super::super::{compute, fixtures::*, repack};
use super::*;

const KEYS: [(&str, &str); 6] = [
    ("app", "knot"),
    ("tier", "web"),
    (HEADLESS_LABEL, ""),
    (HEADLESS_LABEL, "x"),
    (MANAGED_BY_LABEL, MANAGED_BY),
    (MANAGED_BY_LABEL, "someone"),
];
const NOTES: [(&str, &str); 4] = [
    ("note", "mine"),
    (TRIGGER_TIME_ANNOTATION, "2018-01-01T00:00:00Z"),
    (OVER_CAPACITY_ANNOTATION, TRUNCATED),
    (OVER_CAPACITY_ANNOTATION, "warning"),
];

fn some_of(pairs: &'static [(&'static str, &'static str)]) -> impl Strategy<Value = Labels> {
    subsequence(pairs, 0..=pairs.len()).prop_map(|pairs| labels(&pairs))
}

fn some_stored() -> impl Strategy<Value = EndpointsObject> {
    (some_of(&KEYS), some_of(&NOTES), some_subsets()).prop_map(|(labels, annotations, subsets)| EndpointsObject {
        labels,
        annotations,
        subsets,
        ..stored(&service("knot"), vec![])
    })
}

proptest! {
    #[test]
    fn a_second_plan_is_empty(
        (service, service_labels) in (some_service(), some_of(&KEYS)),
        pods in some_pods(),
        observed in proptest::option::of(some_stored()),
        trigger in proptest::option::of(0..9_i64),
    ) {
        let service = Service { labels: service_labels, ..service };
        let desired = compute(&service, &pods);
        let trigger = trigger.map(Timestamp);
        let Some(operation) = plan(&service, desired.clone(), observed.as_ref(), trigger) else {
            // Nothing to do only if what is stored says the same.
            let observed = observed.unwrap();
            prop_assert_eq!(repack(observed.subsets), desired);
            return Ok(());
        };
        prop_assert_eq!(
            operation.replaces.clone().map(|version| version.revision),
            observed.as_ref().map(|observed| observed.revision)
        );
        let note = observed.and_then(|observed| observed.annotations.get("note").cloned());
        prop_assert_eq!(operation.content.annotations.get("note").cloned(), note);
        let written = operation.into_object(Uid::parse("e"), Revision(50));
        prop_assert_eq!(&written.subsets, &desired);
        prop_assert_eq!(plan(&service, desired, Some(&written), Some(Timestamp(9))), None);
    }

    #[test]
    fn order_and_grouping_are_no_reason(
        (service, pods) in (some_service(), some_pods()),
        turn in 0..9_usize,
    ) {
        let desired = compute(&service, &pods);
        let mut observed = stored(&service, desired.clone());
        observed.subsets.clear();
        for whole in &desired {
            let portless = whole.ports.is_empty().then_some(None);
            for port in whole.ports.iter().map(Some).chain(portless) {
                observed.subsets.extend(whole.addresses.iter().map(|address| subset([address], [], port)));
                observed.subsets.extend(whole.not_ready_addresses.iter().map(|address| subset([], [address], port)));
            }
        }
        let count = observed.subsets.len().max(1);
        observed.subsets.rotate_left(turn % count);
        prop_assert_eq!(plan(&service, desired, Some(&observed), None), None);
    }

    #[test]
    fn a_second_plan_of_a_truncated_object_is_empty(
        ready in proptest::collection::vec((0..700_usize, 0..300_usize), 1..5),
    ) {
        // Subset n lists its first addresses as ready, and shares most of them with the others.
        let service = service("knot");
        let list = |from: usize, count: usize| -> Vec<_> {
            (from..from + count).map(|n| bare(&format!("10.0.{}.{}", n / 256, n % 256))).collect()
        };
        let subsets = ready.iter().enumerate().map(|(number, &(yes, no))| {
            let port = port("p", i32::try_from(number).unwrap() + 1);
            subset(&list(number, yes), &list(number + yes, no), &[port])
        });
        let desired = repack(subsets.collect());
        let written = stored(&service, desired.clone());
        prop_assert_eq!(plan(&service, desired.clone(), Some(&written), None), None);
        let mut reversed = written;
        reversed.subsets.reverse();
        for subset in &mut reversed.subsets {
            subset.addresses.reverse();
            subset.ports.reverse();
        }
        prop_assert_eq!(plan(&service, desired, Some(&reversed), None), None);
    }
}
