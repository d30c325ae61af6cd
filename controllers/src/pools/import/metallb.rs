//! MetalLB's IPAddressPools.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use svcplane_webhook::pools::{FirstLast, LoadBalancerPoolSpec, PoolSelector, PoolSpec};

use super::selectors::{any_of, named};
use super::{Foreign, Kind, Made};

pub(super) const KIND: Kind = Kind {
    group: "metallb.io",
    versions: &["v1beta1"],
    kind: "IPAddressPool",
    plural: "ipaddresspools",
    told: "IPAddressPools (MetalLB)",
};

/// MetalLB asks pools with a `serviceAllocation` first, by priority, then the others. 0 is no priority there, and the last.
const SELECTING: i32 = 1_000_000;
const FOR_ALL: i32 = 2_000_000;

/// What a LoadBalancerPool may exclude in as many words.
const MOST_EXCLUDED: usize = 256;

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec {
    #[serde(default)]
    addresses: Vec<String>,
    auto_assign: Option<bool>,
    #[serde(default, rename = "avoidBuggyIPs")]
    avoid_buggy_ips: bool,
    service_allocation: Option<ServiceAllocation>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ServiceAllocation {
    priority: i32,
    namespaces: Vec<String>,
    namespace_selectors: Vec<LabelSelector>,
    service_selectors: Vec<LabelSelector>,
}

pub(super) fn convert(pools: Vec<Foreign<Spec>>) -> Made {
    let mut made = Made {
        notes: vec![
            "Services keep their addresses and their metallb.io annotations. Those without spec.loadBalancerClass are served with".to_owned(),
            "--load-balancer-default, once MetalLB's controller has ended.".to_owned(),
        ],
        ..Made::default()
    };
    let is_ranked = pools.iter().any(|pool| pool.spec.service_allocation.is_some());
    for Foreign { name, spec } in pools {
        match one(&spec, is_ranked) {
            Ok(spec) => made.pools.push((name, spec)),
            Err(why) => made.errors.push(format!("IPAddressPool {name}: {why}")),
        }
    }
    made
}

fn one(spec: &Spec, is_ranked: bool) -> Result<LoadBalancerPoolSpec, String> {
    let read: Vec<Range> = spec
        .addresses
        .iter()
        .map(|text| range(text))
        .collect::<Result<_, _>>()?;
    let excluded = if spec.avoid_buggy_ips {
        ends_of_24s(&read)?
    } else {
        Vec::new()
    };
    let selector = spec.service_allocation.as_ref().map(selector).transpose()?;
    Ok(LoadBalancerPoolSpec {
        pool: PoolSpec {
            ranges: read.iter().map(|range| range.text.clone()).collect(),
            excluded,
            selector: selector.flatten(),
            priority: priority(spec.service_allocation.as_ref(), is_ranked),
            auto_assign: spec.auto_assign.unwrap_or(true),
            ..PoolSpec::default()
        },
        // MetalLB gives them.
        first_last: FirstLast::Allow,
        ..LoadBalancerPoolSpec::default()
    })
}

fn priority(allocation: Option<&ServiceAllocation>, is_ranked: bool) -> i32 {
    match allocation {
        None if is_ranked => FOR_ALL,
        None => 0,
        Some(ServiceAllocation { priority: 0, .. }) => SELECTING,
        Some(allocation) => allocation.priority,
    }
}

/// Namespaces of these names or by one of these selectors; Services by one of these selectors. `None`: all.
fn selector(allocation: &ServiceAllocation) -> Result<Option<PoolSelector>, String> {
    let ServiceAllocation {
        namespaces,
        namespace_selectors,
        service_selectors,
        ..
    } = allocation;
    let cannot = |field: &str| {
        format!(
            "spec.serviceAllocation.{field}: a LoadBalancerPool has one selector for this: give the pool as a file in which these are one (several \
             values of one label are)"
        )
    };
    let mut selector = PoolSelector::default();
    match (namespaces.as_slice(), namespace_selectors.as_slice()) {
        ([], []) => {}
        (names, []) => selector.namespaces = Some(names.to_vec()),
        (names, selectors) => {
            let mut all = selectors.to_vec();
            if !names.is_empty() {
                all.push(named(names));
            }
            selector.namespace_selector = Some(any_of(&all).ok_or_else(|| cannot("namespaceSelectors"))?);
        }
    }
    if !service_selectors.is_empty() {
        selector.service_selector = Some(any_of(service_selectors).ok_or_else(|| cannot("serviceSelectors"))?);
    }
    Ok((selector != PoolSelector::default()).then_some(selector))
}

/// One entry of `spec.addresses`.
#[derive(Debug)]
struct Range {
    /// As a LoadBalancerPool has it.
    text: String,
    ipv4: Option<(Ipv4Addr, Ipv4Addr)>,
}

fn range(text: &str) -> Result<Range, String> {
    let wrong = || format!("spec.addresses: {text:?} must be a CIDR or FIRST-LAST");
    let (first, last, text) = if let Some((first, last)) = text.split_once('-') {
        let [first, last]: [IpAddr; 2] = [
            parsed(first.trim()).ok_or_else(wrong)?,
            parsed(last.trim()).ok_or_else(wrong)?,
        ];
        (first, last, format!("{first}-{last}"))
    } else if text.contains('/') {
        let net: IpNet = text.trim().parse().map_err(|_| wrong())?;
        let net = net.trunc();
        (net.network(), net.broadcast(), net.to_string())
    } else {
        let address = parsed(text.trim()).ok_or_else(wrong)?;
        (address, address, address.to_string())
    };
    let ipv4 = match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => Some((first, last)),
        _ => None,
    };
    Ok(Range { text, ipv4 })
}

