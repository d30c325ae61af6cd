use std::net::Ipv4Addr;

use super::*;
use crate::pools::{Holdings, Mode, PoolSpec, PoolTerms, PoolVerdict, parse_cluster_ip_pool, parse_node_port_pool};
use crate::range::{Registry, ValueRange};
use crate::service::{Field, Requester};
use crate::value::NodePort;

const SECOND: Duration = Duration::from_secs(1);

fn ip(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

fn port(number: u16) -> NodePort {
    NodePort::new(number).unwrap()
}

pub(super) fn service(name: &str) -> ServiceKey {
    ServiceKey::new("marsh", name)
}

pub(super) fn owner(name: &str, created: i64) -> Owner {
    Owner {
        created,
        service: service(name),
    }
}

pub(super) fn named(name: &str) -> ChoiceKey {
    ChoiceKey {
        namespace: "marsh".into(),
        requester: Requester::Named(name.into()),
        field: Field::ClusterIp,
    }
}

pub(super) fn generated(prefix: &str) -> ChoiceKey {
    ChoiceKey {
        requester: Requester::Generated {
            prefix: prefix.into(),
            user: "heron".into(),
        },
        ..named("")
    }
}

pub(super) fn cidr(text: &str) -> RangeSpec<Ipv4Addr> {
    RangeSpec {
        range: ValueRange::ipv4(text.parse().unwrap(), Registry::default()),
        ready: true,
    }
}

/// Addresses of these ranges, settled, all blocks ours.
fn addresses(cidrs: &[&str]) -> (Book<Ipv4Addr>, Instant) {
    let (mut book, start) = (Book::new(Rules::ADDRESSES), Instant::now());
    book.set_ranges(cidrs.iter().map(|text| cidr(text)), start);
    book.set_members("a", &["a".into()], start);
    (book, start + 10 * SECOND)
}

fn node_ports(range: &str) -> (Book<NodePort>, Instant) {
    let (mut book, start) = (Book::new(Rules::NODE_PORTS), Instant::now());
    let range = ValueRange::node_ports(range.parse().unwrap());
    book.set_ranges([RangeSpec { range, ready: true }], start);
    book.set_members("a", &["a".into()], start);
    (book, start + 10 * SECOND)
}

pub(super) fn terms(name: &str) -> PoolTerms {
    PoolTerms {
        name: name.into(),
        created: 0,
        priority: 0,
        auto_assign: true,
        mode: Mode::Active,
        enforce: false,
        reuse_delay: Duration::ZERO,
    }
}

pub(super) fn enforced(name: &str) -> PoolTerms {
    PoolTerms {
        enforce: true,
        ..terms(name)
    }
}

fn spec(range: &str, reservations: &[(&str, &str)]) -> PoolSpec {
    PoolSpec {
        ranges: vec![range.into()],
        excluded: Vec::new(),
        reservations: reservations
            .iter()
            .map(|(value, service)| (value.to_string(), service.to_string()))
            .collect(),
    }
}

pub(super) type Pool<V> = (Arc<PoolTerms>, Holdings<V>);

pub(super) fn ip_pool(terms: PoolTerms, range: &str, reservations: &[(&str, &str)]) -> Pool<Ipv4Addr> {
    let holdings = parse_cluster_ip_pool(&spec(range, reservations)).unwrap();
    (Arc::new(terms), holdings.ipv4)
}

fn port_pool(terms: PoolTerms, range: &str) -> Pool<NodePort> {
    (Arc::new(terms), parse_node_port_pool(&spec(range, &[])).unwrap())
}

pub(super) fn set_pools<V: Value>(book: &mut Book<V>, pools: &[Pool<V>], now: Instant) {
    let pools = pools.iter().map(|(terms, holdings)| (Arc::clone(terms), holdings));
    book.set_pools(pools, now);
}

/// From this one pool, enforced.
fn only(name: &str) -> [Arc<str>; 1] {
    [name.into()]
}

fn from(names: &[Arc<str>]) -> Source<'_> {
    Source::Pools { names, enforced: true }
}

fn range_counts<V: Value>(book: &Book<V>, now: Instant) -> Counts {
    let range = book.ranges(now).next().unwrap();
    assert!(range.counts.add_up());
    range.counts
}

#[test]
fn a_choice_is_pending_until_the_service_is_stored_and_free_again_when_it_never_is() {
    let (mut book, now) = addresses(&["10.96.0.0/24"]);
    let first = book.choose(&named("web"), Source::Ranges, 7, now).unwrap().value;
    let second = book.choose(&named("api"), Source::Ranges, 7, now).unwrap().value;
    assert_ne!(first, second);
    assert_eq!(
        (range_counts(&book, now).pending, range_counts(&book, now).free),
        (2, 252)
    );
    book.set_service(owner("web", 1), [first], now + SECOND);
    assert_eq!(book.state(first), State::Used);
    book.advance(now + 39 * SECOND);
    assert_eq!(book.state(second), State::Pending);
    book.advance(now + 40 * SECOND);
    assert_eq!((book.state(first), book.state(second)), (State::Used, State::Free));
}

