//! Figures at full size, for a person: `figures restart` and `figures memory`. Prints a table; asserts nothing about time.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use svcplane_tests::cluster::{Cluster, Flavour};
use svcplane_tests::load::Load;
use svcplane_tests::proxy::{FaultProxy, Match, Refusal, WatchEnd};
use svcplane_tests::svcplane::Svcplane;

const LIMIT: Duration = Duration::from_secs(600);

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
                namespaces: 20,
                services: number(2, 2000),
                pods: number(3, 10),
            })
            .await
        }
        "memory" => {
            memory(Load {
                namespaces: 20,
                services: number(2, 1000),
                pods: number(3, 10),
            })
            .await
        }
        _ => bail!("usage: figures restart|memory [SERVICES] [PODS-PER-SERVICE]"),
    }
}

/// A restart, a leader change and a relist with unchanged inputs: how many writes does the apiserver count?
async fn restart(load: Load) -> Result<()> {
    let (cluster, proxy) = filled(load).await?;
    let kubeconfig = proxy.kubeconfig(cluster.admin_token())?;
    let first = Svcplane::builder().kubeconfig(&kubeconfig).replica(1).start().await?;
    let started = Instant::now();
    until(&format!("{} Endpoints complete", load.services), async || {
        Ok(load.complete(&cluster.client()).await? == load.services)
    })
    .await?;
    println!(
        "first fill: {} Endpoints in {:.1} s",
        load.services,
        started.elapsed().as_secs_f64()
    );
    let mut before = cluster.settled(Duration::from_secs(3), LIMIT).await?;

    println!("| {:<34} | syncs | writes |", "with unchanged inputs");
    let mut report = async |what: &str, svcplane: &Svcplane, syncs: f64| -> Result<()> {
        until("every Service looked at", async || {
            Ok(syncs_of(svcplane).await? >= syncs)
        })
        .await?;
        let after = cluster.settled(Duration::from_secs(3), LIMIT).await?;
        println!(
            "| {what:<34} | {:>5} | {:>6} |",
            syncs_of(svcplane).await?,
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

    let third = Svcplane::builder().kubeconfig(&kubeconfig).replica(3).start().await?;
    third.wait_ready().await?;
    second.kill9().await?;
    report("leader killed, standby takes over", &third, all).await?;

    let relists = async || Ok::<_, anyhow::Error>(third.metrics().await?.sum("svcplane_watch_relists_total", &[]));
    let seen = relists().await?;
    for resource in ["services", "pods", "endpoints"] {
        proxy.end_watches(&Match::watches(resource), &WatchEnd::Error(Refusal::expired()));
    }
    until("three relists", async || Ok(relists().await? >= seen + 3.0)).await?;
    report("relist of all three kinds (410)", &third, all).await?;
    third.terminate().await?;
    Ok(())
}

/// Resident memory at rest beside kube-controller-manager's.
async fn memory(load: Load) -> Result<()> {
    let (cluster, _proxy) = filled(load).await?;
    let svcplane = Svcplane::builder().cluster(&cluster).start().await?;
    let empty = resident(svcplane.pid())?;
    until("Endpoints complete", async || {
        Ok(load.complete(&cluster.client()).await? == load.services)
    })
    .await?;
    cluster.settled(Duration::from_secs(5), LIMIT).await?;
    let filled = resident(svcplane.pid())?;
    svcplane.terminate().await?;
    let svcplane = Svcplane::builder().cluster(&cluster).start().await?;
    svcplane.wait_leader().await?;
    cluster.settled(Duration::from_secs(20), LIMIT).await?;
    let restarted = resident(svcplane.pid())?;
    svcplane.terminate().await?;

    cluster.start_controller_manager_with(&["endpoints-controller"]).await?;
    cluster.settled(Duration::from_secs(30), LIMIT).await?;
    let peer = cluster
        .controller_manager_pid()
        .context("kube-controller-manager is not running")?;
    let peer = resident(peer)?;
    println!(
        "{} Services, {} Pods; resident memory in MiB",
        load.services,
        load.services * load.pods
    );
    println!("| {:<48} | RSS   | peak  | anonymous |", "");
    for (what, memory) in [
        ("svcplane, just started", &empty),
        ("svcplane, after writing all Endpoints", &filled),
        ("svcplane, restarted, at rest", &restarted),
        ("kube-controller-manager (endpoints-controller)", &peer),
    ] {
        println!(
            "| {what:<48} | {:>5.1} | {:>5.1} | {:>9.1} |",
            memory.rss, memory.peak, memory.anonymous
        );
    }
    println!("svcplane / kube-controller-manager: {:.2}", restarted.rss / peer.rss);
    Ok(())
}

async fn filled(load: Load) -> Result<(Cluster, FaultProxy)> {
    let cluster = Cluster::start(Flavour::Ipv4Only).await?;
    let started = Instant::now();
    println!(
        "creating {} Services and {} Pods",
        load.services,
        load.services * load.pods
    );
    load.create(&cluster.client()).await?;
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

async fn syncs_of(svcplane: &Svcplane) -> Result<f64> {
    Ok(svcplane.metrics().await?.sum("svcplane_syncs_total", &[]))
}

struct Memory {
    rss: f64,
    peak: f64,
    anonymous: f64,
}

fn resident(pid: u32) -> Result<Memory> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| -> Result<f64> {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .with_context(|| format!("no {name}"))?;
        let kib: f64 = line
            .trim_start_matches(':')
            .trim()
            .trim_end_matches("kB")
            .trim()
            .parse()?;
        Ok(kib / 1024.0)
    };
    Ok(Memory {
        rss: field("VmRSS")?,
        peak: field("VmHWM")?,
        anonymous: field("RssAnon")?,
    })
}
