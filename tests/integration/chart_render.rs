//! What the chart renders, with Helm 4 and Helm 3: the same each time, within limits, and with no more rights than are needed.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::{Value, json};
use svcplane_tests::binaries;
use svcplane_tests::chart::{CHART, Helm, Rendered, value_files};

fn helm() -> Helm {
    Helm::of("helm4").unwrap()
}

const ACTIVE: [&str; 2] = ["mode=active", "takeover.acknowledgeBuiltinsDisabled=true"];

#[test]
fn two_renders_are_equal_byte_for_byte_and_both_helms_agree() {
    let [four, three] = Helm::both().unwrap();
    let mut kinds = BTreeSet::new();
    for file in std::iter::once(None).chain(value_files().unwrap().iter().map(Some)) {
        let with = |helm: &Helm| match file {
            Some(file) => helm.clone().values(file),
            None => helm.clone(),
        };
        let (four, three) = (four.clone().tests(), three.clone().tests());
        let rendered = with(&four).template().unwrap();
        assert_eq!(rendered.text, with(&four).template().unwrap().text, "{file:?}");
        let of_three = with(&three).template().unwrap();
        let sorted = |rendered: &Rendered| {
            let mut objects = rendered.objects.clone();
            objects.sort_by_key(|it| format!("{} {}", it["kind"], it["metadata"]["name"]));
            objects
        };
        assert_eq!(sorted(&rendered), sorted(&of_three), "{file:?}");
        kinds.extend(
            rendered
                .objects
                .iter()
                .map(|it| it["kind"].as_str().unwrap().to_owned()),
        );
    }
    let wanted = [
        "Certificate",
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "CustomResourceDefinition",
        "Deployment",
        "FlowSchema",
        "MutatingWebhookConfiguration",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "PodMonitor",
        "PrometheusRule",
        "ResourceQuota",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
        "ServiceMonitor",
        "ValidatingWebhookConfiguration",
    ];
    for kind in wanted {
        assert!(kinds.contains(kind), "no values render a {kind}: {kinds:?}");
    }
}

#[test]
fn lint_finds_nothing() {
    for helm in Helm::both().unwrap() {
        for file in value_files().unwrap() {
            let said = helm.clone().values(&file).run(&["lint", "--strict", CHART]).unwrap();
            assert!(said.contains("0 chart(s) failed"), "{file}: {said}");
        }
    }
}

#[test]
fn only_flags_that_there_are_are_rendered() {
    let help = Command::new(binaries::svcplane().unwrap())
        .args(["run", "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let words: BTreeSet<&str> = help
        .split_whitespace()
        .map(|word| word.split(['=', '[', ',']).next().unwrap_or(word))
        .collect();
    for file in value_files().unwrap() {
        let flags = helm().values(&file).template().unwrap().flags();
        assert!(flags.len() > 15, "{flags:?}");
        for flag in &flags {
            assert!(words.contains(flag.split('=').next().unwrap()), "{file}: {flag}");
        }
    }
}

#[test]
fn names_fit_whatever_the_release_is_called() {
    // B98.
    let long = "wetland-platform-service-control-plane-eu";
    for (release, namespace) in [
        (long, "team-freshwater-prod"),
        ("a2345678901234567890123456789012345678901234567890123", "x"),
    ] {
        let rendered = helm()
            .values("ci/everything-values.yaml")
            .tests()
            .template_as(release, namespace)
            .unwrap();
        for object in &rendered.objects {
            let metadata = &object["metadata"];
            let crd = object["kind"] == "CustomResourceDefinition";
            let name = metadata["name"].as_str().unwrap();
            assert!(name.len() <= 63, "{name}");
            let labels = metadata["labels"].as_object().into_iter().flatten();
            for (label, value) in labels {
                assert!(value.as_str().unwrap().len() <= 63, "{name}: {label}={value}");
            }
            let namespaced = !crd && metadata.get("namespace").is_some();
            assert!(!namespaced || metadata["namespace"] == namespace, "{name}");
        }
        let service = format!(
            "{}-webhook",
            rendered.one("Deployment")["metadata"]["name"].as_str().unwrap()
        );
        let configuration = rendered.one("MutatingWebhookConfiguration");
        assert_eq!(
            configuration["webhooks"][0]["clientConfig"]["service"]["name"],
            *service
        );
    }
}

#[test]
fn no_certificate_and_no_authority_is_rendered_but_yours() {
    for file in value_files().unwrap() {
        let rendered = helm().values(&file).template().unwrap();
        assert!(rendered.all("Secret").is_empty(), "{file}");
        assert_eq!(
            rendered.text.contains("caBundle"),
            file == "ci/existing-values.yaml",
            "{file}"
        );
    }
}

/// One rule as `group/resource[names]: verbs`.
fn rules(role: &Value) -> BTreeSet<String> {
    let texts = |value: &Value| -> Vec<String> {
        value
            .as_array()
            .into_iter()
            .flatten()
            .map(|it| it.as_str().unwrap().to_owned())
            .collect()
    };
    let mut rules = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                let names = texts(&rule["resourceNames"]).join(",");
                for verb in texts(&rule["verbs"]) {
                    let group = if group.is_empty() { "core" } else { &group };
                    rules.insert(format!("{group}/{resource}[{names}] {verb}"));
                }
            }
        }
    }
    rules
}