#[test]
fn a_named_service_that_asks_again_gets_the_same_and_generated_names_get_their_own() {
    let (mut book, now) = addresses(&["10.96.0.0/24"]);
    let first = book.choose(&named("web"), Source::Ranges, 1, now).unwrap();
    assert_eq!(
        book.choose(&named("web"), Source::Ranges, u64::MAX, now + 30 * SECOND)
            .unwrap(),
        first
    );
    book.advance(now + 69 * SECOND);
    assert_eq!(book.state(first.value), State::Pending, "asking again renews it");
    let one = book.choose(&generated("web-"), Source::Ranges, 1, now).unwrap();
    let other = book.choose(&generated("web-"), Source::Ranges, 1, now).unwrap();
    assert_ne!(one, other);
    // Whichever of them is stored, it is what was chosen.
    book.set_service(owner("web-x7k2p", 1), [other.value], now);
    assert_eq!(book.ranges(now).next().unwrap().rests, 0);
    assert_eq!(range_counts(&book, now).pending, 2);
}

#[test]
fn a_dry_run_keeps_nothing_and_a_choice_can_be_withdrawn() {
    let (mut book, now) = addresses(&["10.96.0.0/24"]);
    let shown = book.peek(&named("web"), Source::Ranges, 7, now).unwrap();
    assert_eq!(range_counts(&book, now).free, 254);
    let chosen = book.choose(&named("web"), Source::Ranges, 7, now).unwrap();
    assert_eq!(shown, chosen);
    book.withdraw(&named("api"), chosen.value, now);
    assert_eq!(book.state(chosen.value), State::Pending, "it is not theirs");
    book.withdraw(&named("web"), chosen.value, now);
    assert_eq!(range_counts(&book, now).free, 254);
}

#[test]
fn an_address_rests_until_its_ip_address_is_gone() {
    let (mut book, now) = addresses(&["10.96.0.0/24"]);
    let address = ip("10.96.0.20");
    // The usual order: IPAddress, Service, Service gone, IPAddress gone.
    book.set_ip_address(address, Some(service("web")), now);
    assert_eq!(book.state(address), State::Used);
    book.set_service(owner("web", 1), [address], now);
    book.remove_service(&service("web"), now);
    assert_eq!(book.state(address), State::Quarantined);
    book.advance(now + 3600 * SECOND);
    assert_eq!(book.state(address), State::Quarantined);
    book.remove_ip_address(address, now + 3600 * SECOND);
    assert_eq!(book.state(address), State::Free);
    // The IPAddress watch is ahead.
    book.set_service(owner("web", 1), [address], now);
    book.set_ip_address(address, Some(service("web")), now);
    book.remove_ip_address(address, now);
    assert_eq!(book.state(address), State::Used, "the Service still lists it");
    book.remove_service(&service("web"), now);
    assert_eq!(book.state(address), State::Free);
    // It is behind, or there are none.
    book.set_service(owner("web", 1), [address], now);
    book.remove_service(&service("web"), now);
    assert_eq!(book.state(address), State::Quarantined);
    book.advance(now + 5 * SECOND);
    assert_eq!(book.state(address), State::Free);
    // A creation that failed: the apiserver takes it back.
    book.set_ip_address(address, Some(service("web")), now);
    book.remove_ip_address(address, now);
    assert_eq!(book.state(address), State::Free);
}

#[test]
fn an_ip_address_confirms_the_choice_of_its_parent() {
    let (mut book, now) = addresses(&["10.96.0.0/24"]);
    let address = book.choose(&named("web"), Source::Ranges, 7, now).unwrap().value;
    book.set_ip_address(address, Some(service("web")), now);
    assert_eq!(book.state(address), State::Used);
    assert_eq!(book.holding(address).parent, Some(service("web")));
    book.advance(now + 60 * SECOND);
    assert_eq!(book.state(address), State::Used);
}

#[test]
fn a_node_port_rests_for_five_seconds_and_for_ten_minutes_if_it_was_never_stored() {
    let (mut book, now) = node_ports("30000-32767");
    book.set_service(owner("web", 1), [port(31_000)], now);
    book.set_service(owner("web", 1), [], now);
    assert_eq!(book.state(port(31_000)), State::Quarantined);
    book.advance(now + 5 * SECOND);
    assert_eq!(book.state(port(31_000)), State::Free);
    let lost = book
        .choose(&named("api"), Source::Ranges, 7, now + 5 * SECOND)
        .unwrap()
        .value;
    book.advance(now + 45 * SECOND);
    assert_eq!(book.state(lost), State::Quarantined);
    book.advance(now + 644 * SECOND);
    assert_eq!(book.state(lost), State::Quarantined);
    book.advance(now + 645 * SECOND);
    assert_eq!(book.state(lost), State::Free);
}

