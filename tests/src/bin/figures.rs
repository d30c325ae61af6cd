//! Figures at full size, for a person: `figures restart`. Prints a table; asserts nothing about time.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::ListParams;
use svcplane_tests::cluster::{Cluster, Flavour};
use svcplane_tests::load::Load;
use svcplane_tests::proxy::{FaultProxy, Match, Refusal, WatchEnd};
use svcplane_tests::slices;
use svcplane_tests::svcplane::Svcplane;

const LIMIT: Duration = Duration::from_secs(600);
/// Nodes that the Pods of a load are on.
const NODES: usize = 300;
/// What svcplane with all its controllers watches.
const WATCHED: [&str; 5] = ["services", "pods", "endpoints", "endpointslices", "nodes"];

#[tokio::main]
async fn main() -> Result<()> {
    let which = std::env::args().nth(1).unwrap_or_default();
    let number = |position: usize, default: usize| -> usize {
        std::env::args()
            .nth(position)
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    match which.as_str() {
        "restart" => {
            restart(Load {
                prefix: "load",
                namespaces: 20,
                services: number(2, 2000),
                pods: number(3, 10),
            })
            .await
        }
        _ => bail!("usage: figures restart [SERVICES] [PODS-PER-SERVICE]"),
    }
}

/// All controllers: a restart, a leader change and a relist with unchanged inputs. How many writes does the apiserver count? And how soon is a
/// replica ready?
async fn restart(load: Load) -> Result<()> {
    let (cluster, proxy) = filled(load).await?;
    let kubeconfig = proxy.kubeconfig(cluster.admin_token())?;
    let first = Svcplane::builder().kubeconfig(&kubeconfig).replica(1).start().await?;
    let started = Instant::now();
    let addresses = load.services * load.pods;
    until(&format!("{} Services complete", load.services), async || {
        let endpoints = load.complete(&cluster.client()).await?;
        Ok(endpoints == load.services && stored_slices(&cluster, load).await?.1 == addresses)
    })
    .await?;
    println!(
        "first fill: {} Endpoints and {} slices with {addresses} addresses in {:.1} s",
        load.services,
        stored_slices(&cluster, load).await?.0,
        started.elapsed().as_secs_f64()
    );
    let mut before = cluster.settled(Duration::from_secs(3), LIMIT).await?;

    println!("| {:<34} | looks | writes |", "with unchanged inputs");
    let mut report = async |what: &str, svcplane: &Svcplane, looks: f64| -> Result<()> {
        svcplane.wait_looks(looks, LIMIT).await?;
        let after = cluster.settled(Duration::from_secs(3), LIMIT).await?;
        println!(
            "| {what:<34} | {:>5} | {:>6} |",
            svcplane.looks().await?,
            after - before
        );
        before = after;
        Ok(())
    };
    #[expect(clippy::cast_precision_loss, reason = "thousands")]
    let all = load.services as f64;
    first.terminate().await?;
    let second = Svcplane::builder().kubeconfig(&kubeconfig).replica(2).start().await?;
    report("restart", &second, all).await?;

    let started = Instant::now();
    let third = Svcplane::builder().kubeconfig(&kubeconfig).replica(3).start().await?;
    third.wait_ready().await?;
    println!(
        "a standby is ready {:.1} s after its start",
        started.elapsed().as_secs_f64()
    );
    second.kill9().await?;
    report("leader killed, standby takes over", &third, all).await?;

    let relists = async || Ok::<_, anyhow::Error>(third.metrics().await?.sum("svcplane_watch_relists_total", &[]));
    let seen = relists().await?;
    for resource in WATCHED {
        proxy.end_watches(&Match::watches(resource), &WatchEnd::Error(Refusal::expired()));
    }
    until("five relists", async || Ok(relists().await? >= seen + 5.0)).await?;
    report("relist of all five kinds (410)", &third, all).await?;
    third.terminate().await?;
    Ok(())
}

/// How many slices of the load there are, and how many addresses they hold.
async fn stored_slices(cluster: &Cluster, load: Load) -> Result<(usize, usize)> {
    let all: Api<EndpointSlice> = Api::all(cluster.client());
    let (mut count, mut addresses) = (0, 0);
    let mut params = ListParams::default().limit(500);
    loop {
        let page = all.list(&params).await?;
        let ours = page.items.iter().filter(|slice| {
            let namespace = slice.metadata.namespace.as_deref();
            namespace.is_some_and(|namespace| namespace.starts_with(load.prefix))
        });
        for slice in ours {
            count += 1;
            addresses += slices::endpoints(slice).len();
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok((count, addresses)),
        }
    }
}

async fn filled(load: Load) -> Result<(Cluster, FaultProxy)> {
    let cluster = Cluster::start(Flavour::Ipv4Only).await?;
    let started = Instant::now();
    println!(
        "creating {} Services and {} Pods",
        load.services,
        load.services * load.pods
    );
    let client = cluster.client();
    slices::nodes(client.clone(), NODES).await?;
    load.create(&client).await?;
    println!("created in {:.0} s", started.elapsed().as_secs_f64());
    let proxy = FaultProxy::start(&cluster)?;
    Ok((cluster, proxy))
}

async fn until(what: &str, done: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + LIMIT;
    while !done().await? {
        if Instant::now() >= end {
            bail!("not within {LIMIT:?}: {what}");
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    Ok(())
}
