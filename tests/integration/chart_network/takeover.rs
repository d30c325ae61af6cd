//! The steps of the README, in its order and with the chart's own values: preflight, observe, active, handback, uninstall. After each it is counted
//! which Endpoints and slices of the guests are others than before.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use svcplane_tests::chart::{CHART, NAMESPACE};
use svcplane_tests::cluster::ENDPOINT_CONTROLLERS;
use svcplane_tests::installed::Installed;
use svcplane_tests::metrics::Metrics;
use svcplane_tests::{fetch, lease, private_network, ran, slices};

use super::{SOON, versions};

const SERVICES: usize = 20;
const ADDRESSES: [&str; 3] = ["10.201.0.11", "10.201.0.12", "10.201.0.13"];
const CANARY: &str = "--canary=svcplane/svcplane-canary";

#[test]
#[ignore = "some minutes: make chart-drills"]
fn the_steps_of_the_readme_touch_nothing() {
    private_network::run("takeover::the_steps_of_the_readme_touch_nothing", async || {
        let rig = Installed::shared().await;
        let _ = rig.helm(&["uninstall", "svcplane", "--wait", "--no-hooks"]).await;
        slices::node(rig.cluster.client(), "node-1", None).await.unwrap();
        built_ins(rig, true).await;
        for number in 0..SERVICES {
            rig.guests.workload(&format!("web{number}"), &ADDRESSES).await.unwrap();
        }
        for number in 0..SERVICES {
            become_ready(rig, number, true).await;
        }
        rest(rig).await;
        let mut steps = Steps::begin(rig).await;
        // Beside what earlier tests have left, a "web" without a number among it.
        let is_made = |name: &str| {
            name.split_once("/web")
                .is_some_and(|(_, rest)| rest.starts_with(char::is_numeric))
        };
        let made = steps.objects.keys().filter(|name| is_made(name));
        assert_eq!(made.count(), 2 * SERVICES, "{:?}", steps.objects);

        let (code, words) = svcplane(rig, &["preflight"]).await;
        assert!(code == 1 && words.contains("kube-controller-manager"), "{code} {words}");
        steps.count(rig, "preflight").await;

        let begun = Instant::now();
        let chart = ["svcplane", CHART, "--wait", "--timeout=3m"];
        rig.helm(&[&["install"][..], &chart].concat()).await.unwrap();
        println!("helm install --wait: {:?}", begun.elapsed());
        rig.serve_webhook().await.unwrap();
        drift_is_zero(rig).await;
        steps.count(rig, "observe, drift 0").await;
        let tests = rig.helm(&["test", "svcplane"]).await.unwrap();
        assert!(tests.contains("Succeeded"), "{tests}");
        steps.count(rig, "helm test").await;

        built_ins(rig, false).await;
        steps.count(rig, "the built-in controllers are off").await;
        let begun = Instant::now();
        let active = ["--set=mode=active", "--set=takeover.acknowledgeBuiltinsDisabled=true"];
        rig.helm(&[&["upgrade"][..], &chart, &active].concat()).await.unwrap();
        rig.own
            .lease_is_annotated("svcplane.io/canary-result", "passed ", "")
            .await
            .unwrap();
        println!("helm upgrade --wait to active, canary passed: {:?}", begun.elapsed());
        steps.count(rig, "active").await;
        follows(rig, &mut steps, "a Pod flips, active").await;

        // It is not to be removed now.
        let refused = rig.helm(&["uninstall", "svcplane", "--wait", "--timeout=1m"]).await;
        assert!(refused.is_err(), "endpoints would freeze");
        let begun = Instant::now();
        let handback = svcplane(rig, &["handback", "--timeout=2m", CANARY]);
        let (back, ()) = tokio::join!(handback, async {
            rig.own
                .lease_is_annotated("svcplane.io/mode", "observe", "")
                .await
                .unwrap();
            built_ins(rig, true).await;
        });
        assert!(
            back.0 == 0 && back.1.contains("keeps Endpoints,EndpointSlice again"),
            "{back:?}"
        );
        println!("handback: {:?}", begun.elapsed());
        steps.count(rig, "handback").await;
        follows(rig, &mut steps, "a Pod flips, handed back").await;

        rig.helm(&["uninstall", "svcplane", "--wait", "--timeout=2m"])
            .await
            .unwrap();
        steps.count(rig, "uninstalled").await;
        follows(rig, &mut steps, "a Pod flips, without svcplane").await;
        // What handback says is left: with it the next svcplane here would only observe.
        let lease = ["delete", "lease", lease::NAME, "-n", NAMESPACE];
        rig.kubectl(&lease, "").await.unwrap();
        built_ins(rig, false).await;
    });
}

