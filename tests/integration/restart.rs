//! The apiserver itself is restarted, killed, and left without its etcd.

use std::time::Duration;

use svcplane_tests::cluster;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::process::Signal;
use svcplane_tests::svcplane::Svcplane;

const READY: &[&str] = &["10.201.0.1 -> :8080/TCP"];
const NOT_READY: &[&str] = &["!10.201.0.1 -> :8080/TCP"];

#[tokio::test]
async fn svcplane_goes_on_whatever_becomes_of_the_apiserver() {
    let cluster = cluster::shared();
    let namespace = TestNamespace::create(cluster).await.unwrap();
    namespace.workload("web", &["10.201.0.1"]).await.unwrap();
    namespace.workload("quiet", &["10.201.0.1"]).await.unwrap();
    let svcplane = Svcplane::builder()
        .cluster(cluster)
        .short_lease()
        .start()
        .await
        .unwrap();
    namespace.endpoints_become("web", READY).await.unwrap();
    let quiet = namespace.endpoints_become("quiet", READY).await.unwrap();
    let follows = async |what: &str| {
        for (ready, want) in [(false, NOT_READY), (true, READY)] {
            namespace.set_pod_ready("web-0", ready).await.unwrap();
            let became = namespace.endpoints_become("web", want).await;
            became.unwrap_or_else(|error| panic!("after {what}: {error:#}"));
        }
    };

    cluster.restart_apiserver().await.unwrap();
    follows("a restart").await;
    cluster.kill_apiserver().await.unwrap();
    cluster.start_apiserver().await.unwrap();
    follows("a crash").await;
    cluster.etcd().signal(Signal::STOP);
    let lost = svcplane.wait_metric("leader_election_master_status", &[], Duration::from_secs(30), |it| {
        it < 0.5
    });
    lost.await.unwrap();
    cluster.etcd().signal(Signal::CONT);
    follows("a pause of etcd").await;

    let still = namespace.endpoints_become("quiet", READY).await.unwrap();
    assert_eq!(
        still.metadata.resource_version, quiet.metadata.resource_version,
        "never written again"
    );
    assert_eq!(svcplane.process().exit(), None);
}
