//! Are the metrics true, bounded, and there on every replica?

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt as _};
use k8s_openapi::api::core::v1::{Endpoints, Service};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt as _};
use svcplane_tests::cluster;
use svcplane_tests::eventually::eventually_gone;
use svcplane_tests::fetch::get_accepting;
use svcplane_tests::metrics::Metrics;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{create_pods, pod, service};
use svcplane_tests::proxy::{Action, Match, Refusal, Times, WatchEnd};
use svcplane_tests::svcplane::{Builder, Replica, Svcplane, alone};

const SOON: Duration = Duration::from_secs(30);

async fn namespace() -> TestNamespace {
    TestNamespace::create(cluster::shared()).await.unwrap()
}

async fn start(builder: Builder) -> Replica {
    Replica::start(cluster::shared(), builder).await.unwrap()
}

/// Ready and other addresses in the Endpoints of Services with a selector, and the number of Endpoints, by fresh lists.
async fn stored() -> [usize; 3] {
    let client = cluster::shared().client();
    let services: Api<Service> = Api::all(client.clone());
    let endpoints: Api<Endpoints> = Api::all(client);
    let services = services.list(&ListParams::default()).await.unwrap().items;
    let endpoints = endpoints.list(&ListParams::default()).await.unwrap().items;
    let selecting = services
        .iter()
        .filter(|it| it.spec.as_ref().is_some_and(|spec| spec.selector.is_some()));
    let keys: BTreeSet<_> = selecting.map(|it| (it.namespace(), it.name_any())).collect();
    let mut counts = [0, 0, endpoints.len()];
    for object in endpoints
        .iter()
        .filter(|it| keys.contains(&(it.namespace(), it.name_any())))
    {
        for subset in object.subsets.iter().flatten() {
            counts[0] += subset.addresses.as_ref().map_or(0, Vec::len);
            counts[1] += subset.not_ready_addresses.as_ref().map_or(0, Vec::len);
        }
    }
    counts
}

/// B111.
#[tokio::test]
async fn counts_of_endpoints_are_what_a_list_shows() {
    let _alone = alone().await;
    let namespace = namespace().await;
    let replica = start(Svcplane::builder().lease_in(&namespace)).await;
    replica.wait_idle().await.unwrap();
    let counted = async |want: [usize; 3], step: &str| {
        assert_eq!(stored().await, want, "{step}");
        let same = |page: &Metrics| {
            let addresses = |state: &str| page.get("svcplane_endpoints_addresses", &[("state", state)]);
            let objects = page.get("svcplane_objects", &[("resource", "endpoints")]);
            let have = [addresses("ready"), addresses("not_ready"), objects];
            if have == want.map(|count| Some(count as f64)) {
                Ok(())
            } else {
                Err(format!("{have:?}"))
            }
        };
        let what = format!("showing {want:?} ({step})");
        replica.wait_metrics(&what, SOON, same).await.unwrap();
    };
    let [ready, not_ready, objects] = stored().await;
    counted([ready, not_ready, objects], "before").await;
    let pods = (1..=3).map(|last| {
        let pod = pod(&format!("web-{last}")).label("app", "web");
        pod.ip(&format!("10.201.0.{last}"))
            .ip(&format!("fd5a:77::{last}"))
            .ready(last > 1)
    });
    create_pods(pods, &namespace).await.unwrap();
    let dual = service("web").selector("app", "web").port("", 80, 8080);
    dual.families("RequireDualStack", &["IPv4", "IPv6"])
        .create(&namespace)
        .await
        .unwrap();
    let all = ["10.201.0.2 10.201.0.3 !10.201.0.1 -> :8080/TCP"];
    namespace.endpoints_become("web", &all).await.unwrap();
    counted([ready + 2, not_ready + 1, objects + 1], "three Pods").await;

    for last in 1..=3 {
        namespace
            .delete_pod(&format!("web-{last}"), Duration::ZERO)
            .await
            .unwrap();
    }
    namespace.endpoints_become("web", &[]).await.unwrap();
    counted([ready, not_ready, objects + 1], "no Pods").await;

    let services = namespace.services();
    services.delete("web", &DeleteParams::default()).await.unwrap();
    let endpoints = namespace.endpoints();
    eventually_gone("Endpoints", SOON, &endpoints, "web").await.unwrap();
    counted([ready, not_ready, objects], "no Service").await;
}