fn expanded(lines: &[(&str, &str)]) -> BTreeSet<String> {
    let verbs = |(resource, verbs): &(&str, &str)| {
        verbs
            .split(' ')
            .map(|verb| format!("{resource} {verb}"))
            .collect::<Vec<_>>()
    };
    lines.iter().flat_map(verbs).collect()
}

/// What an observer with a webhook and all controllers may, in the cluster.
const OBSERVER: [(&str, &str); 16] = [
    ("core/services[]", "get list watch"),
    ("core/pods[]", "list watch"),
    ("core/endpoints[]", "list watch"),
    ("core/nodes[]", "list watch"),
    ("core/namespaces[]", "list watch"),
    ("discovery.k8s.io/endpointslices[]", "list watch"),
    ("events.k8s.io/events[]", "create patch"),
    ("networking.k8s.io/servicecidrs[]", "list watch"),
    ("networking.k8s.io/ipaddresses[]", "list watch"),
    ("svcplane.io/clusterippools[]", "get list watch"),
    ("svcplane.io/nodeportpools[]", "get list watch"),
    ("svcplane.io/clusterippools/status[]", "patch"),
    ("svcplane.io/nodeportpools/status[]", "patch"),
    ("core/services/status[]", "patch"),
    ("svcplane.io/loadbalancerpools[]", "get list watch"),
    ("svcplane.io/loadbalancerpools/status[]", "patch"),
];

/// What only the endpoint controllers look at.
const OF_ENDPOINTS: [&str; 3] = ["core/pods[]", "core/endpoints[]", "discovery.k8s.io/endpointslices[]"];

/// What a self-managed certificate takes.
const CERTIFICATE: [(&str, &str); 2] = [
    (
        "admissionregistration.k8s.io/mutatingwebhookconfigurations[zz-svcplane]",
        "list watch patch",
    ),
    (
        "admissionregistration.k8s.io/validatingwebhookconfigurations[zz-svcplane]",
        "list watch patch",
    ),
];

/// What writing takes.
const WRITER: [(&str, &str); 6] = [
    ("core/endpoints[]", "get create update delete"),
    ("core/endpoints/restricted[]", "create"),
    ("discovery.k8s.io/endpointslices[]", "get create update delete"),
    ("discovery.k8s.io/endpointslices/restricted[]", "create"),
    ("core/services/finalizers[]", "update"),
    ("core/endpoints/finalizers[]", "update"),
];

