//! Any sequence of what can happen, against a model that keeps one plain record for each value and looks at all of them every time.

use std::net::Ipv4Addr;

use proptest::prelude::*;
use proptest::sample::subsequence;

use super::tests::{cidr, enforced, generated, ip_pool, named, owner, service, set_pools, terms};
use super::*;
use crate::pools::{Holdings, PoolTerms};

const SERVICES: i64 = 6;

fn name(number: i64) -> String {
    format!("svc-{number}")
}

/// Places of the test's ranges, edges and neighbours included.
fn address(number: u8) -> Ipv4Addr {
    match number % 160 {
        low @ 0..=135 => Ipv4Addr::new(10, 96, 0, low),
        high => Ipv4Addr::new(10, 96, 1, high - 136),
    }
}

fn all_addresses() -> impl Iterator<Item = Ipv4Addr> {
    (0..160).map(address)
}

fn all_ranges() -> Vec<RangeSpec<Ipv4Addr>> {
    ["10.96.0.0/25", "10.96.0.96/27", "10.96.1.0/28"].map(cidr).into()
}

type Pool = (Arc<PoolTerms>, Holdings<Ipv4Addr>);

fn all_pools() -> Vec<Pool> {
    let late = PoolTerms {
        created: 9,
        priority: -1,
        ..terms("open")
    };
    let slow = PoolTerms {
        reuse_delay: Duration::from_secs(20),
        ..enforced("edge")
    };
    vec![
        ip_pool(
            enforced("fence"),
            "10.96.0.20-10.96.0.29",
            &[("10.96.0.21", "marsh/svc-0"), ("10.96.0.22", "marsh/svc-1")],
        ),
        ip_pool(
            late,
            "10.96.0.25-10.96.0.60",
            &[("10.96.0.26", "marsh/svc-2"), ("10.96.0.40", "marsh/svc-2")],
        ),
        ip_pool(slow, "10.96.1.0/28", &[]),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    SetService(i64, Vec<u8>),
    RemoveService(i64),
    ReplaceServices(Vec<(i64, u8)>),
    SetIpAddress(u8, Option<i64>),
    RemoveIpAddress(u8),
    ReplaceIpAddresses(Vec<(u8, i64)>),
    Choose {
        by: i64,
        from: u8,
        random: u64,
        keep: bool,
        store: bool,
    },
    Confirm(i64, u8),
    Withdraw(i64, u8),
    SetRanges(Vec<RangeSpec<Ipv4Addr>>),
    SetPools(Vec<Pool>),
    SetMembers(usize),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let by = || -1..SERVICES;
    let who = || 0..SERVICES;
    let choose = (by(), 0_u8..5, any::<u64>(), any::<bool>(), any::<bool>());
    let ranges = (
        subsequence(all_ranges(), 0..=3),
        proptest::collection::vec(proptest::bool::weighted(0.8), 3),
    );
    let ready = |(ranges, ready): (Vec<RangeSpec<Ipv4Addr>>, Vec<bool>)| {
        let spec = |(range, ready): (RangeSpec<Ipv4Addr>, bool)| RangeSpec { ready, ..range };
        Step::SetRanges(ranges.into_iter().zip(ready).map(spec).collect())
    };
    let step = prop_oneof![
        4 => (who(), proptest::collection::vec(any::<u8>(), 0..4)).prop_map(|(who, places)| Step::SetService(who, places)),
        2 => who().prop_map(Step::RemoveService),
        1 => proptest::collection::vec((who(), any::<u8>()), 0..8).prop_map(Step::ReplaceServices),
        3 => (any::<u8>(), proptest::option::of(who())).prop_map(|(place, parent)| Step::SetIpAddress(place, parent)),
        2 => any::<u8>().prop_map(Step::RemoveIpAddress),
        1 => proptest::collection::vec((any::<u8>(), who()), 0..8).prop_map(Step::ReplaceIpAddresses),
        16 => choose.prop_map(|(by, from, random, keep, store)| Step::Choose { by, from, random, keep, store }),
        2 => (who(), any::<u8>()).prop_map(|(who, place)| Step::Confirm(who, place)),
        1 => (by(), any::<u8>()).prop_map(|(by, place)| Step::Withdraw(by, place)),
        1 => ranges.prop_map(ready),
        1 => subsequence(all_pools(), 0..=3).prop_map(Step::SetPools),
        1 => (0_usize..4).prop_map(Step::SetMembers),
        6 => prop_oneof![Just(100), Just(1_000), Just(5_000), Just(10_000), Just(36_000), Just(60_000), Just(600_000), 0_u64..50_000].prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 1..80)
}

/// What an IPAddress names.
#[derive(Clone, Debug, PartialEq)]
struct Parent(Option<ServiceKey>);

#[derive(Clone, Debug, Default)]
struct Fact {
    owners: BTreeSet<(i64, ServiceKey)>,
    object: Option<Parent>,
    left_behind: bool,
    object_gone: bool,
    pending: Option<(ChoiceKey, Instant, bool)>,
    quarantined: Option<(Instant, Rest)>,
}

impl Fact {
    fn rest(&mut self, until: Instant, why: Rest) {
        let (earlier, known) = self.quarantined.take().unwrap_or((until, why));
        self.quarantined = Some((until.max(earlier), known));
    }
}

struct Model {
    rules: Rules,
    facts: BTreeMap<Ipv4Addr, Fact>,
    ranges: Vec<(RangeSpec<Ipv4Addr>, Option<Instant>)>,
    /// The oldest pool that names a value, and for whom that reserves it.
    pools: BTreeMap<Ipv4Addr, (Arc<PoolTerms>, Option<ServiceKey>)>,
    now: Instant,
}

impl Model {
    fn fact(&mut self, value: Ipv4Addr) -> &mut Fact {
        self.facts.entry(value).or_default()
    }

    fn set_pools(&mut self, mut pools: Vec<Pool>) {
        pools.sort_by_key(|(terms, _)| (terms.created, Arc::clone(&terms.name)));
        self.pools.clear();
        for value in all_addresses() {
            if let Some((terms, holdings)) = pools.iter().find(|(_, holdings)| holdings.values.contains(value)) {
                let reserved = holdings.reservations.get(&value).cloned();
                self.pools.insert(value, (Arc::clone(terms), reserved));
            }
        }
    }

    fn pool(&self, value: Ipv4Addr) -> Option<&PoolTerms> {
        self.pools.get(&value).map(|(terms, _)| &**terms)
    }

    fn reserved(&self, value: Ipv4Addr) -> Option<&ServiceKey> {
        self.pools.get(&value).and_then(|(_, reserved)| reserved.as_ref())
    }

    fn in_play(&self, value: Ipv4Addr) -> bool {
        self.ranges
            .iter()
            .any(|(spec, since)| since.is_some() && spec.range.place(value).is_some())
    }

    fn state(&self, value: Ipv4Addr) -> State {
        let nothing = Fact::default();
        let fact = self.facts.get(&value).unwrap_or(&nothing);
        if !fact.owners.is_empty() {
            State::Used
        } else if fact.object.is_some() {
            if fact.left_behind {
                State::Quarantined
            } else {
                State::Used
            }
        } else if fact.pending.is_some() {
            State::Pending
        } else if fact.quarantined.is_some() {
            State::Quarantined
        } else if self.reserved(value).is_some() {
            State::Reserved
        } else {
            State::Free
        }
    }

    fn pass(&mut self, wait: u64) {
        self.now += Duration::from_millis(wait);
        for fact in self.facts.values_mut() {
            if let Some((_, until, _)) = fact.pending
                && until <= self.now
            {
                fact.pending = None;
                if !self.rules.unconfirmed.is_zero() {
                    fact.rest(until + self.rules.unconfirmed, Rest::Unstored);
                }
            }
            fact.quarantined = fact.quarantined.take().filter(|(until, _)| *until > self.now);
        }
    }

    fn disown(&mut self, value: Ipv4Addr, gone: &ServiceKey) {
        let by_pool = self
            .pool(value)
            .filter(|_| self.in_play(value))
            .map_or(Duration::ZERO, |terms| terms.reuse_delay);
        let (now, rules) = (self.now, self.rules);
        let fact = self.fact(value);
        fact.owners.retain(|(_, service)| service != gone);
        if fact.owners.is_empty() {
            let told = fact.object.is_some() || fact.object_gone;
            fact.left_behind = fact
                .object
                .as_ref()
                .is_some_and(|parent| parent.0.as_ref() == Some(gone));
            fact.object_gone = false;
            let until_free = if told { Duration::ZERO } else { rules.after_release };
            let wait = by_pool.max(until_free);
            if !wait.is_zero() {
                fact.rest(now + wait, Rest::Used(gone.clone(), now + until_free));
            }
        }
    }

    fn set_service(&mut self, who: i64, values: &BTreeSet<Ipv4Addr>) {
        let key = service(&name(who));
        let had: Vec<_> = self
            .facts
            .iter()
            .filter(|(_, fact)| fact.owners.contains(&(who, key.clone())))
            .map(|(value, _)| *value)
            .collect();
        for value in had.into_iter().filter(|value| !values.contains(value)) {
            self.disown(value, &key);
        }
        for value in values {
            let fact = self.fact(*value);
            fact.owners.insert((who, key.clone()));
            (fact.pending, fact.quarantined) = (None, None);
        }
    }

    fn set_object(&mut self, value: Ipv4Addr, parent: Option<ServiceKey>) {
        let parent = Parent(parent);
        let fact = self.fact(value);
        if fact.object.as_ref() != Some(&parent) {
            fact.left_behind = false;
        }
        (fact.object, fact.object_gone, fact.pending) = (Some(parent), false, None);
    }

    fn remove_object(&mut self, value: Ipv4Addr) {
        let fact = self.fact(value);
        fact.object_gone = fact.object.take().is_some() && !fact.owners.is_empty();
        fact.left_behind = false;
    }

    fn pend(&mut self, value: Ipv4Addr, key: &ChoiceKey, confirmed: bool) {
        if key.service().is_some() {
            for fact in self.facts.values_mut() {
                fact.pending = fact.pending.take().filter(|(other, _, _)| other != key);
            }
        }
        let until = self.now + Duration::from_secs(40);
        self.fact(value).pending = Some((key.clone(), until, confirmed));
    }

    /// All values that are not free.
    fn taken(&self) -> Vec<(Ipv4Addr, State)> {
        let reserved = self.pools.iter().filter(|(_, (_, reserved))| reserved.is_some());
        let known: BTreeSet<_> = self.facts.keys().chain(reserved.map(|(value, _)| value)).collect();
        let states = known.into_iter().map(|value| (*value, self.state(*value)));
        states.filter(|(_, state)| *state != State::Free).collect()
    }

    fn legal(&self, source: Source<'_>, value: Ipv4Addr) -> bool {
        let pool = self.pool(value).map(|terms| &terms.name);
        match source {
            Source::Ranges | Source::Outside => pool.is_none(),
            Source::Pools { names, .. } => pool.is_some_and(|pool| names.contains(pool)),
        }
    }

    /// What the books have answered can be right.
    fn check_choice(
        &self,
        key: &ChoiceKey,
        source: Source<'_>,
        answer: Result<Ipv4Addr, NotChosen>,
        resting: impl Fn(&str) -> bool,
    ) -> Result<(), TestCaseError> {
        let enforced = matches!(source, Source::Outside | Source::Pools { enforced: true, .. });
        let pending_of = |value: &Ipv4Addr| self.facts.get(value).and_then(|fact| fact.pending.as_ref());
        let kept = all_addresses().find(|value| {
            key.service().is_some()
                && self.state(*value) == State::Pending
                && pending_of(value).is_some_and(|(other, _, _)| other == key)
                && self.legal(source, *value)
                && self.in_play(*value)
        });
        let settled = |known: &&(RangeSpec<Ipv4Addr>, Option<Instant>)| {
            known.1.is_some_and(|since| self.now >= since + self.rules.settle)
        };
        let in_settled = |value: &Ipv4Addr| {
            self.ranges
                .iter()
                .filter(settled)
                .any(|(spec, _)| spec.range.place(*value).is_some())
        };
        let own_reserved = all_addresses().filter(|value| {
            let ours = self
                .reserved(*value)
                .is_some_and(|service| Some(service) == key.service().as_ref());
            let rests = matches!(self.state(*value), State::Reserved | State::Quarantined);
            let object = self.facts.get(value).is_some_and(|fact| fact.object.is_some());
            ours && rests && !object && self.legal(source, *value) && in_settled(value)
        });
        let own_reserved: Vec<_> = own_reserved.collect();
        let rest_of = |value: &Ipv4Addr| {
            let fact = self.facts.get(value)?;
            let only =
                self.state(*value) == State::Quarantined && fact.object.is_none() && self.reserved(*value).is_none();
            let usable = only && self.legal(source, *value) && in_settled(value);
            fact.quarantined.clone().filter(|_| usable)
        };
        let own_left = all_addresses().filter(|value| {
            let why = rest_of(value).map(|(_, why)| why);
            matches!(why, Some(Rest::Used(by, again)) if Some(&by) == key.service().as_ref() && again <= self.now)
        });
        let own_left: Vec<_> = own_left.collect();
        let oldest = |reason: Rest| {
            let resting = all_addresses().filter_map(|value| match rest_of(&value) {
                Some((until, why)) if enforced && why == reason => Some((until, value)),
                _ => None,
            });
            resting.min().map(|(_, value)| value)
        };
        let soft = |value: &Ipv4Addr, passed: bool| {
            self.state(*value) == State::Pending
                && pending_of(value).is_some_and(|(_, until, confirmed)| {
                    *confirmed == passed && *until <= self.now + Duration::from_secs(35)
                })
        };
        let softly_kept = |passed: bool| -> Vec<_> {
            all_addresses()
                .filter(|value| enforced && soft(value, passed) && self.legal(source, *value) && self.in_play(*value))
                .collect()
        };
        // What is taken from others for lack of anything better, in this order.
        let steps = [
            softly_kept(false),
            Vec::from_iter(oldest(Rest::Unstored)),
            Vec::from_iter(oldest(Rest::Renounced)),
            softly_kept(true),
        ];
        let taken_back = steps.into_iter().find(|step| !step.is_empty()).unwrap_or_default();
        // Of each range that may give something: why it does not, or that it must.
        let mut why = NotChosen::NoRange;
        let (mut givers, taken) = (Vec::new(), self.taken());
        for (spec, _) in self.ranges.iter().filter(settled) {
            let legal: Vec<_> = all_addresses()
                .filter(|value| spec.range.place(*value).is_some() && self.legal(source, *value))
                .collect();
            let counts = count(&taken, spec.range.len(), |value| spec.range.place(value).is_some());
            let reason = match () {
                () if legal.is_empty() => NotChosen::NoRange,
                () if !enforced && resting(spec.range.text()) => NotChosen::Resting,
                () if !enforced && counts.pending >= (counts.capacity / 4).max(1) => NotChosen::TooManyPending,
                () if counts.free < 64 && !enforced => NotChosen::NearlyFull,
                () if legal.iter().all(|value| self.state(*value) != State::Free) => NotChosen::Full,
                () => {
                    givers.extend(legal.into_iter().filter(|value| self.state(*value) == State::Free));
                    continue;
                }
            };
            why = why.max(reason);
        }
        match answer {
            _ if kept.is_some() => prop_assert_eq!(answer.ok(), kept),
            Ok(value) if !own_reserved.is_empty() => {
                prop_assert!(own_reserved.contains(&value), "{value}: {own_reserved:?}");
            }
            Ok(value) if !own_left.is_empty() => prop_assert!(own_left.contains(&value), "{value}: {own_left:?}"),
            Ok(value) if !givers.is_empty() => prop_assert!(givers.contains(&value), "{value}"),
            Ok(value) => prop_assert!(taken_back.contains(&value), "{value}: {taken_back:?}"),
            Err(reason) => {
                prop_assert_eq!(reason, why);
                prop_assert!(givers.is_empty() && own_reserved.is_empty() && own_left.is_empty());
                prop_assert_eq!(taken_back, [Ipv4Addr::UNSPECIFIED; 0]);
            }
        }
        Ok(())
    }
}

/// Those of so many values.
fn count(taken: &[(Ipv4Addr, State)], capacity: u64, among: impl Fn(Ipv4Addr) -> bool) -> Counts {
    let mut counts = Counts::all_free(capacity);
    for (_, state) in taken.iter().filter(|(value, _)| among(*value)) {
        counts.free -= 1;
        counts[*state] += 1;
    }
    counts
}

fn same(book: &Book<Ipv4Addr>, model: &Model) -> Result<(), TestCaseError> {
    let taken = model.taken();
    prop_assert_eq!(&book.taken(), &taken);
    prop_assert_eq!(book.ranges.len(), model.ranges.len());
    for (range, (spec, since)) in book.ranges.iter().zip(&model.ranges) {
        prop_assert_eq!((&range.range, range.ready), (&spec.range, *since));
        prop_assert_eq!(
            range.counts,
            count(&taken, spec.range.len(), |value| spec.range.place(value).is_some())
        );
        prop_assert!(range.counts.add_up());
        prop_assert_eq!(range.slots.free(), range.counts.free);
        let used = range.slots.used_places().map(|place| range.range.value(place).unwrap());
        prop_assert!(
            used.eq(taken
                .iter()
                .map(|(value, _)| *value)
                .filter(|value| spec.range.place(*value).is_some()))
        );
    }
    for pool in &book.pools {
        let theirs = |value: &Ipv4Addr| {
            model.pool(*value).is_some_and(|terms| terms.name == pool.terms.name) && model.in_play(*value)
        };
        let capacity = model.pools.keys().filter(|value| theirs(value)).count();
        prop_assert_eq!(
            pool.counts,
            count(&taken, capacity as u64, |value| theirs(&value)),
            "{}",
            pool.terms.name
        );
        prop_assert!(pool.counts.add_up());
    }
    let conflicts = model.facts.iter().filter(|(_, fact)| fact.owners.len() > 1);
    let conflicts: Vec<_> = conflicts
        .map(|(value, fact)| {
            (
                *value,
                fact.owners
                    .iter()
                    .map(|(_, service)| service.clone())
                    .collect::<Vec<_>>(),
            )
        })
        .collect();
    let told = book
        .conflicts()
        .into_iter()
        .map(|(value, owners)| (value, owners.iter().map(|owner| owner.service.clone()).collect()));
    prop_assert_eq!(told.collect::<Vec<_>>(), conflicts);
    let waiting = model.facts.values().filter(|fact| fact.pending.is_some()).count();
    let resting = model.facts.values().filter(|fact| fact.quarantined.is_some()).count();
    prop_assert_eq!(
        (book.pending_until.len(), book.quarantined_until.len()),
        (waiting, resting)
    );
    prop_assert!(book.asked.len() <= waiting);
    let left = book.left.values().map(BTreeSet::len).sum::<usize>();
    let used = book
        .quarantined_until
        .values()
        .filter(|why| matches!(why, Rest::Used(..)));
    prop_assert_eq!(left, used.count());
    Ok(())
}

fn run(rules: Rules, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let start = Instant::now();
    let (mut book, mut model) = (
        Book::new(rules),
        Model {
            rules,
            facts: BTreeMap::new(),
            ranges: Vec::new(),
            pools: BTreeMap::new(),
            now: start,
        },
    );
    let members: Vec<Arc<str>> = ["a", "b", "c"].map(Into::into).into();
    let begin = [
        Step::SetRanges(all_ranges()),
        Step::SetPools(all_pools()),
        Step::SetMembers(2),
        Step::Wait(10_000),
    ];
    for step in begin.into_iter().chain(steps) {
        let now = model.now;
        match step {
            Step::SetService(who, places) => {
                let values: BTreeSet<_> = places.into_iter().map(address).collect();
                book.set_service(owner(&name(who), who), values.iter().copied(), now);
                model.set_service(who, &values);
            }
            Step::RemoveService(who) => {
                book.remove_service(&service(&name(who)), now);
                model.set_service(who, &BTreeSet::new());
            }
            Step::ReplaceServices(list) => {
                let mut wanted: BTreeMap<i64, BTreeSet<Ipv4Addr>> = BTreeMap::new();
                for (who, place) in list {
                    wanted.entry(who).or_default().insert(address(place));
                }
                let list = wanted
                    .iter()
                    .map(|(who, values)| (owner(&name(*who), *who), values.iter().copied().collect()));
                book.replace_services(list.collect::<Vec<_>>(), now);
                for (who, values) in &wanted {
                    model.set_service(*who, values);
                }
                for who in (0..SERVICES).filter(|who| !wanted.contains_key(who)) {
                    model.set_service(who, &BTreeSet::new());
                }
            }
            Step::SetIpAddress(place, parent) => {
                let parent = parent.map(|who| service(&name(who)));
                book.set_ip_address(address(place), parent.clone(), now);
                model.set_object(address(place), parent);
            }
            Step::RemoveIpAddress(place) => {
                book.remove_ip_address(address(place), now);
                model.remove_object(address(place));
            }
            Step::ReplaceIpAddresses(list) => {
                let wanted: BTreeMap<_, _> = list
                    .into_iter()
                    .map(|(place, who)| (address(place), Some(service(&name(who)))))
                    .collect();
                book.replace_ip_addresses(wanted.clone(), now);
                for (value, parent) in &wanted {
                    model.set_object(*value, parent.clone());
                }
                for value in all_addresses().filter(|value| !wanted.contains_key(value)) {
                    if model.fact(value).object.is_some() {
                        model.remove_object(value);
                    }
                }
            }
            Step::Choose {
                by,
                from,
                random,
                keep,
                store,
            } => {
                let key = if by < 0 { generated("svc-") } else { named(&name(by)) };
                let governing: Vec<Arc<str>> = match from {
                    0 | 1 => vec!["fence".into(), "open".into(), "edge".into()],
                    2 => vec!["fence".into()],
                    _ => vec!["edge".into()],
                };
                let source = match from {
                    0 => Source::Ranges,
                    4 => Source::Outside,
                    from => Source::Pools {
                        names: &governing,
                        enforced: from > 1,
                    },
                };
                let resting: BTreeMap<_, _> = book.ranges(now).map(|range| (range.text, range.resting)).collect();
                let answer = if keep {
                    book.choose(&key, source, random, now)
                } else {
                    book.peek(&key, source, random, now)
                };
                model.check_choice(&key, source, answer.clone().map(|choice| choice.value), |text| {
                    resting[text]
                })?;
                if let (Ok(choice), true) = (answer, keep) {
                    prop_assert_eq!(choice.pool.as_ref(), model.pool(choice.value).map(|terms| &terms.name));
                    model.pend(choice.value, &key, false);
                    if store {
                        let (who, values) = (by.max(0), BTreeSet::from([choice.value]));
                        book.set_service(owner(&name(who), who), values.iter().copied(), now);
                        model.set_service(who, &values);
                    }
                }
            }
            Step::Confirm(who, place) => {
                let (key, value) = (named(&name(who)), address(place));
                let in_a_range = model.ranges.iter().any(|(spec, _)| spec.range.place(value).is_some());
                if model.state(value) != State::Used && in_a_range {
                    model.pend(value, &key, true);
                }
                book.confirm(&key, value, now);
            }
            Step::Withdraw(by, place) => {
                let key = if by < 0 { generated("svc-") } else { named(&name(by)) };
                book.withdraw(&key, address(place), now);
                let fact = model.fact(address(place));
                fact.pending = fact.pending.take().filter(|(other, _, _)| *other != key);
            }
            Step::SetRanges(specs) => {
                book.set_ranges(specs.clone(), now);
                let since = |spec: &RangeSpec<Ipv4Addr>| {
                    let known = model.ranges.iter().find(|(known, _)| known.range == spec.range);
                    spec.ready.then(|| known.and_then(|(_, since)| *since).unwrap_or(now))
                };
                let ranges = specs.iter().map(|spec| (spec.clone(), since(spec))).collect();
                model.ranges = ranges;
            }
            Step::SetPools(pools) => {
                set_pools(&mut book, &pools, now);
                model.set_pools(pools);
            }
            Step::SetMembers(count) => book.set_members("a", &members[..count.min(3)], now),
            Step::Wait(wait) => {
                model.pass(wait);
                book.advance(model.now);
            }
        }
        same(&book, &model)?;
    }
    Ok(())
}

proptest! {
    #[test]
    fn books_of_addresses_agree_with_a_plain_record_of_every_value(steps in steps()) {
        run(Rules::ADDRESSES, steps)?;
    }

    #[test]
    fn books_of_node_ports_agree_with_a_plain_record_of_every_value(steps in steps()) {
        run(Rules::NODE_PORTS, steps)?;
    }
}
