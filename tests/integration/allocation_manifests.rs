//! The manifests of examples/ with their literal ClusterIPs and nodePorts, with the webhook on and choosing everywhere.

use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};
use svcplane_tests::admission::{send, wait_choosing};
use svcplane_tests::cluster::{Cluster, Flavour};
use svcplane_tests::governed::{Governed, SOON, create, delete, values};
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::ran;

/// Ranges of the literal addresses that do not lie in the apiserver's own.
const RANGES: [(&str, &str); 2] = [("ccesvc", "10.106.0.0/16"), ("redis", "10.0.0.0/16")];

/// The Services of all manifests, as kubectl reads them.
async fn services(cluster: &Cluster) -> Vec<Value> {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");
    let arguments = ["create", "--dry-run=client", "-o=json", "-f", examples];
    let printed = ran::kubectl(cluster, &arguments, "", SOON).await.unwrap();
    let objects = serde_json::Deserializer::from_str(&printed).into_iter::<Value>();
    let objects = objects.map(Result::unwrap);
    let mut all: Vec<Value> = objects
        .flat_map(|object| object["items"].as_array().cloned().unwrap_or_else(|| vec![object]))
        .collect();
    all.retain(|object| object["kind"] == "Service");
    all
}

/// The values that a manifest writes down.
fn literal(service: &Value) -> (Vec<String>, Vec<u64>) {
    let spec: Service = serde_json::from_value(service.clone()).unwrap();
    let spec = spec.spec.unwrap();
    let address = spec.cluster_ip.filter(|ip| ip != "None");
    let ports = spec.ports.into_iter().flatten().filter_map(|port| port.node_port);
    (address.into_iter().collect(), ports.map(|port| port as u64).collect())
}

#[tokio::test]
async fn literal_values_are_kept_and_all_others_chosen_by_us() {
    let cluster = Cluster::start(Flavour::DualStack).await.unwrap();
    cluster.start_controller_manager().await.unwrap();
    for (name, cidr) in RANGES {
        let object = json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": name}, "spec": {"cidrs": [cidr]}});
        let path = "/apis/networking.k8s.io/v1/servicecidrs";
        send(&cluster.client(), "POST", path, Some(&object))
            .await
            .unwrap()
            .accepted()
            .unwrap();
    }
    let governed = Governed::start(cluster).await.unwrap();
    wait_choosing(&governed.svcplane).await.unwrap();
    let services = services(&governed.cluster).await;
    assert!(services.len() >= 12, "{services:?}");
    let (mut kept, mut counted) = (Vec::new(), 0);
    for mut service in services {
        let name = format!("{}/{}", service["metadata"]["namespace"], service["metadata"]["name"]);
        let namespace = TestNamespace::create(&governed.cluster).await.unwrap();
        service["metadata"]["namespace"].take();
        let before = chosen(&governed).await;
        let said = create(&namespace, &service).await;
        let stored = said.accepted().unwrap_or_else(|error| panic!("{name}: {error}"));
        let (addresses, ports) = values(&stored);
        let (wanted, numbers) = literal(&service);
        assert!(wanted.iter().all(|ip| addresses.contains(ip)), "{name}: {stored}");
        assert!(numbers.iter().all(|port| ports.contains(port)), "{name}: {stored}");
        let given = addresses.iter().filter(|ip| *ip != "None").count() + ports.len();
        let ours = given - wanted.len() - numbers.len();
        assert_eq!(chosen(&governed).await - before, ours as f64, "{name}: {stored}");
        counted += ours;
        kept.extend(wanted);
        kept.extend(numbers.iter().map(ToString::to_string));
        delete(&namespace, stored["metadata"]["name"].as_str().unwrap()).await;
    }
    kept.sort();
    assert_eq!(
        kept,
        [
            "10.0.0.11",
            "10.0.171.239",
            "10.106.142.19",
            "10.96.132.245",
            "30008",
            "30080"
        ]
    );
    assert!(counted > 5, "{counted} values were chosen");
}

async fn chosen(governed: &Governed) -> f64 {
    let counter = "svcplane_allocation_chosen_total";
    governed.counted(counter, "clusterips").await + governed.counted(counter, "nodeports").await
}