/// field-bugs B31, B34, B71: the record is what is stored, the older of two owners keeps the value, and only its last owner frees it.
#[test]
fn two_stored_owners_are_both_known_and_the_older_keeps_the_value() {
    let (mut book, now) = addresses(&["10.96.0.0/24"]);
    let address = ip("10.96.0.20");
    book.set_service(owner("young", 20), [address], now);
    book.set_service(owner("old", 10), [address, ip("10.96.0.21")], now);
    let conflict = &book.conflicts()[0];
    let names: Vec<_> = conflict.1.iter().map(|owner| &*owner.service.name).collect();
    assert_eq!(
        (conflict.0, names, book.conflicts().len()),
        (address, vec!["old", "young"], 1)
    );
    assert_eq!(range_counts(&book, now).used, 2);
    book.remove_service(&service("old"), now);
    assert_eq!((book.state(address), book.conflicts()), (State::Used, Vec::new()));
    book.remove_service(&service("young"), now);
    assert_eq!(book.state(address), State::Quarantined);
}

/// DESIGN 1: one owner for each number, several entries of one Service share it.
#[test]
fn the_numbers_of_one_service_count_once() {
    let (mut book, now) = node_ports("30000-32767");
    book.set_service(owner("dns", 1), [port(31_053), port(31_053), port(31_077)], now);
    assert_eq!(range_counts(&book, now).used, 2);
    book.set_service(owner("dns", 1), [port(31_077)], now);
    assert_eq!(
        (book.state(port(31_053)), book.state(port(31_077))),
        (State::Quarantined, State::Used)
    );
}

#[test]
fn a_list_after_a_gap_frees_what_is_gone_and_never_what_is_used() {
    let (mut book, now) = addresses(&["10.96.0.0/24"]);
    let (kept, gone, new) = (ip("10.96.0.20"), ip("10.96.0.21"), ip("10.96.0.22"));
    book.set_service(owner("web", 1), [kept], now);
    book.set_service(owner("api", 1), [gone], now);
    book.set_ip_address(kept, Some(service("web")), now);
    book.set_ip_address(gone, Some(service("api")), now);
    book.replace_services([(owner("web", 1), vec![kept]), (owner("db", 2), vec![new])], now);
    book.replace_ip_addresses([(kept, Some(service("web")))], now);
    assert_eq!(
        [kept, gone, new].map(|address| book.state(address)),
        [State::Used, State::Free, State::Used]
    );
    assert_eq!(book.taken().len(), 2);
}

#[test]
fn few_free_values_are_left_to_the_apiserver_unless_a_pool_is_enforced() {
    let (mut book, now) = addresses(&["10.96.0.0/25"]);
    set_pools(&mut book, &[ip_pool(enforced("all"), "10.96.0.0/25", &[])], now);
    let names = only("all");
    let plain = Source::Pools {
        names: &names,
        enforced: false,
    };
    for number in 1..63 {
        book.set_service(
            owner(&format!("web-{number}"), 1),
            [Ipv4Addr::new(10, 96, 0, 50 + number)],
            now,
        );
    }
    assert_eq!(range_counts(&book, now).free, 64);
    let last = book.choose(&named("web"), plain, 7, now).unwrap();
    assert_eq!(last.pool.as_deref(), Some("all"));
    assert_eq!(book.choose(&named("api"), plain, 7, now), Err(NotChosen::NearlyFull));
    let mut now = now;
    for number in 0..63 {
        now += SECOND;
        let name = format!("db-{number}");
        let chosen = book.choose(&named(&name), from(&names), 7, now).unwrap();
        book.set_service(owner(&name, 1), [chosen.value], now);
    }
    // The one that is left is pending, and kept only softly by now: it goes to who would get nothing else.
    assert_eq!(range_counts(&book, now).free, 1);
}

#[test]
fn the_last_choice_that_came_to_nothing_goes_to_another_after_five_seconds() {
    let (mut book, now) = addresses(&["10.96.0.0/29"]);
    set_pools(&mut book, &[ip_pool(enforced("one"), "10.96.0.3", &[])], now);
    let names = only("one");
    let chosen = book.choose(&named("web"), from(&names), 7, now).unwrap();
    let soon = now + SECOND * 4;
    assert_eq!(book.choose(&named("api"), from(&names), 7, soon), Err(NotChosen::Full));
    let later = now + SECOND * 5;
    assert_eq!(book.choose(&named("api"), from(&names), 7, later), Ok(chosen.clone()));
    assert_eq!(book.holding(chosen.value).pending_for, Some(service("api")));
    book.set_service(owner("api", 1), [chosen.value], later);
    assert_eq!(book.choose(&named("web"), from(&names), 7, later), Err(NotChosen::Full));
}