#[test]
fn roles_are_exactly_what_is_allowed() {
    let cluster = |helm: Helm| rules(helm.template().unwrap().one("ClusterRole"));
    let observer = [&OBSERVER[..], &CERTIFICATE].concat();
    assert_eq!(cluster(helm()), expanded(&observer));
    assert_eq!(
        cluster(helm().set(&ACTIVE)),
        expanded(&[&observer[..], &WRITER].concat())
    );
    assert_eq!(
        cluster(helm().values("ci/certmanager-values.yaml")),
        expanded(&OBSERVER)
    );
    let few = cluster(
        helm()
            .values("ci/endpoints-only-values.yaml")
            .set(&["webhook.enabled=false", "loadBalancer.enabled=false"]),
    );
    let alone = [
        ("core/services[]", "get list watch"),
        ("core/pods[]", "list watch"),
        ("core/endpoints[]", "get list watch create update delete"),
        ("core/endpoints/restricted[]", "create"),
        ("events.k8s.io/events[]", "create patch"),
        ("networking.k8s.io/servicecidrs[]", "list"),
        ("networking.k8s.io/ipaddresses[]", "list"),
    ];
    assert_eq!(few, expanded(&alone));
    let own = [
        ("discovery.k8s.io/endpointslices[]", "get create update delete"),
        ("discovery.k8s.io/endpointslices/restricted[]", "create"),
        ("core/services/finalizers[]", "update"),
        ("core/endpoints/finalizers[]", "update"),
    ];
    assert_eq!(
        cluster(helm().values("ci/own-values.yaml")),
        expanded(&[&observer[..], &own].concat()),
        "no right to write Endpoints"
    );
    let managed: Vec<_> = observer
        .iter()
        .filter(|(resource, _)| !OF_ENDPOINTS.contains(resource))
        .copied()
        .collect();
    assert_eq!(
        cluster(helm().values("profiles/values-managed.yaml")),
        expanded(&managed)
    );
    let balancing = cluster(
        helm()
            .values("profiles/values-managed.yaml")
            .set(&["webhook.enabled=false", "controllers.repair.enabled=false"]),
    );
    let alone = [
        ("core/services[]", "get list watch"),
        ("core/services/status[]", "patch"),
        ("core/namespaces[]", "list watch"),
        ("core/nodes[]", "list watch"),
        ("networking.k8s.io/servicecidrs[]", "list watch"),
        ("events.k8s.io/events[]", "create patch"),
        ("svcplane.io/loadbalancerpools[]", "get list watch"),
        ("svcplane.io/loadbalancerpools/status[]", "patch"),
    ];
    assert_eq!(balancing, expanded(&alone));

    let namespaced = |helm: Helm| rules(helm.template().unwrap().one("Role"));
    let lease = [
        ("coordination.k8s.io/leases[]", "create"),
        ("coordination.k8s.io/leases[svcplane]", "get watch update"),
    ];
    let secret = [
        ("core/secrets[]", "create"),
        ("core/secrets[svcplane-webhook-tls]", "list watch update"),
        ("apps/deployments[svcplane]", "get"),
    ];
    assert_eq!(namespaced(helm()), expanded(&[&lease[..], &secret].concat()));
    assert_eq!(namespaced(helm().set(&["webhook.enabled=false"])), expanded(&lease));
    let given = [("core/secrets[my-certificate]", "list watch")];
    let members = [("discovery.k8s.io/endpointslices[]", "list watch")];
    assert_eq!(
        namespaced(helm().values("profiles/values-managed.yaml")),
        expanded(&[&lease[..], &secret, &members].concat())
    );
    assert_eq!(
        namespaced(helm().values("ci/existing-values.yaml")),
        expanded(&[&lease[..], &given].concat())
    );
}

