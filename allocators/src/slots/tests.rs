use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
enum Step {
    Take(u64),
    Lowest(u64, u64),
    Random(u64, u64, u64),
    Release(u64),
    Next(u64, u64),
    Fill(u64, u64),
}

/// Places in and a little beyond the range, often at the edges of words.
fn place(len: u64) -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..len + 3,
        1 => (0..=len / 64).prop_map(|word| (word * 64).saturating_sub(1)),
        1 => (0..=len / 64).prop_map(|word| word * 64),
        1 => Just(len.saturating_sub(1)),
        1 => Just(u64::MAX),
    ]
}

fn steps(len: u64) -> impl Strategy<Value = Vec<Step>> {
    let pair = || (place(len), place(len));
    let step = prop_oneof![
        3 => place(len).prop_map(Step::Take),
        2 => pair().prop_map(|(a, b)| Step::Lowest(a, b)),
        3 => (pair(), any::<u64>()).prop_map(|((a, b), random)| Step::Random(a, b, random)),
        3 => place(len).prop_map(Step::Release),
        2 => pair().prop_map(|(a, b)| Step::Next(a, b)),
        1 => pair().prop_map(|(a, b)| Step::Fill(a, b)),
    ];
    proptest::collection::vec(step, 1..60)
}

fn model_next(used: &BTreeSet<u64>, len: u64, within: Range<u64>) -> Option<u64> {
    (within.start..within.end.min(len)).find(|place| !used.contains(place))
}

fn agrees_with_the_model(mut slots: Slots, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let (len, mut used) = (slots.len(), BTreeSet::new());
    for step in steps {
        match step {
            Step::Take(place) => {
                let want = match place {
                    place if place >= len => Err(SlotError::OutOfRange),
                    place if used.insert(place) => Ok(()),
                    _ => Err(SlotError::Taken),
                };
                prop_assert_eq!(slots.take(place), want);
            }
            Step::Lowest(a, b) => {
                let want = model_next(&used, len, a..b);
                used.extend(want);
                prop_assert_eq!(slots.take_lowest(a..b), want.ok_or(SlotError::Full));
            }
            Step::Random(a, b, random) => {
                let end = b.min(len);
                let start = a.saturating_add(scale(random, end.saturating_sub(a)));
                let want = model_next(&used, len, start..end).or_else(|| model_next(&used, len, a..start.min(end)));
                used.extend(want);
                prop_assert_eq!(slots.take_random(a..b, random), want.ok_or(SlotError::Full));
            }
            Step::Release(place) => prop_assert_eq!(slots.release(place), used.remove(&place)),
            Step::Next(a, b) => prop_assert_eq!(slots.next_free(a..b), model_next(&used, len, a..b)),
            Step::Fill(a, b) => {
                for place in a..b.min(len) {
                    prop_assert_eq!(slots.take(place).is_ok(), used.insert(place));
                }
            }
        }
        prop_assert_eq!(slots.used(), used.len() as u64);
        prop_assert_eq!(slots.free(), len - used.len() as u64);
    }
    prop_assert_eq!(
        slots.used_places().collect::<Vec<_>>(),
        used.iter().copied().collect::<Vec<_>>()
    );
    for place in 0..len + 2 {
        prop_assert_eq!(slots.contains(place), used.contains(&place));
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_bitmap_is_a_set((len, steps) in (0_u64..400).prop_flat_map(|len| (Just(len), steps(len)))) {
        agrees_with_the_model(Slots::Dense(Bitmap::new(len).unwrap()), steps)?;
    }

    #[test]
    fn a_bitmap_of_three_levels_is_a_set((len, steps) in (4_000_u64..4_300).prop_flat_map(|len| (Just(len), steps(len)))) {
        agrees_with_the_model(Slots::Dense(Bitmap::new(len).unwrap()), steps)?;
    }

    #[test]
    fn runs_are_a_set((len, steps) in (0_u64..300).prop_flat_map(|len| (Just(len), steps(len)))) {
        agrees_with_the_model(Slots::Sparse(SparseSet::new(len)), steps)?;
    }
}

#[test]
fn the_last_free_place_is_found_wherever_it_is_at_every_number_of_levels() {
    for len in [1, 63, 64, 65, 4_095, 4_096, 4_097, 262_143, 262_144, 262_145, 1_048_574] {
        let mut slots = Slots::new(len);
        assert!(matches!(slots, Slots::Dense(_)));
        for place in 0..len {
            assert_eq!(slots.take_lowest(0..len), Ok(place));
        }
        assert_eq!(slots.take_random(0..len, u64::MAX), Err(SlotError::Full));
        for last in [0, 1, 62, 63, 64, 4_095, 4_096, 262_143, 262_144, len / 2, len - 1] {
            if last < len {
                assert!(slots.release(last));
                for random in [0, 1 << 63, u64::MAX] {
                    assert_eq!(slots.take_random(0..len, random), Ok(last), "{len} {random}");
                    assert!(slots.release(last));
                }
                assert_eq!(slots.take(last), Ok(()));
            }
        }
        assert_eq!(slots.used_places().count() as u64, len);
    }
}

#[test]
fn a_wide_range_is_kept_as_runs_to_its_last_place() {
    assert!(matches!(Slots::new(DENSE_LIMIT), Slots::Dense(_)));
    let mut slots = Slots::new(u64::MAX);
    assert!(matches!(slots, Slots::Sparse(_)));
    let last = u64::MAX - 1;
    assert_eq!(slots.take_random(0..u64::MAX, u64::MAX), Ok(last));
    assert_eq!(slots.take(last), Err(SlotError::Taken));
    assert_eq!(slots.take(u64::MAX), Err(SlotError::OutOfRange));
    assert_eq!(slots.take_random(last..u64::MAX, 7), Err(SlotError::Full));
    assert_eq!(slots.take_random(0..u64::MAX, u64::MAX), Ok(0), "it wraps");
    assert_eq!((slots.used(), slots.free()), (2, u64::MAX - 2));
    assert!(slots.release(last));
    assert_eq!(slots.used_places().collect::<Vec<_>>(), [0]);
}