#[test]
fn a_full_enforced_pool_gives_what_came_to_nothing_rather_than_refuse() {
    let (mut book, now) = node_ports("30000-30099");
    set_pools(&mut book, &[port_pool(enforced("few"), "30000-30001")], now);
    let names = only("few");
    let first = book.choose(&named("a"), from(&names), 7, now).unwrap().value;
    let second = book.choose(&named("b"), from(&names), 7, now + SECOND).unwrap().value;
    assert_ne!(first, second);
    // Neither was stored: for 10 minutes others are given first, and there are none.
    let later = now + SECOND * 60;
    book.advance(later);
    assert_eq!(
        (book.state(first), book.state(second)),
        (State::Quarantined, State::Quarantined)
    );
    assert_eq!(
        book.choose(&named("c"), from(&names), 7, later).unwrap().value,
        first,
        "the oldest first"
    );
    assert_eq!(book.choose(&named("d"), from(&names), 7, later).unwrap().value, second);
    assert_eq!(book.choose(&named("e"), from(&names), 7, later), Err(NotChosen::Full));
    let plain = Source::Pools {
        names: &names,
        enforced: false,
    };
    assert!(
        book.choose(&named("f"), plain, 7, later).is_err(),
        "others are left to the apiserver"
    );
    // What was given up in a second round of a request may be reserved for good, or not: it is given when there is nothing else.
    book.renounce(&named("d"), later);
    assert_eq!(book.choose(&named("g"), from(&names), 7, later).unwrap().value, second);
}

/// An update that is tried again and again gives up a value each time.
#[test]
fn updates_that_fail_do_not_use_up_an_enforced_pool() {
    let (mut book, now) = node_ports("30000-30099");
    set_pools(&mut book, &[port_pool(enforced("few"), "30000-30003")], now);
    let names = only("few");
    let mut tried = BTreeSet::new();
    for _ in 0..5 {
        book.renounce(&named("web"), now);
        tried.insert(book.choose(&named("web"), from(&names), 7, now).unwrap().value);
    }
    assert_eq!(tried.len(), 4, "each value before one twice");
    assert!(book.choose(&named("api"), from(&names), 7, now).is_ok());
}

/// The validating endpoint can be asked by anybody who reaches it.
#[test]
fn what_passed_validation_and_is_not_stored_holds_an_enforced_pool_for_five_seconds() {
    let (mut book, now) = node_ports("30000-30099");
    set_pools(&mut book, &[port_pool(enforced("few"), "30000-30003")], now);
    let names = only("few");
    for number in 30_000..30_004 {
        book.confirm(&named(&format!("never-{number}")), port(number), now);
    }
    let soon = now + SECOND * 4;
    assert_eq!(book.choose(&named("web"), from(&names), 7, soon), Err(NotChosen::Full));
    let later = now + SECOND * 5;
    assert_eq!(
        book.choose(&named("web"), from(&names), 7, later).unwrap().value,
        port(30_000)
    );
}

#[test]
fn outside_of_pools_the_last_value_is_given_where_the_apiserver_would_give_anothers() {
    let (mut book, now) = addresses(&["10.96.0.0/29"]);
    set_pools(&mut book, &[ip_pool(enforced("bank"), "10.96.0.1-10.96.0.4", &[])], now);
    assert_eq!(
        book.choose(&named("a"), Source::Ranges, 7, now),
        Err(NotChosen::NearlyFull)
    );
    let first = book.choose(&named("a"), Source::Outside, 7, now).unwrap();
    let second = book.choose(&named("b"), Source::Outside, 7, now).unwrap();
    assert_eq!(
        BTreeSet::from([first.value, second.value]),
        BTreeSet::from([ip("10.96.0.5"), ip("10.96.0.6")])
    );
    assert_eq!(book.choose(&named("c"), Source::Outside, 7, now), Err(NotChosen::Full));
}

#[test]
fn what_a_request_names_is_not_chosen_for_it_and_is_as_before_afterwards() {
    let (mut book, now) = node_ports("30000-30099");
    set_pools(&mut book, &[port_pool(enforced("few"), "30000-30001")], now);
    let names = only("few");
    let named_ports = BTreeSet::from([port(30_001)]);
    let choose = |book: &mut Book<NodePort>| {
        book.apart_from(&named_ports, now, |book| {
            book.choose(&named("web"), from(&names), 7, now)
        })
    };
    // Even what is kept for it.
    book.confirm(&named("web"), port(30_001), now);
    assert_eq!(
        book.choose(&named("web"), from(&names), 7, now).unwrap().value,
        port(30_001)
    );
    assert_eq!(choose(&mut book).unwrap().value, port(30_000));
    assert_eq!(book.state(port(30_001)), State::Free);
    book.withdraw(&named("web"), port(30_000), now);
    book.confirm(&named("api"), port(30_001), now);
    assert_eq!(choose(&mut book).unwrap().value, port(30_000));
    assert_eq!(book.holding(port(30_001)).pending_for, Some(service("api")));
    book.set_service(owner("db", 1), [port(30_000)], now);
    assert_eq!(choose(&mut book), Err(NotChosen::Full));
}

