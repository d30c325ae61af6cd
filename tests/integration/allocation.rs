//! ClusterIPs and nodePorts are chosen at admission, on a real apiserver, which stores them or says why not. Numbers that are written down are
//! of the lower band, 30000 to 30085, which nobody else is given.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Api;
use serde_json::{Value, json};
use svcplane_tests::admission::send;
use svcplane_tests::cluster::{Cluster, Flavour};
use svcplane_tests::eventually::eventually_one;
use svcplane_tests::governed::{
    self, Governed, SOON, cluster_ip, create, delete, node_port, patch, pool, post, try_pool, values,
};
use svcplane_tests::namespace::TestNamespace;
use svcplane_webhook::pools::NodePortPool;

fn governed() -> &'static Governed {
    governed::shared(Flavour::DualStack)
}

async fn namespace() -> TestNamespace {
    TestNamespace::create(&governed().cluster).await.unwrap()
}

/// Svcplane's counters, which the watches confirm, and what is stored.
#[tokio::test]
async fn every_value_that_is_stored_was_chosen_by_us() {
    let (governed, namespace) = (governed(), namespace().await);
    let before = [
        governed.counted("svcplane_allocation_stored_total", "clusterips").await,
        governed.counted("svcplane_allocation_stored_total", "nodeports").await,
    ];
    let (mut addresses, mut ports) = (0, 0);
    for number in 0..20 {
        let mut service = node_port(&format!("s{number}"));
        service["spec"]["ipFamilyPolicy"] = json!(["SingleStack", "PreferDualStack", "RequireDualStack"][number % 3]);
        service["spec"]["ports"] = json!([{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53}, {"name": "b", "port": 80}]);
        let stored = values(&create(&namespace, &service).await.accepted().unwrap());
        addresses += stored.0.len();
        ports += stored.1.len();
    }
    assert_eq!(
        (addresses, ports),
        (20 + 13, 40),
        "7 of 20 are SingleStack; two ports share a number"
    );
    for (resource, before, count) in [("clusterips", before[0], addresses), ("nodeports", before[1], ports)] {
        let all = |stored: f64| stored - before >= count as f64;
        governed
            .svcplane
            .wait_metric("svcplane_allocation_stored_total", &[("resource", resource)], SOON, all)
            .await
            .unwrap();
    }
}

/// allocation.md 2.5 and 5.4.
#[tokio::test]
async fn the_ladder_of_types_is_climbed_with_the_webhook_on() {
    let namespace = namespace().await;
    let first = create(&namespace, &cluster_ip("web")).await.accepted().unwrap();
    let (addresses, ports) = values(&first);
    assert_eq!((addresses.len(), ports.len()), (1, 0));
    let to = async |spec: Value| {
        values(
            &patch(&namespace, "web", &json!({"spec": spec}))
                .await
                .accepted()
                .unwrap(),
        )
    };
    let node = to(json!({"type": "NodePort"})).await;
    assert_eq!((&node.0, node.1.len()), (&addresses, 1));
    let balanced = to(json!({"type": "LoadBalancer"})).await;
    assert_eq!(balanced, node, "both stay");
    let dual = to(json!({"ipFamilyPolicy": "RequireDualStack"})).await;
    assert_eq!((&dual.0[..1], dual.0.len(), &dual.1), (&addresses[..], 2, &node.1));
    let single = to(json!({"ipFamilyPolicy": "SingleStack"})).await;
    assert_eq!(single, node);
    let plain = to(json!({"type": "ClusterIP"})).await;
    assert_eq!((plain.0, plain.1.len()), (addresses, 0));
    let external = to(json!({"type": "ExternalName", "externalName": "a.example"})).await;
    assert_eq!((external.0.len(), external.1.len()), (0, 0));
    let back = to(json!({"type": "NodePort", "externalName": null})).await;
    assert_eq!((back.0.len(), back.1.len()), (1, 1));
}

