//! Endpoints follow their Pods: labels, addresses, readiness, replacement, and many changes at once.

use std::time::Duration;

use futures::future::try_join_all;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{create_pods, pod, service};

async fn label(namespace: &TestNamespace, pod: &str, labels: Value) {
    let patch = Patch::Merge(json!({ "metadata": { "labels": labels } }));
    namespace
        .pods()
        .patch(pod, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// Replaces all addresses: the default merge would add.
async fn set_addresses(namespace: &TestNamespace, pod: &str, ips: &[&str]) {
    let mut list = vec![json!({ "$patch": "replace" })];
    list.extend(ips.iter().map(|ip| json!({ "ip": ip })));
    let status = json!({ "podIP": ips.first(), "podIPs": list });
    namespace.patch_pod_status(pod, status).await.unwrap();
}

async fn two_services(namespace: &TestNamespace) {
    for name in ["red", "blue"] {
        let service = service(name).selector("color", name).selector("app", "web");
        service.port("", 80, 80).create(namespace).await.unwrap();
    }
}

#[tokio::test]
async fn a_pod_goes_where_its_labels_say() {
    let namespace = TestNamespace::served().await.unwrap();
    two_services(&namespace).await;
    service("any")
        .selector("app", "web")
        .port("", 80, 80)
        .create(&namespace)
        .await
        .unwrap();
    let one = pod("one").label("app", "web").ip("10.1.0.1");
    one.create(&namespace).await.unwrap();
    let here = "10.1.0.1 -> :80/TCP";
    let table: [(Value, [&[&str]; 3]); 6] = [
        (json!({ "x": "y" }), [&[], &[], &[here]]),
        (json!({ "color": "red" }), [&[here], &[], &[here]]),
        (json!({ "color": "blue" }), [&[], &[here], &[here]]),
        (json!({ "color": "green", "x": null }), [&[], &[], &[here]]),
        (json!({ "color": "red", "app": "other" }), [&[], &[], &[]]),
        (json!({ "app": "web" }), [&[here], &[], &[here]]),
    ];
    for (labels, expected) in table {
        label(&namespace, "one", labels).await;
        for (name, subsets) in ["red", "blue", "any"].iter().zip(expected) {
            namespace.endpoints_become(name, subsets).await.unwrap();
        }
    }
}

/// Both at once: the Services of the old and of the new labels are affected.
#[tokio::test]
async fn a_pod_whose_labels_and_readiness_change_between_two_looks() {
    let namespace = TestNamespace::served().await.unwrap();
    two_services(&namespace).await;
    for number in 1..=4 {
        let one = pod(&format!("p{number}")).label("app", "web").label("color", "red");
        one.ip(&format!("10.2.0.{number}")).create(&namespace).await.unwrap();
    }
    namespace
        .endpoints_become("red", &["10.2.0.1 10.2.0.2 10.2.0.3 10.2.0.4 -> :80/TCP"])
        .await
        .unwrap();
    label(&namespace, "p1", json!({ "color": "blue" })).await;
    namespace.set_pod_ready("p1", false).await.unwrap();
    namespace.set_pod_ready("p2", false).await.unwrap();
    label(&namespace, "p2", json!({ "color": "blue" })).await;
    namespace.delete_pod("p3", Duration::ZERO).await.unwrap();
    namespace
        .endpoints_become("red", &["10.2.0.4 -> :80/TCP"])
        .await
        .unwrap();
    namespace
        .endpoints_become("blue", &["!10.2.0.1 !10.2.0.2 -> :80/TCP"])
        .await
        .unwrap();
}

#[tokio::test]
async fn addresses_come_change_and_go() {
    let namespace = TestNamespace::served().await.unwrap();
    let service = service("web").selector("app", "web").port("", 80, 80);
    service.create(&namespace).await.unwrap();
    pod("one").label("app", "web").create(&namespace).await.unwrap();
    namespace.endpoints_become("web", &[]).await.unwrap();
    for (ips, subsets) in [
        (&["10.3.0.1"] as &[&str], &["!10.3.0.1 -> :80/TCP"] as &[&str]),
        (&["10.3.0.2"], &["!10.3.0.2 -> :80/TCP"]),
        (&["fd00::1"], &[]),
        (&["fd00::1", "10.3.0.3"], &["!10.3.0.3 -> :80/TCP"]),
        (&["10.3.0.4", "fd00::1"], &["!10.3.0.4 -> :80/TCP"]),
    ] {
        set_addresses(&namespace, "one", ips).await;
        namespace.endpoints_become("web", subsets).await.unwrap();
    }
}

#[tokio::test]
async fn readiness_flips_are_followed() {
    let namespace = TestNamespace::served().await.unwrap();
    for number in 1..=2 {
        let one = pod(&format!("p{number}"))
            .label("app", "web")
            .ip(&format!("10.4.0.{number}"));
        one.create(&namespace).await.unwrap();
    }
    let service = service("web").selector("app", "web").port("", 80, 80);
    service.create(&namespace).await.unwrap();
    let line = |one: bool, two: bool| match (one, two) {
        (true, true) => "10.4.0.1 10.4.0.2 -> :80/TCP",
        (true, false) => "10.4.0.1 !10.4.0.2 -> :80/TCP",
        (false, true) => "10.4.0.2 !10.4.0.1 -> :80/TCP",
        (false, false) => "!10.4.0.1 !10.4.0.2 -> :80/TCP",
    };
    namespace.endpoints_become("web", &[line(true, true)]).await.unwrap();
    for round in 0..4_u8 {
        let (one, two) = (round & 1 == 1, round & 2 == 2);
        namespace.set_pod_ready("p1", one).await.unwrap();
        namespace.set_pod_ready("p2", two).await.unwrap();
        namespace.endpoints_become("web", &[line(one, two)]).await.unwrap();
    }
    // Flips that come faster than writes: what counts is the last.
    for ready in [false, true, false, true, false] {
        namespace.set_pod_ready("p1", ready).await.unwrap();
    }
    namespace.endpoints_become("web", &[line(false, true)]).await.unwrap();
    namespace.caught_up().await.unwrap();
    namespace.endpoints_become("web", &[line(false, true)]).await.unwrap();
}

/// Addresses are replaced, never only added.
#[tokio::test]
async fn after_three_replacements_only_the_last_pods_are_listed() {
    let namespace = TestNamespace::served().await.unwrap();
    let service = service("teal").selector("app", "teal").port("", 80, 80);
    service.create(&namespace).await.unwrap();
    for round in 0..4 {
        for number in 1..=3 {
            if round > 0 {
                let old = format!("teal-{}-{number}", round - 1);
                namespace.delete_pod(&old, Duration::ZERO).await.unwrap();
            }
            let new = pod(&format!("teal-{round}-{number}")).label("app", "teal");
            new.ip(&format!("10.5.{round}.{number}"))
                .create(&namespace)
                .await
                .unwrap();
        }
    }
    let last = ["10.5.3.1 10.5.3.2 10.5.3.3 -> :80/TCP"];
    namespace.endpoints_become("teal", &last).await.unwrap();
    namespace.caught_up().await.unwrap();
    namespace.endpoints_become("teal", &last).await.unwrap();
}

#[tokio::test]
async fn a_pod_of_the_same_name_is_another_pod() {
    let namespace = TestNamespace::served().await.unwrap();
    let service = service("web").selector("app", "web").port("", 80, 80);
    service.create(&namespace).await.unwrap();
    let mut uids = Vec::new();
    for _ in 0..3 {
        let one = pod("web-0").label("app", "web").ip("10.6.0.1");
        let uid = one.create(&namespace).await.unwrap().metadata.uid.unwrap();
        // The same address all the time: only the uid tells.
        let expected = uid.clone();
        let what = "the uid of the Pod there is now";
        let fields = "metadata.name=web";
        svcplane_tests::eventually::eventually(
            what,
            Duration::from_secs(30),
            &namespace.endpoints(),
            fields,
            |found| {
                let text = serde_json::to_string(found).unwrap_or_default();
                text.contains(&expected).then_some(()).ok_or_else(|| expected.clone())
            },
        )
        .await
        .unwrap();
        uids.push(uid);
        namespace.delete_pod("web-0", Duration::ZERO).await.unwrap();
    }
    uids.dedup();
    assert_eq!(uids.len(), 3);
    namespace.endpoints_become("web", &[]).await.unwrap();
}

#[tokio::test]
async fn many_services_and_pods_change_at_once() {
    const SERVICES: usize = 20;
    const PODS: usize = 80;
    let namespace = TestNamespace::served().await.unwrap();
    for number in 0..SERVICES {
        let group = service(&format!("group-{number}")).selector("group", &number.to_string());
        group.port("", 80, 80).create(&namespace).await.unwrap();
    }
    let all = service("all").selector("app", "web").port("", 80, 80);
    all.create(&namespace).await.unwrap();
    let pods = (0..PODS).map(|number| {
        let one = pod(&format!("p{number}")).label("app", "web");
        one.label("group", &(number % SERVICES).to_string())
            .ip(&format!("10.7.0.{}", number + 100))
    });
    create_pods(pods, &namespace).await.unwrap();
    let names: Vec<String> = (0..PODS).map(|number| format!("p{number}")).collect();
    let even = names.iter().step_by(2);
    try_join_all(even.map(|name| namespace.set_pod_ready(name, false)))
        .await
        .unwrap();
    let moved = names.iter().skip(1).step_by(4);
    let blue = Patch::Merge(json!({ "metadata": { "labels": { "group": "0" } } }));
    let (pods, params) = (namespace.pods(), PatchParams::default());
    try_join_all(moved.map(|name| pods.patch(name, &params, &blue)))
        .await
        .unwrap();

    let line = |chosen: &dyn Fn(usize) -> bool| {
        let ready = (0..PODS).filter(|number| chosen(*number) && number % 2 == 1);
        let not_ready = (0..PODS).filter(|number| chosen(*number) && number % 2 == 0);
        let ready = ready.map(|number| format!("10.7.0.{}", number + 100));
        let words: Vec<String> = ready
            .chain(not_ready.map(|number| format!("!10.7.0.{}", number + 100)))
            .collect();
        words.join(" ") + " -> :80/TCP"
    };
    let group = |number: usize| if number % 4 == 1 { 0 } else { number % SERVICES };
    namespace.endpoints_become("all", &[&line(&|_| true)]).await.unwrap();
    for service in 0..SERVICES {
        let expected = line(&|number| group(number) == service);
        let expected: &[&str] = if expected.starts_with(" ->") { &[] } else { &[&expected] };
        namespace
            .endpoints_become(&format!("group-{service}"), expected)
            .await
            .unwrap();
    }
}
