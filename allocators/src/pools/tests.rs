use super::*;
use crate::interval::Interval;
use crate::value::Value;
use proptest::prelude::*;

fn spec(ranges: &[&str], excluded: &[&str], reservations: &[(&str, &str)]) -> PoolSpec {
    let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
    PoolSpec {
        ranges: owned(ranges),
        excluded: owned(excluded),
        reservations: reservations
            .iter()
            .map(|(value, service)| (value.to_string(), service.to_string()))
            .collect(),
    }
}

fn text<V: Value>(segments: &Segments<V>) -> String {
    let parts: Vec<String> = segments.as_slice().iter().map(ToString::to_string).collect();
    parts.join(" ")
}

#[test]
fn a_cluster_ip_pool_is_its_ranges_without_what_is_excluded_by_family() {
    let holdings = parse_cluster_ip_pool(&spec(
        &[
            "10.96.4.0/24",
            "10.96.5.7",
            "10.96.8.10-10.96.8.20",
            "fd00::1:0/112",
            "255.255.255.255",
            "10.96.5.0-10.96.5.8",
        ],
        &["10.96.4.0", "10.96.4.128/25", "10.96.8.15", "fd00::1:ffff"],
        &[
            ("10.96.4.5", "marsh/web"),
            ("fd00::1:5", "marsh/web"),
            ("10.96.8.10", "fen/api"),
        ],
    ))
    .unwrap();
    assert_eq!(
        text(&holdings.ipv4.values),
        "10.96.4.1-10.96.4.127 10.96.5.0-10.96.5.8 10.96.8.10-10.96.8.14 10.96.8.16-10.96.8.20 255.255.255.255"
    );
    assert_eq!(text(&holdings.ipv6.values), "fd00::1:0-fd00::1:fffe");
    assert_eq!(
        holdings.ipv4.reservations["10.96.4.5".parse::<Ipv4Addr>().as_ref().unwrap()],
        ServiceKey::new("marsh", "web")
    );
    assert_eq!(
        (holdings.ipv4.reservations.len(), holdings.ipv6.reservations.len()),
        (2, 1)
    );
}

#[test]
fn a_node_port_pool_is_its_ranges_without_what_is_excluded() {
    let holdings = parse_node_port_pool(&spec(
        &["30100-30199", "65535", "30200"],
        &["30150-30160"],
        &[("30100", "marsh/web")],
    ))
    .unwrap();
    assert_eq!(text(&holdings.values), "30100-30149 30161-30200 65535");
    assert_eq!(
        holdings.reservations[&NodePort::new(30_100).unwrap()],
        ServiceKey::new("marsh", "web")
    );
}

#[test]
fn an_exclusion_that_takes_nothing_out_is_odd() {
    let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
    let fields = |odd: Vec<FieldError>| odd.into_iter().map(|it| it.to_string()).collect::<Vec<_>>();
    let excluded = [
        "10.96.4.9",
        "10.96.5.0/24",
        "fd00::/120",
        "10.96.3.0-10.96.4.0",
        "nonsense",
        "10.96.3.255",
    ];
    assert_eq!(
        fields(idle_address_exclusions(
            &owned(&["10.96.4.0/24", "fd00::1:0/112"]),
            &owned(&excluded)
        )),
        [
            "spec.excluded[1]: \"10.96.5.0/24\" takes nothing out of spec.ranges",
            "spec.excluded[2]: \"fd00::/120\" takes nothing out of spec.ranges",
            "spec.excluded[5]: \"10.96.3.255\" takes nothing out of spec.ranges",
        ]
    );
    assert_eq!(
        fields(idle_node_port_exclusions(
            &owned(&["30100-30199"]),
            &owned(&["30199-30300", "30200"])
        )),
        ["spec.excluded[1]: \"30200\" takes nothing out of spec.ranges"]
    );
}

