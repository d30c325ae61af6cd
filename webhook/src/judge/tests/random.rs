use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::judge;
use crate::service::Service;

/// Values near the rules: every one is legal somewhere.
fn value() -> impl Strategy<Value = Value> {
    const TEXTS: [&str; 26] = [
        "",
        "None",
        "IPv4",
        "IPv6",
        "SingleStack",
        "PreferDualStack",
        "RequireDualStack",
        "ClusterIP",
        "NodePort",
        "LoadBalancer",
        "ExternalName",
        "Local",
        "Cluster",
        "TCP",
        "UDP",
        "10.96.0.7",
        "fd00::7",
        "::ffff:1.2.3.4",
        "a/b",
        "127.0.0.1",
        "10.0.0.0/8",
        "web",
        "Web",
        ".",
        "ClientIP",
        "é",
    ];
    prop_oneof![
        proptest::sample::select(&TEXTS[..]).prop_map(Value::from),
        proptest::sample::select(vec![-1, 0, 1, 80, 31000, 65535, 65536, 1 << 40, i64::MIN, i64::MAX])
            .prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
        ".*".prop_map(Value::from),
    ]
}

fn object(fields: &'static [&'static str]) -> impl Strategy<Value = Value> {
    btree_map(proptest::sample::select(fields), value(), 0..6).prop_map(|fields| json!(fields))
}

fn any_service() -> impl Strategy<Value = Value> {
    let port = object(&["name", "port", "protocol", "targetPort", "nodePort", "appProtocol"]);
    let spec = object(&[
        "type",
        "clusterIP",
        "ipFamilyPolicy",
        "externalName",
        "sessionAffinity",
        "loadBalancerClass",
        "allocateLoadBalancerNodePorts",
        "externalTrafficPolicy",
        "internalTrafficPolicy",
        "trafficDistribution",
        "healthCheckNodePort",
    ]);
    let metadata = object(&["name", "generateName", "generation", "deletionGracePeriodSeconds"]);
    let lists = ("clusterIPs", "ipFamilies", "externalIPs", "loadBalancerSourceRanges");
    let texts = || vec(value(), 0..4);
    (
        metadata,
        spec,
        vec(port, 0..4),
        texts(),
        texts(),
        texts(),
        texts(),
        any::<u8>(),
    )
        .prop_map(move |(metadata, mut spec, ports, a, b, c, d, which)| {
            let fields = spec.as_object_mut().unwrap();
            let given = [(lists.0, a), (lists.1, b), (lists.2, c), (lists.3, d), ("ports", ports)];
            for (bit, (name, list)) in given.into_iter().enumerate() {
                if which >> bit & 1 == 1 {
                    fields.insert(name.into(), list.into());
                }
            }
            json!({"metadata": metadata, "spec": spec})
        })
}

proptest! {
    #[test]
    fn nothing_panics(new in any_service(), old in any_service()) {
        let read = |value: Value| serde_json::from_value::<Service>(value).ok();
        if let (Some(new), Some(old)) = (read(new), read(old)) {
            judge(&new, None);
            judge(&new, Some(&old));
            judge(&old, Some(&old));
        }
    }

    /// What is stored and legal can be sent again.
    #[test]
    fn the_same_again_is_taken(service in any_service()) {
        if let Ok(service) = serde_json::from_value::<Service>(service)
            && judge(&service, None).causes().is_empty()
        {
            let again = judge(&service, Some(&service));
            prop_assert_eq!(again.causes(), &[]);
        }
    }
}
