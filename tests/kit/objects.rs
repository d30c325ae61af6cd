//! Objects are what they say, and waiting tells what it saw.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::json;
use svcplane_tests::cluster;
use svcplane_tests::eventually::{eventually, eventually_gone, eventually_one, never_changes, settled, stays};
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{self, pod, service};

const DEADLINE: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(300);

fn is_ready(pod: &Pod) -> Option<bool> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    Some(conditions.iter().find(|condition| condition.type_ == "Ready")?.status == "True")
}

#[tokio::test]
async fn a_pod_has_the_status_it_was_given() {
    let namespace = TestNamespace::create(cluster::shared()).await.unwrap();
    assert!(
        namespace.name().starts_with("a-pod-has-the-status"),
        "{}",
        namespace.name()
    );
    let plain = pod("plain").create(&namespace).await.unwrap();
    assert_eq!((is_ready(&plain), plain.status.unwrap().pod_ip), (None, None));

    let web = pod("web")
        .label("app", "web")
        .ip("10.0.0.1")
        .ip("fd00::1")
        .ready(false)
        .port("http", 8080)
        .hostname("a", "b");
    let web = web
        .init_port("proxy", true, "admin", 9000)
        .create(&namespace)
        .await
        .unwrap();
    assert_eq!(is_ready(&web), Some(false));
    let (spec, status) = (web.spec.unwrap(), web.status.unwrap());
    assert_eq!(
        (status.phase.as_deref(), status.pod_ip.as_deref()),
        (Some("Running"), Some("10.0.0.1"))
    );
    assert_eq!(
        status
            .pod_ips
            .unwrap()
            .iter()
            .map(|ip| ip.ip.as_str())
            .collect::<Vec<_>>(),
        ["10.0.0.1", "fd00::1"]
    );
    assert_eq!(
        (
            spec.node_name.as_deref(),
            spec.hostname.as_deref(),
            spec.subdomain.as_deref()
        ),
        (Some("node-1"), Some("a"), Some("b"))
    );
    assert_eq!(spec.containers[0].ports.as_ref().unwrap()[0].container_port, 8080);
    assert_eq!(
        spec.init_containers.unwrap()[0].restart_policy.as_deref(),
        Some("Always")
    );

    assert_eq!(
        is_ready(&namespace.set_pod_ready("web", true).await.unwrap()),
        Some(true)
    );
    let failed = namespace
        .patch_pod_status("web", json!({ "phase": "Failed" }))
        .await
        .unwrap();
    assert_eq!(
        (is_ready(&failed), failed.status.unwrap().phase.as_deref()),
        (Some(true), Some("Failed"))
    );
}

#[tokio::test]
async fn a_pod_on_a_node_terminates_and_one_without_goes_at_once() {
    let namespace = TestNamespace::create(cluster::shared()).await.unwrap();
    pod("bound").ip("10.0.0.1").create(&namespace).await.unwrap();
    pod("unbound").node("").create(&namespace).await.unwrap();
    namespace.delete_pod("bound", DEADLINE).await.unwrap();
    namespace.delete_pod("unbound", DEADLINE).await.unwrap();
    eventually_gone("unbound", DEADLINE, &namespace.pods(), "unbound")
        .await
        .unwrap();
    assert!(
        namespace
            .pods()
            .get("bound")
            .await
            .unwrap()
            .metadata
            .deletion_timestamp
            .is_some()
    );
    namespace.delete_pod("bound", Duration::ZERO).await.unwrap();
    eventually_gone("bound", DEADLINE, &namespace.pods(), "bound")
        .await
        .unwrap();
}

#[tokio::test]
async fn services_and_endpoints_are_accepted() {
    let namespace = TestNamespace::create(cluster::shared()).await.unwrap();
    let web = service("web")
        .selector("app", "web")
        .port("http", 80, "web")
        .port_with_protocol("UDP", "dns", 53, 5353);
    let web = web
        .label("a", "b")
        .annotation("c", "d")
        .publish_not_ready_addresses()
        .create(&namespace)
        .await
        .unwrap();
    let spec = web.spec.unwrap();
    assert_eq!(spec.selector.unwrap()["app"], "web");
    assert_eq!(spec.ports.unwrap().len(), 2);
    assert_eq!(spec.publish_not_ready_addresses, Some(true));
    let headless = service("headless").headless().create(&namespace).await.unwrap();
    assert_eq!(headless.spec.unwrap().cluster_ip.as_deref(), Some("None"));
    service("external")
        .external_name("example.com")
        .create(&namespace)
        .await
        .unwrap();
    let hand_made = objects::endpoints("web")
        .subset(&["192.0.2.1", "192.0.2.2"], &[("http", 80)])
        .label("a", "b");
    let hand_made = hand_made.create(&namespace).await.unwrap();
    assert_eq!(hand_made.subsets.unwrap()[0].addresses.as_ref().unwrap().len(), 2);
    let error = format!("{:#}", service("Not A Name").create(&namespace).await.unwrap_err());
    assert!(
        error.contains("creating Service Not A Name") && error.contains("metadata.name"),
        "{error}"
    );
}

