//! Which Pods the Endpoints of a Service list, in which state, and what is said about each.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Binding, Endpoints, Node, ObjectReference, Pod};
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use serde_json::{Value, json};
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{PodBuilder, create_pods, pod, service};

const GRACE: Duration = Duration::from_secs(600);

fn web(name: &str, ip: &str) -> PodBuilder {
    pod(name).label("app", "web").ip(ip)
}

async fn without_ready_condition(namespace: &TestNamespace, name: &str, ip: &str) {
    pod(name).label("app", "web").create(namespace).await.unwrap();
    let status = json!({ "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }] });
    namespace.patch_pod_status(name, status).await.unwrap();
}

/// Listed as ready (+), as not ready (!) or not at all (-): by a Service, and by one that publishes not-ready addresses.
#[tokio::test]
async fn phase_readiness_and_deletion_decide() {
    let namespace = TestNamespace::served().await.unwrap();
    let mut host_network = web("host-network", "10.1.0.15").build();
    host_network.spec.as_mut().unwrap().host_network = Some(true);
    let table = [
        ("ready", "10.1.0.10", '+', '+', web("ready", "10.1.0.10")),
        (
            "not-ready",
            "10.1.0.11",
            '!',
            '+',
            web("not-ready", "10.1.0.11").ready(false),
        ),
        (
            "ready-unknown",
            "10.1.0.12",
            '!',
            '+',
            web("ready-unknown", "10.1.0.12"),
        ),
        (
            "pending",
            "10.1.0.13",
            '+',
            '+',
            web("pending", "10.1.0.13").phase("Pending"),
        ),
        (
            "phase-unknown",
            "10.1.0.14",
            '+',
            '+',
            web("phase-unknown", "10.1.0.14").phase("Unknown"),
        ),
        (
            "job",
            "10.1.0.16",
            '+',
            '+',
            web("job", "10.1.0.16").restart_policy("Never"),
        ),
        (
            "on-failure",
            "10.1.0.17",
            '!',
            '+',
            web("on-failure", "10.1.0.17").restart_policy("OnFailure").ready(false),
        ),
        (
            "failed-but-ready",
            "10.1.0.18",
            '-',
            '-',
            web("failed-but-ready", "10.1.0.18").phase("Failed"),
        ),
        (
            "succeeded-but-ready",
            "10.1.0.19",
            '-',
            '-',
            web("succeeded-but-ready", "10.1.0.19").phase("Succeeded"),
        ),
        (
            "job-failed",
            "10.1.0.20",
            '-',
            '-',
            web("job-failed", "10.1.0.20")
                .phase("Failed")
                .restart_policy("Never")
                .ready(false),
        ),
        (
            "job-done",
            "10.1.0.21",
            '-',
            '-',
            web("job-done", "10.1.0.21")
                .phase("Succeeded")
                .restart_policy("OnFailure")
                .ready(false),
        ),
        ("no-node", "10.1.0.22", '-', '-', web("no-node", "10.1.0.22").node("")),
        ("terminating", "10.1.0.23", '-', '+', web("terminating", "10.1.0.23")),
        (
            "terminating-not-ready",
            "10.1.0.24",
            '-',
            '+',
            web("terminating-not-ready", "10.1.0.24").ready(false),
        ),
        (
            "terminating-done",
            "10.1.0.25",
            '-',
            '-',
            web("terminating-done", "10.1.0.25").phase("Succeeded"),
        ),
        (
            "other-label",
            "10.1.0.26",
            '-',
            '-',
            pod("other-label").label("app", "other").ip("10.1.0.26"),
        ),
        ("no-label", "10.1.0.27", '-', '-', pod("no-label").ip("10.1.0.27")),
        ("no-address", "", '-', '-', pod("no-address").label("app", "web")),
    ];
    for (.., builder) in table.clone() {
        builder.create(&namespace).await.unwrap();
    }
    let unknown = json!({ "conditions": [{ "type": "Ready", "status": "Unknown" }] });
    namespace.patch_pod_status("ready-unknown", unknown).await.unwrap();
    without_ready_condition(&namespace, "no-condition", "10.1.0.28").await;
    namespace
        .pods()
        .create(&PostParams::default(), &host_network)
        .await
        .unwrap();
    let status = json!({ "phase": "Running", "podIP": "10.1.0.15", "podIPs": [{ "ip": "10.1.0.15" }],
        "conditions": [{ "type": "Ready", "status": "True" }] });
    namespace.patch_pod_status("host-network", status).await.unwrap();
    for (name, ..) in table.iter().filter(|row| row.0.starts_with("terminating")) {
        namespace.delete_pod(name, GRACE).await.unwrap();
    }

    let line = |column: fn(&(&str, &str, char, char, PodBuilder)) -> char, unready: &str| {
        let mut states = BTreeMap::from([("10.1.0.15", '+')]);
        states.extend(table.iter().map(|row| (row.1, column(row))));
        let ready = states
            .iter()
            .filter(|(_, state)| **state == '+')
            .map(|(ip, _)| (*ip).to_owned());
        let mut words: Vec<String> = ready.collect();
        if unready.is_empty() {
            words.push("10.1.0.28".into());
        }
        words.extend(
            states
                .iter()
                .filter(|(_, state)| **state == '!')
                .map(|(ip, _)| format!("!{ip}")),
        );
        format!("{}{unready} -> :80/TCP", words.join(" "))
    };
    let plain = line(|row| row.2, " !10.1.0.28");
    let published = line(|row| row.3, "");
    service("web")
        .selector("app", "web")
        .port("", 80, 80)
        .create(&namespace)
        .await
        .unwrap();
    let all = service("all").selector("app", "web").port("", 80, 80);
    all.publish_not_ready_addresses().create(&namespace).await.unwrap();
    namespace.endpoints_become("web", &[&plain]).await.unwrap();
    namespace.endpoints_become("all", &[&published]).await.unwrap();
    assert_eq!(
        (plain.matches("10.1.0.").count(), published.matches("10.1.0.").count()),
        (9, 11)
    );
}

#[tokio::test]
async fn finished_pods_of_a_job_list_nothing_and_their_address_may_be_used_again() {
    let namespace = TestNamespace::served().await.unwrap();
    let finished = |number: usize| {
        let phase = if number.is_multiple_of(3) {
            "Succeeded"
        } else {
            "Failed"
        };
        // Ready is left over; the first address is in use again by another Pod of the Service, and elsewhere.
        let ip = format!("10.2.{}.{}", number / 250, number % 250);
        web(&format!("job-{number}"), &ip).phase(phase).restart_policy("Never")
    };
    create_pods((0..300).map(finished), &namespace).await.unwrap();
    service("curlew")
        .selector("app", "web")
        .port("", 80, 80)
        .create(&namespace)
        .await
        .unwrap();
    let published = service("snipe").selector("app", "web").port("", 80, 80);
    published
        .publish_not_ready_addresses()
        .create(&namespace)
        .await
        .unwrap();
    for name in ["curlew", "snipe"] {
        namespace.endpoints_become(name, &[]).await.unwrap();
    }
    namespace.caught_up().await.unwrap();
    web("successor", "10.2.0.0").create(&namespace).await.unwrap();
    for name in ["curlew", "snipe"] {
        let endpoints = namespace
            .endpoints_become(name, &["10.2.0.0 -> :80/TCP"])
            .await
            .unwrap();
        assert_eq!(targets(&endpoints), ["successor"]);
    }
}

#[tokio::test]
async fn a_pod_that_fails_leaves_even_if_it_stays_ready() {
    let namespace = TestNamespace::served().await.unwrap();
    web("a", "10.3.0.1").create(&namespace).await.unwrap();
    web("b", "10.3.0.2").create(&namespace).await.unwrap();
    service("web")
        .selector("app", "web")
        .port("", 80, 80)
        .create(&namespace)
        .await
        .unwrap();
    namespace
        .endpoints_become("web", &["10.3.0.1 10.3.0.2 -> :80/TCP"])
        .await
        .unwrap();
    namespace
        .patch_pod_status("a", json!({ "phase": "Failed" }))
        .await
        .unwrap();
    namespace
        .endpoints_become("web", &["10.3.0.2 -> :80/TCP"])
        .await
        .unwrap();
}

#[tokio::test]
async fn a_terminating_pod_leaves_unless_not_ready_addresses_are_published() {
    let namespace = TestNamespace::served().await.unwrap();
    web("stint-1", "10.4.0.1").create(&namespace).await.unwrap();
    service("stint")
        .selector("app", "web")
        .port("", 80, 80)
        .create(&namespace)
        .await
        .unwrap();
    namespace
        .endpoints_become("stint", &["10.4.0.1 -> :80/TCP"])
        .await
        .unwrap();
    namespace.delete_pod("stint-1", GRACE).await.unwrap();
    namespace.endpoints_become("stint", &[]).await.unwrap();
    for (publish, subsets) in [
        (true, &["10.4.0.1 -> :80/TCP"] as &[&str]),
        (false, &[]),
        (true, &["10.4.0.1 -> :80/TCP"]),
    ] {
        let patch = json!({ "spec": { "publishNotReadyAddresses": publish } });
        namespace.patch_service("stint", &patch).await.unwrap();
        namespace.endpoints_become("stint", subsets).await.unwrap();
    }
    namespace.set_pod_ready("stint-1", false).await.unwrap();
    namespace.caught_up().await.unwrap();
    namespace
        .endpoints_become("stint", &["10.4.0.1 -> :80/TCP"])
        .await
        .unwrap();
    namespace.delete_pod("stint-1", Duration::ZERO).await.unwrap();
    namespace.endpoints_become("stint", &[]).await.unwrap();
}

/// The reference sends `nodeName: ""`, which the apiserver refuses, and the whole object freezes.
#[tokio::test]
async fn a_pod_without_a_node_does_not_hold_up_the_others() {
    let namespace = TestNamespace::served().await.unwrap();
    web("floating", "10.5.0.1").node("").create(&namespace).await.unwrap();
    web("a", "10.5.0.2").create(&namespace).await.unwrap();
    let published = service("web").selector("app", "web").port("", 80, 80);
    published
        .publish_not_ready_addresses()
        .create(&namespace)
        .await
        .unwrap();
    namespace
        .endpoints_become("web", &["10.5.0.2 -> :80/TCP"])
        .await
        .unwrap();
    web("b", "10.5.0.3").create(&namespace).await.unwrap();
    namespace
        .endpoints_become("web", &["10.5.0.2 10.5.0.3 -> :80/TCP"])
        .await
        .unwrap();
    let binding = Binding {
        metadata: ObjectMeta {
            name: Some("floating".into()),
            ..ObjectMeta::default()
        },
        target: ObjectReference {
            kind: Some("Node".into()),
            name: Some("n9".into()),
            ..ObjectReference::default()
        },
    };
    let bound: Value = namespace
        .pods()
        .create_subresource("binding", "floating", &PostParams::default(), &binding)
        .await
        .unwrap();
    assert_eq!(bound["status"], "Success");
    let endpoints = namespace
        .endpoints_become("web", &["10.5.0.1 10.5.0.2 10.5.0.3 -> :80/TCP"])
        .await
        .unwrap();
    assert_eq!(addresses(&endpoints)[0]["nodeName"], "n9");
}

#[tokio::test]
async fn nodes_are_not_looked_at() {
    let namespace = TestNamespace::served().await.unwrap();
    let nodes = namespace.cluster_wide::<Node>();
    for number in 1..=3 {
        let (name, ip) = (format!("{}-n{number}", namespace.name()), format!("10.6.0.{number}"));
        let metadata = ObjectMeta {
            name: Some(name.clone()),
            ..ObjectMeta::default()
        };
        let node = Node {
            metadata,
            ..Node::default()
        };
        nodes.create(&PostParams::default(), &node).await.unwrap();
        web(&format!("godwit-{number}"), &ip)
            .node(&name)
            .create(&namespace)
            .await
            .unwrap();
    }
    service("godwit")
        .selector("app", "web")
        .port("", 80, 80)
        .create(&namespace)
        .await
        .unwrap();
    namespace
        .endpoints_become("godwit", &["10.6.0.1 10.6.0.2 10.6.0.3 -> :80/TCP"])
        .await
        .unwrap();
    let gone = format!("{}-n3", namespace.name());
    nodes.delete(&gone, &DeleteParams::default()).await.unwrap();
    namespace.set_pod_ready("godwit-1", false).await.unwrap();
    namespace
        .endpoints_become("godwit", &["10.6.0.2 10.6.0.3 !10.6.0.1 -> :80/TCP"])
        .await
        .unwrap();
}

/// As with host networking: an address belongs to a Pod, not to a number.
#[tokio::test]
async fn pods_may_share_an_address() {
    let namespace = TestNamespace::served().await.unwrap();
    for (name, ready) in [("a", true), ("b", true), ("c", false)] {
        web(name, "10.8.0.1").ready(ready).create(&namespace).await.unwrap();
    }
    let service = service("web").selector("app", "web").port("", 80, 80);
    service.create(&namespace).await.unwrap();
    let line = ["10.8.0.1 10.8.0.1 !10.8.0.1 -> :80/TCP"];
    let endpoints = namespace.endpoints_become("web", &line).await.unwrap();
    let mut names = targets(&endpoints);
    assert_eq!(names.pop().as_deref(), Some("c"));
    names.sort_unstable();
    assert_eq!(names, ["a", "b"]);
    namespace.delete_pod("a", Duration::ZERO).await.unwrap();
    namespace
        .endpoints_become("web", &["10.8.0.1 !10.8.0.1 -> :80/TCP"])
        .await
        .unwrap();
}

#[tokio::test]
async fn an_address_names_its_pod_its_node_and_perhaps_a_hostname() {
    let namespace = TestNamespace::served().await.unwrap();
    let table = [
        ("named", web("named", "10.7.0.1").hostname("a", "web"), Some("a")),
        ("elsewhere", web("elsewhere", "10.7.0.2").hostname("b", "other"), None),
        ("no-subdomain", web("no-subdomain", "10.7.0.3").hostname("c", ""), None),
        ("no-hostname", web("no-hostname", "10.7.0.4").hostname("", "web"), None),
        ("plain", web("plain", "10.7.0.5").node("node-2").ready(false), None),
    ];
    let mut pods: Vec<Pod> = Vec::new();
    for (_, builder, _) in table.clone() {
        pods.push(builder.create(&namespace).await.unwrap());
    }
    service("web")
        .headless()
        .selector("app", "web")
        .port("", 80, 80)
        .create(&namespace)
        .await
        .unwrap();
    let line = "10.7.0.1(a) 10.7.0.2 10.7.0.3 10.7.0.4 !10.7.0.5 -> :80/TCP";
    let endpoints = namespace.endpoints_become("web", &[line]).await.unwrap();
    let expected: Vec<Value> = table
        .iter()
        .zip(&pods)
        .enumerate()
        .map(|(index, ((name, _, hostname), pod))| {
            let node = if *name == "plain" { "node-2" } else { "node-1" };
            let target = json!({ "kind": "Pod", "namespace": namespace.name(), "name": name, "uid": pod.metadata.uid });
            let mut address = json!({ "ip": format!("10.7.0.{}", index + 1), "nodeName": node, "targetRef": target });
            if let Some(hostname) = hostname {
                address["hostname"] = json!(hostname);
            }
            address
        })
        .collect();
    assert_eq!(addresses(&endpoints), expected);
}

/// Ready addresses, then the others.
fn addresses(endpoints: &Endpoints) -> Vec<Value> {
    let subsets = endpoints.subsets.iter().flatten();
    let both = subsets.flat_map(|subset| [&subset.addresses, &subset.not_ready_addresses]);
    both.flatten()
        .flatten()
        .map(|address| serde_json::to_value(address).unwrap())
        .collect()
}

fn targets(endpoints: &Endpoints) -> Vec<String> {
    let names = addresses(endpoints).into_iter();
    names
        .map(|address| address["targetRef"]["name"].as_str().unwrap_or_default().to_owned())
        .collect()
}
