//! A /24 of addresses and a range of nodePorts are filled to the last value through enforced pools, emptied, and filled again.
//! `FILL_PORTS=2768` takes the whole default range of nodePorts, with as many Services.

use std::collections::BTreeSet;

use futures::future::join_all;
use serde_json::json;
use svcplane_tests::cluster::{Cluster, Flavour};
use svcplane_tests::governed::{Governed, SOON, cluster_ip, create, delete_all, node_port, pool, values};
use svcplane_tests::namespace::TestNamespace;

const WRITERS: usize = 16;

/// All addresses of 10.96.7.0/24: what is special about the first and last one is that of 10.96.0.0/16, the range.
const ADDRESSES: usize = 256;

/// Creates so many Services, and returns the values that were stored.
async fn fill(namespace: &TestNamespace, prefix: &str, count: usize) -> (BTreeSet<String>, BTreeSet<u64>) {
    let writer = async |writer: usize| {
        let (mut addresses, mut ports) = (Vec::new(), Vec::new());
        for number in (writer..count).step_by(WRITERS) {
            let name = format!("{prefix}{number}");
            let service = if prefix == "a" {
                cluster_ip(&name)
            } else {
                node_port(&name)
            };
            let stored = values(&create(namespace, &service).await.accepted().unwrap());
            addresses.extend(stored.0);
            ports.extend(stored.1);
        }
        (addresses, ports)
    };
    let (mut addresses, mut ports) = (BTreeSet::new(), BTreeSet::new());
    for (some, others) in join_all((0..WRITERS).map(writer)).await {
        addresses.extend(some);
        ports.extend(others);
    }
    (addresses, ports)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_are_filled_to_the_last_value_and_refilled() {
    let ports: usize = std::env::var("FILL_PORTS").map_or(256, |text| text.parse().unwrap());
    let range = format!("30000-{}", 29_999 + ports);
    let flag = format!("--service-node-port-range={range}");
    let cluster = Cluster::builder(Flavour::Ipv4Only)
        .apiserver_arg(&flag)
        .start()
        .await
        .unwrap();
    let governed = Governed::start_with(cluster, &["--allocate=pooled", &flag])
        .await
        .unwrap();
    let client = || governed.client();
    let [a, p] = [
        TestNamespace::create_with(client(), "addresses").await.unwrap(),
        TestNamespace::create_with(client(), "ports").await.unwrap(),
    ];
    let spec = |range: &str, namespace: &TestNamespace| json!({"ranges": [range], "enforce": true, "selector": {"namespaces": [namespace.name()]}});
    pool(&governed, &a, "ClusterIPPool", "quarter", &spec("10.96.7.0/24", &a)).await;
    pool(&governed, &p, "NodePortPool", "all", &spec(&range, &p)).await;
    for round in ["filled", "refilled"] {
        let (addresses, _) = fill(&a, "a", ADDRESSES).await;
        assert_eq!(addresses.len(), ADDRESSES, "{round}");
        assert!(addresses.iter().all(|ip| ip.starts_with("10.96.7.")), "{addresses:?}");
        let (_, numbers) = fill(&p, "p", ports).await;
        let all: BTreeSet<u64> = (30_000..).take(ports).collect();
        assert_eq!(numbers, all, "{round}");
        for (namespace, service, field, name) in [
            (&a, cluster_ip("more"), "spec.clusterIPs", "quarter"),
            (&p, node_port("more"), "spec.ports[0].nodePort", "all"),
        ] {
            let said = create(namespace, &service).await;
            assert_eq!((said.code.as_u16(), said.fields()), (403, vec![field]));
            let words = format!("no value is free in pool \"{name}\"");
            assert!(said.message().contains(&words), "{}", said.message());
        }
        delete_all(&a, "a", ADDRESSES, WRITERS).await;
        delete_all(&p, "p", ports, WRITERS).await;
        // default/kubernetes has the one that is left; what was deleted rests for a moment.
        for (range, left) in [("10.96.0.0/16", 1.0), (range.as_str(), 0.0)] {
            for (state, left) in [("used", left), ("pending", 0.0), ("quarantined", 0.0)] {
                let labels = [("range", range), ("state", state)];
                let svcplane = &governed.svcplane;
                svcplane
                    .wait_metric("svcplane_allocator_values", &labels, SOON, |count| count == left)
                    .await
                    .unwrap();
            }
        }
    }
}