fn parsed(text: &str) -> Option<IpAddr> {
    text.parse().ok()
}

/// The addresses that end in .0 or .255.
fn ends_of_24s(ranges: &[Range]) -> Result<Vec<String>, String> {
    let mut excluded = Vec::new();
    for (first, last) in ranges.iter().filter_map(|range| range.ipv4) {
        let (first, last) = (first.to_bits(), last.to_bits());
        for network in first >> 8..=last >> 8 {
            let ends = [network << 8, network << 8 | 255].into_iter();
            let within = ends.filter(|end| first <= *end && *end <= last);
            excluded.extend(within.map(|end| Ipv4Addr::from_bits(end).to_string()));
            if excluded.len() > MOST_EXCLUDED {
                return Err(format!(
                    "spec.avoidBuggyIPs leaves out more than {MOST_EXCLUDED} addresses: give the pool as files with smaller ranges"
                ));
            }
        }
    }
    Ok(excluded)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn made(pools: &[(&str, Value)]) -> Made {
        let pools = pools.iter().map(|(name, spec)| Foreign {
            name: (*name).to_owned(),
            spec: serde_json::from_value(spec.clone()).unwrap(),
        });
        convert(pools.collect())
    }

    fn spec(spec: Value) -> Value {
        let made = made(&[("reed", spec)]);
        assert!(made.errors.is_empty(), "{:?}", made.errors);
        serde_json::to_value(&made.pools[0].1).unwrap()
    }

    #[test]
    fn ranges_are_taken_in_every_form() {
        let addresses = json!([
            "203.0.113.7/29",
            "198.51.100.1 - 198.51.100.9",
            "2001:DB8::0/120",
            "192.0.2.1/32",
            "192.0.2.9"
        ]);
        let read = spec(json!({"addresses": addresses}));
        assert_eq!(
            read["ranges"],
            json!([
                "203.0.113.0/29",
                "198.51.100.1-198.51.100.9",
                "2001:db8::/120",
                "192.0.2.1/32",
                "192.0.2.9"
            ])
        );
        assert_eq!(
            (&read["firstLast"], &read["autoAssign"], &read["priority"]),
            (&json!("Allow"), &json!(true), &json!(0))
        );
        assert_eq!(read.get("selector"), None);
        let named = spec(json!({"addresses": ["203.0.113.0/24"], "autoAssign": false, "avoidBuggyIPs": true}));
        assert_eq!(named["autoAssign"], false);
        assert_eq!(named["excluded"], json!(["203.0.113.0", "203.0.113.255"]));
        assert_eq!(
            spec(json!({"addresses": ["203.0.113.1-203.0.113.9", "::/120"], "avoidBuggyIPs": true})).get("excluded"),
            None
        );
    }

    #[test]
    fn who_may_ask_is_said_in_our_words_or_not_at_all() {
        let by = |allocation: Value| json!({"addresses": ["203.0.113.0/29"], "serviceAllocation": allocation});
        let names = spec(by(json!({"priority": 50, "namespaces": ["shop", "bank"]})));
        assert_eq!(names["selector"], json!({"namespaces": ["shop", "bank"]}));
        assert_eq!(names["priority"], 50);
        let both = spec(by(
            json!({"namespaceSelectors": [{"matchLabels": {"team": "a"}}], "serviceSelectors": [{"matchLabels": {"tier": "web"}}, {"matchLabels": {"tier": "api"}}]}),
        ));
        let selector = &both["selector"];
        assert_eq!(selector["namespaceSelector"], json!({"matchLabels": {"team": "a"}}));
        let values = &selector["serviceSelector"]["matchExpressions"][0]["values"];
        assert_eq!(values, &json!(["api", "web"]));
        let either = by(json!({"namespaces": ["shop"], "namespaceSelectors": [{"matchLabels": {"team": "a"}}]}));
        let errors = made(&[("reed", either), ("bad", json!({"addresses": ["x"]}))]).errors;
        assert!(
            errors[0].contains("IPAddressPool reed: spec.serviceAllocation.namespaceSelectors"),
            "{errors:?}"
        );
        assert!(errors[1].contains("bad: spec.addresses"), "{errors:?}");
        let many = made(&[("wide", json!({"addresses": ["10.0.0.0/8"], "avoidBuggyIPs": true}))]);
        assert!(many.errors[0].contains("avoidBuggyIPs"), "{:?}", many.errors);
    }

    /// Lower is first there, too; 0 is last; and pools for certain Services are before those for all.
    #[test]
    fn pools_are_asked_in_the_same_order() {
        let pools = [
            ("all", json!({"addresses": ["203.0.113.0/32"]})),
            (
                "unranked",
                json!({"addresses": ["203.0.113.1/32"], "serviceAllocation": {"namespaces": ["a"]}}),
            ),
            (
                "second",
                json!({"addresses": ["203.0.113.2/32"], "serviceAllocation": {"namespaces": ["a"], "priority": 2}}),
            ),
            (
                "first",
                json!({"addresses": ["203.0.113.3/32"], "serviceAllocation": {"namespaces": ["a"], "priority": 1}}),
            ),
        ];
        let mut made = made(&pools).pools;
        made.sort_by_key(|(_, spec)| spec.pool.priority);
        let names: Vec<&str> = made.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["first", "second", "unranked", "all"]);
    }
}
