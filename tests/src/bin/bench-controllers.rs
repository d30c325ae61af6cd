//! `make bench-controllers`: svcplane's controllers beside kube-controller-manager's, in one sitting.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use svcplane_tests::bench::calibrate::calibrate;
use svcplane_tests::bench::controllers::Controllers;
use svcplane_tests::bench::plan::{Plan, load};
use svcplane_tests::bench::record::{self, Row};
use svcplane_tests::bench::rig::Rig;
use svcplane_tests::bench::side::Side;
use svcplane_tests::bench::table;
use svcplane_tests::bench::workload::{complete, memory_at_rest};
use svcplane_tests::load::Load;

/// Runs workloads, keeps a CSV file of each, and prints the table of all files there are.
#[derive(Parser)]
struct Args {
    /// Which, separated by commas; all if none is named. A whole family: `w4`
    #[arg(env = "WORKLOADS", long, value_delimiter = ',')]
    workloads: Vec<String>,
    /// Rounds of A-B-B-A per workload
    #[arg(env = "PAIRS", long, default_value_t = 1)]
    pairs: usize,
    /// Which controllers run on both sides
    #[arg(env = "CONTROLLERS", long, value_enum, default_value_t = Controllers::Both)]
    controllers: Controllers,
    /// Divides Services, Pods and time, for a quick try
    #[arg(env = "SCALE", long, default_value_t = 1)]
    scale: usize,
    /// Where the CSV files are [default: docs/figures, and docs/figures/both for both controllers]
    #[arg(env = "FIGURES", long)]
    out: Option<PathBuf>,
    /// Where an etcd with 50,000 Pods is kept from one time to the next
    #[arg(env = "SVCPLANE_BENCH_CACHE", long)]
    cache: Option<PathBuf>,
    /// Runs nothing and prints the table
    #[arg(long)]
    table: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let plan = Plan {
        controllers: args.controllers,
        scale: args.scale.max(1),
        pairs: args.pairs,
    };
    let names = plan.names();
    let is = |name: &str, wish: &str| name == wish || name.starts_with(&format!("{wish}-"));
    let wanted = |name: &str| args.workloads.is_empty() || args.workloads.iter().any(|wish| is(name, wish));
    for wish in &args.workloads {
        let known = names.iter().any(|name| is(name, wish));
        ensure!(known, "there is no workload {wish}: {names:?}");
    }
    let kept = Path::new(match args.controllers {
        Controllers::Endpoints => "docs/figures",
        Controllers::Both => "docs/figures/both",
    });
    let out = args.out.as_deref().unwrap_or(kept);
    ensure!(
        plan.scale == 1 || !out.starts_with("docs/figures"),
        "a scaled run under a full one's name: set FIGURES to another directory"
    );
    for name in names.iter().filter(|name| !args.table && wanted(name)) {
        let started = Instant::now();
        eprintln!("{name} ...");
        let rows = run(name, plan, args.cache.as_deref())
            .await
            .with_context(|| (*name).to_owned())?;
        record::write(&out.join(format!("{name}.csv")), &rows)?;
        eprintln!("{name}: {:.0} s", started.elapsed().as_secs_f64());
    }
    println!("{}", table::render(&record::read_all(out)?, args.controllers));
    Ok(())
}

async fn run(name: &str, plan: Plan, cache: Option<&Path>) -> Result<Vec<Row>> {
    match name {
        "calibration" => calibrate().await,
        "memory" => memory(plan).await,
        "memory-50000" => memory_of_many(plan, cache).await,
        _ => plan.workload(name)?.run().await,
    }
}

/// Both sides at rest with no Pods, with 2,000, and with 10,000.
async fn memory(plan: Plan) -> Result<Vec<Row>> {
    let sides = [Side::Ours, Side::Peer];
    let rig = Rig::start(plan.controllers).await?;
    let mut rows = memory_at_rest(&rig, "memory-0", &sides).await?;
    let mut services = 0;
    for (name, prefix, more) in [("memory-2000", "few", 200), ("memory-10000", "many", 800)] {
        let load = Load {
            prefix,
            ..load(20, (more / plan.scale).max(1), 10)
        };
        rig.load(load).await?;
        services += load.services;
        complete(&rig, services).await?;
        rows.extend(memory_at_rest(&rig, name, &sides).await?);
    }
    Ok(rows)
}

/// Ours with 50,000 Pods in 5,000 Services of 20 namespaces: after writing all their objects, and started again.
async fn memory_of_many(plan: Plan, wish: Option<&Path>) -> Result<Vec<Row>> {
    let load = load(20, (5000 / plan.scale).max(1), 10);
    let rig = Rig::start_saved(&cache(wish)?, load, plan.controllers).await?;
    complete(&rig, load.services).await?;
    memory_at_rest(&rig, "memory-50000", &[Side::OursWithMirroring; 2]).await
}

fn cache(wish: Option<&Path>) -> Result<PathBuf> {
    if let Some(wish) = wish {
        return Ok(wish.into());
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    Ok(cache
        .context("neither HOME nor XDG_CACHE_HOME is set")?
        .join("svcplane/etcd"))
}
