//! What a restart, a resync and the batch period do. Each test runs svcplanes of its own, one after another.

use std::time::Duration;

use futures::future::try_join_all;
use http::Method;
use k8s_openapi::api::core::v1::{Endpoints, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use svcplane_tests::cluster;
use svcplane_tests::eventually::{eventually_gone, eventually_one};
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{ServiceBuilder, create_pods, endpoints, pod, service};
use svcplane_tests::proxy::{Action, FaultProxy, Match, Times};
use svcplane_tests::subsets::lines;
use svcplane_tests::svcplane::{Builder, Svcplane};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep};

const DEADLINE: Duration = Duration::from_secs(30);
/// The pause between two looks at metrics.
const POLL: Duration = Duration::from_millis(20);
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

static TURN: Mutex<()> = Mutex::const_new(());

async fn turn() -> (MutexGuard<'static, ()>, TestNamespace) {
    let guard = TURN.lock().await;
    (guard, TestNamespace::create(cluster::shared()).await.unwrap())
}

fn on_the_cluster() -> Builder {
    Svcplane::builder().cluster(cluster::shared())
}

async fn leading(builder: Builder) -> Svcplane {
    let svcplane = builder.start().await.unwrap();
    svcplane.wait_leader().await.unwrap();
    svcplane
}

fn to_web(name: &str) -> ServiceBuilder {
    service(name).selector("app", "web").port("", 80, 80)
}

/// Waits until at least so many Services were looked at.
async fn wait_syncs(svcplane: &Svcplane, least: f64) {
    let end = Instant::now() + DEADLINE;
    while syncs(svcplane).await < least {
        assert!(Instant::now() < end, "{} syncs, not {least}", syncs(svcplane).await);
        sleep(POLL).await;
    }
}

/// So many, once there are no more for a moment.
async fn settled_syncs(svcplane: &Svcplane) -> f64 {
    let (mut last, mut since) = (syncs(svcplane).await, Instant::now());
    while since.elapsed() < Duration::from_millis(400) {
        sleep(POLL).await;
        let now = syncs(svcplane).await;
        if now > last {
            (last, since) = (now, Instant::now());
        }
    }
    last
}

async fn syncs(svcplane: &Svcplane) -> f64 {
    svcplane.looks().await.unwrap()
}