#[test]
fn a_service_that_is_made_again_gets_the_value_that_rests_after_it() {
    let (mut book, now) = addresses(&["10.96.0.0/24"]);
    let slow = PoolTerms {
        reuse_delay: SECOND * 600,
        ..enforced("slow")
    };
    set_pools(&mut book, &[ip_pool(slow, "10.96.0.20-10.96.0.29", &[])], now);
    let names = only("slow");
    let value = book.choose(&named("web"), from(&names), 7, now).unwrap().value;
    book.set_ip_address(value, Some(service("web")), now);
    book.set_service(owner("web", 1), [value], now);
    book.remove_service(&service("web"), now);
    let other = book.choose(&named("web"), from(&names), 7, now).unwrap().value;
    assert_ne!(other, value, "its IPAddress is still there");
    book.withdraw(&named("web"), other, now);
    book.remove_ip_address(value, now);
    for number in 0..9 {
        let name = format!("other-{number}");
        let chosen = book.choose(&named(&name), from(&names), 7, now).unwrap().value;
        assert_ne!(chosen, value, "nobody else gets it");
    }
    assert_eq!(book.choose(&named("web"), from(&names), 7, now).unwrap().value, value);
}

#[test]
fn a_quarter_of_a_range_may_be_pending() {
    let (mut book, now) = addresses(&["10.96.0.0/24"]);
    for number in 0..63 {
        book.choose(&named(&format!("web-{number}")), Source::Ranges, number << 58, now)
            .unwrap();
    }
    assert_eq!(
        book.choose(&named("web"), Source::Ranges, 7, now),
        Err(NotChosen::TooManyPending)
    );
    assert!(
        book.choose(&named("web-3"), Source::Ranges, 7, now).is_ok(),
        "its own it gets again"
    );
}

#[test]
fn a_range_rests_when_choices_are_not_stored() {
    let (mut book, mut now) = addresses(&["10.96.0.0/24"]);
    for number in 0..20 {
        book.choose(&named(&format!("web-{number}")), Source::Ranges, 7, now)
            .unwrap();
    }
    now += SECOND * 40;
    assert_eq!(
        book.choose(&named("web"), Source::Ranges, 7, now),
        Err(NotChosen::Resting)
    );
    let view = book.ranges(now).next().unwrap();
    assert_eq!((view.resting, view.rests), (true, 1));
    assert!(book.choose(&named("web"), Source::Ranges, 7, now + SECOND * 60).is_ok());
}

/// Found by an operator: forty creations that a policy refused kept everybody else out of their pools.
#[test]
fn what_becomes_of_others_keeps_nobody_out_of_an_enforced_pool() {
    let (mut book, mut now) = addresses(&["10.96.0.0/24"]);
    set_pools(
        &mut book,
        &[ip_pool(enforced("one"), "10.96.0.128-10.96.0.255", &[])],
        now,
    );
    let names = only("one");
    for number in 0..63 {
        book.choose(&named(&format!("refused-{number}")), Source::Ranges, number << 58, now)
            .unwrap();
    }
    assert_eq!(
        book.choose(&named("web"), Source::Ranges, 7, now),
        Err(NotChosen::TooManyPending)
    );
    assert!(book.choose(&named("early"), from(&names), 7, now).is_ok());
    now += SECOND * 40;
    assert_eq!(
        book.choose(&named("web"), Source::Ranges, 7, now),
        Err(NotChosen::Resting)
    );
    assert!(book.choose(&named("late"), from(&names), 7, now).is_ok());
}

/// The apiserver makes the IPAddress before others have their say about the Service.
#[test]
fn a_choice_counts_as_stored_once_its_service_is() {
    let (mut book, now) = addresses(&["10.96.0.0/24"]);
    let chosen = ["web", "denied"].map(|name| book.choose(&named(name), Source::Ranges, 7, now).unwrap().value);
    for (address, name) in chosen.into_iter().zip(["web", "denied"]) {
        book.set_ip_address(address, Some(service(name)), now);
    }
    assert_eq!(book.stored_choices(), 0);
    book.set_service(owner("web", 1), [chosen[0]], now);
    book.remove_ip_address(chosen[1], now);
    assert_eq!(book.stored_choices(), 1);
    book.set_service(owner("web", 1), [chosen[0]], now);
    let other = book.choose(&named("api"), Source::Ranges, 9, now).unwrap().value;
    book.set_service(owner("api", 1), [other], now);
    assert_eq!(book.stored_choices(), 2);
}

