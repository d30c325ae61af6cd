//! At the start each Service is looked at once, and what is right already is left alone.

use std::time::Duration;

use k8s_openapi::api::core::v1::Endpoints;
use kube::api::ListParams;
use svcplane_tests::cluster;
use svcplane_tests::eventually::eventually;
use svcplane_tests::load::Load;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::proxy::{Action, Match, Refusal, Times, WatchEnd};
use svcplane_tests::slices;
use svcplane_tests::svcplane::{Replica, Svcplane, alone};

const SOON: Duration = Duration::from_secs(60);
const SERVICES: usize = 200;
const PODS: usize = 5;

async fn syncs(svcplane: &Svcplane) -> f64 {
    svcplane.looks().await.unwrap()
}

/// B27, first part; and no restart, no relist and no change of the leader writes anything.
#[tokio::test]
async fn two_hundred_services_are_looked_at_once_and_written_once() {
    let _alone = alone().await;
    let load = Load {
        prefix: "load",
        namespaces: 1,
        services: SERVICES,
        pods: PODS,
    };
    let client = cluster::shared().client();
    slices::nodes(client.clone(), 300).await.unwrap();
    load.create(&client).await.unwrap();
    let namespace = TestNamespace::existing(client, "load-0");

    let builder = Svcplane::builder().lease_in(&namespace);
    let first = Replica::start(cluster::shared(), builder.clone().replica(1))
        .await
        .unwrap();
    let complete = |found: &[Endpoints]| {
        let full = |it: &&Endpoints| {
            let subsets = it.subsets.iter().flatten();
            subsets.flat_map(|subset| subset.addresses.iter().flatten()).count() == PODS
        };
        match found.iter().filter(full).count() {
            SERVICES => Ok(()),
            complete => Err(format!("{complete} are complete")),
        }
    };
    eventually("200 Endpoints", SOON, &namespace.endpoints(), "", complete)
        .await
        .unwrap();
    first.wait_idle().await.unwrap();
    for resource in ["endpoints", "endpointslices"] {
        let writes = first.proxy().writes(resource, namespace.name());
        assert_eq!(writes.len(), SERVICES, "one write of {resource} each");
    }
    let slices = namespace.slices().list(&ListParams::default()).await.unwrap();
    assert!(slices.iter().all(|slice| slices::endpoints(slice).len() == PODS));
    // `kubernetes` is the 201st Service.
    let most = 2.0 * (SERVICES as f64 + 1.0);
    let looked = syncs(&first).await;
    assert!(looked <= most, "{looked} looks at {SERVICES} Services");

    // A forced relist of everything.
    let expired = WatchEnd::Error(Refusal::expired());
    assert_eq!(
        first.proxy().end_watches(
            &Match::all_watches()
                .resource("pods")
                .resource("services")
                .resource("endpoints")
                .resource("endpointslices")
                .resource("nodes"),
            &expired
        ),
        5
    );
    let relists = first.wait_metric("svcplane_watch_relists_total", &[], SOON, |it| it >= 5.0);
    relists.await.unwrap();
    namespace.caught_up().await.unwrap();
    let beside = |name: &str| !name.starts_with("caught-up-");
    let writes = first.proxy().writes("endpoints", namespace.name());
    assert_eq!(writes.iter().filter(|it| beside(&it.request.name)).count(), SERVICES);
    let still = namespace.slices().list(&ListParams::default()).await.unwrap();
    for before in &slices.items {
        let after = still.iter().find(|it| it.metadata.name == before.metadata.name);
        assert_eq!(
            after.map(|it| &it.metadata.resource_version),
            Some(&before.metadata.resource_version)
        );
    }

    // A change of the leader, then a restart.
    let second = Replica::start(cluster::shared(), builder.clone().replica(2))
        .await
        .unwrap();
    second.wait_ready().await.unwrap();
    first.terminate().await.unwrap();
    second.wait_idle().await.unwrap();
    second.terminate().await.unwrap();
    let third = Replica::start(cluster::shared(), builder.replica(3)).await.unwrap();
    third.wait_idle().await.unwrap();
    for replica in [&second, &third] {
        for resource in ["endpoints", "endpointslices"] {
            assert_eq!(replica.proxy().writes(resource, "").len(), 0, "{resource}");
        }
    }
    let looked = syncs(&third).await;
    assert!(
        (201.0..=most + 4.0).contains(&looked),
        "{looked} looks at {SERVICES} Services"
    );
}

/// B27, second part.
#[tokio::test]
async fn of_many_changes_within_the_batch_period_the_last_counts() {
    const PERIOD: Duration = Duration::from_secs(3);
    let _alone = alone().await;
    let namespace = TestNamespace::create(cluster::shared()).await.unwrap();
    namespace
        .workload("gadwall", &["10.201.0.1", "10.201.0.2"])
        .await
        .unwrap();
    let builder = Svcplane::builder()
        .lease_in(&namespace)
        .arg("--endpoint-updates-batch-period=3s");
    let replica = Replica::start(cluster::shared(), builder).await.unwrap();
    namespace
        .endpoints_become("gadwall", &["10.201.0.1 10.201.0.2 -> :8080/TCP"])
        .await
        .unwrap();
    replica.wait_idle().await.unwrap();
    replica.proxy().clear_records();
    let writes = Match::writes("endpoints").namespace(namespace.name()).name("gadwall");
    let started = std::time::Instant::now();
    for ready in [false, true, false, true, false] {
        namespace.set_pod_ready("gadwall-0", ready).await.unwrap();
    }
    assert!(
        started.elapsed() < PERIOD,
        "the machine is too slow for this test: {:?}",
        started.elapsed()
    );
    namespace
        .endpoints_become("gadwall", &["10.201.0.2 !10.201.0.1 -> :8080/TCP"])
        .await
        .unwrap();
    let first = replica.proxy().requests(&writes);
    assert_eq!(first.len(), 1);
    assert!(first[0].at - started >= PERIOD, "{:?}", first[0].at - started);

    // While a write is under way.
    let slow = Action::DelayReply(Duration::from_millis(500));
    let rule = replica.proxy().rule(writes.clone(), slow, Times::First(1));
    namespace.set_pod_ready("gadwall-0", true).await.unwrap();
    rule.wait_hits(1, SOON).await.unwrap();
    namespace.set_pod_ready("gadwall-1", false).await.unwrap();
    namespace
        .endpoints_become("gadwall", &["10.201.0.1 !10.201.0.2 -> :8080/TCP"])
        .await
        .unwrap();
    assert_eq!(replica.proxy().requests(&writes).len(), 3);
}