/// Restarts kube-controller-manager, with or without the controllers that svcplane replaces.
async fn built_ins(rig: &Installed, with: bool) {
    let controllers = if with { &ENDPOINT_CONTROLLERS[..] } else { &[] };
    rig.cluster.restart_controller_manager(controllers, &[]).await.unwrap();
}

async fn rest(rig: &Installed) {
    rig.cluster.settled(Duration::from_secs(2), SOON).await.unwrap();
}

/// What Endpoints say of a Service's three Pods, the first of them ready or not.
async fn become_ready(rig: &Installed, number: usize, ready: bool) {
    let [first, second, third] = ADDRESSES;
    let wanted = if ready {
        format!("{first} {second} {third} -> :8080/TCP")
    } else {
        format!("{second} {third} !{first} -> :8080/TCP")
    };
    let (name, wanted) = (format!("web{number}"), [wanted.as_str()]);
    let became = rig.guests.endpoints_become_within(&name, &wanted, SOON);
    became.await.unwrap();
}

/// One Pod stops being ready, and is again: two writes of Endpoints and two of a slice, of one Service.
async fn follows(rig: &Installed, steps: &mut Steps, what: &str) {
    for ready in [false, true] {
        rig.guests.set_pod_ready("web0-0", ready).await.unwrap();
        become_ready(rig, 0, ready).await;
    }
    rest(rig).await;
    assert_eq!(steps.changed(rig, what).await, 2, "one Endpoints and one slice: {what}");
}

/// Waits until the leader has seen every Service and would change nothing.
async fn drift_is_zero(rig: &Installed) {
    let end = Instant::now() + SOON;
    loop {
        let mut seen = Vec::new();
        for pod in rig.pods().await.unwrap() {
            let Some(address) = pod.status.and_then(|it| it.pod_ip) else {
                continue;
            };
            let answer = fetch::get(&format!("http://{address}:9808/metrics")).await;
            if let Some((_, page)) = answer.ok().filter(|(code, _)| *code == 200) {
                let page = Metrics::parse(&page);
                let leads = page.sum("leader_election_master_status", &[]) > 0.5;
                seen.push((
                    leads,
                    page.sum("svcplane_objects", &[]),
                    page.sum("svcplane_drift", &[]),
                ));
            }
        }
        if seen
            .iter()
            .any(|(leads, objects, drift)| *leads && *objects > 60.0 && drift.abs() < 0.5)
        {
            return;
        }
        assert!(Instant::now() < end, "leads, objects, drift: {seen:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn svcplane(rig: &Installed, arguments: &[&str]) -> (i32, String) {
    let arguments = [arguments, &["--leader-elect-resource-namespace", NAMESPACE]].concat();
    let kubeconfig = rig.cluster.kubeconfig();
    let ran = ran::svcplane(&kubeconfig, &arguments, 3 * SOON).await.unwrap();
    (ran.code, ran.stdout + &ran.stderr)
}

/// The guests' Endpoints and slices as they were after the last step.
struct Steps {
    objects: BTreeMap<String, String>,
}

impl Steps {
    async fn begin(rig: &Installed) -> Self {
        Self {
            objects: objects(rig).await,
        }
    }

    /// Prints how many are others, gone or new, and remembers what there is now.
    async fn changed(&mut self, rig: &Installed, step: &str) -> usize {
        let now = objects(rig).await;
        let names = self
            .objects
            .keys()
            .chain(now.keys().filter(|name| !self.objects.contains_key(*name)));
        let changed = names.filter(|name| self.objects.get(*name) != now.get(*name)).count();
        println!("{step}: {changed} of {} Endpoints and slices changed", now.len());
        self.objects = now;
        changed
    }

    /// The same where nothing is to change.
    async fn count(&mut self, rig: &Installed, step: &str) {
        rest(rig).await;
        assert_eq!(self.changed(rig, step).await, 0, "{step}");
    }
}

/// By kind and name, with the version.
async fn objects(rig: &Installed) -> BTreeMap<String, String> {
    let versions = versions(rig).await;
    let pairs = versions.split_whitespace().filter_map(|text| text.split_once('='));
    pairs
        .map(|(name, version)| (name.to_owned(), version.to_owned()))
        .collect()
}
