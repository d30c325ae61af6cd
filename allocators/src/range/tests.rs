use super::*;

/// First and last value of a band, or nothing.
fn span<V: Value>(range: &ValueRange<V>, places: Range<u64>) -> String {
    let last = places.end.checked_sub(1).and_then(|last| range.value(last));
    match range.value(places.start).filter(|_| !places.is_empty()).zip(last) {
        Some((first, last)) => Interval::new(first, last).unwrap().to_string(),
        None => "-".into(),
    }
}

/// spec/allocation.md 1.2.
#[test]
fn ipv4_ranges_have_upstreams_usable_addresses_and_bands() {
    for (cidr, usable, band, lower, upper, dynamic) in [
        (
            "10.0.0.0/8",
            16_777_214,
            256,
            "10.0.0.1-10.0.1.0",
            "10.0.1.1-10.255.255.254",
            16_776_958,
        ),
        (
            "10.96.0.0/12",
            1_048_574,
            256,
            "10.96.0.1-10.96.1.0",
            "10.96.1.1-10.111.255.254",
            1_048_318,
        ),
        (
            "10.96.0.0/14",
            262_142,
            256,
            "10.96.0.1-10.96.1.0",
            "10.96.1.1-10.99.255.254",
            261_886,
        ),
        (
            "10.96.0.0/16",
            65_534,
            256,
            "10.96.0.1-10.96.1.0",
            "10.96.1.1-10.96.255.254",
            65_278,
        ),
        (
            "10.96.0.0/18",
            16_382,
            256,
            "10.96.0.1-10.96.1.0",
            "10.96.1.1-10.96.63.254",
            16_126,
        ),
        (
            "10.96.0.0/19",
            8_190,
            256,
            "10.96.0.1-10.96.1.0",
            "10.96.1.1-10.96.31.254",
            7_934,
        ),
        (
            "10.96.0.0/20",
            4_094,
            256,
            "10.96.0.1-10.96.1.0",
            "10.96.1.1-10.96.15.254",
            3_838,
        ),
        (
            "10.96.0.0/21",
            2_046,
            128,
            "10.96.0.1-10.96.0.128",
            "10.96.0.129-10.96.7.254",
            1_918,
        ),
        (
            "10.96.0.0/22",
            1_022,
            64,
            "10.96.0.1-10.96.0.64",
            "10.96.0.65-10.96.3.254",
            958,
        ),
        (
            "10.96.0.0/23",
            510,
            32,
            "10.96.0.1-10.96.0.32",
            "10.96.0.33-10.96.1.254",
            478,
        ),
        (
            "10.96.0.0/24",
            254,
            16,
            "10.96.0.1-10.96.0.16",
            "10.96.0.17-10.96.0.254",
            238,
        ),
        (
            "10.96.0.0/25",
            126,
            16,
            "10.96.0.1-10.96.0.16",
            "10.96.0.17-10.96.0.126",
            110,
        ),
        (
            "10.96.0.0/26",
            62,
            16,
            "10.96.0.1-10.96.0.16",
            "10.96.0.17-10.96.0.62",
            46,
        ),
        (
            "10.96.0.0/27",
            30,
            16,
            "10.96.0.1-10.96.0.16",
            "10.96.0.17-10.96.0.30",
            14,
        ),
        ("10.96.0.0/28", 14, 0, "-", "10.96.0.1-10.96.0.14", 14),
        ("10.96.0.0/29", 6, 0, "-", "10.96.0.1-10.96.0.6", 6),
        ("10.96.0.0/30", 2, 0, "-", "10.96.0.1-10.96.0.2", 2),
        ("10.96.0.0/31", 0, 0, "-", "-", 0),
        ("10.96.0.0/32", 0, 0, "-", "-", 0),
        ("255.255.255.255/32", 0, 0, "-", "-", 0),
        ("255.255.255.252/30", 2, 0, "-", "255.255.255.253-255.255.255.254", 2),
    ] {
        for registry in [Registry::IpAddresses, Registry::Bitmap] {
            let range = ValueRange::ipv4(cidr.parse().unwrap(), registry);
            assert_eq!((range.len(), range.band), (usable, band), "{cidr}");
            assert_eq!(
                (span(&range, range.lower()), span(&range, range.upper())),
                (lower.into(), upper.into())
            );
            assert_eq!(range.upper().end - range.upper().start, dynamic, "{cidr}");
            assert_eq!(range.usable().map_or(0, Interval::count), usable);
            assert_eq!((&**range.text(), range.is_empty()), (cidr, usable == 0));
        }
    }
    for (cidr, objects) in [("0.0.0.0/0", (1 << 32) - 2), ("128.0.0.0/1", (1 << 31) - 2)] {
        let cidr = cidr.parse().unwrap();
        let range = ValueRange::ipv4(cidr, Registry::IpAddresses);
        assert_eq!((range.len(), range.band), (objects, 0));
        assert!(ValueRange::ipv4(cidr, Registry::Bitmap).is_empty());
    }
}