/// Each resource of the roles, with the object's name if there is one, and the verbs on it.
fn rights(helm: Helm) -> BTreeMap<String, String> {
    let rendered = helm.template().unwrap();
    let mut rights = BTreeMap::<String, String>::new();
    let own = |role: &Value| role["kind"] == "Role" && role["metadata"]["name"] == "svcplane";
    for role in rendered
        .objects
        .iter()
        .filter(|it| it["kind"] == "ClusterRole" || own(it))
    {
        let place = if own(role) { "own " } else { "" };
        for rule in role["rules"].as_array().unwrap() {
            let texts = |name: &str| -> Vec<&str> {
                let all = rule[name].as_array().into_iter().flatten();
                all.map(|it| it.as_str().unwrap()).collect()
            };
            for group in texts("apiGroups") {
                for resource in texts("resources") {
                    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                    let dot = if group.is_empty() { "" } else { "." };
                    let slash = if subresource.is_empty() { "" } else { "/" };
                    let name = texts("resourceNames")
                        .iter()
                        .map(|it| format!(" [{it}]"))
                        .collect::<String>();
                    let key = format!("{place}`{resource}{dot}{group}{slash}{subresource}`{name}");
                    let verbs = rights.entry(key).or_default();
                    *verbs = format!("{verbs} {}", texts("verbs").join(" ")).trim().to_owned();
                }
            }
        }
    }
    rights
}

#[test]
fn the_rights_in_the_security_page_are_those_that_are_rendered() {
    let [observe, active, managed] = [
        rights(helm()),
        rights(helm().set(&ACTIVE)),
        rights(helm().values("profiles/values-managed.yaml")),
    ];
    let all: BTreeSet<&String> = observe.keys().chain(active.keys()).chain(managed.keys()).collect();
    let none = "-".to_owned();
    let verbs = |of: &BTreeMap<String, String>, key: &String| of.get(key).unwrap_or(&none).clone();
    let rendered: BTreeSet<String> = all
        .into_iter()
        .map(|key| {
            format!(
                "| {key} | {} | {} | {} |",
                verbs(&observe, key),
                verbs(&active, key),
                verbs(&managed, key)
            )
        })
        .collect();
    let page = include_str!("../../docs/security.md");
    let rows = page.lines().skip_while(|line| !line.starts_with("| resource")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let written: BTreeSet<String> = rows
        .map(|row| {
            let (rights, reason) = row.trim_end_matches(" |").rsplit_once(" | ").unwrap();
            assert!(reason.len() > 3, "{row}");
            format!("{rights} |")
        })
        .collect();
    assert_eq!(written, rendered);
}

#[test]
fn no_values_give_a_right_to_everything_or_let_an_observer_write_endpoints() {
    for file in value_files().unwrap() {
        let rendered = helm().values(&file).template().unwrap();
        let observes = rendered.flags().contains(&"--mode=observe".to_owned());
        for role in rendered.all("ClusterRole").into_iter().chain(rendered.all("Role")) {
            for rule in rules(role) {
                assert!(!rule.contains('*'), "{file}: {rule}");
                assert!(
                    !rule.starts_with("core/secrets[]") || rule.ends_with("create"),
                    "{file}: {rule}"
                );
                let writes = !["get", "list", "watch"].iter().any(|verb| rule.ends_with(verb));
                let endpoints = rule.contains("/endpoint");
                assert!(!(observes && endpoints && writes), "{file}: {rule}");
            }
        }
    }
}

#[test]
fn the_webhook_never_stands_in_the_way_of_what_heals_a_cluster() {
    let rendered = helm()
        .set(&["webhook.strict=true", "webhook.excludedNamespaces={a,kube-system}"])
        .template()
        .unwrap();
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        let configuration = rendered.one(kind);
        assert_eq!(configuration["metadata"]["name"], "zz-svcplane");
        assert_eq!(
            configuration["metadata"]["annotations"]["admissions.enforcer/disabled"],
            "true"
        );
        let entry = &configuration["webhooks"][0];
        assert_eq!(entry["failurePolicy"], "Fail");
        assert_eq!(entry["timeoutSeconds"], 2);
        assert_eq!(entry["rules"][0]["operations"], json!(["CREATE", "UPDATE"]));
        assert_eq!(entry["rules"][0]["resources"], json!(["services"]));
        let exempt = &entry["namespaceSelector"]["matchExpressions"][0]["values"];
        assert_eq!(
            *exempt,
            json!(["kube-system", "kube-node-lease", "kube-public", "svcplane", "a"])
        );
        let conditions = entry["matchConditions"].as_array().unwrap();
        assert!(conditions.len() >= 4);
        let text = format!("{conditions:?}");
        for exempt in [
            "system:apiserver",
            "system:serviceaccount:svcplane:svcplane",
            "kubernetes",
        ] {
            assert!(text.contains(exempt), "{exempt}");
        }
    }
    let pools = &rendered.one("ValidatingWebhookConfiguration")["webhooks"][1];
    assert_eq!(pools["failurePolicy"], "Ignore");
}

