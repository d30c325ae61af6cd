use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn admission(settings: Settings) -> Admission {
    Admission::new(
        settings,
        WebhookMetrics::new(&prometheus::Registry::new()).unwrap(),
        None,
    )
}

fn review(request: &Value) -> Vec<u8> {
    let mut all = json!({"uid": "u", "operation": "CREATE", "namespace": "shop",
        "resource": {"group": "", "version": "v1", "resource": "services"}});
    all.as_object_mut()
        .unwrap()
        .extend(request.as_object().unwrap().clone());
    let review = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": all});
    serde_json::to_vec(&review).unwrap()
}

fn answered(settings: Settings, endpoint: Endpoint, request: &Value) -> Value {
    let answer = admission(settings).review(endpoint, &review(request)).unwrap();
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["response"]["uid"], "u");
    answer["response"].clone()
}

fn bad() -> Value {
    json!({"metadata": {"name": "web"}, "spec": {"type": "Foo"}})
}

#[test]
fn a_service_that_the_apiserver_would_refuse_is_refused_with_all_its_faults() {
    let answer = answered(Settings::default(), Endpoint::Mutate, &json!({"object": bad()}));
    let status = &answer["status"];
    assert_eq!(
        (&answer["allowed"], &status["code"], &status["reason"]),
        (&json!(false), &json!(422), &json!("Invalid"))
    );
    let causes = status["details"]["causes"].as_array().unwrap();
    let fields: Vec<_> = causes.iter().map(|cause| cause["field"].as_str().unwrap()).collect();
    assert_eq!(fields, ["spec.type", "spec.ports"]);
    assert_eq!(answer.get("patchType"), None);
}