/// Services of every kind, with Pods in every state.
async fn a_bit_of_everything(namespace: &TestNamespace) {
    let pods = (0..24).map(|number: u32| {
        let one = pod(&format!("p{number}"))
            .label("app", "web")
            .label("third", &(number % 3).to_string());
        let one = one.ip(&format!("10.1.0.{number}")).ip(&format!("fd00::{number}"));
        one.ready(!number.is_multiple_of(4))
            .port("http", 8000 + number.cast_signed() % 2)
            .hostname("h", "headless")
    });
    create_pods(pods, namespace).await.unwrap();
    pod("done")
        .label("app", "web")
        .ip("10.1.0.99")
        .phase("Failed")
        .create(namespace)
        .await
        .unwrap();
    pod("floating")
        .label("app", "web")
        .ip("10.1.0.98")
        .node("")
        .create(namespace)
        .await
        .unwrap();
    let mut services = vec![
        to_web("headless").headless(),
        service("no-ports").selector("app", "web").headless(),
        to_web("labelled")
            .label("a", "1")
            .label("service.kubernetes.io/headless", "x")
            .label(MANAGED_BY, "somebody"),
        to_web("published").publish_not_ready_addresses(),
        to_web("v6").families("SingleStack", &["IPv6"]),
        service("named")
            .selector("app", "web")
            .port("b", 80, "http")
            .port("a", 81, 81),
        service("nothing").selector("app", "none").port("", 80, 80),
        to_web("external").external_name("example.org"),
        service("manual").port("", 80, 80),
    ];
    services.extend((0..20).map(|number: u32| {
        let third = service(&format!("third-{number}")).selector("third", &(number % 3).to_string());
        third.port("http", 80, "http").port_with_protocol("UDP", "dns", 53, 53)
    }));
    for service in services {
        service.create(namespace).await.unwrap();
    }
    endpoints("manual")
        .subset(&["192.0.2.1"], &[("", 80)])
        .create(namespace)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_restart_and_a_resync_with_unchanged_inputs_write_nothing() {
    let (_turn, namespace) = turn().await;
    a_bit_of_everything(&namespace).await;
    let svcplane = leading(on_the_cluster()).await;
    namespace.caught_up().await.unwrap();
    // In another order than ours, as the reference's hashes leave it.
    let named = namespace.endpoints().get("named").await.unwrap();
    let mut reversed = named.subsets.unwrap();
    reversed.reverse();
    for subset in &mut reversed {
        subset.ports.iter_mut().for_each(|ports| ports.reverse());
    }
    let reversed = Patch::Merge(json!({ "subsets": reversed }));
    namespace
        .endpoints()
        .patch("named", &PatchParams::default(), &reversed)
        .await
        .unwrap();
    namespace.caught_up().await.unwrap();
    svcplane.terminate().await.unwrap();

    let cluster = cluster::shared();
    let before = cluster.writes("endpoints").await.unwrap();
    let services: Api<Service> = Api::all(namespace.client());
    let services = services.list(&ListParams::default()).await.unwrap().items.len();
    let each = f64::from(u32::try_from(services).unwrap());
    for how in ["--watch-list=auto", "--watch-list=off"] {
        let svcplane = leading(on_the_cluster().arg(how).arg("--min-resync-period=1s")).await;
        // At the start, and in three resyncs.
        wait_syncs(&svcplane, 4.0 * each).await;
        svcplane.terminate().await.unwrap();
        assert_eq!(cluster.writes("endpoints").await.unwrap(), before, "{how}");
    }
}

#[tokio::test]
async fn what_changed_meanwhile_is_put_right_at_the_start() {
    let (_turn, namespace) = turn().await;
    for number in 1..=2 {
        let one = pod(&format!("p{number}"))
            .label("app", "web")
            .ip(&format!("10.2.0.{number}"));
        one.create(&namespace).await.unwrap();
    }
    let names = ["web", "deleted", "edited", "taken-away", "relabelled"];
    for name in names {
        to_web(name).create(&namespace).await.unwrap();
    }
    let svcplane = leading(on_the_cluster()).await;
    for name in names {
        namespace
            .endpoints_become(name, &["10.2.0.1 10.2.0.2 -> :80/TCP"])
            .await
            .unwrap();
    }
    svcplane.terminate().await.unwrap();

    namespace.delete_pod("p1", Duration::ZERO).await.unwrap();
    pod("p3")
        .label("app", "web")
        .ip("10.2.0.3")
        .create(&namespace)
        .await
        .unwrap();
    namespace
        .services()
        .delete("deleted", &DeleteParams::default())
        .await
        .unwrap();
    let params = PatchParams::default();
    let none = Patch::Merge(json!({ "subsets": null }));
    namespace.endpoints().patch("edited", &params, &none).await.unwrap();
    namespace
        .endpoints()
        .delete("taken-away", &DeleteParams::default())
        .await
        .unwrap();
    let label = json!({ "metadata": { "labels": { "a": "1" } } });
    namespace.patch_service("relabelled", &label).await.unwrap();
    to_web("new").create(&namespace).await.unwrap();

    let _svcplane = leading(on_the_cluster()).await;
    for name in ["web", "edited", "taken-away", "relabelled", "new"] {
        let found = namespace
            .endpoints_become(name, &["10.2.0.2 10.2.0.3 -> :80/TCP"])
            .await
            .unwrap();
        assert_eq!(found.labels().contains_key("a"), name == "relabelled");
        // All Services are new to this process.
        let created = namespace
            .services()
            .get(name)
            .await
            .unwrap()
            .metadata
            .creation_timestamp;
        assert_eq!(
            found.annotations().get(TRIGGER_TIME).map(String::as_str),
            serde_json::to_value(created).unwrap().as_str()
        );
    }
    eventually_gone("deleted", DEADLINE, &namespace.endpoints(), "deleted")
        .await
        .unwrap();
}

/// The reference deletes whatever has no Service.
#[tokio::test]
async fn the_start_removes_leftovers_of_endpoint_controllers_alone() {
    let (_turn, namespace) = turn().await;
    let managed = (MANAGED_BY, "endpoint-controller");
    let objects = [
        endpoints("leftover").label(managed.0, managed.1),
        endpoints("empty-leftover").label(managed.0, managed.1).label("a", "1"),
        endpoints("hand-made"),
        endpoints("of-somebody").label(managed.0, "somebody"),
        endpoints("lock").annotation(LEADER, "{}"),
        endpoints("managed-lock")
            .label(managed.0, managed.1)
            .annotation(LEADER, ""),
    ];
    let mut uids = Vec::new();
    for object in objects {
        let object = object.subset(&["192.0.2.1"], &[("", 80)]);
        uids.push(object.create(&namespace).await.unwrap());
    }
    let svcplane = leading(on_the_cluster()).await;
    for name in ["leftover", "empty-leftover"] {
        eventually_gone(name, DEADLINE, &namespace.endpoints(), name)
            .await
            .unwrap();
    }
    namespace.caught_up().await.unwrap();
    for kept in uids.iter().skip(2) {
        let now = namespace.endpoints().get(&kept.name_any()).await.unwrap();
        assert_eq!(now.resource_version(), kept.resource_version());
    }
    let without_service = async || {
        let metrics = svcplane.metrics().await.unwrap();
        metrics.get("svcplane_endpoints_without_service", &[])
    };
    // The other tests leave none.
    assert_eq!(without_service().await, Some(4.0));
    for kept in uids.iter().skip(2) {
        namespace
            .endpoints()
            .delete(&kept.name_any(), &DeleteParams::default())
            .await
            .unwrap();
    }
    let end = Instant::now() + DEADLINE;
    while without_service().await != Some(0.0) {
        assert!(Instant::now() < end, "still counted: {:?}", without_service().await);
        sleep(POLL).await;
    }
}

/// One look per change; none at what it has written itself.
#[tokio::test]
async fn a_change_costs_one_sync() {
    let (_turn, namespace) = turn().await;
    pod("p1")
        .label("app", "web")
        .ip("10.4.0.1")
        .create(&namespace)
        .await
        .unwrap();
    to_web("web").create(&namespace).await.unwrap();
    let proxy = FaultProxy::start(cluster::shared()).unwrap();
    let kubeconfig = proxy.kubeconfig(cluster::shared().admin_token()).unwrap();
    let svcplane = leading(Svcplane::builder().kubeconfig(kubeconfig)).await;
    namespace
        .endpoints_become("web", &["10.4.0.1 -> :80/TCP"])
        .await
        .unwrap();
    namespace.caught_up().await.unwrap();
    // What it has written comes back after the reply, or before it.
    for late in [Duration::ZERO, Duration::from_millis(100)] {
        proxy.rule(Match::writes("endpoints"), Action::DelayReply(late), Times::Always);
        let before = settled_syncs(&svcplane).await;
        for round in 0..10 {
            let ready = round % 2 == 1;
            namespace.set_pod_ready("p1", ready).await.unwrap();
            let mark = if ready { "" } else { "!" };
            let line = format!("{mark}10.4.0.1 -> :80/TCP");
            namespace.endpoints_become("web", &[&line]).await.unwrap();
        }
        let note = Patch::Merge(json!({ "metadata": { "annotations": { "example.org/note": format!("{late:?}") } } }));
        let params = PatchParams::default();
        namespace.endpoints().patch("web", &params, &note).await.unwrap();
        wait_syncs(&svcplane, before + 11.0).await;
        let syncs = settled_syncs(&svcplane).await - before;
        assert!((syncs - 11.0).abs() < 0.5, "{syncs} syncs for 11 changes, {late:?}");
        proxy.clear_rules();
    }
    svcplane.terminate().await.unwrap();
}

/// So long that a test which waited for it would fail.
#[tokio::test]
async fn the_batch_period_holds_up_pods_and_nothing_else() {
    let (_turn, namespace) = turn().await;
    let batch = Batch::start(&namespace, "1h").await;
    let time = |number: usize| format!("2090-01-01T00:00:{:02}Z", 59 - number);
    batch.flip(&namespace, &time).await;
    // A new Service is served at once, and shows whether all these changes were seen.
    for attempt in 0.. {
        assert!(attempt < 100, "the changes of the Pods are not seen");
        let name = format!("other-{attempt}");
        to_web(&name).create(&namespace).await.unwrap();
        let exists = |found: Option<&Endpoints>| found.cloned().ok_or_else(|| "not yet".to_owned());
        let found = eventually_one(&name, DEADLINE, &namespace.endpoints(), &name, exists)
            .await
            .unwrap();
        if lines(&found) == [batch.line("!")] {
            break;
        }
    }
    assert_eq!(batch.methods(&namespace), [Method::POST]);
    // So is a change of the Service; that sync sees all the Pods, and dates from the first of their changes.
    let label = json!({ "metadata": { "labels": { "a": "1" } } });
    namespace.patch_service("web", &label).await.unwrap();
    let written = namespace.endpoints_become("web", &[&batch.line("!")]).await.unwrap();
    assert_eq!(written.annotations().get(TRIGGER_TIME), Some(&time(Batch::PODS - 1)));
    assert_eq!(batch.methods(&namespace), [Method::POST, Method::PUT]);
}

#[tokio::test]
async fn a_burst_of_changes_within_the_batch_period_is_few_writes() {
    let (_turn, namespace) = turn().await;
    let batch = Batch::start(&namespace, "1s").await;
    let started = Instant::now();
    batch.flip(&namespace, &|_| "2090-01-01T00:00:00Z".into()).await;
    namespace.endpoints_become("web", &[&batch.line("!")]).await.unwrap();
    let most = 2 + started.elapsed().as_secs();
    let updates = batch.methods(&namespace).len() - 1;
    assert!(
        (1..=most).contains(&(updates as u64)),
        "{updates} writes, not at most {most}"
    );
}

/// A Service with 30 ready Pods, served with a batch period.
struct Batch {
    // Before its proxy, so that it can give the Lease back.
    _svcplane: Svcplane,
    proxy: FaultProxy,
}

impl Batch {
    const PODS: usize = 30;

    async fn start(namespace: &TestNamespace, period: &str) -> Self {
        let pods = (0..Self::PODS).map(|number| {
            let one = pod(&format!("p{number}")).label("app", "web");
            one.ip(&format!("10.5.0.{}", 100 + number))
        });
        create_pods(pods, namespace).await.unwrap();
        to_web("web").create(namespace).await.unwrap();
        let proxy = FaultProxy::start(cluster::shared()).unwrap();
        let kubeconfig = proxy.kubeconfig(cluster::shared().admin_token()).unwrap();
        let builder = Svcplane::builder().kubeconfig(kubeconfig);
        let svcplane = leading(builder.arg(&format!("--endpoint-updates-batch-period={period}"))).await;
        let batch = Self {
            _svcplane: svcplane,
            proxy,
        };
        namespace.endpoints_become("web", &[&batch.line("")]).await.unwrap();
        batch
    }

    /// What the Endpoints say, with this mark before each address.
    fn line(&self, mark: &str) -> String {
        let words: Vec<String> = (0..Self::PODS)
            .map(|number| format!("{mark}10.5.0.{}", 100 + number))
            .collect();
        words.join(" ") + " -> :80/TCP"
    }

    /// All at once are not ready any more, each since its time.
    async fn flip(&self, namespace: &TestNamespace, time: &dyn Fn(usize) -> String) {
        let flips = (0..Self::PODS).map(async |number| {
            let condition = json!({ "type": "Ready", "status": "False", "lastTransitionTime": time(number) });
            namespace
                .patch_pod_status(&format!("p{number}"), json!({ "conditions": [condition] }))
                .await
        });
        try_join_all(flips).await.unwrap();
    }

    fn methods(&self, namespace: &TestNamespace) -> Vec<Method> {
        let of_web = Match::writes("endpoints").namespace(namespace.name()).name("web");
        self.proxy
            .requests(&of_web)
            .into_iter()
            .map(|it| it.request.method)
            .collect()
    }
}
