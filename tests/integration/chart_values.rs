//! The values of the chart: each is described, and what is wrong is refused before anything is installed.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use serde_json::Value;
use svcplane_tests::binaries;
use svcplane_tests::chart::{CHART, Helm};

fn read(file: &str) -> String {
    fs::read_to_string(format!("{CHART}/{file}")).unwrap()
}

fn values() -> Value {
    serde_saphyr::from_str(&read("values.yaml")).unwrap()
}

fn schema() -> Value {
    serde_json::from_str(&read("values.schema.json")).unwrap()
}

#[test]
fn the_schema_refuses_what_is_wrong() {
    let wrong = [
        "replicas=0",
        "replicas=\"2\"",
        "replicaCount=2",
        "mode=\"Active\"",
        "mode=\"disabled\"",
        "profile=\"controlplane\"",
        "takeover.acknowledgeBuiltinsDisabled=\"true\"",
        "takeover.acknowledged=true",
        "identity=\"drop-in\"",
        "uninstall.allowFrozenEndpoints=\"no\"",
        "controllers.endpoints.concurrentSyncs=0",
        "controllers.endpoints.workers=5",
        "controllers.endpointSlice.maxEndpointsPerSlice=1001",
        "controllers.endpointSlice.updatesBatchPeriod=\"1 s\"",
        "controllers.endpointslice=false",
        "loadBalancer.class=[]",
        "loadBalancer.class=[\"a b\"]",
        "loadBalancer.annotations=[\"porter\"]",
        "loadBalancer.pools=true",
        "allocator.allocate=\"some\"",
        "allocator.clusterIP.ranges=[\"10.96.0.0\"]",
        "allocator.nodePort.range=\"30000\"",
        "webhook.port=0",
        "webhook.port=65536",
        "webhook.url=\"http://a\"",
        "webhook.earlyValidation=\"maybe\"",
        "webhook.externalIPs=\"none\"",
        "webhook.mutating.failurePolicy=\"ignore\"",
        "webhook.mutating.timeoutSeconds=31",
        "webhook.mutating.reinvocationPolicy=\"Always\"",
        "webhook.matchConditions=[{\"name\":\"a\"}]",
        "webhook.tls.mode=\"helm\"",
        "webhook.tls.lifetime=\"90d\"",
        "webhook.tls.caBundle=\"MIIB\"",
        "webhook.tls.certManager.issuerRef.kind=\"issuer\"",
        "leaderElection.leaseDuration=15",
        "logging.format=\"logfmt\"",
        "logging.level=\"verbose\"",
        "logging.level=\"info,svcplane\"",
        "bindAddress=\"localhost\"",
        "bindAddress=\"999.1.1.1\"",
        "image.digest=\"sha256:abc\"",
        "image.pullPolicy=\"always\"",
        "hostNetwork=\"yes\"",
        "preStopSeconds=-1",
        "podDisruptionBudget.unhealthyPodEvictionPolicy=\"Always\"",
        "networkPolicy.apiServerPorts=[]",
        "metrics.serviceMonitor.interval=30",
        "prometheusRule.disabled=[\"drift\"]",
        "extraArgs=[\"mode=active\"]",
        "commonLabels={\"a\":1}",
    ];
    assert!(wrong.len() >= 30);
    for helm in Helm::both().unwrap() {
        for value in wrong {
            let path = value.split('=').next().unwrap();
            let error = helm
                .clone()
                .with(format!("--set-json={value}"))
                .template()
                .expect_err(value)
                .to_string();
            let last = path.rsplit('.').next().unwrap();
            assert!(error.contains(last) && error.contains("schema"), "{value}: {error}");
        }
        // What a null unsets, and what a parent chart may add.
        for right in [
            "hostUsers=null",
            "podDisruptionBudget.enabled=null",
            "global.other={\"a\":1}",
        ] {
            helm.clone().with(format!("--set-json={right}")).template().unwrap();
        }
    }
}

