//! What somebody is told who starts svcplane for the first time, and how it finds the cluster and ends.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use serde_json::{Value, json};
use svcplane_tests::binaries;
use svcplane_tests::cluster;
use svcplane_tests::eventually::eventually;
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::objects::{endpoints, service};
use svcplane_tests::process::{Exit, Signal};
use svcplane_tests::svcplane::{Builder, Svcplane, alone};

const SOON: Duration = Duration::from_secs(30);
const CONTROLLERS: [&str; 3] = [
    "endpoints-controller",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
];

async fn namespace() -> TestNamespace {
    TestNamespace::create(cluster::shared()).await.unwrap()
}

fn builder(namespace: &TestNamespace) -> Builder {
    Svcplane::builder().cluster(cluster::shared()).lease_in(namespace)
}

/// What it said when it had looked at everything once, in this mode.
fn summaries(svcplane: &Svcplane) -> Vec<String> {
    let lines = svcplane.log_lines();
    let entries = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let messages = entries.filter_map(|entry| Some(entry["message"].as_str()?.to_owned()));
    messages.filter(|message| message.starts_with("looked at ")).collect()
}

#[tokio::test]
async fn an_observer_says_once_how_much_it_would_write() {
    let _alone = alone().await;
    let namespace = namespace().await;
    for name in ["web", "db"] {
        namespace.workload(name, &["10.201.0.1"]).await.unwrap();
    }
    let look = async |number: usize| {
        let observer = builder(&namespace).observe().replica(number).start().await.unwrap();
        observer.wait_idle().await.unwrap();
        let page = observer.metrics().await.unwrap();
        let services = page.sum("svcplane_objects", &[("resource", "services")]);
        let planned = page.sum("svcplane_planned_operations_total", &[]);
        let want = format!("looked at {services} Services: {planned} writes planned");
        assert_eq!(summaries(&observer), [want]);
        assert_eq!(observer.log_entries("leading")[0]["mode"], "observe");
        assert_eq!(observer.terminate().await.unwrap(), Exit::Code(0));
        page
    };
    // Endpoints and a slice of each, if no other test has left any.
    let page = look(1).await;
    assert!(page.sum("svcplane_planned_operations_total", &[]) >= 4.0);

    let active = builder(&namespace).replica(2).start().await.unwrap();
    active.wait_idle().await.unwrap();
    assert_eq!(summaries(&active), Vec::<String>::new());
    assert_eq!(active.terminate().await.unwrap(), Exit::Code(0));

    let page = look(3).await;
    for metric in ["svcplane_planned_operations_total", "svcplane_operations_total"] {
        for controller in CONTROLLERS {
            let values: Vec<f64> = page
                .matching(metric, &[("controller", controller)])
                .map(|sample| sample.value)
                .collect();
            assert!(values.len() >= 3, "{metric} of {controller}: {values:?}");
            assert!(
                values.iter().all(|value| *value == 0.0),
                "{metric} of {controller}: {values:?}"
            );
        }
    }
}

/// They would be somebody else's words about what somebody else does, and untrue where he does something else.
#[tokio::test]
async fn an_observer_tells_no_events_of_what_objects_say() {
    let _alone = alone().await;
    let namespace = namespace().await;
    namespace.workload("web", &["10.201.0.1"]).await.unwrap();
    let annotated = json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": "Auto"}}});
    namespace.patch_service("web", &annotated).await.unwrap();
    service("db").port("", 80, 80).create(&namespace).await.unwrap();
    let twice = endpoints("db")
        .subset(&["192.0.2.1"], &[("", 80)])
        .subset(&["192.0.2.1"], &[("", 81)]);
    twice.create(&namespace).await.unwrap();
    let reasons = |all: &[Event]| -> BTreeSet<String> {
        let of_objects = all
            .iter()
            .filter(|it| it.involved_object.kind.as_deref() != Some("Lease"));
        of_objects.filter_map(|it| it.reason.clone()).collect()
    };

    let observer = builder(&namespace).observe().replica(1).start().await.unwrap();
    observer.wait_idle().await.unwrap();
    // Its Events are written before it ends.
    assert_eq!(observer.terminate().await.unwrap(), Exit::Code(0));
    let told = namespace.events().list(&Default::default()).await.unwrap().items;
    assert_eq!(reasons(&told), BTreeSet::new());

    let active = builder(&namespace).replica(2).start().await.unwrap();
    let both = BTreeSet::from(["DuplicatePortName", "TopologyAwareHintsDisabled"].map(str::to_owned));
    eventually("both Events", SOON, &namespace.events(), "", |all: &[Event]| {
        let told = reasons(all);
        both.is_subset(&told).then_some(()).ok_or_else(|| format!("{told:?}"))
    })
    .await
    .unwrap();
    assert_eq!(active.terminate().await.unwrap(), Exit::Code(0));
}

