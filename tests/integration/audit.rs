//! `svcplane audit` and `svcplane pools` on a real cluster: faults are planted through the apiserver alone, each is found, none is invented.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use svcplane_tests::admission::{install_crds, send};
use svcplane_tests::cluster::{Cluster, Flavour};
use svcplane_tests::plant::{
    ADDRESSES, SERVICES, audited, create_until_taken, delete, external, node_port, post, service, shop,
};
use svcplane_tests::ran;

const SOON: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_planted_fault_is_found_and_none_is_invented() {
    let cluster = Cluster::start(Flavour::DualStack).await.unwrap();
    let client = cluster.client();
    install_crds(&client).await.unwrap();
    shop(&client).await;
    let first = post(&client, SERVICES, &service("first", &json!({}))).await;
    let address = first["spec"]["clusterIP"].as_str().unwrap().to_owned();
    assert_eq!(audited(&cluster).await, (BTreeSet::new(), 0));

    // Whoever may delete an IPAddress can give an address twice.
    delete(&client, &format!("{ADDRESSES}/{address}")).await;
    create_until_taken(&client, &service("second", &json!({"clusterIP": address}))).await;
    // A deleted ExternalName Service frees the number that it carries, whoever has it.
    post(&client, SERVICES, &node_port("port-first", 31_000)).await;
    post(&client, SERVICES, &external("thief", 31_000)).await;
    delete(&client, &format!("{SERVICES}/thief")).await;
    create_until_taken(&client, &node_port("port-second", 31_000)).await;
    post(&client, SERVICES, &external("carrier", 31_005)).await;
    post(&client, SERVICES, &node_port("bypass", 31_010)).await;
    let fence = json!({"apiVersion": "svcplane.io/v1alpha1", "kind": "NodePortPool", "metadata": {"name": "fence"},
        "spec": {"ranges": ["31010-31019"], "enforce": true, "selector": {"namespaces": ["bank"]}}});
    post(&client, "/apis/svcplane.io/v1alpha1/nodeportpools", &fence).await;
    // No webhook refuses it, and the schema does not see what is wrong.
    let reversed = json!({"apiVersion": "svcplane.io/v1alpha1", "kind": "ClusterIPPool", "metadata": {"name": "reversed"},
        "spec": {"ranges": ["10.96.7.9-10.96.7.0"]}});
    post(&client, "/apis/svcplane.io/v1alpha1/clusterippools", &reversed).await;
    let reversed = json!({"apiVersion": "svcplane.io/v1alpha1", "kind": "LoadBalancerPool", "metadata": {"name": "backward"},
        "spec": {"ranges": ["203.0.113.9-203.0.113.0"]}});
    post(&client, "/apis/svcplane.io/v1alpha1/loadbalancerpools", &reversed).await;
    let mut skips = service("skips", &json!({}));
    skips["metadata"]["labels"] = json!({"svcplane.io/skip": "true"});
    let skips = post(&client, SERVICES, &skips).await;
    let bare = post(&client, SERVICES, &service("bare", &json!({}))).await;
    let bare = bare["spec"]["clusterIP"].as_str().unwrap();

    let expected = [
        ("ClusterIPAlreadyAllocated", "second"),
        ("PortAlreadyAllocated", "port-second"),
        ("ExternalNameHoldsPort", "carrier"),
        ("PoolBypassed", "bypass"),
        ("SkipsSvcplane", "skips"),
        ("ClusterIPNotAllocated", "bare"),
    ];
    let expected = expected.map(|(rule, name)| (rule.to_owned(), format!("Service shop/{name}")));
    let mut expected = BTreeSet::from(expected);
    for pool in ["ClusterIPPool reversed", "LoadBalancerPool backward"] {
        expected.insert(("InvalidPool".into(), pool.into()));
    }
    // The apiserver's repair makes it again within three minutes, or at once if it looks at the new Service only now.
    let bare = format!("{ADDRESSES}/{bare}");
    let found = loop {
        delete(&client, &bare).await;
        let found = audited(&cluster).await;
        if send(&client, "GET", &bare, None).await.unwrap().code == 404 {
            break found;
        }
    };
    assert_eq!(found, (expected, 1));

    let said = async |arguments: &[&str]| {
        let ran = ran::svcplane(&cluster.kubeconfig(), arguments, SOON).await;
        ran.unwrap().succeeded().unwrap()
    };
    let who = said(&["pools", "--who", "31000"]).await;
    assert!(
        who.contains("shop/port-first") && who.contains("shop/port-second"),
        "{who}"
    );
    let skipped = skips["spec"]["clusterIP"].as_str().unwrap();
    let who = said(&["pools", "--who", skipped]).await;
    assert_eq!(who, format!("{skipped} is used by Service shop/skips\n"));
    let who = said(&["pools", "--who", "31011"]).await;
    assert_eq!(who, "31011 is free; of pool fence\n");
    let report = said(&["pools"]).await;
    let has = |words: &[&str]| report.lines().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(has(&["30000-32767", "3 of 2768 used"]), "{report}");
    assert!(has(&["fence", "1 of 10 used", "9 free", "enforced"]), "{report}");
}