/// B114.
#[tokio::test]
async fn every_replica_serves_probes_and_metrics_and_one_says_that_it_leads() {
    let _alone = alone().await;
    let namespace = namespace().await;
    let builder = Svcplane::builder().lease_in(&namespace).observe();
    let mut replicas = Vec::new();
    for number in 1..=3 {
        replicas.push(start(builder.clone().replica(number)).await);
    }
    let one_leads = async |replicas: &[Replica]| {
        let mut gauges = Vec::new();
        for replica in replicas {
            replica.wait_ready().await.unwrap();
            assert!(replica.get("/livez").await.unwrap().0.is_success());
            let page = replica.metrics().await.unwrap();
            gauges.push(page.get("leader_election_master_status", &[("name", "svcplane")]));
        }
        gauges.sort_by(|one, other| one.partial_cmp(other).unwrap());
        gauges
    };
    namespace.wait_leader_among(&replicas).await.unwrap();
    assert_eq!(one_leads(&replicas).await, [Some(0.0), Some(0.0), Some(1.0)]);
    // A rolling update: new ones come before old ones go.
    for number in 4..=6 {
        let new = start(builder.clone().replica(number)).await;
        new.wait_ready().await.unwrap();
        replicas.push(new);
        replicas.remove(0).terminate().await.unwrap();
    }
    namespace.wait_leader_among(&replicas).await.unwrap();
    assert_eq!(one_leads(&replicas).await, [Some(0.0), Some(0.0), Some(1.0)]);
}

/// B116.
#[tokio::test]
async fn the_content_type_is_that_of_the_content_and_names_are_not_doubled() {
    let _alone = alone().await;
    let namespace = namespace().await;
    let replica = start(Svcplane::builder().lease_in(&namespace).observe()).await;
    replica.wait_idle().await.unwrap();
    let url = format!("{}/metrics", replica.admin_url());
    let openmetrics = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    for accept in ["*/*", openmetrics] {
        let (status, headers, page) = get_accepting(&url, accept).await.unwrap();
        assert!(status.is_success());
        let content_type = headers["content-type"].to_str().unwrap();
        let is_openmetrics = content_type.starts_with("application/openmetrics-text");
        assert!(
            is_openmetrics || content_type.starts_with("text/plain; version=0.0.4"),
            "{content_type}"
        );
        assert_eq!(is_openmetrics, page.trim_end().ends_with("# EOF"), "{content_type}");
        assert!(!page.contains("_total_total"));
        let metrics = Metrics::parse(&page);
        let lines = page.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(metrics.samples().len(), lines, "every line is a sample");
        for kind in ["TYPE", "HELP"] {
            let prefix = format!("# {kind} ");
            let described: Vec<_> = page.lines().filter_map(|line| line.strip_prefix(&prefix)).collect();
            for name in metrics.names() {
                let part = ["_bucket", "_sum", "_count"]
                    .iter()
                    .find_map(|suffix| name.strip_suffix(suffix));
                let found = described.iter().filter_map(|line| line.split(' ').next());
                assert!(
                    found.into_iter().any(|it| it == name || Some(it) == part),
                    "no {kind} of {name}"
                );
            }
        }
    }
}

