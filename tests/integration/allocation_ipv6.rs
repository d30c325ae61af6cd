//! A cluster whose first family is IPv6, with a range of nodePorts of its own (that of dumps in old tutorials, with 28080 in it).

use std::net::{IpAddr, Ipv6Addr};

use serde_json::{Value, json};
use svcplane_tests::admission::send;
use svcplane_tests::cluster::{Cluster, Flavour, on_own_runtime};
use svcplane_tests::governed::{Governed, SOON, cluster_ip, create, delete, node_port, patch, pool, values};
use svcplane_tests::namespace::TestNamespace;

const PORTS: &str = "--service-node-port-range=28000-28999";

fn governed() -> &'static Governed {
    static SHARED: std::sync::OnceLock<Result<Governed, String>> = std::sync::OnceLock::new();
    let start = || {
        on_own_runtime(async || {
            let cluster = Cluster::builder(Flavour::Ipv6Primary).apiserver_arg(PORTS).start();
            Governed::start_with(cluster.await?, &["--allocate=all", PORTS]).await
        })
    };
    SHARED
        .get_or_init(start)
        .as_ref()
        .unwrap_or_else(|error| panic!("{error}"))
}

async fn namespace() -> TestNamespace {
    TestNamespace::create(&governed().cluster).await.unwrap()
}

async fn chosen() -> (f64, f64) {
    let governed = governed();
    (
        governed.counted("svcplane_allocation_chosen_total", "clusterips").await,
        governed.counted("svcplane_allocation_chosen_total", "nodeports").await,
    )
}

fn families(addresses: &[String]) -> Vec<bool> {
    let is_v6 = |text: &String| text.parse::<IpAddr>().unwrap().is_ipv6();
    addresses.iter().map(is_v6).collect()
}

#[tokio::test]
async fn the_first_family_is_chosen_for_first() {
    let namespace = namespace().await;
    let table = [
        (json!({}), vec![true]),
        (json!({"ipFamilyPolicy": "PreferDualStack"}), vec![true, false]),
        (
            json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]}),
            vec![false, true],
        ),
        (json!({"ipFamilies": ["IPv4"]}), vec![false]),
        (json!({"ipFamilies": ["IPv6"]}), vec![true]),
    ];
    for (number, (spec, expected)) in table.into_iter().enumerate() {
        let before = chosen().await.0;
        let mut service = node_port(&format!("s{number}"));
        for (field, value) in spec.as_object().unwrap() {
            service["spec"][field] = value.clone();
        }
        let (addresses, ports) = values(&create(&namespace, &service).await.accepted().unwrap());
        assert_eq!(families(&addresses), expected, "{spec}");
        assert!(ports.iter().all(|port| (28_000..29_000).contains(port)), "{ports:?}");
        let least = before + expected.len() as f64;
        assert!(chosen().await.0 >= least, "{spec}: the addresses are svcplane's choice");
    }
}

#[tokio::test]
async fn a_second_family_comes_and_goes() {
    let namespace = namespace().await;
    let first = values(&create(&namespace, &cluster_ip("web")).await.accepted().unwrap()).0;
    let to = async |policy: &str| {
        let change = json!({"spec": {"ipFamilyPolicy": policy}});
        values(&patch(&namespace, "web", &change).await.accepted().unwrap()).0
    };
    let dual = to("PreferDualStack").await;
    assert_eq!((&dual[..1], families(&dual)), (&first[..], vec![true, false]));
    assert_eq!(to("SingleStack").await, first);
}

