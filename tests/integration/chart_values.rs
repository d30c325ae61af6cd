//! The values of the chart: each is described, and what is wrong is refused before anything is installed.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use serde_json::Value;
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
        "webhook.earlyValidation=true",
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
        "bindAddress=\"localhost\"",
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
