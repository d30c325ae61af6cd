use std::time::Duration;

use super::*;
use crate::books::Counts;
use crate::pools::{Mode, PoolSpec, parse_cluster_ip_pool};
use crate::service::{Field, Requester};

const SECOND: Duration = Duration::from_secs(1);
const BOTH: [(IpFamily, Source<'_>); 2] = [(IpFamily::IPv6, Source::Ranges), (IpFamily::IPv4, Source::Ranges)];

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn service(name: &str) -> ServiceKey {
    ServiceKey::new("marsh", name)
}

fn owner(name: &str) -> Owner {
    Owner {
        created: 1,
        service: service(name),
    }
}

fn key(name: &str) -> ChoiceKey {
    ChoiceKey {
        namespace: "marsh".into(),
        requester: Requester::Named(name.into()),
        field: Field::ClusterIp,
    }
}

fn books(cidrs: &[&str]) -> (ClusterIpBooks, Instant) {
    let (mut books, start) = (ClusterIpBooks::default(), Instant::now());
    let spec = |text: &&str| ServiceCidr {
        cidr: text.parse().unwrap(),
        ready: true,
    };
    let refused = books.set_service_cidrs(cidrs.iter().map(spec), Registry::default(), start);
    assert_eq!(refused, []);
    books.set_members("a", &["a".into()], start);
    (books, start + 10 * SECOND)
}

#[test]
fn each_family_is_chosen_in_the_order_asked_for() {
    let (mut books, now) = books(&["10.96.0.0/16", "fd00:96::/64"]);
    let chosen = books.choose(&key("web"), &BOTH, 1 << 63, now);
    assert_eq!(chosen.missing, None);
    let addresses: Vec<IpAddr> = chosen.chosen.iter().map(|choice| choice.value).collect();
    assert_eq!(
        addresses.iter().copied().map(IpFamily::of).collect::<Vec<_>>(),
        [IpFamily::IPv6, IpFamily::IPv4]
    );
    assert_eq!(books.choose(&key("web"), &BOTH, 7, now), chosen, "the same again");
    books.set_service(&owner("web"), &addresses, now);
    assert_eq!([0, 1].map(|index| books.state(addresses[index])), [State::Used; 2]);
    assert_eq!(books.holding(addresses[0]).owners[0].service, service("web"));
    books.remove_service(&service("web"), now);
    books.advance(now + 5 * SECOND);
    assert_eq!([0, 1].map(|index| books.state(addresses[index])), [State::Free; 2]);
}

#[test]
fn a_family_without_addresses_is_told_and_what_came_before_it_stands() {
    let (mut books, now) = books(&["fd00:96::/112"]);
    let chosen = books.choose(&key("web"), &BOTH, 7, now);
    assert_eq!(
        (chosen.chosen.len(), chosen.missing),
        (1, Some((IpFamily::IPv4, NotChosen::NoRange)))
    );
    books.withdraw(&key("web"), chosen.chosen[0].value, now);
    assert_eq!(books.state(chosen.chosen[0].value), State::Free);
    let wide = ServiceCidr {
        cidr: "fd00::/48".parse().unwrap(),
        ready: true,
    };
    let refused = books.set_service_cidrs([wide], Registry::IpAddresses, now);
    assert_eq!(refused, [(wide.cidr, RangeError::PrefixTooShort)]);
}

/// field-bugs B42: beyond the first 65,536 addresses, of both families.
#[test]
fn wide_ranges_are_used_to_their_ends() {
    let (mut books, now) = books(&["10.160.0.0/12", "fd00:96::/64", "ffff:ffff:ffff:ffff::/64"]);
    for address in [
        "10.170.3.9",
        "fd00:96::1",
        "fd00:96::ffff:ffff:ffff:ffff",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    ]
    .map(ip)
    {
        books.set_service(&owner("albatross"), &[address], now);
        let counts = books
            .ipv4
            .ranges(now)
            .chain(books.ipv6.ranges(now))
            .map(|range| range.counts);
        assert_eq!(
            counts.filter(Counts::add_up).map(|counts| counts.used).sum::<u64>(),
            1,
            "{address}"
        );
    }
    let mut far = 0;
    for number in 0..200_u64 {
        let name = format!("web-{number}");
        let random = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let chosen = books.choose(&key(&name), &BOTH, random, now);
        for choice in &chosen.chosen {
            far += match choice.value {
                IpAddr::V4(v4) => usize::from(v4.octets()[1] > 160),
                IpAddr::V6(v6) => usize::from(v6.segments()[4] > 0),
            };
        }
        books.set_service(&owner(&name), &[chosen.chosen[0].value, chosen.chosen[1].value], now);
    }
    assert!(far > 300, "{far}");
}

#[test]
fn a_pool_serves_each_family_with_its_own_values() {
    let (mut books, now) = books(&["10.96.0.0/16", "fd00:96::/112"]);
    let spec = PoolSpec {
        ranges: vec!["10.96.4.0/28".into(), "fd00:96::40-fd00:96::4f".into()],
        ..PoolSpec::default()
    };
    let terms = PoolTerms {
        name: "reed".into(),
        created: 1,
        priority: 0,
        auto_assign: true,
        mode: Mode::Active,
        enforce: true,
        reuse_delay: Duration::ZERO,
    };
    books.set_pools(&[(Arc::new(terms), parse_cluster_ip_pool(&spec).unwrap())], now);
    let governance = books.ipv4.govern(|_| true, None).unwrap();
    let source = governance.source().unwrap();
    let chosen = books.choose(
        &key("web"),
        &[(IpFamily::IPv4, source), (IpFamily::IPv6, source)],
        7,
        now,
    );
    for choice in chosen.chosen {
        assert_eq!(choice.pool.as_deref(), Some("reed"));
        assert_eq!(books.judge(choice.value, &service("web"), |_| true), Ok(None));
        assert!(books.judge(choice.value, &service("web"), |_| false).is_err());
        books.confirm(&key("web"), choice.value, now);
        assert_eq!(books.holding(choice.value).pending_for, Some(service("web")));
    }
}

#[test]
fn lists_replace_what_was_known_of_both_families() {
    let (mut books, now) = books(&["10.96.0.0/16", "fd00:96::/112"]);
    let (web, api) = (
        [ip("10.96.0.20"), ip("fd00:96::20")],
        [ip("10.96.0.21"), ip("fd00:96::21")],
    );
    books.replace_services(&[(owner("web"), web.to_vec()), (owner("api"), api.to_vec())], now);
    books.replace_ip_addresses(web.iter().chain(&api).map(|address| (*address, None)), now);
    books.replace_services(&[(owner("web"), web.to_vec())], now);
    books.set_ip_address(api[0], Some(service("api")), now);
    assert_eq!(
        api.map(|address| books.state(address)),
        [State::Used; 2],
        "their IPAddresses name nobody who has gone"
    );
    books.replace_ip_addresses(web.map(|address| (address, Some(service("web")))), now);
    assert_eq!(web.map(|address| books.state(address)), [State::Used; 2]);
    assert_eq!(api.map(|address| books.state(address)), [State::Free; 2]);
    books.remove_ip_address(web[0], now);
    assert_eq!(books.state(web[0]), State::Used);
}
