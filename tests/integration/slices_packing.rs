//! How Pods are spread over slices: few of them, few writes, and a Pod that moves is listed before it is taken off where it was. Each test
//! runs svcplanes of its own, whose writes are seen by a proxy.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use svcplane_tests::cluster;
use svcplane_tests::eventually::{eventually, stays};
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{create_pods, pod, service};
use svcplane_tests::proxy::{Action, FaultProxy, Match, Record, Times};
use svcplane_tests::slices::{self, endpoints};
use svcplane_tests::svcplane::{Builder, Replica, Svcplane, alone};
use tokio::sync::MutexGuard;

const SOON: Duration = Duration::from_secs(30);
/// Where each Pod is: its address, and the slice's name.
type Places = BTreeMap<String, String>;

/// A namespace whose Pods `pN` have the addresses 10.3.0.N, and the one svcplane that runs.
struct Rig {
    namespace: TestNamespace,
    replica: Option<Replica>,
    _alone: MutexGuard<'static, ()>,
}

impl Rig {
    async fn new() -> Self {
        let alone = alone().await;
        let namespace = TestNamespace::create(cluster::shared()).await.unwrap();
        slices::node(namespace.client(), "node-1", Some("a")).await.unwrap();
        Self {
            namespace,
            replica: None,
            _alone: alone,
        }
    }

    /// Ends the svcplane that runs and starts another with this limit. Returns once it has looked at everything.
    async fn start(&mut self, limit: usize) {
        if let Some(replica) = self.replica.take() {
            replica.terminate().await.unwrap();
        }
        let proxy = FaultProxy::start(cluster::shared()).unwrap();
        self.start_behind(proxy, limit).await;
    }

    async fn start_behind(&mut self, proxy: FaultProxy, limit: usize) {
        let replica = Replica::start_behind(proxy, cluster::shared(), limited(limit))
            .await
            .unwrap();
        replica.wait_idle().await.unwrap();
        self.replica = Some(replica);
    }

    fn proxy(&self) -> &FaultProxy {
        self.replica.as_ref().unwrap().proxy()
    }

    async fn pods(&self, numbers: std::ops::Range<usize>) {
        let pods = numbers.map(|number| {
            let one = pod(&format!("p{number}")).label("app", "web");
            one.ip(&format!("10.3.0.{number}")).port("http", 8080)
        });
        create_pods(pods, &self.namespace).await.unwrap();
    }

    async fn service(&self) {
        let web = service("web").selector("app", "web").port("", 80, "http");
        web.create(&self.namespace).await.unwrap();
    }