/// B118.
#[tokio::test]
async fn the_number_of_series_does_not_grow() {
    let _alone = alone().await;
    let namespace = namespace().await;
    let replica = start(Svcplane::builder().lease_in(&namespace)).await;
    let series = async || -> BTreeSet<String> {
        let (_, page) = replica.get("/metrics").await.unwrap();
        let lines = page.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
    };
    // Everything that happens later happens here first: each kind of write, a write that fails, a list made anew.
    for name in ["one", "two", "three", "four", "five"] {
        namespace.workload(name, &["10.201.0.1"]).await.unwrap();
        namespace
            .endpoints_become(name, &["10.201.0.1 -> :8080/TCP"])
            .await
            .unwrap();
    }
    let refused = Action::Refuse(Refusal::internal_error());
    let rule = replica
        .proxy()
        .rule(Match::writes("endpoints").name("one"), refused, Times::First(1));
    namespace.set_pod_ready("one-0", false).await.unwrap();
    rule.wait_hits(1, SOON).await.unwrap();
    namespace
        .endpoints_become("one", &["!10.201.0.1 -> :8080/TCP"])
        .await
        .unwrap();
    namespace
        .services()
        .delete("two", &DeleteParams::default())
        .await
        .unwrap();
    let all = Match::all_watches()
        .resource("pods")
        .resource("services")
        .resource("endpoints");
    replica.proxy().end_watches(&all, &WatchEnd::Error(Refusal::expired()));
    namespace.caught_up().await.unwrap();
    let before = series().await;

    let many = (0..500).map(async |number| {
        let name = format!("many-{number}");
        service(&name)
            .selector("app", &name)
            .port("", 80, 8080)
            .create(&namespace)
            .await
            .unwrap();
    });
    stream::iter(many).buffer_unordered(24).collect::<()>().await;
    let started = Instant::now();
    let mut restarts = 0;
    while restarts < 100 {
        restarts += replica.proxy().end_watches(&all, &WatchEnd::Close);
        let open = |_: &[_]| replica.proxy().open_watches(&all) == 3;
        replica.proxy().wait_requests(&all, SOON, open).await.unwrap();
        assert!(started.elapsed() < SOON, "{restarts} restarts");
    }
    let writes = Match::writes("endpoints").namespace(namespace.name());
    let complete = |writes: &[svcplane_tests::proxy::Record]| writes.len() >= 505;
    replica.proxy().wait_requests(&writes, SOON, complete).await.unwrap();
    let after = series().await;
    let new: Vec<_> = after.difference(&before).collect();
    assert_eq!(new, Vec::<&String>::new());
    let (_, page) = replica.get("/metrics").await.unwrap();
    for secret in [namespace.name(), "10.201.", "many-"] {
        assert!(!page.contains(secret), "{secret} is in the metrics");
    }
}

/// What the leader writes is no change by somebody else to its followers, and nothing is to an observer.
#[tokio::test]
async fn only_what_others_write_beside_the_leader_is_foreign() {
    const FLIPS: usize = 20;
    let _alone = alone().await;
    let namespace = namespace().await;
    let active = Svcplane::builder().lease_in(&namespace);
    let leader = start(active.clone().replica(1)).await;
    leader.wait_leader().await.unwrap();
    let follower = start(active.clone().replica(2)).await;
    let observer = start(active.replica(3).arg("--leader-elect-resource-name=look").observe()).await;
    observer.wait_leader().await.unwrap();
    follower.wait_ready().await.unwrap();
    namespace.workload("web", &["10.201.0.1", "10.201.0.2"]).await.unwrap();
    let flip = async |ready: bool| {
        namespace.set_pod_ready("web-0", ready).await.unwrap();
        let line = if ready {
            "10.201.0.1 10.201.0.2 -> :8080/TCP"
        } else {
            "10.201.0.2 !10.201.0.1 -> :8080/TCP"
        };
        namespace.endpoints_become("web", &[line]).await.unwrap();
    };
    for number in 0..FLIPS {
        flip(number % 2 == 1).await;
    }
    let foreign = async |replica: &Replica| {
        replica.wait_informed(&cluster::shared().client()).await.unwrap();
        let page = replica.metrics().await.unwrap();
        page.sum("svcplane_foreign_changes_total", &[])
    };
    let counted = [&leader, &follower, &observer].map(foreign);
    assert_eq!(futures::future::join_all(counted).await, [0.0, 0.0, 0.0]);
    // And what somebody else writes is counted by the one that puts it right.
    namespace
        .endpoints()
        .delete("web", &DeleteParams::default())
        .await
        .unwrap();
    flip(false).await;
    let one = leader.wait_metric("svcplane_foreign_changes_total", &[], SOON, |it| it > 0.5);
    one.await.unwrap();
    let counted = [&follower, &observer].map(foreign);
    assert_eq!(futures::future::join_all(counted).await, [0.0, 0.0]);
}