#[test]
fn the_test_s_pod_is_no_replica() {
    let rendered = helm().tests().template().unwrap();
    let pod = rendered.one("Pod");
    let labels = &pod["metadata"]["labels"];
    for service in rendered.all("Service") {
        let selector = service["spec"]["selector"].as_object().unwrap();
        assert!(selector.iter().any(|(key, value)| labels[key] != *value), "{service}");
    }
    let arguments = pod["spec"]["containers"][0]["args"].as_array().unwrap();
    let own = &rendered.one("Deployment")["spec"]["selector"]["matchLabels"];
    for (key, value) in own.as_object().unwrap() {
        let named = format!("{key}={}", value.as_str().unwrap());
        assert!(
            arguments.iter().any(|it| it.as_str().unwrap().contains(&named)),
            "{named}"
        );
    }
}

#[test]
fn values_that_make_no_sense_together_are_refused_in_words() {
    let none = "controllers.endpoints.enabled=false,controllers.endpointSlice.enabled=false,controllers.endpointSliceMirroring.enabled=false";
    let table: [(&[&str], &str); 13] = [
        (&["mode=active"], "acknowledgeBuiltinsDisabled"),
        (&["identity=own"], "mode=active"),
        (
            &["identity=own", "mode=active", "controllers.endpointSlice.enabled=false"],
            "endpointSlice",
        ),
        (&["replicas=1", "podDisruptionBudget.enabled=true"], "replicas of 2"),
        (&["hostNetwork=true"], "kubelet"),
        (&["webhook.port=9808"], "must differ"),
        (&["preStopSeconds=30"], "terminationGracePeriodSeconds"),
        (&["webhook.tls.mode=existing"], "existingSecret"),
        (
            &["webhook.tls.mode=existing", "webhook.tls.existingSecret=x"],
            "caBundle",
        ),
        (&["webhook.tls.mode=certManager"], "issuerRef"),
        (
            &[
                "webhook.tls.mode=certManager",
                "profile=controlPlane",
                "webhook.tls.certManager.issuerRef.name=x",
            ],
            "controlPlane",
        ),
        (
            &[none, "controllers.repair.enabled=false,loadBalancer.enabled=false"],
            "at least one",
        ),
        (
            &[none, "mode=active,takeover.acknowledgeBuiltinsDisabled=true"],
            "nothing to write",
        ),
    ];
    for (values, why) in table {
        let error = helm().set(values).template().unwrap_err().to_string();
        assert!(error.contains(why), "{values:?}: {error}");
    }
}