#[tokio::test]
async fn who_does_not_get_the_lease_says_that_it_stands_by_and_for_whom() {
    let _alone = alone().await;
    let namespace = namespace().await;
    let leader = builder(&namespace).observe().replica(1).start().await.unwrap();
    leader.wait_leader().await.unwrap();
    let standby = builder(&namespace).observe().replica(2).start().await.unwrap();
    let holder = leader.identity().await.unwrap();
    let said = format!("standing by: {holder} holds Lease {}/svcplane", namespace.name());
    let entry = standby.wait_log(&said, SOON).await.unwrap();
    assert_eq!(entry["level"], "INFO");
    standby.wait_ready().await.unwrap();
    assert_eq!(standby.log_entries(&said).len(), 1, "renewals are no news");
    assert_eq!(leader.log_entries(&said), Vec::<Value>::new());

    let own = standby.identity().await.unwrap();
    leader.terminate().await.unwrap();
    standby.wait_leader().await.unwrap();
    let of_itself = format!("standing by: {own} holds Lease {}/svcplane", namespace.name());
    assert_eq!(standby.log_entries(&of_itself), Vec::<Value>::new());
}

/// Runs it through `env`, which sets what becomes of SIGHUP, whatever the tests themselves were started by.
async fn with_hangup(namespace: &TestNamespace, set: &str) -> Svcplane {
    let path = binaries::svcplane().unwrap();
    let command = [set, path.to_str().unwrap(), "run"];
    let svcplane = builder(namespace).observe().program("/usr/bin/env", &command);
    let svcplane = svcplane.start().await.unwrap();
    svcplane.wait_idle().await.unwrap();
    svcplane
}

fn stopped_by(svcplane: &Svcplane) -> Vec<Value> {
    let entries = svcplane.log_entries("stopping");
    entries.iter().map(|entry| entry["signal"].clone()).collect()
}

#[tokio::test]
async fn a_hangup_ends_it_as_sigterm_does_unless_it_was_started_to_outlive_it() {
    let _alone = alone().await;
    let namespace = namespace().await;
    let svcplane = with_hangup(&namespace, "--default-signal=HUP").await;
    svcplane.signal(Signal::HUP);
    assert_eq!(svcplane.wait_exit(SOON).await.unwrap(), Exit::Code(0));
    assert_eq!(stopped_by(&svcplane), ["SIGHUP"]);
    let lease = namespace.lease().await.unwrap();
    assert_eq!(lease.holder_identity.as_deref().unwrap_or_default(), "", "given back");

    let svcplane = with_hangup(&namespace, "--ignore-signal=HUP").await;
    let looks = svcplane.looks().await.unwrap();
    svcplane.signal(Signal::HUP);
    namespace.workload("web", &["10.201.0.1"]).await.unwrap();
    svcplane.wait_looks(looks + 1.0, SOON).await.unwrap();
    assert_eq!(svcplane.terminate().await.unwrap(), Exit::Code(0));
    assert_eq!(stopped_by(&svcplane), ["SIGTERM"]);
}

#[tokio::test]
async fn the_cluster_is_found_by_several_files_or_below_the_home_directory() {
    let _alone = alone().await;
    let namespace = namespace().await;
    let home = tempfile::tempdir().unwrap();
    let whole = std::fs::read_to_string(cluster::shared().kubeconfig()).unwrap();
    let whole: Value = serde_json::from_str(&whole).unwrap();
    let part = |name: &str, fields: &[&str]| {
        let part: Value = fields.iter().map(|field| (*field, whole[field].clone())).collect();
        let path = home.path().join(name);
        std::fs::write(&path, part.to_string()).unwrap();
        path
    };
    let context = part("context", &["contexts", "current-context"]);
    let access = part("access", &["clusters", "users"]);
    let absent = home.path().join("absent");
    let listed = std::env::join_paths([&context, &absent, &access]).unwrap();
    std::fs::create_dir(home.path().join(".kube")).unwrap();
    part(".kube/config", &["contexts", "current-context", "clusters", "users"]);

    for (listed, home) in [(listed.to_str().unwrap(), Path::new("/nowhere")), ("", home.path())] {
        let builder = Svcplane::builder().lease_in(&namespace).observe();
        let builder = builder.env("KUBECONFIG", listed).env("HOME", home.to_str().unwrap());
        let svcplane = builder.start().await.unwrap();
        svcplane.wait_idle().await.unwrap();
        let connected = svcplane.log_entries("connected");
        assert_eq!(connected.len(), 1);
        assert_eq!(connected[0]["waited"], json!(null), "it was there at once");
        assert_eq!(svcplane.terminate().await.unwrap(), Exit::Code(0));
    }
}
