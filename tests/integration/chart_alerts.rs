//! The alerts and the dashboard: every metric that they name is there, every alert fires when it should and has a runbook.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use svcplane_tests::admission::{address, install_crds};
use svcplane_tests::chart::Helm;
use svcplane_tests::cluster::{Cluster, Flavour};
use svcplane_tests::svcplane::Svcplane;
use svcplane_tests::tools::other_tool;

const RUNBOOKS: &str = include_str!("../../docs/operations.md");

/// Labels that Prometheus gives what it scrapes of a Pod.
const POD: &str = r#"namespace="svcplane", pod="svcplane-0""#;

fn rendered(kind: &str) -> Value {
    let helm = Helm::of("helm4").unwrap().set(&[
        "prometheusRule.enabled=true",
        "grafana.dashboard.enabled=true",
        "prometheusRule.extraRules=null",
    ]);
    helm.template().unwrap().one(kind).clone()
}

fn alerts() -> Vec<Value> {
    let rule = rendered("PrometheusRule");
    rule["spec"]["groups"][0]["rules"].as_array().unwrap().clone()
}

fn dashboard() -> Value {
    let map = rendered("ConfigMap");
    serde_json::from_str(map["data"]["svcplane.json"].as_str().unwrap()).unwrap()
}

/// The metrics in an expression: what is followed by `{`.
fn metrics(expression: &str) -> BTreeSet<String> {
    let before = expression.split('{').rev().skip(1);
    let name = |text: &str| {
        let start = text.rfind(|it: char| !(it.is_ascii_alphanumeric() || it == '_' || it == ':'));
        text[start.map_or(0, |at| at + 1)..].to_owned()
    };
    before.map(name).filter(|name| !name.is_empty()).collect()
}

#[tokio::test]
async fn every_metric_that_is_named_is_there() {
    let cluster = Cluster::start(Flavour::DualStack).await.unwrap();
    install_crds(&cluster.client()).await.unwrap();
    let builder = Svcplane::builder()
        .cluster(&cluster)
        .arg("--webhook-address=127.0.0.1:0")
        .arg("--webhook-tls-secret=default/tls")
        .arg("--webhook-tls-self-managed")
        .arg("--webhook-tls-names=127.0.0.1");
    let svcplane = builder.start().await.unwrap();
    address(&svcplane).await.unwrap();
    svcplane.wait_leader().await.unwrap();
    svcplane.wait_ready().await.unwrap();
    // One failing watch, so that its counter is there, is not needed: counters of watches begin at 0.
    let page = svcplane.metrics().await.unwrap();
    let there: BTreeSet<String> = page.names().into_iter().map(String::from).collect();
    // Those of which there is a series only once something has happened.
    let later = [
        "svcplane_webhook_ca_published",
        "svcplane_syncs_total",
        "svcplane_drift",
        "svcplane_foreign_writer",
        "svcplane_loadbalancer_services",
        "svcplane_loadbalancer_pool_addresses",
    ];
    let mut named = BTreeSet::new();
    for alert in alerts() {
        named.extend(metrics(alert["expr"].as_str().unwrap()));
    }
    for panel in dashboard()["panels"].as_array().unwrap() {
        named.extend(metrics(panel["targets"][0]["expr"].as_str().unwrap()));
    }
    assert!(named.len() > 20, "{named:?}");
    let readme = include_str!("../../README.md");
    for name in &named {
        let known = there.contains(name) || (later.contains(&name.as_str()) && readme.contains(name));
        assert!(known, "there is no {name}: {there:?}");
    }
}

#[test]
fn every_alert_has_a_runbook() {
    let headings: BTreeSet<String> = RUNBOOKS
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .map(str::to_lowercase)
        .collect();
    let alerts = alerts();
    assert!(alerts.len() > 15);
    for alert in &alerts {
        let url = alert["annotations"]["runbook_url"].as_str().unwrap();
        let (page, anchor) = url.split_once('#').unwrap();
        assert!(page.ends_with("/docs/operations.md"), "{url}");
        assert!(headings.contains(anchor), "{url}");
        assert_eq!(anchor, alert["alert"].as_str().unwrap().to_lowercase());
    }
    assert_eq!(headings.len(), alerts.len(), "a runbook without an alert");
}

/// Two writers must not meet, and endpoints must not freeze.
#[test]
fn whoever_removes_it_is_told_to_hand_back_first() {
    let section = RUNBOOKS
        .split("## ")
        .find(|it| it.starts_with("Install, upgrade, remove"));
    let notes = include_str!("../../charts/svcplane/templates/NOTES.txt");
    for (text, steps) in [
        (
            section.unwrap(),
            [
                "svcplane handback",
                "switch the built-in controllers on",
                "remove the release",
            ],
        ),
        (
            notes,
            [
                "svcplane handback",
                "switch kube-controller-manager's endpoint controllers on again",
                "helm uninstall",
            ],
        ),
    ] {
        let places = steps.map(|step| text.find(step).unwrap_or_else(|| panic!("{step}: {text}")));
        assert!(places.is_sorted(), "{steps:?} {places:?}");
    }
}