/// The garbage collector takes finalizers off, and labels say nothing of values.
#[test]
fn a_bad_pool_may_be_labelled_and_deleted() {
    let pool = |range: &str, metadata: Value| json!({"metadata": metadata, "spec": {"ranges": [range]}});
    let (bad, good) = ("10.96.7.9-10.96.7.0", "10.96.7.0/28");
    let deleted =
        json!({"name": "a", "creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "2026-01-02T03:04:06Z"});
    let (plain, labelled) = (json!({"name": "a"}), json!({"name": "a", "labels": {"team": "front"}}));
    for (old, new, allowed) in [
        (pool(bad, plain.clone()), pool(bad, labelled), true),
        (pool(bad, deleted.clone()), pool(bad, deleted.clone()), true),
        (pool(good, deleted.clone()), pool(bad, deleted), true),
        (pool(good, plain.clone()), pool(bad, plain.clone()), false),
        (pool(bad, plain.clone()), pool("10.96.7.8-10.96.7.0", plain), false),
    ] {
        for (plural, kind) in [
            ("clusterippools", "ClusterIPPool"),
            ("loadbalancerpools", "LoadBalancerPool"),
        ] {
            let with_kind = |object: &Value| {
                let mut object = object.clone();
                object["apiVersion"] = json!("svcplane.io/v1alpha1");
                object["kind"] = json!(kind);
                object
            };
            let request = json!({"operation": "UPDATE", "name": "a", "object": with_kind(&new), "oldObject": with_kind(&old),
                "resource": {"group": "svcplane.io", "version": "v1alpha1", "resource": plural}});
            let answer = answered(Settings::default(), Endpoint::Validate, &request);
            assert_eq!(answer["allowed"], json!(allowed), "{request}: {answer}");
        }
    }
}

#[test]
fn an_exclusion_that_takes_nothing_out_of_a_pool_is_told() {
    for (plural, kind, range, beside) in [
        ("clusterippools", "ClusterIPPool", "10.96.7.0/24", "10.96.6.0/24"),
        ("loadbalancerpools", "LoadBalancerPool", "192.0.2.0/24", "192.0.3.1"),
        ("nodeportpools", "NodePortPool", "30100-30199", "30200"),
    ] {
        let object = json!({"apiVersion": "svcplane.io/v1alpha1", "kind": kind, "metadata": {"name": "a"},
            "spec": {"ranges": [range], "excluded": [range.split(['/', '-']).next(), beside]}});
        let request = json!({"operation": "CREATE", "name": "a", "object": object,
            "resource": {"group": "svcplane.io", "version": "v1alpha1", "resource": plural}});
        let answer = answered(Settings::default(), Endpoint::Validate, &request);
        assert_eq!(
            (&answer["allowed"], &answer["warnings"]),
            (
                &json!(true),
                &json!([format!("spec.excluded[1]: {beside:?} takes nothing out of spec.ranges")])
            )
        );
    }
}

#[test]
fn what_is_not_judged_is_allowed() {
    let off = Settings {
        early_validation: EarlyValidation::Off,
        ..Settings::default()
    };
    let object = bad();
    for (settings, request) in [
        (off, json!({"object": object})),
        (Settings::default(), json!({"object": null})),
        (Settings::default(), json!({"operation": "DELETE", "oldObject": object})),
        (Settings::default(), json!({"operation": "CONNECT", "object": object})),
        (Settings::default(), json!({"subResource": "status", "object": object})),
        (
            Settings::default(),
            json!({"resource": {"group": "", "resource": "pods"}, "object": object}),
        ),
    ] {
        let answer = answered(settings, Endpoint::Mutate, &request);
        assert_eq!(answer, json!({"uid": "u", "allowed": true}), "{request}");
    }
}

#[test]
fn a_newer_apiserver_is_warned_and_not_overruled() {
    let newer = Settings {
        early_validation: EarlyValidation::Warn,
        ..Settings::default()
    };
    let answer = answered(newer, Endpoint::Mutate, &json!({"object": bad()}));
    assert_eq!(answer["allowed"], true);
    let warning = "spec.type: \"Foo\" is not known; use ClusterIP, ExternalName, LoadBalancer, NodePort";
    assert_eq!(answer["warnings"][0], warning);
}

#[test]
fn what_cannot_be_read_is_left_to_the_apiserver_unless_strict() {
    for object in [
        json!([]),
        json!("x"),
        json!({"spec": {"ports": 1}}),
        json!({"metadata": {"labels": {"a": 1}}}),
    ] {
        for request in [
            json!({"object": object}),
            json!({"operation": "UPDATE", "object": bad(), "oldObject": object}),
        ] {
            for endpoint in [Endpoint::Mutate, Endpoint::Validate] {
                let answer = answered(Settings::default(), endpoint, &request);
                assert_eq!(answer["allowed"], true, "{request}");
                assert!(
                    answer["warnings"][0]
                        .as_str()
                        .unwrap()
                        .contains("cannot be read as a Service")
                );
                let strict = Settings {
                    strict: true,
                    ..Settings::default()
                };
                let answer = answered(strict, endpoint, &request);
                assert_eq!(
                    (&answer["allowed"], &answer["status"]["code"]),
                    (&json!(false), &json!(422))
                );
            }
        }
    }
}

#[test]
fn a_gate_s_refusal_is_foretold() {
    let object = json!({"metadata": {"name": "web"}, "spec": {"clusterIP": "010.0.0.1", "ports": [{"port": 80}]}});
    let answer = answered(Settings::default(), Endpoint::Mutate, &json!({"object": object}));
    assert_eq!(answer["allowed"], true);
    let warning = answer["warnings"][0].as_str().unwrap();
    assert!(
        warning.starts_with("spec.clusterIPs[0]: \"010.0.0.1\":") && warning.contains("use \"10.0.0.1\""),
        "{warning}"
    );
}

#[test]
fn external_ips_are_for_the_clusters_owner_to_allow() {
    let deny = || Settings {
        external_ips: ExternalIps::Deny,
        ..Settings::default()
    };
    let object =
        json!({"metadata": {"name": "web"}, "spec": {"externalIPs": ["203.0.113.9"], "ports": [{"port": 80}]}});
    let answer = answered(deny(), Endpoint::Validate, &json!({"object": object}));
    assert_eq!(
        (&answer["allowed"], &answer["status"]["code"]),
        (&json!(false), &json!(403))
    );
    assert_eq!(answer["status"]["details"]["causes"][0]["field"], "spec.externalIPs[0]");
    let update = json!({"operation": "UPDATE", "object": object, "oldObject": object});
    assert_eq!(answered(deny(), Endpoint::Validate, &update)["allowed"], true);
    assert_eq!(
        answered(Settings::default(), Endpoint::Validate, &json!({"object": object}))["allowed"],
        true
    );
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes: Vec<u8>, text in ".*") {
        let admission = admission(Settings::default());
        for endpoint in [Endpoint::Mutate, Endpoint::Validate] {
            _ = admission.review(endpoint, &bytes);
            _ = admission.review(endpoint, text.as_bytes());
        }
    }

    /// A good review, with some of its bytes changed.
    #[test]
    fn no_damaged_review_panics(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let object = json!({"metadata": {"name": "web", "labels": {"a": "b"}}, "spec": {"type": "NodePort",
            "clusterIPs": ["10.96.0.7", "fd00::7"], "ports": [{"port": 80, "nodePort": 31000, "targetPort": "http"}],
            "externalIPs": ["::ffff:10.0.0.1"], "loadBalancerSourceRanges": ["10.0.0.0/8"]}});
        let mut body = review(&json!({"operation": "UPDATE", "object": object, "oldObject": object}));
        for (at, byte) in changes {
            let at = at.index(body.len());
            body[at] = byte;
        }
        let admission = admission(Settings::default());
        _ = admission.review(Endpoint::Mutate, &body);
        _ = admission.review(Endpoint::Validate, &body);
    }
}
