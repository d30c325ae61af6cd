//! Cilium's CiliumLoadBalancerIPPools.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde::Deserialize;
use svcplane_webhook::pools::{FirstLast, LoadBalancerPoolSpec, PoolMode, PoolSelector, PoolSpec};

use super::selectors::NAMESPACE_NAME;
use super::{Foreign, Kind, Made};

pub(super) const KIND: Kind = Kind {
    group: "cilium.io",
    versions: &["v2", "v2alpha1"],
    kind: "CiliumLoadBalancerIPPool",
    plural: "ciliumloadbalancerippools",
    told: "CiliumLoadBalancerIPPools (Cilium)",
};

/// What stands for the namespace and the name of a Service among its labels.
const NAMESPACE: &str = "io.kubernetes.service.namespace";
const NAME: &str = "io.kubernetes.service.name";

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec {
    #[serde(default)]
    blocks: Vec<Block>,
    /// The older name.
    #[serde(default)]
    cidrs: Vec<Block>,
    #[serde(default)]
    disabled: bool,
    #[serde(rename = "allowFirstLastIPs")]
    allow_first_last_ips: Option<String>,
    service_selector: Option<LabelSelector>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Block {
    cidr: String,
    start: String,
    stop: String,
}

pub(super) fn convert(pools: Vec<Foreign<Spec>>) -> Made {
    let mut made = Made {
        notes: vec![
            "Services keep their addresses and their lbipam.cilium.io annotations. Those without spec.loadBalancerClass are served with".to_owned(),
            "--load-balancer-default, once Cilium's operator has default-lb-service-ipam=none.".to_owned(),
        ],
        ..Made::default()
    };
    if pools.iter().any(|pool| pool.spec.allow_first_last_ips.is_none()) {
        let note = "The first and the last address of a CIDR are given, as Cilium does from 1.16 on where allowFirstLastIPs is not set.";
        made.notes.push(note.to_owned());
    }
    for Foreign { name, spec } in pools {
        match one(spec) {
            Ok(spec) => made.pools.push((name, spec)),
            Err(why) => made.errors.push(format!("CiliumLoadBalancerIPPool {name}: {why}")),
        }
    }
    made
}

fn one(spec: Spec) -> Result<LoadBalancerPoolSpec, String> {
    Ok(LoadBalancerPoolSpec {
        pool: PoolSpec {
            ranges: spec.blocks.iter().chain(&spec.cidrs).map(range).collect(),
            selector: spec.service_selector.map(selector).transpose()?.flatten(),
            // What is disabled there gives nothing new, and its users keep what they have.
            mode: if spec.disabled {
                PoolMode::Drain
            } else {
                PoolMode::Active
            },
            auto_assign: true,
            ..PoolSpec::default()
        },
        first_last: match spec.allow_first_last_ips.as_deref() {
            Some("No") => FirstLast::Reserve,
            _ => FirstLast::Allow,
        },
        ..LoadBalancerPoolSpec::default()
    })
}

fn range(block: &Block) -> String {
    let Block { cidr, start, stop } = block;
    match (cidr.as_str(), stop.as_str()) {
        ("", "") => start.clone(),
        ("", _) => format!("{start}-{stop}"),
        _ => cidr.clone(),
    }
}

/// Namespaces are chosen by a label that stands for them; our pools choose them by the label that the apiserver gives every namespace.
fn selector(theirs: LabelSelector) -> Result<Option<PoolSelector>, String> {
    let (mut namespaces, mut services) = (LabelSelector::default(), LabelSelector::default());
    for (key, value) in theirs.match_labels.into_iter().flatten() {
        let (side, key) = side(&mut namespaces, &mut services, key)?;
        side.match_labels.get_or_insert_default().insert(key, value);
    }
    for requirement in theirs.match_expressions.into_iter().flatten() {
        let (side, key) = side(&mut namespaces, &mut services, requirement.key)?;
        let requirement = LabelSelectorRequirement { key, ..requirement };
        side.match_expressions.get_or_insert_default().push(requirement);
    }
    let some = |selector: LabelSelector| (selector != LabelSelector::default()).then_some(selector);
    let selector = PoolSelector {
        namespaces: None,
        namespace_selector: some(namespaces),
        service_selector: some(services),
    };
    Ok((selector != PoolSelector::default()).then_some(selector))
}

/// The selector that a requirement belongs to, and its key there.
fn side<'a>(
    namespaces: &'a mut LabelSelector,
    services: &'a mut LabelSelector,
    key: String,
) -> Result<(&'a mut LabelSelector, String), String> {
    match key.as_str() {
        NAMESPACE => Ok((namespaces, NAMESPACE_NAME.to_owned())),
        NAME => Err(format!(
            "spec.serviceSelector: {NAME}: a LoadBalancerPool does not select by name: give the pool as a file without it, and use spec.reservations"
        )),
        _ => Ok((services, key)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn made(spec: Value) -> Made {
        convert(vec![Foreign {
            name: "reed".to_owned(),
            spec: serde_json::from_value(spec).unwrap(),
        }])
    }

    fn spec(spec: Value) -> Value {
        serde_json::to_value(&made(spec).pools[0].1).unwrap()
    }

    #[test]
    fn blocks_are_taken_in_every_form() {
        let blocks = json!([{"cidr": "203.0.113.0/29"}, {"start": "198.51.100.1", "stop": "198.51.100.9"}, {"start": "2001:db8::7"}]);
        let read = spec(json!({"blocks": blocks}));
        assert_eq!(
            read["ranges"],
            json!(["203.0.113.0/29", "198.51.100.1-198.51.100.9", "2001:db8::7"])
        );
        assert_eq!(
            (&read["firstLast"], &read["mode"], &read["autoAssign"]),
            (&json!("Allow"), &json!("Active"), &json!(true))
        );
        let old = spec(json!({"cidrs": [{"cidr": "203.0.113.0/29"}], "disabled": true, "allowFirstLastIPs": "No"}));
        assert_eq!((&old["firstLast"], &old["mode"]), (&json!("Reserve"), &json!("Drain")));
    }

    #[test]
    fn the_labels_that_stand_for_the_namespace_are_a_selector_of_namespaces() {
        let selector = json!({"matchLabels": {"tier": "web", NAMESPACE: "shop"},
            "matchExpressions": [{"key": NAMESPACE, "operator": "NotIn", "values": ["bank"]}]});
        let read = spec(json!({"blocks": [{"cidr": "203.0.113.0/29"}], "serviceSelector": selector}));
        let want = json!({
            "namespaceSelector": {"matchLabels": {NAMESPACE_NAME: "shop"},
                "matchExpressions": [{"key": NAMESPACE_NAME, "operator": "NotIn", "values": ["bank"]}]},
            "serviceSelector": {"matchLabels": {"tier": "web"}}});
        assert_eq!(read["selector"], want);
        let by_name = made(json!({"blocks": [], "serviceSelector": {"matchLabels": {NAME: "web"}}}));
        assert!(
            by_name.errors[0].contains("reed: spec.serviceSelector"),
            "{:?}",
            by_name.errors
        );
        assert_eq!(
            spec(json!({"blocks": [{"start": "203.0.113.7"}], "serviceSelector": {}})).get("selector"),
            None
        );
    }
}