#[test]
fn a_load_balancer_pool_has_no_addresses_that_nobody_can_reach() {
    let read = |range: &str| parse_load_balancer_pool(&spec(&[range], &[], &[]), FirstLast::Allow);
    for (range, what) in [
        ("0.0.0.0/24", "unspecified"),
        ("126.0.0.0-127.0.0.0", "loopback"),
        ("224.0.0.9", "multicast"),
        ("255.255.255.0/24", "broadcast"),
        ("::/0", "unspecified"),
        ("::1", "loopback"),
        ("ff02::/64", "multicast"),
    ] {
        let errors = read(range).unwrap_err();
        let want =
            format!("spec.ranges[0]: {range:?} must not have {what} addresses: no client can reach a Service there");
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [want]);
    }
    for range in [
        "1.0.0.0-126.255.255.255",
        "128.0.0.0/8",
        "240.0.0.0/24",
        "169.254.0.0/24",
        "::2",
        "fe80::/64",
        "2000::/3",
    ] {
        assert!(read(range).is_ok(), "{range}");
    }
}

#[test]
fn every_error_names_its_field_and_all_are_told_at_once() {
    let told = |errors: Vec<FieldError>| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
    let errors = parse_cluster_ip_pool(&spec(
        &[
            "10.96.4.0/24",
            "10.96.4.9/24",
            "10.96.5.20-10.96.5.10",
            "10.96.5.1-fd00::1",
            "010.96.5.1",
            "::ffff:10.96.5.1",
            "web",
            "",
        ],
        &["10.96.4.300"],
        &[
            ("10.96.9.1", "marsh/web"),
            ("10.96.4.7", "marsh"),
            ("10.96.4.8", "marsh/web/x"),
            ("10.96.4.9", "a/b"),
            ("10.96.4.9", "c/d"),
            ("x", ""),
        ],
    ));
    assert_eq!(
        told(errors.unwrap_err()),
        [
            r#"spec.excluded[0]: "10.96.4.300" must be an IPv4 or IPv6 address, such as 10.96.0.20 or fd00::20"#,
            r#"spec.ranges[1]: "10.96.4.9/24" must not have bits behind the prefix: write 10.96.4.0/24"#,
            r#"spec.ranges[2]: "10.96.5.20-10.96.5.10" must not end below its start"#,
            r#"spec.ranges[3]: "10.96.5.1-fd00::1" must not mix IPv4 and IPv6"#,
            r#"spec.ranges[4]: "010.96.5.1" must not have leading zeros: some programs read them as octal"#,
            r#"spec.ranges[5]: "::ffff:10.96.5.1" must not be an IPv4-mapped IPv6 address: write 10.96.5.1"#,
            r#"spec.ranges[6]: "web" must be an IPv4 or IPv6 address, such as 10.96.0.20 or fd00::20"#,
            r#"spec.ranges[7]: "" must be an IPv4 or IPv6 address, such as 10.96.0.20 or fd00::20"#,
            r#"spec.reservations[0].value: "10.96.9.1" must lie in spec.ranges and not in spec.excluded"#,
            r#"spec.reservations[1].service: "marsh" must be namespace/name of a Service"#,
            r#"spec.reservations[2].service: "marsh/web/x" must be namespace/name of a Service"#,
            r#"spec.reservations[4].value: "10.96.4.9" must not be reserved twice"#,
            r#"spec.reservations[5].service: "" must be namespace/name of a Service"#,
            r#"spec.reservations[5].value: "x" must be an IPv4 or IPv6 address, such as 10.96.0.20 or fd00::20"#,
        ]
    );
    for texts in [
        "0",
        "65536",
        "030100",
        "+30100",
        "30100-",
        "-1",
        "30199-30100",
        "30100/16",
        "http",
    ] {
        let errors = parse_node_port_pool(&spec(&[texts], &[], &[])).unwrap_err();
        assert_eq!((errors.len(), &*errors[0].field), (1, "spec.ranges[0]"), "{texts}");
    }
    let errors = parse_node_port_pool(&PoolSpec::default()).unwrap_err();
    assert_eq!(told(errors), [r#"spec.ranges: "" must name at least one value"#]);
}

fn terms(name: &str, created: i64, mode: Mode) -> PoolTerms {
    PoolTerms {
        name: name.into(),
        created,
        priority: 0,
        auto_assign: true,
        mode,
        enforce: false,
        reuse_delay: Duration::ZERO,
    }
}

#[test]
fn the_oldest_pool_that_names_a_value_has_it() {
    let holdings = |range: &str| parse_node_port_pool(&spec(&[range], &[], &[])).unwrap();
    let pools = [
        (terms("young", 30, Mode::Active), holdings("30100-30150")),
        (terms("old", 10, Mode::Drain), holdings("30140-30199")),
        (terms("off", 1, Mode::Disabled), holdings("30000-30999")),
        (terms("twin", 30, Mode::Active), holdings("30150-30210")),
        (terms("alone", 5, Mode::Active), holdings("31000-31001")),
    ];
    let settled = settle(pools.iter().map(|(terms, holdings)| (terms, holdings)));
    let owned: Vec<String> = settled.iter().map(|settled| text(&settled.owned)).collect();
    assert_eq!(owned, ["30100-30139", "30140-30199", "", "30200-30210", "31000-31001"]);
    let conflicts = |index: usize| {
        let conflicts: &Vec<(Arc<str>, bool)> = &settled[index].conflicts;
        conflicts
            .iter()
            .map(|(name, older)| format!("{name} {older}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(conflicts(0), ["old true", "twin true"]);
    assert_eq!(conflicts(1), ["twin false", "young false"]);
    assert_eq!(
        conflicts(3),
        ["old true", "young false"],
        "of two as old the first by name"
    );
    assert!(conflicts(2).is_empty() && conflicts(4).is_empty());
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..50), near in "[0-9a-f.:/-]{0,40}", ports in "[0-9-]{0,12}",
    ) {
        for text in [String::from_utf8_lossy(&bytes).as_ref(), &near, &ports] {
            let spec = spec(&[text], &[text], &[(text, text)]);
            let (addresses, ports) = (parse_cluster_ip_pool(&spec), parse_node_port_pool(&spec));
            prop_assert!(addresses.is_err() && ports.is_err(), "it excludes itself and reserves for nobody");
            for errors in [addresses.err(), ports.err()].into_iter().flatten() {
                prop_assert!(errors.iter().all(|error| error.field.starts_with("spec.")));
            }
            let alone = PoolSpec { ranges: vec![text.into()], ..PoolSpec::default() };
            if let Ok(holdings) = parse_node_port_pool(&alone) {
                let read = self::text(&holdings.values);
                prop_assert_eq!(read.split('-').next(), text.split('-').next());
            }
            if let Ok(holdings) = parse_cluster_ip_pool(&alone) {
                prop_assert!(holdings.ipv4.values.is_empty() != holdings.ipv6.values.is_empty());
            }
        }
    }

    #[test]
    fn what_an_interval_prints_is_read_back(first in any::<u32>(), more in any::<u16>(), port in 1_u16.., width in any::<u8>()) {
        let first = Ipv4Addr::from_bits(first);
        let last = Ipv4Addr::from_bits(first.to_bits().saturating_add(more.into()));
        let interval = Interval::new(first, last).unwrap();
        let read = parse_cluster_ip_pool(&spec(&[&interval.to_string()], &[], &[])).unwrap();
        prop_assert_eq!(read.ipv4.values.as_slice(), &[interval]);
        let ports = Interval::new(NodePort::new(port).unwrap(), NodePort::new(port.saturating_add(width.into())).unwrap()).unwrap();
        let read = parse_node_port_pool(&spec(&[&ports.to_string()], &[], &[])).unwrap();
        prop_assert_eq!(read.values.as_slice(), &[ports]);
    }
}