/// What `svcplane run` says to these flags; without a cluster it always says something.
fn said(flags: &[String]) -> String {
    let mut command = Command::new(binaries::svcplane().unwrap());
    command.arg("run").args(flags).arg("--kubeconfig=/nowhere/config");
    command.env("POD_UID", "uid").env("POD_NAMESPACE", "system");
    String::from_utf8(command.output().unwrap().stderr).unwrap()
}

/// The chart's rules are a second copy of the program's, so the program is asked, too: about what is just wrong, and what is just right.
#[test]
fn what_the_program_would_refuse_at_its_start_the_chart_refuses_before() {
    // Further values, the value, the program's flag, wrong, right.
    let active = "mode=active,takeover.acknowledgeBuiltinsDisabled=true";
    let table = [
        (
            "",
            "leaderElection.leaseDuration",
            "leader-elect-lease-duration",
            "10500ms",
            "11s",
        ),
        (
            "",
            "leaderElection.renewDeadline",
            "leader-elect-renew-deadline",
            "15s",
            "14999ms",
        ),
        (
            "",
            "leaderElection.retryPeriod",
            "leader-elect-retry-period",
            "9s",
            "8.3s",
        ),
        (
            "",
            "leaderElection.retryPeriod",
            "leader-elect-retry-period",
            "0s",
            "1ms",
        ),
        (active, "takeover.canary.interval", "canary-interval", "0.9s", "1s"),
        ("", "controllers.repair.period", "repair-period", "0s", "1s"),
        ("", "webhook.tls.lifetime", "webhook-tls-lifetime", "29s", "30s"),
        ("", "webhook.tls.lifetime", "webhook-tls-lifetime", "4381h", "4380h"),
        (
            "",
            "webhook.tls.authorityLifetime",
            "webhook-tls-authority-lifetime",
            "4319h59m",
            "4320h",
        ),
        (
            "",
            "allocator.nodePort.range",
            "service-node-port-range",
            "40000-100",
            "100-40000",
        ),
        (
            "",
            "allocator.nodePort.range",
            "service-node-port-range",
            "1-65536",
            "1-65535",
        ),
        ("", "allocator.nodePort.range", "service-node-port-range", "0-1", "1-1"),
        (
            "",
            "allocator.clusterIP.ranges",
            "service-cluster-ip-range",
            "10.96.0.1/16",
            "10.96.0.0/16",
        ),
        (
            "",
            "allocator.clusterIP.ranges",
            "service-cluster-ip-range",
            "10.96.8.0/20",
            "10.96.16.0/20",
        ),
        (
            "",
            "allocator.clusterIP.ranges",
            "service-cluster-ip-range",
            "10.96.0.0/33",
            "10.96.0.3/32",
        ),
        (
            "",
            "allocator.clusterIP.ranges",
            "service-cluster-ip-range",
            "10.96.0/16",
            "fd00::/112",
        ),
        (
            "",
            "allocator.clusterIP.ranges",
            "service-cluster-ip-range",
            "10.096.0.0/16",
            "0.0.0.0/0",
        ),
        (
            "",
            "allocator.clusterIP.ranges",
            "service-cluster-ip-range",
            "10.0.0.0/16,10.1.0.0/16",
            "10.0.0.0/16,fd00::/112",
        ),
        ("", "webhook.externalIPs", "external-ips", "10.0.0.1/8", "10.0.0.0/8"),
        (
            "",
            "logging.level",
            "log-level",
            "svcplane::endpoints",
            "info,svcplane::endpoints=debug",
        ),
        ("", "bindAddress", "admin-address", "127.0.0.256", "127.0.0.255"),
    ];
    for helm in Helm::both().unwrap() {
        for (more, value, flag, wrong, right) in table {
            let with = |text: &str| {
                let text = if value.ends_with("ranges") {
                    format!("{{{text}}}")
                } else {
                    text.replace(',', "\\,")
                };
                helm.clone().set(&[more, &format!("{value}={text}")]).template()
            };
            let flags = with(right)
                .unwrap_or_else(|error| panic!("{value}={right}: {error}"))
                .flags();
            let answer = said(&flags);
            assert!(answer.contains("/nowhere/config"), "{flags:?}: {answer}");
            let of_flag = |text: &String| text.starts_with(&format!("--{flag}="));
            let at = flags
                .iter()
                .position(of_flag)
                .unwrap_or_else(|| panic!("{flag} in {flags:?}"));
            let mut flags = flags;
            flags[at] = flags[at].replace(right, wrong);
            let answer = said(&flags);
            assert!(answer.contains(&format!("--{flag}")), "{}: {answer}", flags[at]);
            let error = with(wrong).expect_err(wrong).to_string();
            let last = value.rsplit('.').next().unwrap();
            assert!(error.contains(last), "{value}={wrong}: {error}");
        }
    }
}

