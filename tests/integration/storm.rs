//! Many writers at once through three replicas, one of which is killed in the middle: no value twice, no refusal that nobody caused, and
//! nearly all values chosen by us. `STORM_SERVICES` creations in each pass; those without webhook are deleted before the ones with it, since
//! each creation is dearer for the apiserver the more addresses there are.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use k8s_openapi::api::networking::v1::IPAddress;
use kube::Api;
use parking_lot::Mutex;
use serde_json::{Value, json};
use svcplane_tests::admission::{Credentials, address, install_crds, send, wait_choosing};
use svcplane_tests::balancer::Balancer;
use svcplane_tests::cluster::{Cluster, Flavour};
use svcplane_tests::eventually::eventually;
use svcplane_tests::governed::{SOON, delete_all};
use svcplane_tests::metrics::Metrics;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::svcplane::Svcplane;
use svcplane_tests::usage::cpu_time;

const WRITERS: usize = 32;
const REPLICAS: [&str; 3] = ["one", "two", "three"];

/// A replica closes a connection after 250 reviews; with fewer creations than this the shares tell which connections an apiserver liked best.
const SPREAD: usize = 3_000;

fn services() -> usize {
    let text = std::env::var("STORM_SERVICES").unwrap_or_else(|_| "400".into());
    text.parse()
        .unwrap_or_else(|_| panic!("STORM_SERVICES is no number: {text}"))
}

/// One pass: each creation's time, and the values that were stored.
struct Pass {
    took: Duration,
    times: Vec<Duration>,
    values: Vec<String>,
}

impl Pass {
    fn time(&self, share: f64) -> f64 {
        let mut times = self.times.clone();
        times.sort();
        let place = (times.len() as f64 * share) as usize;
        times[place.min(times.len() - 1)].as_secs_f64() * 1e3
    }

    fn say(&self, what: &str) {
        let rate = self.times.len() as f64 / self.took.as_secs_f64();
        let (median, late) = (self.time(0.5), self.time(0.99));
        println!("{what}: {rate:.0} creations/s, p50 {median:.1} ms, p99 {late:.1} ms");
    }

    /// What it cost: processor time of apiserver, etcd and all replicas since they had spent `before`, for each creation.
    fn say_cost(&self, before: [Duration; 3], after: [Duration; 3]) {
        let each = |program: usize| (after[program] - before[program]).as_secs_f64() * 1e3 / self.times.len() as f64;
        let [apiserver, etcd, replicas] = [0, 1, 2].map(each);
        println!("  processor time of each: apiserver {apiserver:.1} ms, etcd {etcd:.1} ms, replicas {replicas:.1} ms");
    }
}

/// Processor time so far: of the apiserver, of etcd, of all replicas.
fn spent(cluster: &Cluster, replicas: &[Svcplane]) -> [Duration; 3] {
    let ours = replicas.iter().map(|replica| replica.process().cpu_time().unwrap());
    let apiserver = cpu_time(cluster.apiserver_pid().unwrap()).unwrap();
    [apiserver, cluster.etcd().cpu_time().unwrap(), ours.sum()]
}

/// Creates dual-stack NodePort Services. `midway` runs when half of them are made.
async fn pass(namespace: &TestNamespace, midway: impl AsyncFnOnce()) -> Pass {
    let (count, made) = (services(), Arc::new(AtomicUsize::new(0)));
    let (times, values) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let path = format!("/api/v1/namespaces/{}/services", namespace.name());
    let writer = async |writer: usize| {
        let client = namespace.client();
        for number in (writer..count).step_by(WRITERS) {
            let service = json!({"metadata": {"name": format!("s{number}")}, "spec": {"type": "NodePort",
                "ipFamilyPolicy": "RequireDualStack", "ports": [{"port": 80}]}});
            let begun = Instant::now();
            let said = send(&client, "POST", &path, Some(&service)).await.unwrap();
            times.lock().push(begun.elapsed());
            assert_eq!(said.warnings, [""; 0]);
            values.lock().extend(listed(&said.accepted().unwrap()));
            made.fetch_add(1, Ordering::Relaxed);
        }
    };
    let half = async {
        while made.load(Ordering::Relaxed) < count / 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        midway().await;
    };
    let begun = Instant::now();
    let ((), _) = tokio::join!(half, join_all((0..WRITERS).map(writer)));
    Pass {
        took: begun.elapsed(),
        times: times.into_inner(),
        values: values.into_inner(),
    }
}

