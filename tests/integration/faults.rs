//! Whatever goes wrong once between svcplane and the apiserver, wherever it strikes: soon everything is right again, by
//! few calls, without a restart and without a flood of complaints. One table of faults, one walk through every place.

#[path = "faults/observer.rs"]
mod observer;
#[path = "faults/places.rs"]
mod places;
#[path = "faults/scene.rs"]
mod scene;
#[path = "faults/table.rs"]
mod table;

use std::time::Instant;

use anyhow::{Context as _, Result};
use futures::future::join_all;
use futures::join;
use parking_lot::Mutex;
use svcplane_tests::cluster::{Cluster, Flavour};
use svcplane_tests::namespace::TestNamespace;
use svcplane_tests::proxy::{Action, FaultProxy};

use observer::Observer;
use places::{Place, START, WATCHES, WRITES, spoil};
use scene::Stage;
use table::{Fault, How, Kind, faults};

/// Control planes side by side, each with a svcplane of its own: most of the time is waiting.
const LANES: usize = 3;

#[tokio::test]
async fn whatever_goes_wrong_once_is_made_good() {
    let left = Mutex::new(faults().into_iter());
    let lane = async || -> Result<Vec<String>> {
        let cluster = Cluster::start(Flavour::Ipv4Only).await?;
        let mut failures = Vec::new();
        loop {
            let Some(fault) = left.lock().next() else {
                return Ok(failures);
            };
            let started = Instant::now();
            let endured = endure(&cluster, &fault).await;
            println!("{}: {:?}", fault.name, started.elapsed());
            if let Err(error) = endured {
                failures.push(format!("{}: {error:#}", fault.name));
            }
        }
    };
    let lanes = join_all((0..LANES).map(|_| lane())).await;
    let failures: Vec<String> = lanes.into_iter().flat_map(Result::unwrap).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// One process meets the fault at all that it asks for, one beside it, which only observes, in its first lists.
async fn endure(cluster: &Cluster, fault: &Fault) -> Result<()> {
    match &fault.kind {
        Kind::Request(action) => {
            let (acting, observing) = join!(requests(cluster, fault, action), paged_lists(cluster, fault, action));
            acting.and(observing)
        }
        Kind::Watch(how) => {
            let (acting, observing) = join!(open_watches(cluster, fault, how), streamed_lists(cluster, fault, how));
            acting.and(observing)
        }
    }
}

async fn requests(cluster: &Cluster, fault: &Fault, action: &Action) -> Result<()> {
    let stage = Stage::set(cluster).await?;
    let spoil_at = |proxy: &FaultProxy, namespace: &TestNamespace, places: &[Place]| {
        spoil(proxy, places, action, fault.harmless, namespace.name())
    };
    let spoilt = spoil_at(&stage.proxy, &stage.namespace, START);
    let mut scene = stage.begin(fault).await.context("start")?;
    scene.check(&spoilt).await.context("start")?;

    let spoilt = spoil_at(scene.proxy(), &scene.namespace, WRITES);
    scene.change().await?;
    scene.right().await.context("writes")?;
    scene.check(&spoilt).await.context("writes")?;
    scene.one_change_each().await.context("writes")?;

    let spoilt = spoil_at(scene.proxy(), &scene.namespace, WATCHES);
    scene.close_watches()?;
    scene.change().await?;
    scene.right().await.context("starts of watches")?;
    scene.check(&spoilt).await.context("starts of watches")?;
    scene.end().await
}

async fn paged_lists(cluster: &Cluster, fault: &Fault, action: &Action) -> Result<()> {
    let mut observer = Observer::new(cluster).await?;
    observer.spoil_pages(action);
    observer.learns_all(fault).await.context("paged lists")
}

async fn open_watches(cluster: &Cluster, fault: &Fault, how: &How) -> Result<()> {
    let mut scene = Stage::set(cluster).await?.begin(fault).await.context("start")?;
    let spoilt = scene.spoil_open_watches(how)?;
    scene.change().await?;
    scene.right().await.context("open watches")?;
    scene.check(&spoilt).await.context("open watches")?;
    scene.end().await
}

async fn streamed_lists(cluster: &Cluster, fault: &Fault, how: &How) -> Result<()> {
    let mut observer = Observer::new(cluster).await?;
    observer.spoil_streams(how);
    observer.learns_all(fault).await.context("streamed lists")
}
