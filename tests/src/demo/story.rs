//! What happens in the demo, and what must follow. Every state is read from the apiserver, by a watch with a deadline.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::Instant;

use super::screen::Screen;
use super::stage::{NAMESPACE, Stage};
use super::{admission, explain, load_balancer, slices, view};
use crate::eventually::{eventually, eventually_one};

/// How long a state may take to come; it takes milliseconds when all is well.
pub(super) const DEADLINE: Duration = Duration::from_secs(20);

/// The first states: namespace/name, ready addresses, ports.
const POPULATED: [(&str, Want, &[&str]); 12] = [
    ("multi-port/my-service", Want::Count(1), &["http:9376", "https:9377"]),
    ("one-port/my-service", Want::Count(1), &["my-port:9376"]),
    ("no-selector/my-service", Want::Exactly(&["192.0.2.42"]), &[":9376"]),
    (
        "external-mysql/mysql-service",
        Want::Exactly(&["192.168.1.108"]),
        &[":3306"],
    ),
    ("headless/default-subdomain", Want::Count(1), &["foo:1234"]),
    ("node-port/my-nginx", Want::Count(1), &[":80"]),
    ("load-balancer/my-service", Want::Count(1), &[":9376"]),
    (
        "default/hostnames",
        Want::Exactly(&["10.100.130.119", "10.100.152.254"]),
        &["default:9376"],
    ),
    ("label/ccesvc", Want::Count(0), &[]),
    ("nothing-matches/ccesvc", Want::Count(0), &[]),
    ("ccenamespace/cceservice", Want::Count(3), &[":80"]),
    ("redis/redis-master", Want::Count(1), &[":6379"]),
];
/// An ExternalName Service has none.
const WITHOUT_ENDPOINTS: &str = "prod/my-service";
/// Made by the user, never touched by svcplane.
const HAND_MADE: [&str; 2] = ["no-selector/my-service", "external-mysql/mysql-service"];

#[derive(Clone, Copy)]
enum Want {
    Count(usize),
    Exactly(&'static [&'static str]),
}

impl Want {
    fn check(self, what: &str, got: &[String]) -> Result<(), String> {
        let (right, wanted) = match self {
            Self::Count(n) => (got.len() == n, format!("{n} ready addresses")),
            Self::Exactly(ips) => (got == ips, format!("the ready addresses {}", ips.join(" "))),
        };
        if right {
            Ok(())
        } else {
            Err(format!("{what} should have {wanted} and has [{}]", got.join(" ")))
        }
    }
}

/// Plays it all.
///
/// # Errors
/// One line that names the first state that did not come, or a request that failed.
pub async fn tell(screen: &Screen, stage: &mut Stage) -> anyhow::Result<()> {
    let client = stage.cluster.client();
    populated(screen, &client).await?;
    load_balancer::show(screen, &client).await?;
    let hand_made = hand_made(&client).await?;
    label(screen, &client).await?;
    readiness(screen, stage, &client).await?;
    scaling(screen, &client).await?;
    deletion(screen, &client).await?;
    fail_over(screen, stage, &client).await?;

    screen.part("Endpoints that the user made, for Services without a selector, are as they were");
    for (before, now) in hand_made.iter().zip(self::hand_made(&client).await?) {
        if before.uid() != now.uid() || before.resource_version() != now.resource_version() {
            bail!(
                "expected state did not come: {} was written by somebody",
                view::key(before)
            );
        }
        screen.detail(format_args!("{}: {}", view::key(&now), view::line(&now)));
    }
    admission::show(screen, stage, &client).await?;
    explain::show(screen, &stage.cluster, "default/hostnames").await
}