#[test]
fn a_value_that_another_gets_counts_as_not_stored_and_the_validating_call_confirms() {
    let (mut book, now) = addresses(&["10.96.0.0/24"]);
    for number in 0..20 {
        let name = format!("web-{number}");
        let chosen = book.choose(&named(&name), Source::Ranges, 7, now).unwrap().value;
        book.confirm(&named(&name), chosen, now);
        assert_eq!(book.state(chosen), State::Pending);
    }
    book.advance(now + SECOND * 40);
    assert_eq!(range_counts(&book, now).free, 254);
    assert_eq!(book.ranges(now).next().unwrap().rests, 0, "they were confirmed");
    let now = now + SECOND * 40;
    book.confirm(&named("other-replica"), ip("10.96.0.99"), now);
    assert_eq!(
        book.holding(ip("10.96.0.99")).pending_for,
        Some(service("other-replica"))
    );
    for number in 0..2 {
        let chosen = book.choose(&named("web"), Source::Ranges, 7, now).unwrap().value;
        book.set_service(owner(&format!("thief-{number}"), 1), [chosen], now);
    }
    assert_eq!(
        book.ranges(now).next().unwrap().rests,
        1,
        "2 of 22 went to somebody else"
    );
}

#[test]
fn a_service_cidr_is_used_ten_seconds_after_it_is_ready_and_not_while_it_is_not() {
    let (mut book, now) = addresses(&[]);
    assert_eq!(
        book.choose(&named("web"), Source::Ranges, 7, now),
        Err(NotChosen::NoRange)
    );
    let unready = RangeSpec {
        ready: false,
        ..cidr("10.96.0.0/24")
    };
    book.set_ranges([unready.clone()], now);
    assert_eq!(
        book.choose(&named("web"), Source::Ranges, 7, now + SECOND * 60),
        Err(NotChosen::NoRange)
    );
    let now = now + SECOND * 60;
    // Two ServiceCIDRs of one CIDR: ready if one is.
    book.set_ranges([unready.clone(), cidr("10.96.0.0/24")], now);
    book.set_ranges([unready.clone(), cidr("10.96.0.0/24")], now + SECOND * 9);
    assert_eq!(
        book.choose(&named("web"), Source::Ranges, 7, now + SECOND * 9),
        Err(NotChosen::NoRange)
    );
    assert!(book.choose(&named("web"), Source::Ranges, 7, now + SECOND * 10).is_ok());
    book.set_ranges([unready], now + SECOND * 11);
    assert_eq!(
        book.choose(&named("api"), Source::Ranges, 7, now + SECOND * 60),
        Err(NotChosen::NoRange)
    );
}

#[test]
fn a_new_range_knows_what_is_used_in_it_and_ranges_may_overlap() {
    let (mut book, now) = addresses(&["10.96.0.0/24"]);
    book.set_service(
        owner("web", 1),
        [ip("10.96.0.255"), ip("10.96.1.7"), ip("10.96.0.9")],
        now,
    );
    assert_eq!(
        range_counts(&book, now).used,
        1,
        "the broadcast address cannot be given here"
    );
    book.set_ranges([cidr("10.96.0.0/24"), cidr("10.96.0.0/23")], now);
    let used: Vec<u64> = book.ranges(now).map(|range| range.counts.used).collect();
    assert_eq!(used, [1, 3]);
    book.remove_service(&service("web"), now);
    book.advance(now + 5 * SECOND);
    assert!(book.ranges(now).all(|range| range.counts.free == range.counts.capacity));
}

#[test]
fn replicas_choose_from_different_values_until_their_own_are_gone() {
    let all: [Arc<str>; 3] = ["a", "b", "c"].map(Into::into);
    let start = Instant::now();
    let now = start + 10 * SECOND;
    let mut chosen = BTreeSet::new();
    for me in &all {
        let mut book = Book::new(Rules::ADDRESSES);
        book.set_ranges([cidr("10.96.0.0/20")], start);
        set_pools(
            &mut book,
            &[ip_pool(enforced("small"), "10.96.2.0-10.96.2.40", &[])],
            start,
        );
        book.set_members(me, &all, start);
        let names = only("small");
        for number in 0..200_u64 {
            let choice = book.choose(
                &named(&format!("web-{number}")),
                Source::Ranges,
                number.wrapping_mul(0x9E37_79B9_7F4A_7C15),
                now,
            );
            assert!(chosen.insert(choice.unwrap().value));
        }
        for number in 0..4 {
            let choice = book.choose(&named(&format!("api-{number}")), from(&names), number << 62, now);
            assert!(
                chosen.insert(choice.unwrap().value),
                "of a small pool each has its share too"
            );
        }
    }
    let upper = ip("10.96.1.1");
    assert!(chosen.iter().all(|address| *address >= upper), "the upper band first");
}