/// Series and their values, as promtool reads them.
type Series = Vec<(String, &'static str)>;

/// An alert, the series that make it fire, and minutes after which it does.
fn firing() -> Vec<(&'static str, Series, u32)> {
    let series = |name: &str, labels: &str| {
        let comma = if labels.is_empty() { "" } else { ", " };
        format!("{name}{{{POD}{comma}{labels}}}")
    };
    let one = |name: &str, labels: &str, values: &'static str| vec![(series(name, labels), values)];
    let controller = r#"controller="endpoints-controller""#;
    let failing = format!(r#"{controller}, operation="update", outcome="forbidden""#);
    vec![
        ("SvcplaneAway", one("svcplane_objects", "", "1x60"), 10),
        ("SvcplaneNoLeader", one("leader_election_master_status", "", "0x60"), 5),
        (
            "SvcplaneTwoLeaders",
            one("leader_election_master_status", "", "2x60"),
            5,
        ),
        (
            "SvcplaneWritesFail",
            one("svcplane_operations_total", &failing, "0+30x60"),
            30,
        ),
        (
            "SvcplaneSyncSlow",
            vec![
                (series("workqueue_work_duration_seconds_bucket", r#"le="1""#), "0x60"),
                (
                    series("workqueue_work_duration_seconds_bucket", r#"le="10""#),
                    "0+60x60",
                ),
                (
                    series("workqueue_work_duration_seconds_bucket", r#"le="+Inf""#),
                    "0+60x60",
                ),
            ],
            30,
        ),
        ("SvcplaneQueueDeep", one("workqueue_depth", "", "501x60"), 15),
        (
            "SvcplaneStuck",
            one("workqueue_longest_running_processor_seconds", "", "121x60"),
            10,
        ),
        (
            "SvcplaneWatchErrors",
            one("svcplane_watch_errors_total", r#"resource="pods""#, "0+10x60"),
            30,
        ),
        (
            "SvcplaneForeignWriter",
            one(
                "svcplane_foreign_writer",
                r#"kind="Endpoints", found_by="breaker""#,
                "1x60",
            ),
            5,
        ),
        (
            "SvcplaneDrift",
            one("svcplane_drift", r#"kind="Endpoints", reason="subsets""#, "1x60"),
            20,
        ),
        (
            "SvcplaneLoadBalancerPending",
            one("svcplane_loadbalancer_services", r#"reason="Exhausted""#, "1x60"),
            10,
        ),
        (
            "SvcplaneAllocationFaults",
            one("svcplane_repair_faults", r#"rule="ClusterIPAlreadyAllocated""#, "1x60"),
            20,
        ),
        (
            "SvcplaneRangeNearlyFull",
            vec![
                (
                    series("svcplane_allocator_values", r#"range="10.0.0.0/24", state="used""#),
                    "90x60",
                ),
                (
                    series("svcplane_allocator_values", r#"range="10.0.0.0/24", state="free""#),
                    "10x60",
                ),
            ],
            20,
        ),
        (
            "SvcplaneRangeFull",
            one(
                "svcplane_allocator_values",
                r#"range="10.0.0.0/24", state="free""#,
                "0x60",
            ),
            10,
        ),
        (
            "SvcplaneRangeResting",
            one("svcplane_allocator_resting", r#"range="10.0.0.0/24""#, "1x60"),
            10,
        ),
        (
            "SvcplaneBooksStale",
            one("svcplane_allocator_source_live", r#"resource="services""#, "0x60"),
            10,
        ),
        (
            "SvcplanePoolBypassed",
            one("svcplane_admission_bypass_total", r#"endpoint="mutate""#, "0+1x60"),
            10,
        ),
        (
            "SvcplaneWebhookSlow",
            vec![
                (
                    series("svcplane_admission_duration_seconds_bucket", r#"le="0.1""#),
                    "0x60",
                ),
                (
                    series("svcplane_admission_duration_seconds_bucket", r#"le="1""#),
                    "0+60x60",
                ),
                (
                    series("svcplane_admission_duration_seconds_bucket", r#"le="+Inf""#),
                    "0+60x60",
                ),
            ],
            30,
        ),
        (
            "SvcplaneWebhookUnreadable",
            one("svcplane_admission_unreadable_total", r#"endpoint="mutate""#, "0+1x60"),
            10,
        ),
        (
            "SvcplaneCertificateExpires",
            one(
                "svcplane_webhook_certificate_expiry_timestamp_seconds",
                "",
                "1000000x60",
            ),
            10,
        ),
        (
            "SvcplaneCertificateUnusable",
            one("svcplane_webhook_certificate_unusable_total", "", "0+1x60"),
            10,
        ),
        (
            "SvcplaneCertificateStepFails",
            one(
                "svcplane_webhook_certificate_steps_total",
                r#"step="publish", outcome="forbidden""#,
                "0+1x60",
            ),
            20,
        ),
        (
            "SvcplaneAuthorityNotPublished",
            one("svcplane_webhook_ca_published", r#"kind="mutating""#, "0x60"),
            10,
        ),
    ]
}

#[test]
fn every_alert_fires_when_it_should_and_none_when_all_is_well() {
    let promtool = other_tool("promtool").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let groups = json!({"groups": [{"name": "svcplane", "rules": alerts()}]});
    fs::write(path("rules.yaml"), groups.to_string()).unwrap();
    let firing = firing();
    let names: BTreeSet<&str> = firing.iter().map(|(alert, ..)| *alert).collect();
    let rules = alerts();
    let all: BTreeSet<&str> = rules.iter().map(|it| it["alert"].as_str().unwrap()).collect();
    assert_eq!(names, all);
    let input = |series: &[(String, &str)]| -> Vec<Value> {
        series
            .iter()
            .map(|(series, values)| json!({"series": series, "values": values}))
            .collect()
    };
    // How often each fires is counted, with labels left to the rule.
    let mut tests: Vec<Value> = firing
        .iter()
        .map(|(alert, series, minutes)| {
            let expr = format!("count(ALERTS{{alertname=\"{alert}\", alertstate=\"firing\"}})");
            json!({"interval": "1m", "name": alert, "input_series": input(series),
                "promql_expr_test": [{"expr": expr, "eval_time": format!("{minutes}m"), "exp_samples": [{"labels": "{}", "value": 1}]}]})
        })
        .collect();
    let well: Series = [
        ("svcplane_build_info", "", "1x60"),
        ("leader_election_master_status", "", "1x60"),
        (
            "svcplane_operations_total",
            r#"controller="endpoints-controller", outcome="ok""#,
            "0+30x60",
        ),
        // A change of a Pod, for the moment until it is followed.
        (
            "svcplane_drift",
            r#"kind="Endpoints", reason="subsets""#,
            "0x9 1x3 0x50",
        ),
        (
            "svcplane_foreign_writer",
            r#"kind="Endpoints", found_by="canary""#,
            "0x60",
        ),
        ("svcplane_loadbalancer_services", r#"reason="Assigned""#, "9x60"),
        ("svcplane_repair_faults", r#"rule="PortOutOfRange""#, "0x60"),
        ("svcplane_allocator_values", r#"range="a", state="used""#, "10x60"),
        ("svcplane_allocator_values", r#"range="a", state="free""#, "90x60"),
        ("svcplane_allocator_source_live", r#"resource="services""#, "1x60"),
        (
            "svcplane_webhook_certificate_expiry_timestamp_seconds",
            "",
            "9000000x60",
        ),
        ("svcplane_webhook_ca_published", r#"kind="mutating""#, "1x60"),
        (
            "svcplane_foreign_changes_total",
            r#"controller="endpoints-controller""#,
            "0+20x60",
        ),
        (
            "svcplane_foreign_writer",
            r#"kind="Endpoints", found_by="breaker""#,
            "0x60",
        ),
        // An observer sees each change before kube-controller-manager has followed.
        (
            "svcplane_drift",
            r#"kind="Endpoints", reason="subsets""#,
            "1 0 2x13 0 1x13 0 0 3x13 0x60",
        ),
    ]
    .into_iter()
    .map(|(name, labels, values)| {
        let comma = if labels.is_empty() { "" } else { ", " };
        (format!("{name}{{{POD}{comma}{labels}}}"), values)
    })
    .collect();
    tests.push(
        json!({"interval": "1m", "name": "all is well", "input_series": input(&well),
        "promql_expr_test": [
            {"expr": "count(ALERTS)", "eval_time": "50m", "exp_samples": []},
            {"expr": "count(count_over_time(ALERTS{alertstate=\"firing\"}[1h]))", "eval_time": "50m", "exp_samples": []},
        ]}),
    );
    let file = json!({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests});
    fs::write(path("tests.yaml"), file.to_string()).unwrap();
    for command in [&["check", "rules", "rules.yaml"][..], &["test", "rules", "tests.yaml"]] {
        let output = Command::new(&promtool)
            .args(command)
            .current_dir(directory.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {said}");
    }
}
