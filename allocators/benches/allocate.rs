//! What it costs to allocate a value and to give it back, by how full the range is: `make bench-allocators` sets it beside kube-apiserver's
//! own in-memory allocators.
//!
//! As there: from a random place of the upper band on, then of the lower one. Both sides fill the range by the same permutation, so that
//! the same values are free. `full` is the refusal. `bitvec` is the search alone, on a flat bitmap of that crate.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a benchmark"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bitvec::vec::BitVec;
use criterion::{Criterion, criterion_group, criterion_main};
use svcplane_allocators::books::{Book, RangeSpec, Rules, Source};
use svcplane_allocators::range::{Registry, ValueRange};
use svcplane_allocators::service::{ChoiceKey, Field, Owner, Requester, ServiceKey};
use svcplane_allocators::slots::Slots;
use svcplane_allocators::value::Value;

/// splitmix64, as on the other side.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// The order in which places are filled: Fisher and Yates by `next() % (rest)`.
fn permutation(len: u64) -> Vec<u64> {
    let mut random = Random(42);
    let mut places: Vec<u64> = (0..len).collect();
    for rest in (1..places.len()).rev() {
        let other = random.next() % (rest as u64 + 1);
        places.swap(rest, usize::try_from(other).unwrap());
    }
    places
}

/// Names of the fills and how many of `len` places are used; a share that leaves one place or none is left out.
fn fills(len: u64) -> Vec<(&'static str, u64)> {
    let shares = [("0", 0), ("50", 5_000), ("90", 9_000), ("99", 9_900), ("99.99", 9_999)];
    let part = |(name, share): (&'static str, u64)| (name, len * share / 10_000);
    let mut fills: Vec<_> = shares
        .map(part)
        .into_iter()
        .filter(|(_, used)| used + 1 < len)
        .collect();
    fills.extend([("last free", len - 1), ("full", len)]);
    fills
}

fn measure<V: Value>(c: &mut Criterion, name: &str, range: &ValueRange<V>) {
    let mut group = c.benchmark_group(name);
    group
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    let order = permutation(range.len());
    for (fill, used) in fills(range.len()) {
        let filled = &order[..usize::try_from(used).unwrap()];
        let (mut slots, mut random) = (Slots::new(range.len()), Random(7));
        for place in filled {
            slots.take(*place).unwrap();
        }
        group.bench_function(fill, |b| {
            b.iter(|| {
                if let Ok(place) = range.take_random(&mut slots, (random.next(), random.next())) {
                    slots.release(black_box(place));
                }
            });
        });
        if fill == "50" || fill == "last free" {
            let mut bits: BitVec = BitVec::repeat(false, order.len());
            for place in filled {
                bits.set(usize::try_from(*place).unwrap(), true);
            }
            group.bench_function(format!("bitvec, {fill}"), |b| {
                b.iter(|| {
                    let start = usize::try_from(random.next() % order.len() as u64).unwrap();
                    let found = bits[start..].first_zero().map(|at| start + at);
                    black_box(found.or_else(|| bits[..start].first_zero()))
                });
            });
        }
    }
}

fn allocate(c: &mut Criterion) {
    measure(c, "nodePorts", &ValueRange::node_ports("30000-32767".parse().unwrap()));
    for prefix in [24, 20, 16, 12] {
        let cidr = format!("10.96.0.0/{prefix}").parse().unwrap();
        measure(
            c,
            &format!("prefix-{prefix}"),
            &ValueRange::ipv4(cidr, Registry::default()),
        );
    }
}

/// What a webhook pays for one choice: the books of a /16 that is half full, one of three replicas, and the choice taken back.
fn choose(c: &mut Criterion) {
    let (mut book, now) = (Book::new(Rules::ADDRESSES), Instant::now());
    let range = ValueRange::ipv4("10.96.0.0/16".parse().unwrap(), Registry::default());
    let order = permutation(range.len());
    for (number, place) in order[..order.len() / 2].iter().enumerate() {
        let owner = Owner {
            created: 0,
            service: ServiceKey::new("marsh", format!("web-{number}")),
        };
        book.set_service(owner, range.value(*place), now);
    }
    book.set_ranges([RangeSpec { range, ready: true }], now);
    book.set_members("a", &["a", "b", "c"].map(Into::into), now);
    let (now, mut random) = (now + Duration::from_secs(10), Random(7));
    let key = ChoiceKey {
        namespace: "marsh".into(),
        requester: Requester::Named("heron".into()),
        field: Field::ClusterIp,
    };
    c.bench_function("choose and withdraw", |b| {
        b.iter(|| {
            let choice = book.choose(&key, Source::Ranges, random.next(), now).unwrap();
            book.withdraw(&key, black_box(choice.value), now);
        });
    });
}

criterion_group!(benches, allocate, choose);
criterion_main!(benches);