#[test]
fn reservations_survive_deletion_and_nobody_else_gets_them() {
    let (mut book, now) = addresses(&["10.96.0.0/24"]);
    let reserved = ip("10.96.0.40");
    set_pools(
        &mut book,
        &[ip_pool(
            enforced("p"),
            "10.96.0.40-10.96.0.43",
            &[("10.96.0.40", "marsh/web")],
        )],
        now,
    );
    assert_eq!(range_counts(&book, now).reserved, 1);
    let names = only("p");
    for number in 0..3 {
        let chosen = book
            .choose(&named(&format!("api-{number}")), from(&names), 7, now)
            .unwrap()
            .value;
        assert_ne!(chosen, reserved);
        book.set_service(owner(&format!("api-{number}"), 1), [chosen], now);
    }
    assert_eq!(book.choose(&named("api"), from(&names), 7, now), Err(NotChosen::Full));
    for _ in 0..2 {
        assert_eq!(
            book.choose(&named("web"), from(&names), 7, now).unwrap().value,
            reserved
        );
        book.set_service(owner("web", 1), [reserved], now);
        assert_eq!(range_counts(&book, now).reserved, 0);
        book.remove_service(&service("web"), now);
    }
    book.advance(now + 5 * SECOND);
    assert_eq!(book.state(reserved), State::Reserved);
    let status = book.pools().next().unwrap().status();
    assert_eq!(
        status,
        PoolStatus {
            total: 4,
            used: 3,
            reserved: 1,
            available: 0
        }
    );
    set_pools(&mut book, &[], now);
    assert_eq!(
        (book.state(reserved), range_counts(&book, now).reserved),
        (State::Free, 0)
    );
}

#[test]
fn a_pools_reuse_delay_holds_its_values_back() {
    let (mut book, now) = node_ports("30000-32767");
    let slow = PoolTerms {
        reuse_delay: 60 * SECOND,
        ..terms("slow")
    };
    set_pools(&mut book, &[port_pool(slow, "30100-30101")], now);
    book.set_service(owner("web", 1), [port(30_100), port(30_200)], now);
    book.remove_service(&service("web"), now);
    book.advance(now + 59 * SECOND);
    assert_eq!(
        (book.state(port(30_100)), book.state(port(30_200))),
        (State::Quarantined, State::Free)
    );
    book.advance(now + 60 * SECOND);
    assert_eq!(book.state(port(30_100)), State::Free);
}

#[test]
fn without_a_pool_nothing_of_a_pool_is_chosen() {
    let (mut book, now) = addresses(&["10.96.0.0/24"]);
    set_pools(&mut book, &[ip_pool(terms("most"), "10.96.0.0-10.96.0.200", &[])], now);
    for number in 0..54 {
        let name = format!("web-{number}");
        let chosen = book.choose(&named(&name), Source::Ranges, number << 58, now).unwrap();
        assert!(chosen.value > ip("10.96.0.200") && chosen.pool.is_none());
        book.set_service(owner(&name, 1), [chosen.value], now);
    }
    assert_eq!(book.choose(&named("web"), Source::Ranges, 7, now), Err(NotChosen::Full));
}

#[test]
fn a_pool_gives_only_what_the_apiserver_allocates_and_says_what_lies_outside() {
    let (mut book, now) = addresses(&["10.96.0.0/24"]);
    set_pools(
        &mut book,
        &[
            ip_pool(terms("edge"), "10.96.0.0/24", &[]),
            ip_pool(terms("half"), "10.95.255.250-10.95.255.255", &[]),
            ip_pool(terms("out"), "10.97.0.0/24", &[]),
        ],
        now,
    );
    let seen: Vec<_> = book
        .pools()
        .map(|pool| (pool.name.to_string(), pool.counts.capacity, pool.outside))
        .collect();
    let expected =
        |name: &str, capacity, outside: Option<&str>| (name.to_string(), capacity, outside.map(ToString::to_string));
    assert_eq!(
        seen,
        [
            expected("edge", 254, None),
            expected("half", 0, Some("10.95.255.250-10.95.255.255")),
            expected("out", 0, Some("10.97.0.0-10.97.0.255")),
        ]
    );
    let names = only("out");
    assert_eq!(
        book.choose(&named("web"), from(&names), 7, now),
        Err(NotChosen::NoRange)
    );
}

