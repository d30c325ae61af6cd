//! Shares, and the bound for any input.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::fixtures::*;
use super::*;

/// Subsets with this many (ready, not ready) addresses, in order.
fn sized(sizes: &[(usize, usize)]) -> Vec<Subset> {
    let list = |number: usize, state: &str, count: usize| {
        (0..count)
            .map(|n| bare(&format!("10.{number}.{}.{}{state}", n / 256, n % 256)))
            .collect()
    };
    sizes
        .iter()
        .enumerate()
        .map(|(number, &(ready, not_ready))| Subset {
            addresses: list(number, "", ready),
            not_ready_addresses: list(number, "n", not_ready),
            ports: vec![port("p", i32::try_from(number).unwrap() + 1)],
        })
        .collect()
}

fn sizes(subsets: &[Subset]) -> Vec<(usize, usize)> {
    subsets
        .iter()
        .map(|subset| (subset.addresses.len(), subset.not_ready_addresses.len()))
        .collect()
}

#[test]
fn what_fits_is_left_alone() {
    for fits in [&[][..], &[(1000, 0)], &[(0, 1000)], &[(400, 100), (300, 200)]] {
        let subsets = sized(fits);
        assert_eq!(truncate(subsets.clone()), (subsets, false));
    }
}

#[test]
fn shares() {
    type Sizes = &'static [(usize, usize)];
    let rows: [(&str, Sizes, Sizes); 9] = [
        ("one over", &[(1001, 0)], &[(1000, 0)]),
        ("one over, not ready", &[(1000, 1)], &[(1000, 0)]),
        ("only not ready", &[(0, 1300)], &[(0, 1000)]),
        (
            "not ready shares what ready leaves",
            &[(280, 101), (0, 200), (0, 200), (0, 201), (0, 298)],
            &[(280, 73), (0, 144), (0, 144), (0, 145), (0, 214)],
        ),
        (
            "ready shares everything",
            &[(205, 10), (400, 20), (402, 0), (400, 5), (693, 5)],
            &[(98, 0), (191, 0), (192, 0), (191, 0), (328, 0)],
        ),
        (
            "a subset without ready addresses is dropped when ready ones fill the object",
            &[(0, 50), (1001, 0), (0, 50)],
            &[(1000, 0)],
        ),
        (
            "the last subset comes too late",
            &[(999, 0), (999, 0), (1, 0), (1, 0)],
            &[(500, 0), (500, 0)],
        ),
        (
            "a share of not ready that comes to nothing leaves the ready ones",
            &[(500, 500), (500, 500)],
            &[(500, 0), (500, 0)],
        ),
        // 14/50*25 is 7 exactly, and a little more in floating point.
        ("as upstream rounds", &[(975, 14), (0, 36)], &[(975, 8), (0, 17)]),
    ];
    for (what, before, after) in rows {
        let (subsets, truncated) = truncate(sized(before));
        assert!(truncated);
        assert_eq!(sizes(&subsets), after, "{what}");
    }
}

#[test]
fn the_first_addresses_stay() {
    let whole = sized(&[(700, 10), (800, 10)]);
    let (cut, _) = truncate(whole.clone());
    for (cut, whole) in cut.iter().zip(&whole) {
        assert_eq!(cut.addresses, whole.addresses[..cut.addresses.len()]);
        assert_eq!(cut.ports, whole.ports);
    }
}

proptest! {
    #[test]
    fn never_over_the_bound_and_ready_first(before in vec((0..600_usize, 0..600_usize), 0..7)) {
        let whole = sized(&before);
        let total = |subsets: &[Subset]| -> (usize, usize) {
            sizes(subsets).iter().fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1))
        };
        let (ready, not_ready) = total(&whole);
        let (cut, truncated) = truncate(whole);
        let (kept, kept_not_ready) = total(&cut);
        prop_assert_eq!(truncated, ready + not_ready > CAPACITY);
        prop_assert!(kept + kept_not_ready <= CAPACITY);
        // Nothing is given away: full if there was enough, ready addresses before others.
        prop_assert_eq!(kept, ready.min(CAPACITY));
        prop_assert_eq!(kept_not_ready, not_ready.min(CAPACITY - kept));
        prop_assert!(!truncated || cut.iter().all(|subset| !subset.is_empty()));
        prop_assert_eq!(truncate(cut.clone()), (cut, false));
    }
}