#[tokio::test]
async fn an_ipv6_pool_is_filled_to_the_last_value() {
    let (governed, namespace) = (governed(), namespace().await);
    let selector = json!({"namespaces": [namespace.name()]});
    let spec = json!({"ranges": ["fd00:10:96::7f00/125"], "enforce": true, "selector": selector});
    pool(governed, &namespace, "ClusterIPPool", "eight", &spec).await;
    let mut all = Vec::new();
    for number in 0..8 {
        let stored = create(&namespace, &cluster_ip(&format!("s{number}"))).await;
        all.extend(values(&stored.accepted().unwrap()).0);
    }
    all.sort();
    let text = |last: u16| Ipv6Addr::new(0xfd00, 0x10, 0x96, 0, 0, 0, 0, 0x7f00 + last).to_string();
    assert_eq!(all, (0..8).map(text).collect::<Vec<_>>());
    let full = create(&namespace, &cluster_ip("more")).await;
    assert_eq!((full.code.as_u16(), full.fields()), (403, vec!["spec.clusterIPs"]));
    delete(&namespace, "s3").await;
    let end = tokio::time::Instant::now() + SOON;
    while !create(&namespace, &cluster_ip("more")).await.code.is_success() {
        assert!(tokio::time::Instant::now() < end, "s3's address does not come back");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

/// The dump of M6 on a cluster of another range: 28080 is kept, and the manifest's own 30008 is refused with the range.
#[tokio::test]
async fn numbers_of_another_range_are_kept_or_refused_with_the_range() {
    let namespace = namespace().await;
    let with = |name: &str, port: u16| -> Value {
        let mut service = node_port(name);
        service["spec"]["ports"][0]["nodePort"] = json!(port);
        service
    };
    let kept = create(&namespace, &with("my-nginx", 28_080)).await.accepted().unwrap();
    assert!(values(&kept).1.contains(&28_080), "{kept}");
    let refused = create(&namespace, &with("my-nginx-30008", 30_008)).await;
    assert_eq!(
        (refused.code.as_u16(), refused.fields()),
        (422, vec!["spec.ports[0].nodePort"])
    );
    assert!(
        refused.warnings.iter().any(|text| text.contains("28000-28999")),
        "{:?}",
        refused.warnings
    );
}

/// Those who have a value of it keep it, nobody else gets one, and one who writes one down is warned.
#[tokio::test]
async fn a_pool_that_is_drained_gives_nothing_new() {
    let (governed, namespace) = (governed(), namespace().await);
    let selector = json!({"namespaces": [namespace.name()]});
    let spec = json!({"ranges": ["fd00:10:96::7e00/124"], "selector": selector});
    pool(governed, &namespace, "ClusterIPPool", "old", &spec).await;
    let is_of_pool = |ip: &String| ip.starts_with("fd00:10:96::7e0");
    let before = values(&create(&namespace, &cluster_ip("before")).await.accepted().unwrap()).0;
    assert!(before.iter().all(is_of_pool), "{before:?}");
    let change = json!({"spec": {"mode": "Drain"}});
    let path = "/apis/svcplane.io/v1alpha1/clusterippools/old";
    let said = send(&governed.client(), "PATCH", path, Some(&change)).await;
    said.unwrap().accepted().unwrap();
    let end = tokio::time::Instant::now() + SOON;
    let (mut number, mut taken) = (0, before.clone());
    loop {
        number += 1;
        let stored = create(&namespace, &cluster_ip(&format!("after-{number}"))).await;
        let got = values(&stored.accepted().unwrap()).0;
        if !got.iter().any(is_of_pool) {
            break;
        }
        taken.extend(got);
        // The watch has not shown the change yet.
        assert!(tokio::time::Instant::now() < end);
    }
    let mut literal = cluster_ip("literal");
    let mut all = (0..16).map(|last| format!("fd00:10:96::7e{last:02x}"));
    literal["spec"]["clusterIP"] = json!(all.find(|ip| !taken.contains(ip)).expect("a value that nobody has"));
    let said = create(&namespace, &literal).await;
    assert!(
        said.code.is_success() && said.warnings.iter().any(|text| text.contains("drained")),
        "{} {:?}",
        said.message(),
        said.warnings
    );
    let labelled = json!({"metadata": {"labels": {"touched": "yes"}}});
    let kept = patch(&namespace, "before", &labelled).await.accepted().unwrap();
    assert_eq!(values(&kept).0, before);
}