async fn populated(screen: &Screen, client: &Client) -> anyhow::Result<()> {
    screen.part("Endpoints and EndpointSlices appear");
    let all: Api<Endpoints> = Api::all(client.clone());
    let check = |objects: &[Endpoints]| {
        if objects.iter().any(|e| view::key(e) == WITHOUT_ENDPOINTS) {
            return Err(format!(
                "{WITHOUT_ENDPOINTS} is an ExternalName Service and has Endpoints"
            ));
        }
        for (key, want, ports) in POPULATED {
            let found = objects.iter().find(|e| view::key(e) == key);
            let found = found.ok_or_else(|| format!("{key} has no Endpoints"))?;
            want.check(key, &view::ready(found))?;
            if view::ports(found) != ports {
                return Err(format!(
                    "{key} should have the ports {ports:?} and has {:?}",
                    view::ports(found)
                ));
            }
        }
        Ok(objects.to_vec())
    };
    let endpoints = eventually("Endpoints of examples/", DEADLINE, &all, "", check)
        .await
        .map_err(missed)?;
    let populated = |it: &&Endpoints| POPULATED.iter().any(|(key, ..)| *key == view::key(it));
    let made: Vec<Endpoints> = endpoints.iter().filter(populated).cloned().collect();
    let slices = slices::agree(client, &made).await.map_err(missed)?;
    let services = Api::<Service>::all(client.clone()).list(&ListParams::default()).await?;
    let mut rows = vec![
        ["SERVICE", "TYPE", "CLUSTER-IP", "ENDPOINTS", "SLICES"]
            .map(String::from)
            .to_vec(),
    ];
    for service in services.items {
        let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
        let key = format!("{namespace}/{name}");
        let of_it = slices::of(&slices, &namespace, &name);
        let of_it: Vec<String> = of_it.into_iter().map(slices::line).collect();
        if key == "default/kubernetes" {
            continue;
        }
        let spec = service.spec.unwrap_or_default();
        let found = endpoints.iter().find(|e| view::key(e) == key);
        rows.push(vec![
            key,
            spec.type_.unwrap_or_default(),
            spec.cluster_ip.unwrap_or_default(),
            found.map_or("(no object)".to_owned(), view::line),
            if of_it.is_empty() {
                "(no object)".to_owned()
            } else {
                of_it.join(" | ")
            },
        ]);
    }
    screen.table(&rows);
    Ok(())
}

async fn label(screen: &Screen, client: &Client) -> anyhow::Result<()> {
    screen.part("A Pod gets the label that Service label/ccesvc selects");
    let pods: Api<Pod> = Api::namespaced(client.clone(), "label");
    let patch = Patch::Merge(json!({"metadata": {"labels": {"app": "cce"}}}));
    let since = Instant::now();
    pods.patch("cce", &PatchParams::default(), &patch).await?;
    follows(screen, client, since, "label/ccesvc", |e| {
        Want::Count(1).check("label/ccesvc", &view::ready(e))
    })
    .await
}

async fn readiness(screen: &Screen, stage: &Stage, client: &Client) -> anyhow::Result<()> {
    let (service, pod, ip) = hostnames_pod(client).await?;
    screen.part(format_args!("Pod {pod} ({ip}) fails its readiness probe"));
    let since = Instant::now();
    stage.kubelet.set_ready("default", &pod, false).await?;
    follows(screen, client, since, service, |e| has(e, &ip, false)).await?;
    screen.say("... and passes it again");
    let since = Instant::now();
    stage.kubelet.set_ready("default", &pod, true).await?;
    follows(screen, client, since, service, |e| has(e, &ip, true)).await
}

async fn scaling(screen: &Screen, client: &Client) -> anyhow::Result<()> {
    const SERVICE: &str = "ccenamespace/cceservice";
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "ccenamespace");
    for (from, to) in [(3, 5), (5, 2)] {
        screen.part(format_args!(
            "Deployment ccenamespace/ccepod scales from {from} to {to}"
        ));
        let patch = Patch::Merge(json!({"spec": {"replicas": to}}));
        let since = Instant::now();
        deployments
            .patch_scale("ccepod", &PatchParams::default(), &patch)
            .await?;
        follows(screen, client, since, SERVICE, |e| {
            Want::Count(to).check(SERVICE, &view::ready(e))
        })
        .await?;
    }
    Ok(())
}

async fn deletion(screen: &Screen, client: &Client) -> anyhow::Result<()> {
    const SERVICE: &str = "one-port/my-service";
    screen.part(format_args!("Service {SERVICE} is deleted"));
    let services: Api<Service> = Api::namespaced(client.clone(), "one-port");
    let since = Instant::now();
    services.delete("my-service", &DeleteParams::default()).await?;
    let endpoints: Api<Endpoints> = Api::namespaced(client.clone(), "one-port");
    let gone = |e: Option<&Endpoints>| match e {
        None => Ok(()),
        Some(_) => Err(format!("{SERVICE} was deleted and its Endpoints are still there")),
    };
    eventually_one("Endpoints go", DEADLINE, &endpoints, "my-service", gone)
        .await
        .map_err(missed)?;
    screen.detail(format_args!("its Endpoints are gone, {}", after(since.elapsed())));
    Ok(())
}