/// The last value of an enforced pool is given, the next Service is refused in words, and what is deleted is given again.
#[tokio::test]
async fn an_enforced_pool_is_filled_to_the_last_value() {
    let (governed, namespace) = (governed(), namespace().await);
    let selector = json!({"namespaces": [namespace.name()]});
    let spec = json!({"ranges": ["10.96.200.8/30"], "enforce": true, "selector": selector});
    pool(governed, &namespace, "ClusterIPPool", "quad", &spec).await;
    let mut all = Vec::new();
    for number in 0..4 {
        let stored = create(&namespace, &cluster_ip(&format!("s{number}")))
            .await
            .accepted()
            .unwrap();
        all.extend(values(&stored).0);
    }
    all.sort();
    assert_eq!(all, ["10.96.200.10", "10.96.200.11", "10.96.200.8", "10.96.200.9"]);
    let refused = create(&namespace, &cluster_ip("more")).await;
    assert_eq!(
        (refused.code.as_u16(), refused.fields()),
        (403, vec!["spec.clusterIPs"])
    );
    assert!(
        refused.message().contains("pool \"quad\"") && refused.message().contains("no value is free"),
        "{}",
        refused.message()
    );
    delete(&namespace, "s2").await;
    let end = tokio::time::Instant::now() + SOON;
    let again = loop {
        let said = create(&namespace, &cluster_ip("more")).await;
        if said.code.is_success() {
            break values(&said.body).0;
        }
        assert!(tokio::time::Instant::now() < end, "{}", said.message());
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    assert!(all.contains(&again[0]), "{again:?}");
}

#[tokio::test]
async fn a_value_of_somebody_elses_pool_is_refused() {
    let (governed, namespace, other) = (governed(), namespace().await, namespace().await);
    let selector = json!({"namespaces": [namespace.name()]});
    let reserved = json!([{"value": "30077", "service": format!("{}/kept", namespace.name())}]);
    let spec = json!({"ranges": ["30070-30079"], "enforce": true, "selector": selector, "reservations": reserved});
    pool(governed, &namespace, "NodePortPool", "seventies", &spec).await;
    let with = |name: &str, port: u16| {
        let mut service = node_port(name);
        service["spec"]["ports"][0]["nodePort"] = json!(port);
        service
    };
    let fenced = create(&other, &with("web", 30_071)).await;
    assert_eq!(
        (fenced.code.as_u16(), fenced.fields()),
        (403, vec!["spec.ports[0].nodePort"])
    );
    assert!(fenced.message().contains("\"seventies\""), "{}", fenced.message());
    // A namespace that is new to a replica has the benefit of the doubt for 2 s.
    let (mut number, end) = (30_020, tokio::time::Instant::now() + SOON);
    let outside = loop {
        let said = create(&namespace, &with(&format!("early-{number}"), number)).await;
        if !said.code.is_success() {
            break said;
        }
        let is_let_go = said.warnings.iter().any(|text| text.contains("let go"));
        assert!(is_let_go && tokio::time::Instant::now() < end, "{:?}", said.warnings);
        number += 1;
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    assert!(
        outside.message().contains("must be from pool \"seventies\""),
        "{}",
        outside.message()
    );
    let reserved = create(&namespace, &with("web", 30_077)).await;
    assert!(
        reserved.message().contains("is reserved for Service"),
        "{}",
        reserved.message()
    );
    let own = create(&namespace, &node_port("kept")).await.accepted().unwrap();
    assert!(values(&own).1.contains(&30_077), "{own}");
    let chosen = create(&namespace, &with("mine", 30_072)).await.accepted().unwrap();
    assert!(values(&chosen).1.contains(&30_072), "{chosen}");
}

/// The apiserver refuses; the Warning says who has it and what is free.
#[tokio::test]
async fn a_value_that_is_taken_is_refused_by_the_apiserver_and_explained_by_us() {
    let namespace = namespace().await;
    let stored = create(&namespace, &node_port("first")).await.accepted().unwrap();
    let (addresses, ports) = values(&stored);
    let mut second = node_port("second");
    second["spec"]["clusterIP"] = json!(addresses[0]);
    second["spec"]["ports"][0]["nodePort"] = json!(ports.first());
    let end = tokio::time::Instant::now() + SOON;
    loop {
        let said = create(&namespace, &second).await;
        assert_eq!(said.code.as_u16(), 422, "{}", said.message());
        let owner = format!("taken by Service {}/first", namespace.name());
        if said
            .warnings
            .iter()
            .filter(|text| text.contains(&owner) && text.contains("free near it"))
            .count()
            == 2
        {
            break;
        }
        // The watch may not have shown the first one yet.
        assert!(tokio::time::Instant::now() < end, "{:?}", said.warnings);
    }
    let mut outside = cluster_ip("outside");
    outside["spec"]["clusterIP"] = json!("192.0.2.7");
    let said = create(&namespace, &outside).await;
    assert_eq!(said.code.as_u16(), 422);
    assert!(
        said.warnings.iter().any(|text| text.contains("10.96.0.0/16")),
        "{:?}",
        said.warnings
    );
}

#[tokio::test]
async fn a_dry_run_succeeds_and_stores_nothing() {
    let namespace = namespace().await;
    let mut service = node_port("web");
    service["spec"]["ipFamilyPolicy"] = json!("RequireDualStack");
    service["spec"]["ports"] = json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}]);
    for _ in 0..3 {
        let (addresses, ports) = values(&post(&namespace, &service, "?dryRun=All").await.accepted().unwrap());
        assert_eq!((addresses.len(), ports.len()), (2, 2));
    }
    let path = format!("/api/v1/namespaces/{}/services/web", namespace.name());
    assert_eq!(
        send(&namespace.client(), "GET", &path, None)
            .await
            .unwrap()
            .code
            .as_u16(),
        404
    );
}

