//! `svcplane pools export`: what another product needs to announce the addresses that svcplane gives.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::manifest;
use crate::args::{Advertise, Announcer, ExportArgs};
use crate::loadbalancer::{self, Desk};
use crate::start;

/// The pool of addresses in use that no pool of ours has any more.
const RETAINED: &str = "svcplane-retained";

/// Name of the advertisement.
const ADVERTISEMENT: &str = "svcplane";

/// Pools that are one to the announcer, and what is in them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Merged {
    pools: BTreeSet<String>,
    addresses: BTreeSet<String>,
}

/// Prints them. The error is one line.
pub async fn export(args: &ExportArgs) -> Result<String, String> {
    let client = start::connect(&args.cluster, "svcplane-pools").await?;
    let desk = loadbalancer::read(&client, args.load_balancer.scope()).await?;
    let desk = desk.ok_or("the cluster has no LoadBalancerPools, or they, Services and Namespaces may not be read")?;
    match args.to {
        Announcer::Metallb => metallb(&merged(&desk), &args.namespace, args.advertise),
    }
}

/// MetalLB's speaker announces a Service only if one IPAddressPool has all its addresses: those of which one Service has some are one.
fn merged(desk: &Desk) -> BTreeMap<String, Merged> {
    let balancers = desk.balancers();
    let mut groups: Vec<Merged> = Vec::new();
    for pool in balancers.pools() {
        let name = pool.terms.name.to_string();
        let addresses: BTreeSet<String> = balancers.spans(&name).into_iter().collect();
        if !addresses.is_empty() {
            groups.push(Merged {
                pools: [name].into(),
                addresses,
            });
        }
    }
    for (_, outcome) in balancers.services() {
        let mut together = Merged::default();
        for address in outcome.iter().flat_map(|outcome| &outcome.addresses) {
            if let Some(pool) = balancers.pool_of(*address) {
                together.pools.insert(pool.terms.name.to_string());
            } else {
                together.pools.insert(RETAINED.to_owned());
                together.addresses.insert(address.to_string());
            }
        }
        join(&mut groups, together);
    }
    let named = groups
        .into_iter()
        .filter_map(|group| Some((group.pools.first()?.clone(), group)));
    named.collect()
}

/// All groups that have a pool of this one become one.
fn join(groups: &mut Vec<Merged>, mut together: Merged) {
    if together.pools.is_empty() {
        return;
    }
    let (joined, apart): (Vec<_>, Vec<_>) = groups
        .drain(..)
        .partition(|group| !group.pools.is_disjoint(&together.pools));
    for group in joined {
        together.pools.extend(group.pools);
        together.addresses.extend(group.addresses);
    }
    *groups = apart;
    groups.push(together);
}

fn metallb(pools: &BTreeMap<String, Merged>, namespace: &str, advertise: Advertise) -> Result<String, String> {
    let mut notes = vec![
        "MetalLB announces what svcplane gives: its speaker needs --lb-class=CLASS for Services with a class, and nobody else may give addresses"
            .to_owned(),
        "of these pools. Print this again when pools of svcplane change.".to_owned(),
    ];
    let mut objects: Vec<Value> = Vec::new();
    for (name, merged) in pools {
        let others: Vec<&str> = merged
            .pools
            .iter()
            .filter(|it| *it != name)
            .map(String::as_str)
            .collect();
        if !others.is_empty() {
            notes.push(format!(
                "{name} has the addresses of {} too, because a Service has some of each; there must be no IPAddressPools of these names",
                others.join(", ")
            ));
        }
        let addresses: Vec<String> = merged.addresses.iter().map(|span| as_range(span)).collect();
        objects.push(json!({
            "apiVersion": "metallb.io/v1beta1",
            "kind": "IPAddressPool",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"addresses": addresses, "autoAssign": false, "avoidBuggyIPs": false},
        }));
    }
    let kind = match advertise {
        Advertise::L2 => Some("L2Advertisement"),
        Advertise::Bgp => Some("BGPAdvertisement"),
        Advertise::None => None,
    };
    // One without pools would be for all.
    if let Some(kind) = kind.filter(|_| !pools.is_empty()) {
        let names: Vec<&String> = pools.keys().collect();
        objects.push(json!({
            "apiVersion": "metallb.io/v1beta1",
            "kind": kind,
            "metadata": {"name": ADVERTISEMENT, "namespace": namespace},
            "spec": {"ipAddressPools": names},
        }));
    }
    manifest::write(&notes, &objects)
}

/// MetalLB takes CIDRs and ranges, and no address alone.
fn as_range(span: &str) -> String {
    match (span.contains('-'), span.contains(':')) {
        (true, _) => span.to_owned(),
        (false, true) => format!("{span}/128"),
        (false, false) => format!("{span}/32"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(pools: &[&str], addresses: &[&str]) -> Merged {
        let set = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        Merged {
            pools: set(pools),
            addresses: set(addresses),
        }
    }

    #[test]
    fn pools_of_one_service_are_one_and_the_others_stay_apart() {
        let mut groups = vec![
            group(&["reed"], &["203.0.113.64-203.0.113.71"]),
            group(&["six"], &["2001:db8::/64"]),
            group(&["sedge"], &["203.0.113.80"]),
        ];
        join(&mut groups, group(&[], &[]));
        join(&mut groups, group(&["reed"], &[]));
        join(&mut groups, group(&["six", "reed"], &[]));
        join(&mut groups, group(&[RETAINED], &["198.51.100.1"]));
        join(&mut groups, group(&[RETAINED], &["198.51.100.2"]));
        groups.sort_by(|left, right| left.pools.cmp(&right.pools));
        let want = [
            group(&["reed", "six"], &["203.0.113.64-203.0.113.71", "2001:db8::/64"]),
            group(&["sedge"], &["203.0.113.80"]),
            group(&[RETAINED], &["198.51.100.1", "198.51.100.2"]),
        ];
        assert_eq!(groups, want);
    }

    #[test]
    fn metallb_gives_none_of_them_itself() {
        let pools = BTreeMap::from([
            (
                "reed".to_owned(),
                group(&["reed", "six"], &["203.0.113.64-203.0.113.71", "2001:db8::7"]),
            ),
            ("sedge".to_owned(), group(&["sedge"], &["203.0.113.80"])),
        ]);
        let text = metallb(&pools, "lb", Advertise::L2).unwrap();
        assert!(text.contains("# reed has the addresses of six too"), "{text}");
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        let kinds: Vec<_> = objects.iter().map(|it| it["kind"].clone()).collect();
        assert_eq!(kinds, ["IPAddressPool", "IPAddressPool", "L2Advertisement"]);
        let spec = &objects[0]["spec"];
        assert_eq!(
            spec["addresses"],
            json!(["2001:db8::7/128", "203.0.113.64-203.0.113.71"])
        );
        assert_eq!(
            (&spec["autoAssign"], &spec["avoidBuggyIPs"]),
            (&json!(false), &json!(false))
        );
        assert_eq!(objects[1]["spec"]["addresses"], json!(["203.0.113.80/32"]));
        assert_eq!(objects[2]["spec"], json!({"ipAddressPools": ["reed", "sedge"]}));
        assert!(
            !metallb(&BTreeMap::new(), "lb", Advertise::Bgp)
                .unwrap()
                .contains("kind")
        );
    }
}