#[tokio::test]
async fn eventually_sees_changes_and_tells_what_it_saw() {
    let namespace = TestNamespace::create(cluster::shared()).await.unwrap();
    let pods = namespace.pods();
    let later = async {
        pod("one").ip("10.0.0.1").ready(false).create(&namespace).await.unwrap();
        namespace.set_pod_ready("one", true).await.unwrap();
    };
    let ready = eventually_one("one is ready", DEADLINE, &pods, "one", |pod| match pod {
        Some(pod) if is_ready(pod) == Some(true) => Ok(pod.name_any()),
        _ => Err("not ready".into()),
    });
    assert_eq!(futures::join!(later, ready).1.unwrap(), "one");

    let error = eventually("two Pods", SHORT, &pods, "", |pods: &[Pod]| match pods.len() {
        2 => Ok(()),
        count => Err(format!("{count} Pods")),
    });
    let error = error.await.unwrap_err().to_string();
    assert!(
        error.contains("two Pods: not within 300ms: 1 Pods") && error.contains("\"podIP\":\"10.0.0.1\""),
        "{error}"
    );
    assert!(!error.contains("managedFields"), "{error}");
    let error = eventually_gone("one goes", SHORT, &pods, "one")
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("one is still there"), "{error}");
}

#[tokio::test]
async fn nothing_may_happen_means_nothing() {
    let namespace = TestNamespace::create(cluster::shared()).await.unwrap();
    let pods = namespace.pods();
    pod("one").ip("10.0.0.1").create(&namespace).await.unwrap();
    let is_one = |pods: &[Pod]| {
        if pods.len() == 1 {
            Ok(())
        } else {
            Err(format!("{} Pods", pods.len()))
        }
    };

    stays("one Pod", SHORT, &pods, "", is_one).await.unwrap();
    never_changes("Pods", SHORT, &pods, "").await.unwrap();
    assert_eq!(settled("Pods", SHORT, DEADLINE, &pods, "").await.unwrap().len(), 1);

    // A change that is undone is a change. Again and again, for it counts only after the first list.
    let flap = async {
        for number in 0.. {
            namespace.set_pod_ready("one", number % 2 == 0).await.unwrap();
        }
    };
    tokio::select! {
        () = flap => unreachable!(),
        outcome = never_changes("Pods", DEADLINE, &pods, "") => {
            assert!(outcome.unwrap_err().to_string().contains("Pods: changed from"));
        }
    }

    let gone = async {
        pods.delete("one", &DeleteParams::default().grace_period(0))
            .await
            .unwrap()
    };
    let (_, stayed) = futures::join!(gone, stays("one Pod", DEADLINE, &pods, "", is_one));
    assert!(
        stayed
            .unwrap_err()
            .to_string()
            .contains("one Pod: did not stay: 0 Pods")
    );
}

#[tokio::test]
async fn settled_waits_for_the_last_change_and_gives_up_on_a_restless_one() {
    let namespace = TestNamespace::create(cluster::shared()).await.unwrap();
    pod("one").ip("10.0.0.1").create(&namespace).await.unwrap();
    let restless = async {
        for number in 0.. {
            namespace
                .patch_pod_status("one", json!({ "reason": number.to_string() }))
                .await
                .unwrap();
        }
    };
    let pods = namespace.pods();
    tokio::select! {
        () = restless => unreachable!(),
        outcome = settled("Pods", 2 * SHORT, 4 * SHORT, &pods, "") => {
            assert!(outcome.unwrap_err().to_string().contains("still changing"));
        }
    }
    settled("Pods", SHORT, DEADLINE, &pods, "").await.unwrap();
}
