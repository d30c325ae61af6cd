//! One Endpoints object holds addresses of one family: the Service's first.

use serde_json::json;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{PodBuilder, ServiceBuilder, pod, service};

fn grebe(name: &str) -> PodBuilder {
    pod(name).label("app", "grebe")
}

fn of_families(name: &str, policy: &str, families: &[&str]) -> ServiceBuilder {
    let service = service(name).selector("app", "grebe").port("", 80, 80);
    service.families(policy, families)
}

#[tokio::test]
async fn each_service_lists_addresses_of_its_first_family() {
    let namespace = TestNamespace::served().await.unwrap();
    let pods = [
        grebe("both").ip("10.1.0.61").ip("fd00:77::61"),
        grebe("both-v6-first").ip("fd00:77::62").ip("10.1.0.62"),
        grebe("v4").ip("10.1.0.63"),
        grebe("v6").ip("fd00:77::64").ready(false),
    ];
    for one in pods {
        one.create(&namespace).await.unwrap();
    }
    let v4 = "10.1.0.61 10.1.0.62 10.1.0.63 -> :80/TCP";
    let v6 = "fd00:77::61 fd00:77::62 !fd00:77::64 -> :80/TCP";
    let table = [
        (of_families("grebe4", "SingleStack", &["IPv4"]), v4),
        (of_families("grebe6", "SingleStack", &["IPv6"]), v6),
        (of_families("grebe46", "RequireDualStack", &["IPv4", "IPv6"]), v4),
        (of_families("grebe64", "RequireDualStack", &["IPv6", "IPv4"]), v6),
        (
            of_families("grebe64-headless", "RequireDualStack", &["IPv6", "IPv4"]).headless(),
            v6,
        ),
        (service("grebe").selector("app", "grebe").port("", 80, 80), v4),
        (
            service("grebe-headless")
                .selector("app", "grebe")
                .port("", 80, 80)
                .headless(),
            v4,
        ),
    ];
    for (builder, line) in table {
        let name = builder.create(&namespace).await.unwrap().metadata.name.unwrap();
        namespace.endpoints_become(&name, &[line]).await.unwrap();
    }
}

#[tokio::test]
async fn a_pod_that_gets_an_ipv6_address_alone_is_noticed() {
    let namespace = TestNamespace::served().await.unwrap();
    of_families("grebe6", "SingleStack", &["IPv6"])
        .create(&namespace)
        .await
        .unwrap();
    of_families("grebe46", "RequireDualStack", &["IPv4", "IPv6"])
        .create(&namespace)
        .await
        .unwrap();
    grebe("late").create(&namespace).await.unwrap();
    namespace.endpoints_become("grebe6", &[]).await.unwrap();
    let mut status = json!({ "podIP": "fd00:77::62", "podIPs": [{ "ip": "fd00:77::62" }],
        "conditions": [{ "type": "Ready", "status": "True" }] });
    namespace.patch_pod_status("late", status.clone()).await.unwrap();
    namespace
        .endpoints_become("grebe6", &["fd00:77::62 -> :80/TCP"])
        .await
        .unwrap();
    namespace.endpoints_become("grebe46", &[]).await.unwrap();
    // A second address of the other family is a change for the Services of that family.
    status["podIPs"] = json!([{ "ip": "fd00:77::62" }, { "ip": "10.1.0.65" }]);
    namespace.patch_pod_status("late", status).await.unwrap();
    namespace
        .endpoints_become("grebe46", &["10.1.0.65 -> :80/TCP"])
        .await
        .unwrap();
    namespace
        .endpoints_become("grebe6", &["fd00:77::62 -> :80/TCP"])
        .await
        .unwrap();
}

/// As Go prints them, whatever a container runtime wrote.
#[tokio::test]
async fn addresses_are_written_in_their_canonical_form() {
    let namespace = TestNamespace::served().await.unwrap();
    of_families("grebe6", "SingleStack", &["IPv6"])
        .create(&namespace)
        .await
        .unwrap();
    let table = [
        ("upper", "FD00:77::A", "fd00:77::a"),
        ("zeros", "fd00:77:0:0:0:0:0:b", "fd00:77::b"),
        ("plain", "fd00:77::c", "fd00:77::c"),
    ];
    for (name, stored, _) in table {
        grebe(name).ip(stored).create(&namespace).await.unwrap();
    }
    let printed: Vec<&str> = table.iter().map(|row| row.2).collect();
    let line = format!("{} -> :80/TCP", printed.join(" "));
    namespace.endpoints_become("grebe6", &[&line]).await.unwrap();
}