/// spec/allocation.md 1.2.
#[test]
fn ipv6_ranges_have_upstreams_usable_addresses_and_bands() {
    let refused = Err(RangeError::PrefixTooShort);
    for (prefix, bitmap, objects, band, lower, upper_bitmap, upper_objects) in [
        (48, 65_535, refused, 256, "1-100", "101-ffff", ""),
        (63, 65_535, refused, 256, "1-100", "101-ffff", ""),
        (
            64,
            65_535,
            Ok(u64::MAX),
            256,
            "1-100",
            "101-ffff",
            "101-ffff:ffff:ffff:ffff",
        ),
        (96, 65_535, Ok(4_294_967_295), 256, "1-100", "101-ffff", "101-ffff:ffff"),
        (108, 65_535, Ok(1_048_575), 256, "1-100", "101-ffff", "101-f:ffff"),
        (112, 65_535, Ok(65_535), 256, "1-100", "101-ffff", "101-ffff"),
        (116, 4_095, Ok(4_095), 256, "1-100", "101-fff", "101-fff"),
        (118, 1_023, Ok(1_023), 64, "1-40", "41-3ff", "41-3ff"),
        (120, 255, Ok(255), 16, "1-10", "11-ff", "11-ff"),
        (122, 63, Ok(63), 16, "1-10", "11-3f", "11-3f"),
        (123, 31, Ok(31), 16, "1-10", "11-1f", "11-1f"),
        (124, 15, Ok(15), 0, "-", "1-f", "1-f"),
        (125, 7, Ok(7), 0, "-", "1-7", "1-7"),
        (126, 3, Ok(3), 0, "-", "1-3", "1-3"),
        (127, 1, Ok(1), 0, "-", "1", "1"),
        (128, 0, Ok(0), 0, "-", "-", "-"),
    ] {
        let cidr: Ipv6Net = format!("fd00:1::/{prefix}").parse().unwrap();
        let made = [Registry::Bitmap, Registry::IpAddresses].map(|registry| ValueRange::ipv6(cidr, registry));
        for (range, usable, upper) in [(&made[0], Ok(bitmap), upper_bitmap), (&made[1], objects, upper_objects)] {
            assert_eq!(
                range.as_ref().map(ValueRange::len),
                usable.as_ref().copied(),
                "/{prefix}"
            );
            let Ok(range) = range else { continue };
            assert_eq!(range.band, band, "/{prefix}");
            let named = |places| span(range, places).replace("fd00:1::", "").replace("fd00:1:0:0:", "");
            assert_eq!(
                (named(range.lower()), named(range.upper())),
                (lower.into(), upper.into()),
                "/{prefix}"
            );
        }
    }
    let last: Ipv6Net = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127".parse().unwrap();
    let range = ValueRange::ipv6(last, Registry::IpAddresses).unwrap();
    assert_eq!(
        range.usable().unwrap().to_string(),
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
    );
    assert!(
        ValueRange::ipv6("::/1".parse().unwrap(), Registry::Bitmap)
            .unwrap()
            .is_empty()
    );
}

/// spec/allocation.md 2.1.
#[test]
fn node_port_ranges_have_upstreams_bands() {
    for (text, size, band, lower, upper, dynamic) in [
        ("30000-32767", 2_768, 86, "30000-30085", "30086-32767", 2_682),
        ("20000-32767", 12_768, 128, "20000-20127", "20128-32767", 12_640),
        ("32567-32767", 201, 16, "32567-32582", "32583-32767", 185),
        ("30000-30128", 129, 16, "30000-30015", "30016-30128", 113),
        ("30000-30015", 16, 0, "-", "30000-30015", 16),
        ("30000-30016", 17, 16, "30000-30015", "30016", 1),
        ("30000-30511", 512, 16, "30000-30015", "30016-30511", 496),
        ("30000-30543", 544, 17, "30000-30016", "30017-30543", 527),
        ("30000-32047", 2_048, 64, "30000-30063", "30064-32047", 1_984),
        ("30000-34095", 4_096, 128, "30000-30127", "30128-34095", 3_968),
        ("1-65535", 65_535, 128, "1-128", "129-65535", 65_407),
    ] {
        let range = ValueRange::node_ports(text.parse().unwrap());
        assert_eq!((range.len(), range.band, &**range.text()), (size, band, text));
        assert_eq!(
            (span(&range, range.lower()), span(&range, range.upper())),
            (lower.into(), upper.into())
        );
        assert_eq!(range.upper().end - range.upper().start, dynamic, "{text}");
    }
}

#[test]
fn a_place_and_its_value_belong_together_and_the_edges_have_none() {
    let range = ValueRange::ipv4("10.96.0.0/24".parse().unwrap(), Registry::default());
    let place = |text: &str| range.place(text.parse().unwrap());
    assert_eq!(["10.96.0.1", "10.96.0.254"].map(place), [Some(0), Some(253)]);
    assert_eq!(
        ["10.96.0.0", "10.96.0.255", "10.95.0.9", "10.96.1.1"].map(place),
        [None; 4]
    );
    assert_eq!((range.value(253), range.value(254)), ("10.96.0.254".parse().ok(), None));
    assert!(range.whole().contains("10.96.0.255".parse().unwrap()));
}

/// field-bugs B41 and the spill of KEP-3070: the static band is touched only when nothing else is left, and every range fills to its last.
#[test]
fn every_range_fills_to_its_last_value_upper_band_first() {
    for cidr in [
        "172.29.42.0/28",
        "172.29.42.0/29",
        "172.29.42.0/30",
        "172.29.42.0/31",
        "172.29.42.0/26",
        "172.29.42.0/24",
    ] {
        let range = ValueRange::ipv4(cidr.parse().unwrap(), Registry::default());
        let (mut slots, mut state) = (Slots::new(range.len()), 7_u64);
        for round in 0..range.len() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let place = range.take_random(&mut slots, (state, state.rotate_left(32))).unwrap();
            let upper = range.upper();
            assert_eq!(
                upper.contains(&place),
                round < upper.end - upper.start,
                "{cidr} {round}"
            );
        }
        assert_eq!(range.take_random(&mut slots, (1, 1)), Err(SlotError::Full));
    }
}