#[test]
fn values_become_what_they_promise() {
    let rendered = helm()
        .set(&["replicas=1", "image.tag=v2", "global.imageRegistry=registry.example"])
        .template()
        .unwrap();
    assert!(rendered.all("PodDisruptionBudget").is_empty());
    let pod = |rendered: &Rendered| rendered.one("Deployment")["spec"]["template"]["spec"].clone();
    assert_eq!(
        pod(&rendered)["containers"][0]["image"],
        "registry.example/svcplane/svcplane:v2"
    );
    let everything = helm().values("ci/everything-values.yaml").template().unwrap();
    let container = pod(&everything)["containers"][0].clone();
    let digest = format!("ghcr.io/svcplane/svcplane@sha256:{}", "0".repeat(64));
    assert_eq!(container["image"], *digest);
    assert_eq!(pod(&everything)["hostUsers"], false);
    assert!(everything.flags().contains(&"--webhook-tls-names=192.0.2.10".into()));
    assert!(
        everything
            .flags()
            .contains(&"--service-cluster-ip-range=10.96.0.0/12,fd00:10:96::/112".into())
    );
    assert!(format!("{}", container["env"]).contains("192.0.2.1"));
    assert!(!everything.text.contains("SvcplaneDrift"));
    let names: BTreeSet<&str> = everything
        .all("ConfigMap")
        .iter()
        .map(|it| it["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        BTreeSet::from(["svcplane-dashboard", "svcplane-extra", "svcplane-text"])
    );
    let flags = |file: &str| helm().values(file).template().unwrap().flags();
    for flag in [
        "--controllers=endpoints-controller,endpointslice-controller,endpointslice-mirroring-controller,loadbalancer-controller",
        "--load-balancer-class=svcplane.io/lb,example.com/metal",
        "--load-balancer-default=true",
        "--load-balancer-annotations=none",
    ] {
        let given = flags("ci/loadbalancer-values.yaml");
        assert!(given.contains(&flag.to_owned()), "{flag}: {given:?}");
    }
    let managed = flags("profiles/values-managed.yaml");
    assert!(
        managed.contains(&"--controllers=repair-controller,loadbalancer-controller".to_owned()),
        "{managed:?}"
    );
    assert!(
        !flags("profiles/values-observe.yaml")
            .iter()
            .any(|it| it.starts_with("--load-balancer"))
    );
    let planes = helm().values("profiles/values-control-plane.yaml").template().unwrap();
    let strategy = &planes.one("Deployment")["spec"]["strategy"]["rollingUpdate"];
    assert_eq!(*strategy, json!({"maxSurge": 0, "maxUnavailable": 1}));
    assert!(pod(&planes)["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"].is_array());
    assert_eq!(pod(&planes)["hostNetwork"], true);
    let url = helm().set(&["webhook.url=https://[fd00::1]:9443/"]).template().unwrap();
    assert!(
        url.flags().contains(&"--webhook-tls-names=fd00::1".into()),
        "{:?}",
        url.flags()
    );
    let config = &url.one("MutatingWebhookConfiguration")["webhooks"][0]["clientConfig"];
    assert_eq!(*config, json!({"url": "https://[fd00::1]:9443/mutate"}));
}

#[test]
fn the_resources_are_those_of_the_program_and_stay() {
    let printed = Command::new(binaries::svcplane().unwrap())
        .arg("crds")
        .output()
        .unwrap();
    let text = String::from_utf8(printed.stdout).unwrap();
    let file = format!("{CHART}/files/crds.json");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        text,
        "run UPDATE=1 cargo test -p svcplane-tests --test chart-render"
    );
    let list: Value = serde_json::from_str(&text).unwrap();
    let rendered = helm().template().unwrap();
    let crds = rendered.all("CustomResourceDefinition");
    assert_eq!(crds.len(), list["items"].as_array().unwrap().len());
    for (crd, of_program) in crds.iter().zip(list["items"].as_array().unwrap()) {
        assert_eq!(crd["spec"], of_program["spec"]);
        assert_eq!(crd["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
    }
    assert!(
        helm()
            .set(&["crds.enabled=false"])
            .template()
            .unwrap()
            .all("CustomResourceDefinition")
            .is_empty()
    );
}