    /// Deletes the Pods of these addresses and waits until they are in none of their slices.
    async fn without(&self, before: &Places, gone: &[&str]) -> Places {
        for address in gone {
            let number = address.rsplit('.').next().unwrap();
            let name = format!("p{number}");
            self.namespace.delete_pod(&name, Duration::ZERO).await.unwrap();
        }
        let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, slice) in before.iter().filter(|(address, _)| !gone.contains(&address.as_str())) {
            *sizes.entry(slice).or_default() += 1;
        }
        let mut sizes: Vec<usize> = sizes.into_values().collect();
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        self.sizes(&sizes).await
    }

    /// Waits until the slices have these sizes, in whatever order, and says where everything is.
    async fn sizes(&self, want: &[usize]) -> Places {
        let what = format!("slices of {want:?}");
        eventually(&what, SOON, &self.namespace.slices(), "", |all: &[EndpointSlice]| {
            let of_web = || all.iter().filter(|slice| slices::belongs(slice, "web", None));
            let mut sizes: Vec<usize> = of_web().map(|slice| endpoints(slice).len()).collect();
            sizes.sort_unstable_by(|one, other| other.cmp(one));
            if sizes != want {
                return Err(format!("{sizes:?}"));
            }
            let places = of_web().flat_map(|slice| {
                let addresses = endpoints(slice).iter().flat_map(|it| it.addresses.clone());
                addresses.map(|address| (address, slice.name_any()))
            });
            let places: Places = places.collect();
            let different = places.len();
            (different == want.iter().sum::<usize>())
                .then_some(places)
                .ok_or_else(|| format!("{different} different ones"))
        })
        .await
        .unwrap()
    }

    /// The writes of slices of the Service since the last time, all of them answered with success.
    async fn writes(&self) -> Vec<Record> {
        self.namespace.caught_up().await.unwrap();
        let of_web = Match::writes("endpointslices").namespace(self.namespace.name());
        let answered = |all: &[Record]| all.iter().all(|it| it.status.is_some());
        let mut writes = self.proxy().wait_requests(&of_web, SOON, answered).await.unwrap();
        writes.retain(|it| {
            let body = String::from_utf8_lossy(it.body.as_deref().unwrap_or_default()).into_owned();
            it.request.name.starts_with("web-") || (it.request.method == Method::POST && body.contains(r#""web-"#))
        });
        assert!(
            writes.iter().all(|it| it.status.is_some_and(|code| code < 300)),
            "{writes:?}"
        );
        self.proxy().clear_records();
        writes
    }
}

fn limited(limit: usize) -> Builder {
    Svcplane::builder()
        .arg("--leader-elect=false")
        .arg(&format!("--max-endpoints-per-slice={limit}"))
}

/// How many POST, PUT and DELETE.
fn verbs(writes: &[Record]) -> [usize; 3] {
    [Method::POST, Method::PUT, Method::DELETE]
        .map(|method| writes.iter().filter(|it| it.request.method == method).count())
}

/// How many of those that were there are somewhere else now.
fn moved(before: &Places, after: &Places) -> usize {
    let places = before.iter().filter(|(pod, _)| after.contains_key(*pod));
    places.filter(|(pod, place)| after.get(*pod) != Some(place)).count()
}

#[tokio::test]
async fn what_comes_and_goes_costs_the_fewest_writes_and_moves_nobody() {
    let mut rig = Rig::new().await;
    rig.start(10).await;
    rig.pods(1..26).await;
    rig.namespace.caught_up().await.unwrap();
    rig.writes().await;
    rig.service().await;
    let first = rig.sizes(&[10, 10, 5]).await;
    assert_eq!(verbs(&rig.writes().await), [3, 0, 0]);

    // One more fits into the last slice.
    rig.pods(26..27).await;
    let more = rig.sizes(&[10, 10, 6]).await;
    assert_eq!((verbs(&rig.writes().await), moved(&first, &more)), ([0, 1, 0], 0));

    // A change touches its slice alone.
    rig.namespace.set_pod_ready("p3", false).await.unwrap();
    let writes = rig.writes().await;
    assert_eq!(verbs(&writes), [0, 1, 0]);
    assert_eq!(writes[0].request.name, more["10.3.0.3"]);

    // One that goes leaves a hole, which nobody is moved into. It is terminating for a moment, which may be seen.
    let less = rig.without(&more, &["10.3.0.3"]).await;
    let writes = rig.writes().await;
    assert!(
        writes.iter().all(|it| it.request.name == more["10.3.0.3"]),
        "{writes:?}"
    );
    let [posts, puts, deletes] = verbs(&writes);
    assert!(posts == 0 && (1..=2).contains(&puts) && deletes == 0, "{writes:?}");
    assert_eq!(moved(&more, &less), 0);

    // All Pods of one slice go, and it with them; the others are not looked at.
    let last = less["10.3.0.26"].clone();
    let leaving = less.iter().filter(|(_, slice)| **slice == last);
    let leaving: Vec<&str> = leaving.map(|(address, _)| address.as_str()).collect();
    let rest = rig.without(&less, &leaving).await;
    let writes = rig.writes().await;
    assert!(writes.iter().all(|it| it.request.name == last), "{writes:?}");
    assert_eq!((verbs(&writes)[2], moved(&less, &rest)), (1, 0));
}

#[tokio::test]
async fn another_limit_at_a_restart_moves_what_must_move() {
    let mut rig = Rig::new().await;
    rig.pods(1..26).await;
    rig.service().await;
    rig.start(10).await;
    let first = rig.sizes(&[10, 10, 5]).await;

    // A greater one is no reason to write.
    rig.start(20).await;
    let greater = rig.sizes(&[10, 10, 5]).await;
    assert_eq!((verbs(&rig.writes().await), moved(&first, &greater)), ([0, 0, 0], 0));

    // A smaller one: four leave each of the two slices that are too full, and two new ones hold them.
    rig.start(6).await;
    let smaller = rig.sizes(&[6, 6, 6, 5, 2]).await;
    assert_eq!((verbs(&rig.writes().await), moved(&greater, &smaller)), ([2, 2, 0], 8));

    // The same again: nothing.
    rig.start(6).await;
    let again = rig.sizes(&[6, 6, 6, 5, 2]).await;
    assert_eq!((verbs(&rig.writes().await), moved(&smaller, &again)), ([0, 0, 0], 0));
}

/// Between the first write and the last, no Pod that stays is in no slice.
#[tokio::test]
async fn additions_are_acknowledged_before_removals_are_sent() {
    const LATE: Duration = Duration::from_millis(700);
    let mut rig = Rig::new().await;
    rig.pods(1..26).await;
    rig.service().await;
    rig.start(10).await;
    rig.sizes(&[10, 10, 5]).await;

    let proxy = FaultProxy::start(cluster::shared()).unwrap();
    let creates = Match::writes("endpointslices").method(Method::POST);
    proxy.rule(creates, Action::DelayReply(LATE), Times::Always);
    rig.replica.take().unwrap().terminate().await.unwrap();
    rig.start_behind(proxy, 6).await;
    rig.sizes(&[6, 6, 6, 5, 2]).await;
    let writes = rig.writes().await;
    assert_eq!(verbs(&writes), [2, 2, 0]);
    let added = writes.iter().filter(|it| it.request.method == Method::POST);
    let acknowledged = added.map(|it| it.at + LATE).max().unwrap();
    let removed = writes.iter().filter(|it| it.request.method == Method::PUT);
    let sent = removed.map(|it| it.at).min().unwrap();
    assert!(sent >= acknowledged, "{:?} too early", acknowledged - sent);
}

/// It dies when the new slices are made and the old ones not yet cut: the next one finds Pods in two of them, and misses none on the way.
#[tokio::test]
async fn who_is_killed_between_additions_and_removals_leaves_no_pod_twice_or_missing() {
    let mut rig = Rig::new().await;
    rig.pods(1..26).await;
    rig.service().await;
    rig.start(10).await;
    rig.sizes(&[10, 10, 5]).await;
    rig.replica.take().unwrap().terminate().await.unwrap();

    let proxy = FaultProxy::start(cluster::shared()).unwrap();
    let cuts = Match::writes("endpointslices").method(Method::PUT);
    let cuts = proxy.rule(cuts, Action::ResetBefore, Times::Always);
    let killed = Replica::start_behind(proxy, cluster::shared(), limited(6))
        .await
        .unwrap();
    cuts.wait_hits(2, SOON).await.unwrap();
    killed.kill9().await.unwrap();
    let slices = rig.namespace.slices();
    let doubled = slices.list(&ListParams::default()).await.unwrap();
    let listed: usize = doubled.iter().map(|slice| endpoints(slice).len()).sum();
    assert_eq!(listed, 33, "eight of them twice");

    let addresses = |all: &[EndpointSlice]| {
        let of_web = all.iter().filter(|slice| slices::belongs(slice, "web", None));
        let mut addresses: Vec<String> = of_web.flat_map(endpoints).flat_map(|it| it.addresses.clone()).collect();
        addresses.sort();
        addresses
    };
    let all_there = stays(
        "every Pod is listed",
        Duration::from_secs(5),
        &slices,
        "",
        |all: &[EndpointSlice]| {
            let mut found = addresses(all);
            found.dedup();
            if found.len() == 25 {
                Ok(())
            } else {
                Err(format!("{found:?}"))
            }
        },
    );
    let (all_there, ()) = tokio::join!(all_there, rig.start(6));
    all_there.unwrap();
    let packed = slices.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(addresses(&packed).len(), 25, "each once");
    let of_web = packed.iter().filter(|slice| slices::belongs(slice, "web", None));
    let sizes: Vec<usize> = of_web.map(|slice| endpoints(slice).len()).collect();
    assert!(
        sizes.len() <= 6 && sizes.iter().all(|size| (1..=6).contains(size)),
        "{sizes:?}"
    );
}

/// One slice of each set of ports; a Pod that resolves a port otherwise moves from one to the other.
#[tokio::test]
async fn a_pod_that_changes_its_ports_is_never_missing() {
    let mut rig = Rig::new().await;
    rig.start(10).await;
    rig.pods(1..4).await;
    let other = pod("p9").label("app", "web").ip("10.3.0.9").port("http", 9090);
    other.create(&rig.namespace).await.unwrap();
    rig.service().await;
    rig.sizes(&[3, 1]).await;
    rig.writes().await;
    // Names of ports are fixed in a Pod; the Service asks for a number instead, which all of them have.
    let number = Patch::Strategic(json!({"spec": {"ports": [{"port": 80, "targetPort": 7070}]}}));
    let params = PatchParams::default();
    rig.namespace.services().patch("web", &params, &number).await.unwrap();
    rig.sizes(&[4]).await;
    let writes = rig.writes().await;
    // The greater one takes the other's Pod in, then that goes.
    assert_eq!(verbs(&writes), [0, 1, 1]);
    assert_eq!(writes[0].request.method, Method::PUT);
}