/// By the schema (types, patterns, CEL) where it can, by the webhook where it cannot.
#[tokio::test]
async fn a_bad_pool_is_refused_with_its_field() {
    let governed = governed();
    let table = [
        ("ClusterIPPool", json!({"ranges": []}), "spec.ranges"),
        ("ClusterIPPool", json!({"ranges": ["10.96.0.0/33"]}), "spec.ranges"),
        (
            "ClusterIPPool",
            json!({"ranges": ["10.96.0.9-10.96.0.7"]}),
            "spec.ranges[0]",
        ),
        (
            "ClusterIPPool",
            json!({"ranges": ["10.96.0.0/28"], "excluded": ["10.96.0.300"]}),
            "each of spec.excluded must be a CIDR, an address, or FIRST-LAST",
        ),
        (
            "ClusterIPPool",
            json!({"ranges": ["10.96.0.0/28"], "reuseDelay": "soon"}),
            "spec.reuseDelay must be a duration of at most 168h",
        ),
        (
            "ClusterIPPool",
            json!({"ranges": ["10.96.0.0/28"], "reuseDelay": "400h"}),
            "spec.reuseDelay must be a duration of at most 168h",
        ),
        (
            "ClusterIPPool",
            json!({"ranges": ["10.96.0.0/28"], "mode": "Paused"}),
            "spec.mode",
        ),
        (
            "ClusterIPPool",
            json!({"ranges": ["10.96.0.0/28"], "reservations": [{"value": "10.97.0.1", "service": "a/b"}]}),
            "spec.reservations[0].value",
        ),
        (
            "ClusterIPPool",
            json!({"ranges": ["10.96.0.0/28"], "selector": {"serviceSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}}),
            "spec.selector.serviceSelector",
        ),
        (
            "ClusterIPPool",
            json!({"ranges": ["10.96.0.0/28"], "selector": {"namespaces": ["shop", "Bank"]}}),
            "spec.selector.namespaces[1]",
        ),
        (
            "ClusterIPPool",
            json!({"ranges": ["10.96.0.0/28"], "selector": {"namespaceSelector": {"matchLabels": {"te am": "x"}}}}),
            "spec.selector.namespaceSelector.matchLabels",
        ),
        (
            "NodePortPool",
            json!({"ranges": ["30100-30199"], "excluded": ["http"]}),
            "each of spec.excluded must be a port or FIRST-LAST",
        ),
        ("NodePortPool", json!({"ranges": ["30000-99999"]}), "spec.ranges[0]"),
        ("NodePortPool", json!({"ranges": ["http"]}), "spec.ranges"),
        (
            "NodePortPool",
            json!({"ranges": ["30100"], "reservations": [{"value": "30100", "service": "shop"}]}),
            "spec.reservations[0].service",
        ),
    ];
    for (kind, spec, field) in table {
        let said = try_pool(governed, kind, "bad", &spec).await;
        assert!(said.code.is_client_error(), "{spec}: {}", said.code);
        assert!(said.message().contains(field), "{spec}: {}", said.message());
    }
}

/// It may be made before its ServiceCIDR, or with the range of an apiserver that is about to be restarted: a Warning, and its status.
#[tokio::test]
async fn a_pool_with_values_of_no_range_is_taken_with_a_warning() {
    let governed = governed();
    let table = [
        (
            "ClusterIPPool",
            "10.95.255.0-10.96.0.7",
            Some("10.95.255.0-10.95.255.255"),
        ),
        ("ClusterIPPool", "10.96.0.0/28", None),
        ("NodePortPool", "32760-39000", Some("32768-39000")),
        ("NodePortPool", "32760-32767", None),
    ];
    for (number, (kind, range, outside)) in table.into_iter().enumerate() {
        let spec = |mode: &str| json!({"ranges": [range], "selector": {"namespaces": []}, "mode": mode});
        let said = try_pool(governed, kind, &format!("far{number}"), &spec("Active")).await;
        let words =
            |values| format!("spec.ranges: {values} lies in no range of the cluster that is ready, so it is not given");
        let warnings: Vec<String> = outside.map(words).into_iter().collect();
        assert_eq!((said.code.as_u16(), &said.warnings), (201, &warnings), "{kind} {range}");
        let said = try_pool(governed, kind, &format!("off{number}"), &spec("Disabled")).await;
        assert_eq!(
            (said.code.as_u16(), &said.warnings),
            (201, &Vec::new()),
            "{kind} {range}"
        );
    }
}

/// The README's table, and the page of a replica that serves the webhook.
#[tokio::test]
async fn the_readme_lists_the_metrics_of_the_webhook() {
    const README: &str = include_str!("../../README.md");
    let section = README
        .split("### Webhook metrics")
        .nth(1)
        .expect("a section on the webhook's metrics");
    let rows = section.lines().skip_while(|line| !line.starts_with("| ---")).skip(1);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let written: BTreeSet<&str> = rows.filter_map(|row| row.split('`').nth(1)).collect();
    let page = governed().svcplane.metrics().await.unwrap();
    let ours = ["svcplane_admission_", "svcplane_allocat", "svcplane_webhook_"];
    let is_ours = |name: &&str| ours.iter().any(|prefix| name.starts_with(prefix));
    let shown = page.names().into_iter().filter(is_ours);
    let family = |name: &str| {
        let parts = ["_bucket", "_sum", "_count"].into_iter();
        parts.fold(name.to_owned(), |name, part| name.trim_end_matches(part).to_owned())
    };
    let shown: BTreeSet<String> = shown.map(family).collect();
    // The first appears with the first request that is no review, the others where the certificate is self-managed.
    let later = [
        "svcplane_admission_refused_requests_total",
        "svcplane_webhook_certificate_steps_total",
        "svcplane_webhook_ca_published",
    ];
    let shown: BTreeSet<&str> = shown.iter().map(String::as_str).chain(later).collect();
    assert_eq!(shown, written);
}

/// The leader keeps the numbers and conditions of a pool.
#[tokio::test]
async fn the_status_of_a_pool_follows_what_is_stored() {
    let (governed, namespace) = (governed(), namespace().await);
    let pools: Api<NodePortPool> = Api::all(governed.client());
    let selector = json!({"namespaces": [namespace.name()]});
    let spec = json!({"ranges": ["30060-30062", "40000"], "selector": selector,
        "reservations": [{"value": "30062", "service": format!("{}/kept", namespace.name())}]});
    pool(governed, &namespace, "NodePortPool", "eighties", &spec).await;
    let becomes = async |numbers: [i64; 4], conditions: &[&str]| {
        eventually_one(
            "a true status",
            SOON,
            &pools,
            "eighties",
            |pool: Option<&NodePortPool>| {
                let status = pool.and_then(|pool| pool.status.clone()).unwrap_or_default();
                let ports = status.ports.unwrap_or_default();
                let words: Vec<String> = status
                    .conditions
                    .iter()
                    .map(|it| format!("{}={}", it.type_, it.reason))
                    .collect();
                if [ports.total, ports.used, ports.reserved, ports.available] == numbers && words == conditions {
                    Ok(())
                } else {
                    Err(format!("{ports:?} {words:?}"))
                }
            },
        )
        .await
        .unwrap();
    };
    becomes(
        [3, 0, 1, 2],
        &["Ready=OutsideRange", "Conflict=NoOverlap", "Exhausted=Available"],
    )
    .await;
    for name in ["a", "b"] {
        create(&namespace, &node_port(name)).await.accepted().unwrap();
    }
    becomes(
        [3, 2, 1, 0],
        &["Ready=OutsideRange", "Conflict=NoOverlap", "Exhausted=NoneAvailable"],
    )
    .await;
    delete(&namespace, "a").await;
    becomes(
        [3, 1, 1, 1],
        &["Ready=OutsideRange", "Conflict=NoOverlap", "Exhausted=Available"],
    )
    .await;
}

/// The webhook is away: the apiserver allocates. A later start adopts what is there, and moves nothing.
#[tokio::test]
async fn without_the_webhook_the_apiserver_allocates_and_a_later_start_adopts() {
    let cluster = Cluster::start(Flavour::Ipv4Only).await.unwrap();
    let governed = Governed::start(cluster).await.unwrap();
    let namespace = TestNamespace::create(&governed.cluster).await.unwrap();
    let ours = values(&create(&namespace, &node_port("ours")).await.accepted().unwrap());
    governed.svcplane.terminate().await.unwrap();
    let theirs = values(&create(&namespace, &node_port("theirs")).await.accepted().unwrap());
    assert_eq!((theirs.0.len(), theirs.1.len()), (1, 1));
    let again = governed.restart().await.unwrap();
    let used = |range: &str| [("range", range.to_owned()), ("state", "used".to_owned())];
    for (range, count) in [("10.96.0.0/16", 3.0), ("30000-32767", 2.0)] {
        let labels = used(range);
        let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
        // The third address is that of default/kubernetes.
        again
            .wait_metric("svcplane_allocator_values", &labels, SOON, |used| used == count)
            .await
            .unwrap();
    }
    for (name, before) in [("ours", ours), ("theirs", theirs)] {
        let path = format!("/api/v1/namespaces/{}/services/{name}", namespace.name());
        let now = send(&namespace.client(), "GET", &path, None)
            .await
            .unwrap()
            .accepted()
            .unwrap();
        assert_eq!(values(&now), before, "{name}");
    }
}