#[test]
fn the_pools_that_serve_a_service_come_by_priority_then_name_and_enforced_ones_exclude_others() {
    let (mut book, now) = node_ports("30000-32767");
    let first = PoolTerms {
        priority: -1,
        ..terms("z")
    };
    let asked = PoolTerms {
        auto_assign: false,
        ..terms("asked")
    };
    let draining = PoolTerms {
        mode: Mode::Drain,
        ..enforced("draining")
    };
    let disabled = PoolTerms {
        mode: Mode::Disabled,
        ..enforced("disabled")
    };
    set_pools(
        &mut book,
        &[
            port_pool(terms("b"), "30100-30109"),
            port_pool(terms("a"), "30110-30119"),
            port_pool(first, "30120-30129"),
            port_pool(asked, "30130-30139"),
            port_pool(draining, "30140-30149"),
            port_pool(disabled, "30150-30159"),
            port_pool(enforced("fence"), "30160-30169"),
            port_pool(terms("other"), "30170-30179"),
        ],
        now,
    );
    let plain = |name: &str| !["other", "fence"].contains(&name);
    let names = |pools: &[Arc<str>]| pools.iter().map(ToString::to_string).collect::<Vec<_>>();
    let governance = book.govern(plain, None).unwrap();
    assert_eq!(
        (names(&governance.pools), governance.enforced),
        (vec!["z".into(), "a".into(), "b".into()], false)
    );
    let verdicts: BTreeMap<_, _> = governance.verdicts.into_iter().collect();
    let verdict = |name: &str| &verdicts[name];
    assert_eq!(
        ["asked", "draining", "disabled", "fence", "a"].map(verdict),
        [
            &PoolVerdict::NotAutomatic,
            &PoolVerdict::Draining,
            &PoolVerdict::Disabled,
            &PoolVerdict::NotSelected,
            &PoolVerdict::Offered
        ]
    );
    assert_eq!(names(&book.govern(plain, Some("asked")).unwrap().pools), ["asked"]);
    let error = |selects: fn(&str) -> bool, name| book.govern(selects, Some(name)).unwrap_err().to_string();
    assert_eq!(error(plain, "nowhere"), r#"there is no pool "nowhere""#);
    assert_eq!(error(plain, "other"), r#"pool "other" does not select this Service"#);
    assert_eq!(error(plain, "draining"), r#"pool "draining" is being drained"#);
    assert_eq!(
        error(|_| true, "a"),
        r#"pool "a" is overruled by pool "fence", which is enforced for this Service"#
    );
    let governance = book.govern(|_| true, None).unwrap();
    assert_eq!(
        (names(&governance.pools), governance.enforced),
        (vec!["fence".into()], true)
    );
    assert_eq!(governance.source(), Some(from(&only("fence"))));
    assert_eq!(book.govern(|_| false, None).unwrap().source(), None);
}

#[test]
fn whether_a_service_may_have_a_value() {
    let (mut book, now) = addresses(&["10.96.0.0/24"]);
    let draining = PoolTerms {
        mode: Mode::Drain,
        ..terms("draining")
    };
    set_pools(
        &mut book,
        &[
            ip_pool(
                enforced("fence"),
                "10.96.0.32-10.96.0.39",
                &[("10.96.0.33", "marsh/web")],
            ),
            ip_pool(enforced("second"), "10.96.0.40-10.96.0.47", &[]),
            ip_pool(terms("open"), "10.96.0.48-10.96.0.55", &[("10.96.0.49", "fen/api")]),
            ip_pool(draining, "10.96.0.56-10.96.0.63", &[]),
        ],
        now,
    );
    let judge = |value: &str, selects: fn(&str) -> bool| {
        let verdict = book.judge(ip(value), &service("web"), selects);
        verdict.map_err(|refusal| refusal.to_string())
    };
    let nobody: fn(&str) -> bool = |_| false;
    let everybody: fn(&str) -> bool = |_| true;
    let fence: fn(&str) -> bool = |name| name == "fence";
    assert_eq!(judge("10.96.0.99", nobody), Ok(None));
    assert_eq!(
        judge("10.96.0.50", nobody),
        Ok(None),
        "a pool that is not enforced keeps nobody out"
    );
    assert_eq!(judge("10.96.0.57", nobody), Ok(Some("draining".into())));
    assert_eq!(judge("10.96.0.33", fence), Ok(None));
    assert_eq!(
        judge("10.96.0.32", nobody),
        Err(r#"belongs to pool "fence", which is enforced and does not select this Service"#.into())
    );
    assert_eq!(
        judge("10.96.0.40", fence),
        Err(r#"belongs to pool "second", which is enforced and does not select this Service"#.into())
    );
    assert_eq!(
        judge("10.96.0.50", fence),
        Err(r#"must be from pool "fence", enforced for this Service"#.into())
    );
    assert_eq!(
        judge("10.96.0.99", everybody),
        Err(r#"must be from one of the pools "fence", "second", enforced for this Service"#.into())
    );
    assert_eq!(
        judge("10.96.0.49", nobody),
        Err(r#"is reserved for Service fen/api by pool "open""#.into())
    );
}

#[test]
fn free_neighbours_are_found_around_the_end_of_the_range() {
    let (mut book, now) = addresses(&["10.96.0.0/28"]);
    book.set_service(owner("web", 1), [ip("10.96.0.13"), ip("10.96.0.1")], now);
    assert_eq!(
        book.free_near(ip("10.96.0.13"), 3),
        [ip("10.96.0.14"), ip("10.96.0.2"), ip("10.96.0.3")]
    );
    assert_eq!(book.free_near(ip("10.97.0.13"), 3), [] as [Ipv4Addr; 0]);
    assert!(book.is_in_range(ip("10.96.0.1")) && !book.is_in_range(ip("10.96.0.15")));
}