async fn fail_over(screen: &Screen, stage: &mut Stage, client: &Client) -> anyhow::Result<()> {
    let leader = leader(client, |_| true).await?;
    let killed = stage.kill_replica(leader).await?;
    screen.part(format_args!(
        "svcplane-{leader} led and was killed (kill -9, pid {killed}); a Pod's readiness fails"
    ));
    let (service, pod, ip) = hostnames_pod(client).await?;
    let since = Instant::now();
    stage.kubelet.set_ready("default", &pod, false).await?;
    follows(screen, client, since, service, |e| has(e, &ip, false)).await?;
    let next = self::leader(client, |holder| holder != leader).await?;
    screen.detail(format_args!("svcplane-{next} leads"));
    screen.say("... and passes again");
    let since = Instant::now();
    stage.kubelet.set_ready("default", &pod, true).await?;
    follows(screen, client, since, service, |e| has(e, &ip, true)).await?;
    stage.restart_replica(leader).await
}

/// Waits until the Endpoints of a Service (`namespace/name`) are right, and shows them.
async fn follows(
    screen: &Screen,
    client: &Client,
    since: Instant,
    service: &str,
    right: impl Fn(&Endpoints) -> Result<(), String>,
) -> anyhow::Result<()> {
    let (namespace, name) = service.split_once('/').unwrap_or_default();
    let api: Api<Endpoints> = Api::namespaced(client.clone(), namespace);
    let check = |e: Option<&Endpoints>| {
        let endpoints = e.ok_or_else(|| format!("{service} has no Endpoints"))?;
        right(endpoints).map(|()| endpoints.clone())
    };
    let endpoints = eventually_one(service, DEADLINE, &api, name, check)
        .await
        .map_err(missed)?;
    screen.detail(format_args!("{service}: {}", view::line(&endpoints)));
    screen.detail(after(since.elapsed()));
    let all = slices::agree(client, std::slice::from_ref(&endpoints))
        .await
        .map_err(missed)?;
    for slice in slices::of(&all, namespace, name) {
        screen.detail(format_args!("slice {}: {}", slice.name_any(), slices::line(slice)));
    }
    Ok(())
}

fn after(duration: Duration) -> String {
    format!("{} ms after the change was sent", duration.as_millis())
}

/// The address is in the list that `is_ready` says, and not in the other.
fn has(endpoints: &Endpoints, ip: &String, is_ready: bool) -> Result<(), String> {
    let (ready, not_ready) = (
        view::ready(endpoints).contains(ip),
        view::not_ready(endpoints).contains(ip),
    );
    if (ready, not_ready) == (is_ready, !is_ready) {
        return Ok(());
    }
    let wanted = if is_ready { "ready" } else { "not ready" };
    Err(format!(
        "{ip} should be {wanted} in {} and is not: {}",
        view::key(endpoints),
        view::line(endpoints)
    ))
}

/// The Service `default/hostnames`, and one of its Pods with its address.
async fn hostnames_pod(client: &Client) -> anyhow::Result<(&'static str, String, String)> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let pod = pods
        .list(&ListParams::default().labels("app=hostnames"))
        .await?
        .items
        .into_iter()
        .next();
    let pod = pod.context("default/hostnames has no Pod")?;
    let ip = pod
        .status
        .as_ref()
        .and_then(|s| s.pod_ip.clone())
        .context("a Pod without an address")?;
    Ok(("default/hostnames", pod.name_any(), ip))
}

async fn hand_made(client: &Client) -> anyhow::Result<Vec<Endpoints>> {
    let mut found = Vec::new();
    for key in HAND_MADE {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let api: Api<Endpoints> = Api::namespaced(client.clone(), namespace);
        let endpoints = api.get_opt(name).await?;
        found.push(endpoints.with_context(|| format!("expected state did not come: {key} is gone"))?);
    }
    Ok(found)
}

/// The number of the replica that holds the Lease, once it is one that `accepted` takes.
async fn leader(client: &Client, accepted: impl Fn(usize) -> bool) -> anyhow::Result<usize> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let check = |lease: Option<&Lease>| {
        let holder = lease
            .and_then(|l| l.spec.as_ref()?.holder_identity.clone())
            .unwrap_or_default();
        let number = holder
            .strip_prefix("svcplane-")
            .and_then(|rest| rest.split('_').next()?.parse().ok());
        let number = number.filter(|&n| accepted(n));
        number.ok_or_else(|| format!("the Lease {NAMESPACE}/svcplane is held by {holder:?}"))
    };
    eventually_one("a replica leads", DEADLINE, &leases, "svcplane", check)
        .await
        .map_err(missed)
}

/// The line that names the missed state, without the objects seen last.
fn missed(error: anyhow::Error) -> anyhow::Error {
    let text = error.to_string();
    anyhow!(
        "expected state did not come: {}",
        text.lines().next().unwrap_or_default()
    )
}