/// Every path of `values` whose schema names its keys; an object that may hold anything ends a path.
fn described(values: &Value, schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        found.insert(path.to_owned());
        return;
    };
    let strict = schema["additionalProperties"] == Value::Bool(false);
    assert!(strict || path == "global", "{path} takes anything");
    let values = values.as_object().unwrap_or_else(|| panic!("{path} is no object"));
    if values.is_empty() {
        found.insert(path.to_owned());
        return;
    }
    let keys = |map: &serde_json::Map<String, Value>| map.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(
        keys(values),
        keys(properties),
        "values.yaml and its schema differ at {path:?}"
    );
    for (key, value) in values {
        let path = if path.is_empty() {
            key.clone()
        } else {
            format!("{path}.{key}")
        };
        described(value, &properties[key], &path, found);
    }
}

/// The descriptions in values.yaml: path, default, words.
fn documented() -> Vec<(String, String, String)> {
    let (mut rows, mut open, mut words) = (Vec::new(), Vec::<(usize, String)>::new(), None);
    let values = values();
    for line in read("values.yaml").lines() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if let Some(comment) = text.strip_prefix("# -- ") {
            words = Some(comment.to_owned());
            continue;
        }
        let Some((key, _)) = text.split_once(':').filter(|_| !text.starts_with(['#', '-'])) else {
            continue;
        };
        open.retain(|(other, _)| *other < indent);
        open.push((indent, key.to_owned()));
        if let Some(words) = words.take() {
            let path: Vec<&str> = open.iter().map(|(_, key)| key.as_str()).collect();
            let default = values.pointer(&format!("/{}", path.join("/"))).unwrap();
            rows.push((path.join("."), default.to_string(), words));
        }
    }
    rows
}

#[test]
fn every_value_is_in_the_schema_and_has_words() {
    let mut found = BTreeSet::new();
    described(&values(), &schema(), "", &mut found);
    assert!(found.len() > 80, "{}", found.len());
    let words: BTreeSet<String> = documented().into_iter().map(|(path, ..)| path).collect();
    assert_eq!(found, words);
}

#[test]
fn the_table_in_the_readme_is_that_of_values_yaml() {
    let mut table = String::from("| value | default | |\n| --- | --- | --- |\n");
    for (path, default, words) in documented() {
        let words = words.replace('|', "\\|");
        writeln!(table, "| `{path}` | `{default}` | {words} |").unwrap();
    }
    let readme = read("README.md");
    let (before, rest) = readme.split_once("| value | default | |\n").expect("a table of values");
    let end = rest.find("\n\n").map_or(rest.len(), |at| at + 1);
    let made = format!("{before}{table}{}", &rest[end..]);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(format!("{CHART}/README.md"), &made).unwrap();
    }
    assert!(
        made == readme,
        "run UPDATE=1 cargo test -p svcplane-tests --test chart-values"
    );
}