fn listed(service: &Value) -> Vec<String> {
    let addresses = service["spec"]["clusterIPs"].as_array().unwrap().iter();
    let ports = service["spec"]["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| &port["nodePort"]);
    addresses.chain(ports).map(ToString::to_string).collect()
}

/// No value of these passes has two owners, and none is missing.
fn assert_each_once<const N: usize>(passes: [&Pass; N]) {
    let all: Vec<&String> = passes.into_iter().flat_map(|pass| &pass.values).collect();
    let distinct: BTreeSet<&String> = all.iter().copied().collect();
    assert_eq!(distinct.len(), all.len(), "a value has two owners");
    assert_eq!(all.len(), N * 3 * services());
}

/// Waits until the apiserver has taken all addresses back but those of its own Services.
async fn wait_released(namespace: &TestNamespace) {
    let addresses: Api<IPAddress> = Api::all(namespace.client());
    let is_own = |it: &&IPAddress| it.spec.parent_ref.namespace.as_deref() == Some("default");
    let released = |left: &[IPAddress]| match left.len() - left.iter().filter(is_own).count() {
        0 => Ok(()),
        count => Err(format!("{count} are left")),
    };
    eventually("no address", SOON, &addresses, "", released).await.unwrap();
}

/// How many values the apiserver has allocated by itself so far.
async fn allocated_by_the_apiserver(cluster: &Cluster) -> f64 {
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let page = Metrics::parse(&cluster.client().request_text(request).await.unwrap());
    let by_itself = [("scope", "dynamic")];
    page.sum("kube_apiserver_clusterip_allocator_allocation_total", &by_itself)
        + page.sum("kube_apiserver_nodeport_allocator_allocation_total", &by_itself)
}

async fn reviews(replica: &Svcplane) -> f64 {
    let page = replica.metrics().await.unwrap();
    page.sum("svcplane_admission_reviews_total", &[("endpoint", "mutate")])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_creations_through_three_replicas() {
    let cluster = Cluster::builder(Flavour::DualStack)
        .apiserver_arg("--service-node-port-range=20000-65000")
        .start()
        .await
        .unwrap();
    let client = cluster.client();
    install_crds(&client).await.unwrap();
    let credentials = Credentials::make().unwrap();
    let namespace = async |name: &str| TestNamespace::create_with(cluster.client(), name).await.unwrap();

    let start = async |(number, name): (usize, &&str)| {
        let builder = Svcplane::builder()
            .cluster(&cluster)
            .replica(number)
            .arg("--allocate=all")
            .arg("--service-node-port-range=20000-65000")
            .arg(&format!("--webhook-peers={}", REPLICAS.join(",")))
            .arg(&format!("--webhook-self={name}"));
        let replica = credentials.serve(builder).start().await.unwrap();
        replica.wait_ready().await.unwrap();
        replica
    };
    let replicas = join_all(REPLICAS.iter().enumerate().map(start)).await;
    // The replicas are there and follow all of it, so that the difference is the webhook's.
    let nobody = async || {};
    let by_itself = allocated_by_the_apiserver(&cluster).await;
    let before = spent(&cluster, &replicas);
    let without = namespace("off").await;
    let off = pass(&without, nobody).await;
    off.say("without webhook");
    off.say_cost(before, spent(&cluster, &replicas));
    let all = allocated_by_the_apiserver(&cluster).await - by_itself;
    assert_eq!(
        all,
        off.values.len() as f64,
        "the apiserver's counters count what it chooses"
    );

    assert_each_once([&off]);
    delete_all(&without, "s", services(), WRITERS).await;
    wait_released(&without).await;

    let targets = join_all(replicas.iter().map(async |replica| address(replica).await.unwrap())).await;
    let balancer = Balancer::start(targets).await.unwrap();
    let asked: Vec<&Svcplane> = replicas.iter().collect();
    credentials
        .register(&client, &balancer.address(), &asked)
        .await
        .unwrap();
    for replica in &replicas {
        wait_choosing(replica).await.unwrap();
    }

    let before = join_all(replicas.iter().map(reviews)).await;
    let by_itself = allocated_by_the_apiserver(&cluster).await;
    let cost = spent(&cluster, &replicas);
    let on = pass(&namespace("on").await, nobody).await;
    on.say("with webhook");
    on.say_cost(cost, spent(&cluster, &replicas));
    let after = join_all(replicas.iter().map(reviews)).await;
    let shares: Vec<f64> = after
        .iter()
        .zip(&before)
        .map(|(after, before)| after - before)
        .collect();
    let sum: f64 = shares.iter().sum();
    println!("reviews by replica: {shares:?}");
    let least = if services() < SPREAD { 0.0 } else { 0.2 };
    assert!(shares.iter().all(|share| share / sum > least), "{shares:?}");
    let left = allocated_by_the_apiserver(&cluster).await - by_itself;
    println!("{left} of {} values allocated by the apiserver", on.values.len());
    assert!(left <= on.values.len() as f64 / 1000.0, "{left} of {}", on.values.len());

    let by_itself = allocated_by_the_apiserver(&cluster).await;
    let kill = async || {
        replicas[1].kill9().await.unwrap();
    };
    let killed = pass(&namespace("killed").await, kill).await;
    killed.say("with a replica killed");
    let left = allocated_by_the_apiserver(&cluster).await - by_itself;
    println!("{left} of {} values allocated by the apiserver", killed.values.len());
    // What was under way at the replica that died.
    let under_way = 3 * WRITERS as u32;
    assert!(left <= f64::from(under_way), "{left}");

    assert_each_once([&on, &killed]);
}
